// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: makes them of what the store says about a transition
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/transition.h"

/* Publishes the requests of a transition from @t->requested on, as many as there is capacity for.
 */
void request_publish(struct scheduler *s, struct transition_op *t,
                     const struct ops_transition *transition, const struct workflow *w);
