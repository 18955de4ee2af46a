// SPDX-License-Identifier: Apache-2.0
/*
 * Alert command: the program that is run for each alert, such as one that pages somebody
 *
 * It gets the JobEvent in JSON on standard input, PATH, and nothing else; what it prints goes where
 * the log goes. One runs at a time, for a limited time, after which it is killed with all that it
 * has started in its process group. An alert is on exchange drover.events in any case.
 *
 * Alerts are about somebody's jobs: those about one wait in their order, and these take turns, so
 * that nobody's are kept from being told by another's. Of more than ALERTS_WAITING the latest are
 * left out that are about whoever has most of them; behind his others an alert ALERTS_LEFT_OUT says
 * how many there were.
 */
#pragma once

#include <uv.h>

#define ALERT_LIMIT_MS 30000
#define ALERTS_WAITING 100

struct alert_io;

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

/* Kills the program that runs; on_closed(ctx) follows, later. */
void alert_io_close(struct alert_io *a, void (*on_closed)(void *ctx), void *ctx);

/* After on_closed. Accepts NULL; returns NULL. */
struct alert_io *alert_io_free(struct alert_io *a);
