// SPDX-License-Identifier: Apache-2.0
/*
 * Health: what a process says of itself over HTTP
 *
 *   GET /livez     200: the loop turns, because it is the loop that answers
 *   GET /readyz    200, or 503 and a line for each reason
 *   GET /metrics   for Prometheus
 *
 * Few connections at a time, of one address fewer, none for long. --healthcheck asks apart from
 * them, see health_local.h.
 *
 * libmicrohttpd, driven by the process' own loop: no thread, and nothing in it ever blocks. No
 * data of jobs: meant for whoever runs the process, not for the world.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"

struct health;

/* What the answers are made of. Each appends its page; ctx as given to health_new(). */
struct health_pages {
    bool (*ready)(void *ctx, struct buf *out); /* false: @out says why */
    void (*metrics)(void *ctx, struct buf *out);
};

/**
 * health_new() - listen
 * @listen: as address_parse() takes it; with port 0 any that is free, which is logged
 *
 * Return: 0, or -errno and what there is to say was logged.
 */
int health_new(struct health **out, uv_loop_t *loop, const char *listen,
               const struct health_pages *pages, void *ctx);

/* Closes all connections; on_closed runs when the loop has let go, may free it. */
void health_close(struct health *h, void (*on_closed)(void *ctx));

/* After on_closed, or NULL. Returns NULL. */
struct health *health_free(struct health *h);

/**
 * health_ask() - ask another process for its /livez, for at most @timeout_ms
 * @listen: where it listens; an address that means all is asked at the loopback one
 *
 * Return: NULL where it answered 200, else why not, for people; valid until the next call.
 */
const char *health_ask(const char *listen, int timeout_ms);
