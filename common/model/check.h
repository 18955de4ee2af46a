// SPDX-License-Identifier: Apache-2.0
/*
 * Checks: single values of a message, and where a bad one stands
 *
 * Every check returns whether the value is good, and otherwise records the problem at @where.
 * Whoever descends into a field links a struct path on his stack; the text, such as
 * "definition.steps[3].after[0]", is only made when there is a problem to tell.
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
    const char *name;      /* the field as in the .proto; "" adds nothing */
    int64_t index;         /* in a repeated field, else PATH_NO_INDEX */
};

#define PATH(up_, name_) (&(const struct path){(up_), (name_), PATH_NO_INDEX})
#define PATH_AT(up_, name_, index_) (&(const struct path){(up_), (name_), (int64_t)(index_)})

/**
 * check_fail() - record a problem at a path
 * @problem: NULL is allowed and records nothing
 * @where:   NULL: the whole
 *
 * Return: false, for a check to end with.
 */
bool check_fail(struct problem *problem, const struct path *where, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/* As id_name_valid(). */
bool check_name(const char *name, const struct path *where, struct problem *problem);

/* Likewise, or empty. */
bool check_name_if(const char *name, const struct path *where, struct problem *problem);

/* At most @max bytes and no control characters. */
bool check_text(const char *text, size_t max, const struct path *where, struct problem *problem);

/* Likewise, and not empty. */
bool check_text_given(const char *text, size_t max, const struct path *where,
                      struct problem *problem);

/* A moment that may be absent: unix ms up to the year 9999; far beyond that, doubles lose digits.
 */
bool check_time(int64_t value, const struct path *where, struct problem *problem);

/* A duration that may be absent. */
bool check_not_negative(int64_t value, const struct path *where, struct problem *problem);

/* A value that the .proto names, 0 included. */
bool check_enum(const ProtobufCEnumDescriptor *type, int value, const struct path *where,
                struct problem *problem);

/* NULL, or a printable content type and at most @max bytes in all. */
bool check_payload(const Drover__V1__Payload *payload, size_t max, const struct path *where,
                   struct problem *problem);
