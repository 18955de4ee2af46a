// SPDX-License-Identifier: Apache-2.0
/*
 * RESP: the protocol of Redis
 *
 * Commands are appended to a buffer. Replies come from the parser of hiredis as a flat list: the
 * strings of all nested arrays in order, integers as decimal text, nil as empty. All strings of a
 * reply share one buffer, which the next reply reuses. Called by the other files
 * of io/store.
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
    bool error;                /* items[0] is the error message of the server */
    const struct bytes *items; /* each followed by a NUL; valid until the next resp_next() */
    uint32_t n;
};

struct resp_reader {
    struct redisReader *parser;
    struct resp_reply reply;
    struct buf text;  /* all items of the reply that is being read */
    struct buf ends;  /* size_t: the end of each item in text */
    struct buf views; /* struct bytes: the items, made when the reply is complete */
};

/* Return: 0 or -ENOMEM. */
int resp_init(struct resp_reader *r);

/* Accepts a reader that is all zero. */
void resp_deinit(struct resp_reader *r);

/* Adds bytes that were received. Return: 0, -ENOMEM, or -EPROTO if they are not RESP. */
int resp_feed(struct resp_reader *r, const void *data, size_t len);

/**
 * resp_next() - the next complete reply
 * @reply: set to NULL if there is none yet; owned by the reader
 *
 * Return: 0, -ENOMEM or -EPROTO.
 */
int resp_next(struct resp_reader *r, const struct resp_reply **reply);

/* Return: a text of a reply for a person: its first item, or that it is empty. */
const char *resp_text(const struct resp_reply *reply);

/* Whether the reply is an error that begins with @prefix, such as "OOM" for "-OOM …". */
bool resp_is_error(const struct resp_reply *reply, const char *prefix);
