// SPDX-License-Identifier: Apache-2.0
/*
 * Trace: what a machine hears and does, as events of the log
 *
 * The daemons log them at level debug; the simulator tells them in the same words, behind the time
 * and the name of a simulated process. They name jobs, steps, queues and messages, and say nothing
 * of what these carry.
 */
#pragma once

#include "base/log_field.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"

/* Takes one event; all is valid during the call only. */
typedef void trace_fn(void *ctx, const char *event, const struct log_field *fields, int n);

/* The handle of a delivery is that of its ack. */
void trace_delivery(const struct bus_delivery *d, trace_fn *fn, void *ctx);

/* A publish, an ack and the like. Not a store call, which is told with its answer, nor what is the
 * role's own. */
void trace_effect(const struct effect *e, trace_fn *fn, void *ctx);

/* Nothing of a publish that the broker confirmed. */
void trace_outcome(enum bus_outcome outcome, trace_fn *fn, void *ctx);

/* A store call, an event for each thing that it is about: each report of a record, each job that an
 * expire finds. What comes again and again, and finds nothing, is not told. @answer: NULL where
 * there is none yet. */
void trace_call(const char *function, const struct bytes *args, int n,
                const struct store_answer *answer, trace_fn *fn, void *ctx);

/* A run of a handler. @event: start, stop or end. @result: how it ended; NULL where it has not. */
void trace_run(const char *event, const Drover__V1__StepRequest *request, const char *result,
               trace_fn *fn, void *ctx);

/* As text: the event, and its fields behind it. */
void trace_print(struct buf *out, const char *event, const struct log_field *fields, int n);
