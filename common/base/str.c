// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes and texts: views, growing buffers, JSON strings
 *
 * See base/str.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "base/utf8.h"

#define BUF_SIZE_FIRST 64

bool bytes_is(struct bytes a, const char *s)
{
    return bytes_equal(a, bytes_str(s));
}

bool bytes_to_i64(struct bytes b, int64_t *out)
{
    bool minus = b.len > 0 && b.data[0] == '-';
    int64_t value = 0;

    if (b.len == (size_t)minus)
        return false;
    for (size_t i = minus; i < b.len; i++) {
        int digit = b.data[i] - '0';

        if (digit < 0 || digit > 9)
            return false;
        /* A negative number is built negative: INT64_MIN has no positive counterpart. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, minus ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

bool words_have(const char *words, const char *word)
{
    const size_t len = strlen(word);

    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");

        if (n == len && memcmp(words, word, len) == 0)
            return true;
        words += n;
    }
    return false;
}

char *bytes_dup(struct bytes b)
{
    char *copy = malloc(b.len + 1);

    if (!copy)
        return NULL;
    if (b.len > 0)
        memcpy(copy, b.data, b.len);
    copy[b.len] = '\0';
    return copy;
}

void buf_deinit(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

/* Grows so that @len more bytes fit; doubles, so that appending byte by byte takes linear time. */
static bool grow(struct buf *b, size_t len)
{
    size_t size = b->size ? b->size : BUF_SIZE_FIRST;
    uint8_t *data;

    if (len > SIZE_MAX / 2 - b->len)
        return false;
    while (size < b->len + len)
        size *= 2;
    data = realloc(b->data, size);
    if (!data)
        return false;
    b->data = data;
    b->size = size;
    return true;
}

char *digits_before(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return end;
}

struct bytes int_text(int64_t i, char room[INT_TEXT_MAX])
{
    char *end = room + INT_TEXT_MAX;
    char *first = digits_before(end, i < 0 ? -(uint64_t)i : (uint64_t)i);

    if (i < 0)
        *--first = '-';
    return bytes_of(first, (size_t)(end - first));
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    if (b->failed)
        return NULL;
    if ((!b->data || len > b->size - b->len) && !grow(b, len)) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->len;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    uint8_t *to = buf_reserve(b, len);

    if (!to || len == 0)
        return;
    memcpy(to, data, len);
    b->len += len;
}

void buf_puts(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_append(b, &c, 1);
}

void buf_put_int(struct buf *b, int64_t i)
{
    char room[INT_TEXT_MAX];
    struct bytes text = int_text(i, room);

    buf_append(b, text.data, text.len);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    uint8_t *to;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0) {
        b->failed = true;
        return;
    }
    to = buf_reserve(b, (size_t)len + 1);
    if (!to)
        return;
    va_start(args, format);
    vsnprintf((char *)to, (size_t)len + 1, format, args);
    va_end(args);
    b->len += (size_t)len;
}

/* Appends the escape of a character of @n bytes; 0: of a byte that is not UTF-8. */
static void json_escape(struct buf *b, const char *s, size_t n)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *at = *s ? strchr(plain, *s) : NULL;
    uint32_t point = n > 0 ? utf8_code_point(s, n) : 0;

    if (n == 0)
        buf_puts(b, "\xef\xbf\xbd");
    else if (at)
        buf_append(b, (const char[]){'\\', letter[at - plain]}, 2);
    else if (point < 0x10000)
        buf_printf(b, "\\u%04x", (unsigned)point);
    else
        buf_printf(b, "\\u%04x\\u%04x", 0xd7c0 + (unsigned)(point >> 10),
                   0xdc00 + (unsigned)(point & 0x3ff));
}

static void put_json(struct buf *b, const char *s, size_t len,
                     bool (*is_escaped)(const char *character, size_t len))
{
    size_t from = 0; /* start of what was scanned but not copied */
    size_t i = 0;

    buf_putc(b, '"');
    while (i < len) {
        size_t n = utf8_length(s + i, len - i);

        if (s[i] == '"' || s[i] == '\\' || is_escaped(s + i, n)) {
            buf_append(b, s + from, i - from);
            json_escape(b, s + i, n);
            n = n ? n : 1;
            from = i + n;
        }
        i += n;
    }
    if (len > from)
        buf_append(b, s + from, len - from);
    buf_putc(b, '"');
}

void buf_json(struct buf *b, const char *s, size_t len)
{
    put_json(b, s, len, utf8_is_control);
}

void buf_json_shown(struct buf *b, const char *s, size_t len)
{
    put_json(b, s, len, utf8_is_harmful);
}

const char *buf_str(struct buf *b)
{
    uint8_t *end = buf_reserve(b, 1);

    if (!end)
        return "";
    *end = '\0';
    return (const char *)b->data;
}
