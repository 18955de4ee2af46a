// SPDX-License-Identifier: Apache-2.0
/*
 * Outgoing: a message from bus_publish() to its outcome, a copy of its own
 *
 * See io/bus/outgoing.h.
 */
#include "io/bus/outgoing.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The text members of a message. */
static const size_t text_members[] = {
    offsetof(struct bus_message, exchange),     offsetof(struct bus_message, key),
    offsetof(struct bus_message, content_type), offsetof(struct bus_message, type),
    offsetof(struct bus_message, message_id),   offsetof(struct bus_message, correlation_id),
    offsetof(struct bus_message, reply_to),     offsetof(struct bus_message, traceparent),
    offsetof(struct bus_message, job),          offsetof(struct bus_message, step),
    offsetof(struct bus_message, reason),       offsetof(struct bus_message, actor),
    offsetof(struct bus_message, sender),
};

static const char **text_member(struct bus_message *m, size_t i)
{
    return (const char **)(void *)((char *)m + text_members[i]);
}

struct outgoing *bus_outgoing_new(const struct bus_message *from)
{
    struct bus_message m = *from;
    size_t sizes[array_size(text_members)];
    size_t total = m.body.len;
    struct outgoing *out;
    char *at;

    for (size_t i = 0; i < array_size(text_members); i++) {
        sizes[i] = *text_member(&m, i) ? strlen(*text_member(&m, i)) + 1 : 0;
        total += sizes[i];
    }
    out = malloc(sizeof(*out) + total);
    if (!out)
        return NULL;
    at = out->text;
    for (size_t i = 0; i < array_size(text_members); i++) {
        if (!sizes[i])
            continue;
        *text_member(&m, i) = memcpy(at, *text_member(&m, i), sizes[i]);
        at += sizes[i];
    }
    if (m.body.len > 0)
        m.body.data = memcpy(at, m.body.data, m.body.len);
    *out = (struct outgoing){.message = m};
    return out;
}

void bus_outgoing_free(struct outgoing *m)
{
    free(m->isolated);
    free(m);
}
