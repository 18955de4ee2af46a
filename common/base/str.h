// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes and text
 *
 * struct bytes is a view: it owns nothing and may hold NULs. struct buf owns and grows. A buf that
 * ran out of memory stays so (`failed`), so that a chain of appends needs one check.
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

/* True where @a is exactly the text @s. */
bool bytes_is(struct bytes a, const char *s);

/**
 * bytes_to_i64() - decimal integer, whole input, optional minus
 *
 * Return: false on anything else, overflow included; *out is then untouched.
 */
bool bytes_to_i64(struct bytes b, int64_t *out);

#define DIGITS_MAX 20 /* of a uint64_t */

/* Writes @n in decimal so that it ends before @end. Return: where it begins. */
char *digits_before(char *end, uint64_t n);

#define INT_TEXT_MAX (1 + DIGITS_MAX)

/* @i in decimal, in @room. */
struct bytes int_text(int64_t i, char room[INT_TEXT_MAX]);

/* Whether @word is one of @words, which have spaces between them. */
bool words_have(const char *words, const char *word);

/* A NUL-terminated copy; the caller frees. NULL where out of memory. */
char *bytes_dup(struct bytes b);

/**
 * utf8_length() - bytes of the first character
 * @s:   text of at least one byte
 * @len: bytes there are
 *
 * Return: 1 to 4, or 0 where no well-formed UTF-8 begins (Unicode 15, table 3-7).
 */
size_t utf8_length(const char *s, size_t len);

/* Whether one character, of the length that utf8_length() said, is none to show people: a control
 * character (C0, C1, DEL), one that changes the direction of the text or has no width, so that a
 * reader sees something else than what is there, or a byte that is not UTF-8. */
bool utf8_is_harmful(const char *character, size_t len);

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

/* Empties it, failure forgotten too; keeps the memory. */
void buf_clear(struct buf *b);

/* Room for @len more bytes; the caller fills it and adds to b->len. NULL: no memory. */
uint8_t *buf_reserve(struct buf *b, size_t len);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_put_int(struct buf *b, int64_t i);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD, and control
 * characters are escaped. Digests of what is stored are made over such text: never change what it
 * writes. */
void buf_json(struct buf *b, const char *s, size_t len);

/* Likewise for people: all that utf8_is_harmful() is escaped. */
void buf_json_shown(struct buf *b, const char *s, size_t len);

/* The text with a NUL behind it (not counted in len); "" when empty or failed. */
const char *buf_str(struct buf *b);

static inline struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->data, b->len);
}

/* The same for whoever goes on with it as with or_abort(): what is there is all that was to be. */
static inline struct bytes buf_or_abort(const struct buf *b)
{
    if (b->failed)
        abort();
    return buf_bytes(b);
}
