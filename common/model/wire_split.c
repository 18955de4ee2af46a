// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting: see model/wire_split.h
 *
 * Only the frame around the Submits is read: their fields are those of wire_decode().
 */
#include "model/wire_split.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "drover/v1/submit.pb-c.h"
#include "model/wire_message.h"

#define SUBMITS_FIELD 1 /* of Submits */

struct items {
    struct bytes *at;
    size_t n; /* beyond WIRE_SUBMITS_MAX they are only counted */
};

static void add(struct items *items, struct bytes item)
{
    if (items->n < WIRE_SUBMITS_MAX)
        items->at[items->n] = item;
    items->n++;
}

static void skip(struct bytes *left, size_t n)
{
    left->data = left->data + n;
    left->len -= n;
}

/* ---- protobuf ---- */

enum {
    VARINT = 0,
    FIXED_64 = 1,
    LENGTH = 2,
    FIXED_32 = 5
};

static bool read_varint(struct bytes *left, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && left->len > 0; shift += 7) {
        uint8_t byte = *left->data;

        skip(left, 1);
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The bytes that a value of this kind takes from here on. A value with a length begins behind it.
 */
static bool read_size(struct bytes *left, unsigned kind, uint64_t *size)
{
    uint64_t value;

    switch (kind) {
    case VARINT:
        *size = 0;
        return read_varint(left, &value);
    case FIXED_64:
        *size = 8;
        return left->len >= 8;
    case FIXED_32:
        *size = 4;
        return left->len >= 4;
    case LENGTH:
        return read_varint(left, size) && *size <= left->len;
    default:
        return false;
    }
}

/* Fields of a newer protocol are passed over. */
static bool split_protobuf(struct bytes left, struct items *items)
{
    uint64_t tag, size;

    while (left.len > 0) {
        if (!read_varint(&left, &tag) || !read_size(&left, tag & 7, &size))
            return false;
        if (tag == (SUBMITS_FIELD << 3 | LENGTH))
            add(items, bytes_of(left.data, (size_t)size));
        else if (tag >> 3 == SUBMITS_FIELD)
            return false;
        skip(&left, (size_t)size);
    }
    return true;
}

/* ---- JSON ---- */

static char next(const struct bytes *left)
{
    return left->len > 0 ? (char)*left->data : '\0';
}

static void skip_space(struct bytes *left)
{
    while (left->len > 0 && strchr(" \t\r\n", next(left)) && next(left))
        skip(left, 1);
}

static bool accept(struct bytes *left, const char *token)
{
    size_t len = strlen(token);

    skip_space(left);
    if (left->len < len || memcmp(left->data, token, len) != 0)
        return false;
    skip(left, len);
    return true;
}

static bool skip_string(struct bytes *left)
{
    skip(left, 1);
    while (left->len > 0 && next(left) != '"')
        skip(left, next(left) == '\\' && left->len > 1 ? 2 : 1);
    if (left->len == 0)
        return false;
    skip(left, 1);
    return true;
}

/* Passes over an object, to the bracket that ends it. wire_decode() reads its fields later. */
static bool skip_object(struct bytes *left)
{
    size_t depth = 0;

    do {
        char c = next(left);

        if (left->len == 0 || (c == '"' && !skip_string(left)))
            return false;
        if (c == '"')
            continue;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        skip(left, 1);
    } while (depth > 0);
    return true;
}

static bool split_list(struct bytes *left, struct items *items)
{
    if (accept(left, "]"))
        return true;
    do {
        const uint8_t *from;

        skip_space(left);
        from = left->data;
        if (next(left) != '{' || !skip_object(left))
            return false;
        add(items, bytes_of(from, (size_t)(left->data - from)));
    } while (accept(left, ","));
    return accept(left, "]");
}

static bool split_json(struct bytes left, struct items *items)
{
    if (!accept(&left, "{") || !accept(&left, "\"submits\"") || !accept(&left, ":") ||
        !accept(&left, "[") || !split_list(&left, items) || !accept(&left, "}"))
        return false;
    skip_space(&left);
    return left.len == 0;
}

/* ---- */

int wire_split(struct bytes body, struct bytes at[WIRE_SUBMITS_MAX], size_t *n,
               struct problem *problem)
{
    struct items items = {.at = at};
    bool json = next(&body) == '{';

    *n = 0;
    if (!(json ? split_json(body, &items) : split_protobuf(body, &items))) {
        problem_set(problem, "", "is no %s of %s", json ? "JSON" : "protobuf",
                    drover__v1__submits__descriptor.name);
        return WIRE_E_MALFORMED;
    }
    if (items.n == 0 || items.n > WIRE_SUBMITS_MAX) {
        problem_set(problem, "submits", "must be 1 to %d, not %zu", WIRE_SUBMITS_MAX, items.n);
        return WIRE_E_INVALID;
    }
    *n = items.n;
    return 0;
}
