// SPDX-License-Identifier: Apache-2.0
/*
 * Checks: single values of a message, and the path of the field that is wrong
 *
 * Each check returns whether the value is valid; if it is not, it records the problem with the path
 * @where. A caller that descends into a field links a struct path on its stack; the text of the
 * path, such as "definition.steps[3].after[0]", is only made when there is a problem. The limits
 * are those of docs/PROTOCOL.md. Called by the other files of model.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "drover/v1/types.pb-c.h"

#define PATH_NO_INDEX (-1)

struct path {
    const struct path *up; /* NULL at the top */
    const char *name;      /* of the field, as in the .proto; "" adds nothing to the text */
    int64_t index;         /* in a repeated field; otherwise PATH_NO_INDEX */
};

#define PATH(up_, name_) (&(const struct path){(up_), (name_), PATH_NO_INDEX})
#define PATH_AT(up_, name_, index_) (&(const struct path){(up_), (name_), (int64_t)(index_)})

/**
 * check_fail() - record a problem at a path
 * @problem: NULL is allowed: nothing is recorded
 * @where:   NULL for the whole message
 *
 * Return: always false, so that a check can end with it.
 */
bool check_fail(struct problem *problem, const struct path *where, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/* The rule of id_name_valid(). */
bool check_name(const char *name, const struct path *where, struct problem *problem);

/* The rule of id_name_valid(), or empty. */
bool check_name_if(const char *name, const struct path *where, struct problem *problem);

/* At most @max bytes and no control characters. */
bool check_text(const char *text, size_t max, const struct path *where, struct problem *problem);

/* At least 1 and at most @max bytes, and no control characters. */
bool check_text_given(const char *text, size_t max, const struct path *where,
                      struct problem *problem);

/* A time in Unix milliseconds, up to the year 9999; 0 for none. Far beyond that year a double, in
 * which the store keeps it, loses digits. */
bool check_time(int64_t value, const struct path *where, struct problem *problem);

/* A duration; 0 for none. */
bool check_not_negative(int64_t value, const struct path *where, struct problem *problem);

/* A value that the .proto names, including 0. */
bool check_enum(const ProtobufCEnumDescriptor *type, int value, const struct path *where,
                struct problem *problem);

/* NULL; or a content type without control characters, and at most @max bytes of content type and
 * data together. */
bool check_payload(const Drover__V1__Payload *payload, size_t max, const struct path *where,
                   struct problem *problem);

/* What protobuf-c accepts but proto3 or arithmetic does not: each text of the message must be UTF-8
 * and each number finite. */
bool check_encoding(const ProtobufCMessage *message, const struct path *where,
                    struct problem *problem);
