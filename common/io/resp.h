// SPDX-License-Identifier: Apache-2.0
/*
 * RESP: the bytes between us and Redis
 *
 * Commands are appended to a buffer that leaves whole. Replies come out of hiredis' parser
 * flattened: the strings of all nested arrays one behind the other, integers as decimal text, nil
 * as empty. All strings of one reply share one buffer, which the next reply takes over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct redisReader;

/* Appends the head of a command of @n words; exactly @n calls of resp_put() follow. */
void resp_command(struct buf *out, size_t n);
void resp_put(struct buf *out, const void *data, size_t len);

static inline void resp_puts(struct buf *out, const char *s)
{
    resp_put(out, s, strlen(s));
}

struct resp_reply {
    bool error;                /* items[0] is the server's message */
    const struct bytes *items; /* each with a NUL behind it; valid until the next resp_next() */
    uint32_t n;
};

struct resp_reader {
    struct redisReader *parser;
    struct resp_reply reply;
    struct buf text;  /* of the reply being read */
    struct buf ends;  /* size_t: where each item ends in it */
    struct buf views; /* struct bytes: the same, made when the reply is whole */
};

/* Return: 0 or -ENOMEM. */
int resp_init(struct resp_reader *r);

/* Accepts one that is all zero. */
void resp_deinit(struct resp_reader *r);

/* Return: 0, -ENOMEM, or -EPROTO where this is not Redis talking. */
int resp_feed(struct resp_reader *r, const void *data, size_t len);

/**
 * resp_next() - the next whole reply of what was fed
 * @reply: set to NULL where there is none yet
 *
 * Return: 0, -ENOMEM or -EPROTO.
 */
int resp_next(struct resp_reader *r, const struct resp_reply **reply);

/* What a person can be shown of a reply: its first item, or that there is none. */
const char *resp_text(const struct resp_reply *reply);

/* True where the reply is an error that begins with @prefix, such as "-OOM" without the dash. */
bool resp_is_error(const struct resp_reply *reply, const char *prefix);
