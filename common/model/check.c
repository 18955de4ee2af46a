// SPDX-License-Identifier: Apache-2.0
/*
 * Checks of single values of a message, with the path of the field in each problem
 *
 * See model/check.h.
 */
#include "model/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/reflect.h"
#include "model/wire_limits.h"

#define TIME_MAX_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Appends the part of @path itself to those of its parents. Return: the bytes of @out in use. */
static size_t path_append(const struct path *path, char *out, size_t size)
{
    size_t used = path->up ? path_append(path->up, out, size) : 0;
    const char *dot = used > 0 && path->name[0] ? "." : "";
    int n;

    if (path->index == PATH_NO_INDEX)
        n = snprintf(out + used, size - used, "%s%s", dot, path->name);
    else
        n = snprintf(out + used, size - used, "%s%s[%" PRId64 "]", dot, path->name, path->index);
    used += (size_t)n;
    return used < size ? used : size - 1;
}

bool check_fail(struct problem *problem, const struct path *where, const char *reason, ...)
{
    struct problem found = {.field = ""};
    va_list args;

    if (!problem)
        return false;
    if (where)
        path_append(where, found.field, sizeof(found.field));
    va_start(args, reason);
    vsnprintf(found.reason, sizeof(found.reason), reason, args);
    va_end(args);
    problem_set(problem, found.field, "%s", found.reason);
    return false;
}

bool check_name(const char *name, const struct path *where, struct problem *problem)
{
    return id_name_valid(name, strlen(name)) ||
           check_fail(problem, where, "must be 1 to %d characters of A-Z a-z 0-9 . _ -",
                      ID_NAME_MAX);
}

bool check_name_if(const char *name, const struct path *where, struct problem *problem)
{
    return name[0] == '\0' || check_name(name, where, problem);
}

bool check_text(const char *text, size_t max, const struct path *where, struct problem *problem)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return check_fail(problem, where, "must not have control characters");
    return strlen(text) <= max || check_fail(problem, where, "must be at most %zu bytes", max);
}

bool check_text_given(const char *text, size_t max, const struct path *where,
                      struct problem *problem)
{
    if (text[0] == '\0')
        return check_fail(problem, where, "must be given");
    return check_text(text, max, where, problem);
}

bool check_time(int64_t value, const struct path *where, struct problem *problem)
{
    return (value >= 0 && value <= TIME_MAX_MS) ||
           check_fail(problem, where, "must be unix milliseconds, up to the year 9999");
}

bool check_not_negative(int64_t value, const struct path *where, struct problem *problem)
{
    return value >= 0 || check_fail(problem, where, "must not be negative");
}

bool check_enum(const ProtobufCEnumDescriptor *type, int value, const struct path *where,
                struct problem *problem)
{
    return protobuf_c_enum_descriptor_get_value(type, value) ||
           check_fail(problem, where, "%d is no %s", value, type->short_name);
}

bool check_payload(const Drover__V1__Payload *payload, size_t max, const struct path *where,
                   struct problem *problem)
{
    size_t size = wire_payload_size(payload);

    if (!payload)
        return true;
    if (size > max)
        return check_fail(problem, where, "must be at most %zu bytes, not %zu", max, size);
    return check_text(payload->content_type, WIRE_CONTENT_TYPE_MAX, PATH(where, "content_type"),
                      problem);
}

/* One value of a field: text must be UTF-8, a number finite, a message valid in the same sense. */
static bool value_check(ProtobufCType type, const void *value, const struct path *where,
                        struct problem *problem)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
        return utf8_valid(bytes_str(*(char *const *)value)) ||
               check_fail(problem, where, "must be UTF-8");
    case PROTOBUF_C_TYPE_DOUBLE:
        return isfinite(*(const double *)value) ||
               check_fail(problem, where, "must be a finite number");
    case PROTOBUF_C_TYPE_MESSAGE:
        return check_encoding(*(ProtobufCMessage *const *)value, where, problem);
    default:
        return true;
    }
}

/* Messages nest at most 4 deep. */
bool check_encoding(const ProtobufCMessage *message, const struct path *where,
                    struct problem *problem)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &d->fields[i];
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t size = reflect_size(field->type);
        void *elements;
        size_t n = reflect_elements(message, field, &elements);

        for (size_t k = 0; k < n; k++) {
            const struct path here = {where, field->name, repeated ? (int64_t)k : PATH_NO_INDEX};

            if (!value_check(field->type, (uint8_t *)elements + k * size, &here, problem))
                return false;
        }
    }
    return true;
}
