// SPDX-License-Identifier: Apache-2.0
/*
 * Vitals: what a process knows of its own health
 *
 * Pure: figures and time come from the driver, texts and verdicts go back.
 *
 * A pulse is a round trip: a message to oneself through the broker or, where nothing is consumed,
 * a question to the broker and its answer. One is sent at each tick. Ticks without an answer are
 * counted instead of milliseconds, so that the time in which the process was itself stopped (a
 * debugger, a frozen container, a suspended machine) is no evidence against its connections.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "io/metrics.h"

/* Pulses in a row without an answer, from which on a process is not ready. The first may only be
 * late. */
#define PULSES_MISSED_MAX 2

struct pulse {
    int64_t period_ms; /* between two ticks */
    int64_t stall_ms;  /* so long without an answer is a stall; 0: never */
    bool back;         /* since the last tick */
    unsigned missed;   /* ticks in a row without */
};

/* An answer has come, or there is a new reason to wait for one: the count begins anew. */
void pulse_restart(struct pulse *p);

/**
 * pulse_tick() - count, each period
 * @expected: connected, not held up by the broker, and not on the way out
 *
 * Return: true where the process has stalled.
 */
bool pulse_tick(struct pulse *p, bool expected);

/* In the order in which they are told. What is no number is 0 or 1. */
struct vitals {
    uint64_t ready;
    uint64_t broker_up, broker_blocked;
    uint64_t broker_connects, broker_published, broker_confirmed, broker_returned;
    uint64_t broker_delivered, broker_acked;
    uint64_t broker_unconfirmed, broker_oldest_unconfirmed_ms;
    uint64_t pulse_age_ms, pulse_round_trip_us;
    uint64_t loop_cpu_max_us;
    uint64_t store_up, store_connects; /* last, because not all roles have a store */

    /* not told, but needed for ready */
    bool has_store;
    bool draining;
    bool pulse_refused;
    bool pulse_came; /* since the broker is up */
    unsigned pulse_missed;
};

/* Appends a line for each reason why the process is not ready. Return: true where there is none. */
bool vitals_reasons(const struct vitals *v, struct buf *out);

/* For metrics_log() and metrics_print(); event "driver". */
struct metric_set vitals_metrics(bool has_store);
