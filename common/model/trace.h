// SPDX-License-Identifier: Apache-2.0
/*
 * Trace: the events and effects of a machine, as events of the log
 *
 * Drivers and the agent log them at level debug; the simulator prints the same words after the time
 * and the name of a simulated process. They name jobs, steps, queues and messages, and contain no
 * payloads.
 */
#pragma once

#include "base/log_field.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"

/* Takes one event. Its texts and fields are valid during the call only. */
typedef void trace_fn(void *ctx, const char *event, const struct log_field *fields, int n);

/* A delivery; its handle is also in the events ack and requeue. */
void trace_delivery(const struct bus_delivery *d, trace_fn *fn, void *ctx);

/* An effect, except EFFECT_STORE, which trace_call() reports with its answer, and EFFECT_ROLE. */
void trace_effect(const struct effect *e, trace_fn *fn, void *ctx);

/* The outcome of a publish, unless the broker has confirmed it. */
void trace_outcome(enum bus_outcome outcome, trace_fn *fn, void *ctx);

/* A store call: one event for each thing that it is about, such as each report of a record and each
 * job that an expire finds. Of the periodic calls that succeed, only expire makes events.
 * @answer: NULL if there is none yet. */
void trace_call(const char *function, const struct bytes *args, int n,
                const struct store_answer *answer, trace_fn *fn, void *ctx);

/* A run of a handler. @event: start, stop or end. @result: how it ended; NULL while it runs. */
void trace_run(const char *event, const Drover__V1__StepRequest *request, const char *result,
               trace_fn *fn, void *ctx);

/* Appends an event as text: its name, followed by its fields. */
void trace_print(struct buf *out, const char *event, const struct log_field *fields, int n);
