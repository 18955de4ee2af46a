// SPDX-License-Identifier: Apache-2.0
/*
 * Log fields: the named values of an event of the log, and their form in a line of text
 *
 * Used by base/log and model/trace.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define LOG_VALUE_MAX 1024 /* bytes of one text value, before escaping */

struct log_field {
    const char *name;
    enum {
        LOG_FIELD_STR,
        LOG_FIELD_INT,
    } type;
    const char *s; /* LOG_FIELD_STR; if NULL the field is left out */
    int64_t i;
};

#define LOG_S(name_, value_)                                                                       \
    ((struct log_field){.name = (name_), .type = LOG_FIELD_STR, .s = (value_)})
#define LOG_I(name_, value_)                                                                       \
    ((struct log_field){.name = (name_), .type = LOG_FIELD_INT, .i = (int64_t)(value_)})

/* Appends " name=value"; a value that is not one plain word is quoted as in JSON. Return: false if
 * it has cut the value. */
bool log_field_print(struct buf *line, const struct log_field *field);
