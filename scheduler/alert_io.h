// SPDX-License-Identifier: Apache-2.0
/*
 * Alert command: the program that is run for each alert, such as one that pages somebody
 *
 * It gets the JobEvent in JSON on standard input, PATH, and nothing else; what it prints goes where
 * the log goes. One runs at a time, for a limited time. When it has ended, or its time is over, all
 * that it has started in its process group is killed. An alert is on exchange drover.events in any
 * case.
 *
 * Alerts are about somebody's jobs: those about one wait in their order, and these take turns, so
 * that nobody's are kept from being told by another's. Of more than ALERTS_WAITING the latest are
 * left out that are about whoever has most of them; behind his others an alert ALERTS_LEFT_OUT says
 * how many there were.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#define ALERT_LIMIT_MS 30000
#define ALERT_STOP_MS 5000 /* at the end of the scheduler, for all that wait */
#define ALERTS_WAITING 100

struct alert_io;

/* Since the start. */
struct alert_io_stats {
    uint64_t failed;   /* runs that could not begin, or ended with another status than 0 */
    uint64_t killed;   /* runs that outlasted their limit */
    uint64_t left_out; /* alerts that were not handed over */
};

/**
 * alert_io_new() - create
 * @command:  path of the program, kept
 * @limit_ms: how long it may run; ALERT_LIMIT_MS
 *
 * Return: 0 or -ENOMEM.
 */
int alert_io_new(struct alert_io **out, uv_loop_t *loop, const char *command, int limit_ms);

/* @about: whose jobs; @event: a JobEvent. Both are copied. */
void alert_io_run(struct alert_io *a, const char *about, const char *event);

const struct alert_io_stats *alert_io_stats(const struct alert_io *a);

/**
 * alert_io_close() - hands over what waits, and takes no more
 * @within_ms: then the program that runs is killed, and the rest left out
 *
 * on_closed(ctx) follows, later.
 */
void alert_io_close(struct alert_io *a, int within_ms, void (*on_closed)(void *ctx), void *ctx);

/* After on_closed. Accepts NULL; returns NULL. */
struct alert_io *alert_io_free(struct alert_io *a);
