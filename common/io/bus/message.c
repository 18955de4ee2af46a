// SPDX-License-Identifier: Apache-2.0
/*
 * Messages: see io/bus/message.h
 *
 * Called by link.c and link_input.c; bus_delivery_free() by all that get deliveries.
 */
#include "io/bus/message.h"

#include <errno.h>
#include <stdlib.h>

#include "io/bus/bus.h"
#include "io/bus/frame.h"
#include "model/wire_message.h"

struct bus_delivery *bus_delivery_free(struct bus_delivery *d)
{
    if (d)
        free(container_of(d, struct incoming, delivery));
    return NULL;
}

void message_reset(struct assembly *a)
{
    free(a->incoming);
    *a = (struct assembly){.kind = ASSEMBLY_NONE};
}

/* Appends a NUL-terminated copy at *@at. */
static const char *place(char **at, struct bytes value)
{
    char *start = *at;

    if (value.len > 0)
        memcpy(start, value.data, value.len);
    start[value.len] = '\0';
    *at += value.len + 1;
    return start;
}

static struct incoming *incoming_new(const struct content *c, const char *actor, size_t body_size)
{
    const struct bytes texts[] = {
        c->content_type, c->message_id, c->correlation_id, c->reply_to, c->user_id,
        c->traceparent,  c->job,        c->step,           c->died_of,  bytes_str(actor),
    };
    size_t size = sizeof(struct incoming) + body_size;
    struct incoming *in;
    char *at;

    for (size_t i = 0; i < array_size(texts); i++)
        size += texts[i].len + 1;
    in = malloc(size);
    if (!in)
        return NULL;
    list_init(&in->node);
    at = in->text;
    in->delivery = (struct bus_delivery){
        .content_type = place(&at, c->content_type),
        .message_id = place(&at, c->message_id),
        .correlation_id = place(&at, c->correlation_id),
        .reply_to = place(&at, c->reply_to),
        .user_id = place(&at, c->user_id),
        .traceparent = place(&at, c->traceparent),
        .job = place(&at, c->job),
        .step = place(&at, c->step),
        .died_of = place(&at, c->died_of),
        .actor = place(&at, bytes_str(actor)),
        .resent = c->resent,
        .transient = !c->persistent,
        .batch = bytes_is(c->type, drover__v1__submits__descriptor.name),
    };
    in->body = at;
    in->delivery.body = bytes_of(in->body, body_size);
    return in;
}

static int begin_delivery(struct assembly *a, const struct content *content, uint32_t limit)
{
    bool oversize = content->body_size > limit;

    a->incoming = incoming_new(content, a->actor, oversize ? limit : (size_t)content->body_size);
    if (!a->incoming)
        return -ENOMEM;
    a->incoming->pulse = a->pulse;
    a->incoming->delivery.handle = a->handle;
    a->incoming->delivery.source = a->source;
    a->incoming->delivery.redelivered = a->redelivered;
    a->incoming->delivery.transient &= a->classic;
    a->incoming->delivery.oversize = oversize;
    return 0;
}

int message_header(struct assembly *a, struct bytes payload, uint32_t limit)
{
    struct content content;
    int r;

    if (a->kind == ASSEMBLY_NONE || a->headed)
        return -EBADMSG;
    r = frame_decode_content(payload, &content);
    if (r)
        return r;
    a->headed = true;
    a->left = content.body_size;
    a->serial = content.serial;
    if (a->kind == ASSEMBLY_DELIVERY)
        r = begin_delivery(a, &content, limit);
    return r ? r : a->left == 0;
}

int message_body(struct assembly *a, struct bytes payload)
{
    if (!a->headed || payload.len > a->left)
        return -EBADMSG;
    a->left -= payload.len;
    if (a->incoming) {
        size_t room = a->incoming->delivery.body.len - a->stored;
        size_t len = payload.len < room ? payload.len : room;

        if (len > 0)
            memcpy(a->incoming->body + a->stored, payload.data, len);
        a->stored += len;
    }
    return a->left == 0;
}
