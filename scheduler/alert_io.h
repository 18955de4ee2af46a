// SPDX-License-Identifier: Apache-2.0
/*
 * Alert command: the program that is run for each alert, such as one that pages somebody
 *
 * It gets the JobEvent in JSON on standard input, PATH, and nothing else; what it prints goes where
 * the log goes. One runs at a time, in the order of the alerts, for a limited time, after which it
 * is killed with all that it has started in its process group; beyond ALERTS_WAITING alerts are
 * logged only. An alert is in the log and on exchange drover.events in any case.
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

/* @event: copied. */
void alert_io_run(struct alert_io *a, const char *event);

/* Kills the program that runs; on_closed(ctx) follows, later. */
void alert_io_close(struct alert_io *a, void (*on_closed)(void *ctx), void *ctx);

/* After on_closed. Accepts NULL; returns NULL. */
struct alert_io *alert_io_free(struct alert_io *a);
