// SPDX-License-Identifier: Apache-2.0
/*
 * JSON: proto3's JSON mapping, for any message that protobuf-c knows
 *
 * In: names as lowerCamelCase or as in the .proto; 64-bit integers as strings or numbers; bytes as
 * base64 of either alphabet, padded or not; enums as "STATE_ACTIVE", "ACTIVE" or 2; null as not
 * given. Strict otherwise: an unknown or doubled name or a wrong type is a problem with its path.
 *
 * Out: one line, fields in the .proto's order, lowerCamelCase, 64-bit integers as strings, defaults
 * left out.
 *
 * A Payload has a form for people besides {"contentType": …, "data": base64}: {"json": any value}
 * is application/json, {"text": "…"} is text/plain; contentType may be given with either. Output
 * uses them where the content type says so and the data is what it says, unless they would take
 * over 512 KiB and twice the data. Numbers in "json" are doubles or 64-bit integers. \u0000 is good
 * in these two only.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"
#include "drover/v1/types.pb-c.h"

#define JSON_DEPTH_MAX 64 /* objects and arrays inside one another, payloads included */

/* What parsing may take besides the message: 1 MiB of one-digit numbers needs 32 MiB. */
#define JSON_MEMORY_MAX ((size_t)48 << 20)

enum {
    JSON_E_SYNTAX = 1, /* not a JSON object, or too deep; nothing decoded */
    JSON_E_TOO_LARGE,  /* parsing would take more than JSON_MEMORY_MAX; nothing decoded */
    JSON_E_FIELD,      /* decoded without the fields that do not belong or do not fit */
};

/**
 * json_to_message() - decode one object
 * @descriptor: of the message wanted
 * @allocator:  of the message; NULL: malloc
 * @out:        free with protobuf_c_message_free_unpacked(); NULL where nothing was decoded
 * @problem:    the first one; NULL is allowed
 *
 * Return: 0, -ENOMEM or JSON_E_….
 */
int json_to_message(struct bytes text, const ProtobufCMessageDescriptor *descriptor,
                    ProtobufCAllocator *allocator, ProtobufCMessage **out, struct problem *problem);

/* Appends @message as one object; out->failed says if memory ran out. */
void json_from_message(const ProtobufCMessage *message, struct buf *out);

/* ---- payloads by themselves, for others than Drover ---- */

struct json_t; /* jansson's */

/* application/json or application/...+json, with or without parameters. */
bool json_is_type(const char *content_type);

/* What a payload holds, where that is JSON (also without a content type) that a message could
 * carry: without a key twice in an object, not too deep, not too large. Else *out is NULL. Return:
 * 0 or -ENOMEM. */
int json_of_payload(const Drover__V1__Payload *payload, struct json_t **out);

/* Appends what a payload holds: a JSON value where it is JSON, a string where it is text, null for
 * NULL and for one without type and data, else {"contentType", "data": base64}. */
void json_from_payload(const Drover__V1__Payload *payload, struct buf *out);

/* Appends a value on one line, numbers as people write them. */
void json_from_value(const struct json_t *value, struct buf *out);
