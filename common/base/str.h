// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes and texts
 *
 * struct bytes is a view: it owns nothing and may hold NULs. struct buf owns its memory and grows.
 * A buf that was out of memory stays `failed`, so that a chain of appends needs one check. Used
 * everywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES_EMPTY ((struct bytes){NULL, 0})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){data, len};
}

static inline struct bytes bytes_str(const char *s)
{
    return (struct bytes){(const uint8_t *)s, s ? strlen(s) : 0};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Whether @a is exactly the text @s. */
bool bytes_is(struct bytes a, const char *s);

/**
 * bytes_to_i64() - decimal integer, whole input, optional minus
 *
 * Return: false for anything else, also on overflow; then *out is unchanged.
 */
bool bytes_to_i64(struct bytes b, int64_t *out);

#define DIGITS_MAX 20 /* of a uint64_t */

/* Writes @n in decimal so that it ends before @end. Return: its beginning. */
char *digits_before(char *end, uint64_t n);

#define INT_TEXT_MAX (1 + DIGITS_MAX)

/* @i in decimal, in @room. */
struct bytes int_text(int64_t i, char room[INT_TEXT_MAX]);

/* Whether @word is one of @words, which are separated by spaces. */
bool words_have(const char *words, const char *word);

/* Return: a NUL-terminated copy, which the caller frees; NULL if memory is out. */
char *bytes_dup(struct bytes b);

struct buf {
    uint8_t *data;
    size_t len;
    size_t size;
    bool failed;
};

/* All zero is an empty buf. */
void buf_deinit(struct buf *b);
static inline void buf_deinit_p(struct buf *b)
{
    buf_deinit(b);
}

/* Empties it and clears `failed`; keeps the memory. */
void buf_clear(struct buf *b);

/* Makes space for @len more bytes; the caller fills it and adds them to b->len. Return: the space;
 * NULL if memory is out. */
uint8_t *buf_reserve(struct buf *b, size_t len);

/* The following append to @b; if memory is out they set `failed` and append nothing. */
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_put_int(struct buf *b, int64_t i);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a text as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD, and control
 * characters are escaped. Digests of stored data are made of such text: never change what it
 * writes.
 */
void buf_json(struct buf *b, const char *s, size_t len);

/* The same for people: all characters for which utf8_is_harmful() (base/utf8.h) is true are
 * escaped. */
void buf_json_shown(struct buf *b, const char *s, size_t len);

/* Return: the text followed by a NUL, which len does not count; "" if it is empty or has failed. */
const char *buf_str(struct buf *b);

static inline struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->data, b->len);
}

/* The same, but aborts if an append has failed, so that the content is complete. */
static inline struct bytes buf_or_abort(const struct buf *b)
{
    if (b->failed)
        abort();
    return buf_bytes(b);
}
