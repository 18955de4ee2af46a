// SPDX-License-Identifier: Apache-2.0
/*
 * Step events: on drover.events for all who bind a queue there, and for the client that asked
 */
#pragma once

#include "model/store_ops.h"
#include "model/workflow.h"
#include "scheduler/op.h"

/* Publishes an event on drover.events for each request of a transition. */
void step_events_publish(struct scheduler *s, struct op *op,
                         const struct ops_transition *transition, const struct workflow *w);

/* Publishes to reply_to the new entries of a job's history, if its client has asked for step
 * events. */
void step_events_to_client(struct scheduler *s, const char *job);
