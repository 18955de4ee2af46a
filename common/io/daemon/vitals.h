// SPDX-License-Identifier: Apache-2.0
/*
 * Vitals: what a process knows of its own health
 *
 * Pure: the driver supplies figures and time, and gets texts and verdicts. Called by
 * io/daemon/driver.
 *
 * A pulse is a message that a daemon sends to itself through the broker or, if the role consumes
 * nothing, a question to the broker. The driver sends one in each period. Periods without an answer
 * are counted, not milliseconds, because the time in which the process itself was stopped
 * (debugger, frozen container, suspended host) does not show that a connection is broken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "io/daemon/metrics.h"

/* With this many pulses in a row without an answer a process is not ready; one may only be late. */
#define PULSES_MISSED_MAX 2

struct pulse {
    int64_t period_ms; /* between two calls of pulse_tick() */
    int64_t stall_ms;  /* the process has stalled after this time without an answer; 0 for never */
    bool back;         /* an answer has come since the last pulse_tick() */
    unsigned missed;   /* periods in a row without an answer */
};

/* Begins to count anew: an answer has come, or the state of the connection has changed. */
void pulse_restart(struct pulse *p);

/**
 * pulse_tick() - end a period
 * @expected: an answer had to come: connected, not blocked by the broker, and not draining
 *
 * Return: true if the process has stalled.
 */
bool pulse_tick(struct pulse *p, bool expected);

/* The figures of the driver, in the order of the table. One that is no number is 0 or 1. */
struct vitals {
    uint64_t ready;
    uint64_t broker_up, broker_blocked;
    uint64_t broker_connects, broker_refused, broker_published, broker_confirmed, broker_returned;
    uint64_t broker_delivered, broker_acked;
    uint64_t broker_unconfirmed, broker_oldest_unconfirmed_ms;
    uint64_t pulse_age_ms, pulse_round_trip_us;
    uint64_t loop_cpu_max_us, reloads_refused;
    uint64_t broker_tls_expiry_ms; /* Unix ms; 0 for no certificate */
    /* last, because some roles have no store */
    uint64_t store_up, store_connects, store_refused, store_tls_expiry_ms, store_moves;
    uint64_t sentinels, sentinels_heard, sentinels_differ;

    /* no metrics, but needed for `ready` */
    bool has_store;
    bool draining;
    bool pulse_refused;
    bool pulse_came; /* since the connection to the broker is up */
    unsigned pulse_missed;
};

/* Appends a line for each reason why the process is not ready. Return: true if it is ready. */
bool vitals_reasons(const struct vitals *v, struct buf *out);

/* Return: the table for metrics_log() and metrics_print(); its event is "driver". */
struct metric_set vitals_metrics(bool has_store);
