// SPDX-License-Identifier: Apache-2.0
/*
 * Stream: a connection to a server that the loop drives; no call blocks
 *
 * Looks the name up, connects, begins a TLS session if one is wanted, and then carries bytes both
 * ways. All functions are called, and all callbacks run, on the thread of the loop. A stream never
 * connects again: its owner closes it and opens another one.
 *
 * Used by io/bus and io/store.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"
#include "io/tls.h"

struct stream;

/* Where a stream leads. Only read by stream_open(), except for the texts, which stay. */
struct stream_target {
    const char *path; /* of a Unix socket; NULL: host and port count */
    const char *host; /* a name or a number; kept */
    int port;
    unsigned first; /* with which address of a name to begin: this number modulo how many it has;
                       then the others follow in turn */
    struct tls_context *tls; /* NULL: in clear text */
    const char *tls_name;    /* for which the server must have a certificate; NULL: host */
    bool insecure;           /* clear text may leave this machine */
    const char *settings;    /* the group of settings that texts name, such as "rabbitmq" */
};

struct stream_callbacks {
    void (*on_open)(void *ctx);                    /* it may be written to */
    void (*on_data)(void *ctx, struct bytes data); /* @data is valid during the call only */
    void (*on_room)(void *ctx);                    /* it was full, and no longer is; may be NULL */
    /* The last callback; stream_close() is due. @refused: a person must remove the cause, such as a
     * certificate. */
    void (*on_lost)(void *ctx, const char *why, bool refused);
    void (*on_gone)(void *ctx); /* after stream_close(): libuv has closed all */
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

/* Return: a text that says which server has not answered, of a stream that is not open yet. */
const char *stream_missing(const struct stream *s);

/* Whether the stream keeps bytes for which the socket had no room. More can be written, but the
 * memory grows. */
bool stream_is_full(const struct stream *s);

/* Return: how many of these bytes there are. */
size_t stream_unsent(const struct stream *s);

/* The common name in our certificate of this connection; "" if there is none. */
const char *stream_own_name(const struct stream *s);

/* When the first certificate of the server expires, in seconds since 1970; 0: not known. */
int64_t stream_peer_expiry(const struct stream *s);

/* Ends the connection; only on_gone still runs. Frees the stream later. NULL is no stream. */
void stream_close(struct stream *s);
