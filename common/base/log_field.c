// SPDX-License-Identifier: Apache-2.0
/*
 * Log fields: prints a field as text
 *
 * See base/log_field.h.
 */
#include "base/log_field.h"

#include <string.h>

/* Whether a text is one plain word, so that it needs no quotes. */
static bool is_word(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '=' || s[i] == '\\')
            return false;
    }
    return len > 0;
}

static void put_name(struct buf *line, const char *name)
{
    buf_putc(line, ' ');
    buf_puts(line, name);
    buf_putc(line, '=');
}

bool log_field_print(struct buf *line, const struct log_field *field)
{
    size_t len;

    if (field->type == LOG_FIELD_INT) {
        put_name(line, field->name);
        buf_put_int(line, field->i);
        return true;
    }
    if (!field->s)
        return true;
    put_name(line, field->name);
    len = strnlen(field->s, LOG_VALUE_MAX);
    if (is_word(field->s, len))
        buf_append(line, field->s, len);
    else
        buf_json_shown(line, field->s, len);
    return field->s[len] == '\0';
}
