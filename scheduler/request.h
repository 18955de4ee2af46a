// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: builds StepRequests from a transition answer
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/transition.h"

/* Builds the requests of a transition from @t->requested on, as many as there is capacity for, and
 * has dispatch.c publish them. */
void request_publish(struct scheduler *s, struct transition_op *t,
                     const struct ops_transition *transition, const struct workflow *w);
