// SPDX-License-Identifier: Apache-2.0
/*
 * Health: serves health and metrics of a process over HTTP
 *
 *   GET /livez     200: the loop runs, because the loop answers
 *   GET /readyz    200, or 503 and a line for each reason
 *   GET /metrics   for Prometheus
 *
 * Connections are limited in number, also per address, and in time. --healthcheck uses a local
 * socket instead, which these limits do not affect (io/daemon/health_local.h).
 *
 * libmicrohttpd runs on the loop of the process: there is no thread, and nothing blocks. The pages
 * contain no data of jobs; they are for operators, not for the public. Called by io/daemon/driver
 * (the server) and io/daemon (health_ask()).
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"

struct health;

/* The functions that make the pages. Each appends to @out; @ctx is that of health_new(). */
struct health_pages {
    bool (*ready)(void *ctx, struct buf *out); /* if it returns false @out has the reasons */
    void (*metrics)(void *ctx, struct buf *out);
};

/**
 * health_new() - start the server
 * @listen: for address_parse(); port 0 is any free port, which is logged
 * @pages:  kept, not copied
 *
 * Return: 0, or -errno after it has logged the cause.
 */
int health_new(struct health **out, uv_loop_t *loop, const char *listen,
               const struct health_pages *pages, void *ctx);

/* Closes all connections. on_closed(ctx) runs when all handles are closed; it may free @h. */
void health_close(struct health *h, void (*on_closed)(void *ctx));

/* @h: closed, or NULL. Return: NULL. */
struct health *health_free(struct health *h);

/**
 * health_ask() - ask another process for its /livez, for at most @timeout_ms
 * @listen: health.listen of that process; for "all addresses" the loopback address is asked
 *
 * Blocks. Return: NULL if it has answered 200; otherwise why not, for a person; valid until the
 * next call.
 */
const char *health_ask(const char *listen, int timeout_ms);
