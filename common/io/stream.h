// SPDX-License-Identifier: Apache-2.0
/*
 * Stream: a connection to a server that the loop drives; no call blocks
 *
 * Looks the name up, connects, and then carries bytes both ways. All functions are called, and all
 * callbacks run, on the thread of the loop. A stream never connects again: its owner closes it and
 * opens another one.
 *
 * Used by io/bus.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"

struct stream;

/* Where a stream leads. Only read by stream_open(), except for the texts, which stay. */
struct stream_target {
    const char *host; /* a name or a number; kept */
    int port;
    unsigned first; /* with which address of a name to begin: this number modulo how many it has;
                       then the others follow in turn */
};

struct stream_callbacks {
    void (*on_open)(void *ctx);                    /* connected: it may be written to */
    void (*on_data)(void *ctx, struct bytes data); /* @data is valid during the call only */
    void (*on_room)(void *ctx);                    /* it was full, and no longer is */
    void (*on_lost)(void *ctx, const char *why);   /* the last callback; stream_close() is due */
    void (*on_gone)(void *ctx);                    /* after stream_close(): libuv has closed all */
};

/**
 * stream_open() - begin to connect
 * @callbacks: kept, not copied; on_gone may be NULL
 *
 * Without a deadline: the owner closes a stream that takes too long.
 *
 * Return: 0; or -errno, and then no callback runs and there is no stream.
 */
int stream_open(struct stream **out, uv_loop_t *loop, const struct stream_target *target,
                const struct stream_callbacks *callbacks, void *ctx);

/* Writes all of @data; what the socket has no room for is kept and written later. Return: 0, or
 * -errno: then the stream is of no use any more. */
int stream_write(struct stream *s, struct bytes data);

/* Whether the stream keeps bytes for which the socket had no room. More can be written, but the
 * memory grows. */
bool stream_is_full(const struct stream *s);

/* Ends the connection; only on_gone still runs. Frees the stream later. NULL is no stream. */
void stream_close(struct stream *s);
