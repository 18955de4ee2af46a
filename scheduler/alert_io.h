// SPDX-License-Identifier: Apache-2.0
/*
 * Alert command: runs the program of scheduler.alert_command for each alert
 *
 * The program, such as one that pages a person, gets the JobEvent in JSON on standard input. Its
 * environment has PATH and nothing else; its output goes where the log goes. One runs at a time,
 * for a limited time. When it has ended, or its time is over, everything it has started in its
 * process group is killed. An alert is on exchange drover.events in any case.
 *
 * Each alert has an *about*: the user or the workflow whose jobs it is about, or a cause that
 * concerns all. Alerts with the same about wait in their order. The abouts take turns, so that many
 * alerts of one of them do not delay those of another. If more than ALERTS_WAITING wait, the latest
 * alert of the about that has most is left out. Behind the others of that about, an alert
 * ALERTS_LEFT_OUT says how many were left out.
 *
 * Called by scheduler_io.c, on the loop thread.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#define ALERT_LIMIT_MS 30000
#define ALERT_STOP_MS 5000 /* for all alerts that wait when the scheduler stops */
#define ALERTS_WAITING 100

struct alert_io;

/* Counted since the start. */
struct alert_io_stats {
    uint64_t failed;   /* runs that could not begin, or ended with another status than 0 */
    uint64_t killed;   /* runs that took longer than their limit */
    uint64_t left_out; /* alerts that the program did not get */
};

/**
 * alert_io_new() - create
 * @out:      the caller frees it by alert_io_free()
 * @command:  path of the program; not copied
 * @limit_ms: how long one run may take; ALERT_LIMIT_MS
 *
 * Return: 0 or -ENOMEM.
 */
int alert_io_new(struct alert_io **out, uv_loop_t *loop, const char *command, int limit_ms);

/* Runs the program for an alert when those before it are done. @about: see above; @event: a
 * JobEvent in JSON. Both are copied. */
void alert_io_run(struct alert_io *a, const char *about, const char *event);

/* Return: the counters, which @a owns; they go on counting. */
const struct alert_io_stats *alert_io_stats(const struct alert_io *a);

/**
 * alert_io_close() - run the program for the alerts that wait, and take no more
 * @within_ms: after this time the program that runs is killed, and the other alerts are left out
 *
 * Calls on_closed(ctx) later, from the loop.
 */
void alert_io_close(struct alert_io *a, int within_ms, void (*on_closed)(void *ctx), void *ctx);

/* After on_closed. Accepts NULL; returns NULL. */
struct alert_io *alert_io_free(struct alert_io *a);
