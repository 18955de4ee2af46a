// SPDX-License-Identifier: Apache-2.0
/*
 * Frames: a message arrives as a method, a header and any number of body frames
 *
 * The library's own assembly blocks on half a message and drops what else arrives, so this does it:
 * everything is copied out of the frames at once, into one allocation a message.
 *
 * Called by bus_link.c; bus_delivery_free() by all that get deliveries.
 */
#include <stdlib.h>

#include "io/bus/bus_internal.h"

struct bus_delivery *bus_delivery_free(struct bus_delivery *d)
{
    if (d)
        free(container_of(d, struct incoming, delivery));
    return NULL;
}

void frame_reset(struct link *link)
{
    free(link->assembly.incoming);
    link->assembly = (struct assembly){.kind = ASSEMBLY_NONE};
}

static const amqp_field_value_t *find_header(const amqp_basic_properties_t *p, const char *name)
{
    if (!(p->_flags & AMQP_BASIC_HEADERS_FLAG))
        return NULL;
    for (int i = 0; i < p->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &p->headers.entries[i];

        if (bytes_is(bytes_of(entry->key.bytes, entry->key.len), name))
            return &entry->value;
    }
    return NULL;
}

static amqp_bytes_t text_header(const amqp_basic_properties_t *p, const char *name)
{
    const amqp_field_value_t *value = find_header(p, name);

    if (!value || (value->kind != AMQP_FIELD_KIND_UTF8 && value->kind != AMQP_FIELD_KIND_BYTES))
        return amqp_empty_bytes;
    return value->value.bytes;
}

static amqp_bytes_t property(const amqp_basic_properties_t *p, amqp_flags_t flag,
                             amqp_bytes_t value)
{
    return p->_flags & flag ? value : amqp_empty_bytes;
}

/* Appends a NUL-terminated copy at *@at. */
static const char *place(char **at, amqp_bytes_t value)
{
    char *start = *at;

    if (value.len > 0)
        memcpy(start, value.bytes, value.len);
    start[value.len] = '\0';
    *at += value.len + 1;
    return start;
}

static struct incoming *incoming_new(const amqp_basic_properties_t *p, const char *actor,
                                     size_t body_size)
{
    const amqp_bytes_t values[] = {
        property(p, AMQP_BASIC_CONTENT_TYPE_FLAG, p->content_type),
        property(p, AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id),
        property(p, AMQP_BASIC_CORRELATION_ID_FLAG, p->correlation_id),
        property(p, AMQP_BASIC_REPLY_TO_FLAG, p->reply_to),
        property(p, AMQP_BASIC_USER_ID_FLAG, p->user_id),
        text_header(p, BUS_TRACE_HEADER),
        text_header(p, BUS_JOB_HEADER),
        text_header(p, BUS_STEP_HEADER),
        text_header(p, BUS_DEATH_HEADER),
        amqp_cstring_bytes(actor),
    };
    size_t size = sizeof(struct incoming) + body_size;
    struct incoming *in;
    char *at;

    for (size_t i = 0; i < array_size(values); i++)
        size += values[i].len + 1;
    in = malloc(size);
    if (!in)
        return NULL;
    list_init(&in->node);
    at = in->text;
    in->delivery = (struct bus_delivery){
        .content_type = place(&at, values[0]),
        .message_id = place(&at, values[1]),
        .correlation_id = place(&at, values[2]),
        .reply_to = place(&at, values[3]),
        .user_id = place(&at, values[4]),
        .traceparent = place(&at, values[5]),
        .job = place(&at, values[6]),
        .step = place(&at, values[7]),
        .died_of = place(&at, values[8]),
        .actor = place(&at, values[9]),
    };
    in->body = at;
    in->delivery.body = bytes_of(in->body, body_size);
    return in;
}

static int head_delivery(struct link *link, const amqp_basic_properties_t *properties)
{
    struct assembly *a = &link->assembly;
    uint32_t limit = link->bus->config.max_message_bytes;
    bool oversize = a->left > limit;

    a->incoming = incoming_new(properties, a->actor, oversize ? limit : (size_t)a->left);
    if (!a->incoming)
        return link_fail(link, LINK_E_LOST, "out of memory for a delivery");
    a->incoming->pulse = a->pulse;
    a->incoming->delivery.handle = a->handle;
    a->incoming->delivery.source = a->source;
    a->incoming->delivery.redelivered = a->redelivered;
    a->incoming->delivery.resent = find_header(properties, BUS_RESENT_HEADER) != NULL;
    a->incoming->delivery.oversize = oversize;
    return 0;
}

static void head_return(struct link *link, const amqp_basic_properties_t *properties)
{
    const amqp_field_value_t *serial = find_header(properties, BUS_SERIAL_HEADER);

    if (serial && serial->kind == AMQP_FIELD_KIND_I64)
        link->role->returned(link, (uint64_t)serial->value.i64);
}

/* Ends the message once nothing of its body is missing. */
static void complete(struct link *link)
{
    struct assembly *a = &link->assembly;

    if (a->left > 0)
        return;
    if (a->incoming)
        list_append(&link->deliveries, &take(a->incoming)->node);
    frame_reset(link);
}

int frame_header(struct link *link, const amqp_frame_t *frame)
{
    struct assembly *a = &link->assembly;
    const amqp_basic_properties_t *properties = frame->payload.properties.decoded;
    int r;

    /* Of another class, what was decoded is no amqp_basic_properties_t. */
    if (a->kind == ASSEMBLY_NONE || a->headed ||
        frame->payload.properties.class_id != AMQP_BASIC_CLASS)
        return link_fail(link, LINK_E_LOST, "broker sent a header out of place");
    a->headed = true;
    a->left = frame->payload.properties.body_size;
    if (a->kind == ASSEMBLY_RETURN) {
        head_return(link, properties);
    } else {
        r = head_delivery(link, properties);
        if (r)
            return r;
    }
    complete(link);
    return 0;
}

int frame_body(struct link *link, const amqp_frame_t *frame)
{
    struct assembly *a = &link->assembly;
    amqp_bytes_t part = frame->payload.body_fragment;

    if (!a->headed || part.len > a->left)
        return link_fail(link, LINK_E_LOST, "broker sent a body out of place");
    a->left -= part.len;
    if (a->incoming) {
        size_t room = a->incoming->delivery.body.len - a->stored;
        size_t len = part.len < room ? part.len : room;

        if (len > 0)
            memcpy(a->incoming->body + a->stored, part.bytes, len);
        a->stored += len;
    }
    complete(link);
    return 0;
}
