// SPDX-License-Identifier: Apache-2.0
/*
 * JSON: proto3's JSON mapping, for any message that protobuf-c knows
 *
 * Accepted: names in lowerCamelCase or as in the .proto; 64-bit integers as strings or numbers;
 * bytes as base64 of either alphabet, padded or not; enums as "STATE_ACTIVE", "ACTIVE" or 2; null
 * for a field that is not given. All else is strict: an unknown name, a name that occurs twice, or
 * a wrong type is a problem with its path.
 *
 * Written: one line, fields in the order of the .proto, names in lowerCamelCase, 64-bit integers as
 * strings, without fields that have their default.
 *
 * A Payload has two readable forms besides {"contentType": …, "data": base64}: {"json": any value}
 * is application/json, {"text": "…"} is text/plain; contentType may be given with either. They are
 * written if the content type says so and the data is of that type, unless they would take more
 * than 512 KiB and more than twice the data. Numbers in "json" are doubles or 64-bit integers.
 * \u0000 is allowed in these two forms only.
 *
 * Called by model/wire for message bodies, by the agent for payloads, and by the command line.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"
#include "drover/v1/types.pb-c.h"

#define JSON_DEPTH_MAX 64 /* nested objects and arrays, with those in payloads */

/* Bytes that parsing may take besides the message: 1 MiB of one-digit numbers needs 32 MiB. */
#define JSON_MEMORY_MAX ((size_t)48 << 20)

enum {
    JSON_E_SYNTAX = 1, /* not a JSON object, or too deep; nothing decoded */
    JSON_E_TOO_LARGE,  /* parsing would take more than JSON_MEMORY_MAX; nothing decoded */
    JSON_E_FIELD,      /* decoded, without the fields that are unknown or have a wrong value */
};

/**
 * json_to_message() - decode one object
 * @descriptor: type of the message
 * @allocator:  allocates the message; NULL for malloc
 * @out:        the caller frees it with protobuf_c_message_free_unpacked(); NULL if nothing was
 *              decoded
 * @problem:    set to the first problem; NULL is allowed
 *
 * Return: 0, -ENOMEM or JSON_E_….
 */
int json_to_message(struct bytes text, const ProtobufCMessageDescriptor *descriptor,
                    ProtobufCAllocator *allocator, ProtobufCMessage **out, struct problem *problem);

/* Appends @message as one object; out->failed says whether memory was out. */
void json_from_message(const ProtobufCMessage *message, struct buf *out);

/* ---- single payloads, for handlers and people ---- */

struct json_t; /* of jansson */

/* Whether it is application/json or application/...+json, with or without parameters. */
bool json_is_type(const char *content_type);

/* Parses a payload whose content type is JSON, or that has none. *out is NULL if the data is not
 * JSON that a message may carry: no key twice in an object, not too deep, not too large. The caller
 * releases *out. Return: 0 or -ENOMEM. */
int json_of_payload(const Drover__V1__Payload *payload, struct json_t **out);

/* Appends the content of a payload: a JSON value if it is JSON, a string if it is text, null for
 * NULL and for a payload without type and data, otherwise {"contentType", "data": base64}. */
void json_from_payload(const Drover__V1__Payload *payload, struct buf *out);

/* Appends a value on one line, each number in its shortest form. */
void json_from_value(const struct json_t *value, struct buf *out);
