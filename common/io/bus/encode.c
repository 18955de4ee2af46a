// SPDX-License-Identifier: Apache-2.0
/*
 * Encode: see io/bus/encode.h; message.c does the reverse
 *
 * Called by publisher.c.
 */
#include "io/bus/encode.h"

#include <stdio.h>

#include "io/bus/direct.h"
#include "io/bus/headers.h"
#include "io/bus/table.h"

static void put_text(amqp_basic_properties_t *p, amqp_flags_t flag, amqp_bytes_t *to, const char *s)
{
    if (!s)
        return;
    p->_flags |= flag;
    *to = amqp_cstring_bytes(s);
}

static void put_text_header(amqp_table_t *headers, const char *name, const char *value)
{
    if (value)
        headers->entries[headers->num_entries++] = table_text(name, value);
}

static void put_number_header(amqp_table_t *headers, const char *name, int64_t value)
{
    headers->entries[headers->num_entries++] = table_number(name, value);
}

static void put_yes_header(amqp_table_t *headers, const char *name)
{
    headers->entries[headers->num_entries++] = table_yes(name);
}

/* To a direct reply-to the broker delivers and, were it mandatory, returns the message as well. */
static bool is_mandatory(const struct outgoing *m)
{
    return m->message.mandatory && !direct_is(m);
}

static bool is_transient(const struct link *link, const struct bus_message *m)
{
    return m->transient || (m->cached && link->config->cached && !link->queues->quorum);
}

int encode_publish(struct link *link, const struct outgoing *out, int64_t now)
{
    const struct bus_message *m = &out->message;
    amqp_table_entry_t entries[7];
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
        .delivery_mode =
            is_transient(link, m) ? AMQP_DELIVERY_NONPERSISTENT : AMQP_DELIVERY_PERSISTENT,
        .headers.entries = entries,
    };
    amqp_basic_publish_t publish = {
        .exchange = amqp_cstring_bytes(m->exchange),
        .routing_key = amqp_cstring_bytes(m->key),
        .mandatory = is_mandatory(out),
    };
    char expiration[24];

    put_text(&properties, AMQP_BASIC_CONTENT_TYPE_FLAG, &properties.content_type, m->content_type);
    put_text(&properties, AMQP_BASIC_TYPE_FLAG, &properties.type, m->type);
    put_text(&properties, AMQP_BASIC_MESSAGE_ID_FLAG, &properties.message_id, m->message_id);
    put_text(&properties, AMQP_BASIC_CORRELATION_ID_FLAG, &properties.correlation_id,
             m->correlation_id);
    put_text(&properties, AMQP_BASIC_REPLY_TO_FLAG, &properties.reply_to, m->reply_to);
    if (link->config->identify)
        put_text(&properties, AMQP_BASIC_USER_ID_FLAG, &properties.user_id, link->user);
    if (m->expires) {
        snprintf(expiration, sizeof(expiration), "%lld", (long long)(m->not_after - now));
        put_text(&properties, AMQP_BASIC_EXPIRATION_FLAG, &properties.expiration, expiration);
    }
    put_text_header(&properties.headers, BUS_TRACE_HEADER, m->traceparent);
    put_text_header(&properties.headers, BUS_JOB_HEADER, m->job);
    put_text_header(&properties.headers, BUS_STEP_HEADER, m->step);
    put_text_header(&properties.headers, "drover-reason", m->reason);
    if (m->attempt > 0)
        put_number_header(&properties.headers, "drover-attempt", m->attempt);
    if (m->resent || out->resent)
        put_yes_header(&properties.headers, BUS_RESENT_HEADER);
    if (publish.mandatory)
        put_number_header(&properties.headers, BUS_SERIAL_HEADER, (int64_t)out->serial);
    if (properties.headers.num_entries > 0)
        properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    return link_put_message(link, &publish, &properties, m->body);
}
