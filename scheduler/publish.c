// SPDX-License-Identifier: Apache-2.0
/*
 * Publishes: messages for the broker, each followed to its outcome
 *
 * Called by all files of the scheduler that publish; scheduler.c reports the outcomes.
 */
#include "scheduler/publish.h"

#include <stdlib.h>

#include "scheduler/access.h"
#include "scheduler/state.h"

static const struct publish_kind plain = {0};

bool publish_has_capacity(const struct scheduler *s)
{
    return HASH_COUNT(s->publishes.by_id) < s->publishes.most &&
           s->publishes.bytes < PUBLISH_UNCONFIRMED_BYTES;
}

struct publish *publish_new(struct scheduler *s, unsigned room, const struct publish_kind *kind)
{
    struct publish *p = or_abort(calloc(1, sizeof(*p) + room * sizeof(*p->parts)));

    p->id = ++s->last_id;
    p->kind = kind;
    HASH_ADD(hh, s->publishes.by_id, id, sizeof(p->id), p);
    return p;
}

struct publish_part *publish_add(struct scheduler *s, struct publish *p, struct op *op,
                                 size_t bytes)
{
    struct publish_part *part = &p->parts[p->n++];

    part->op = op;
    op->refs++;
    p->bytes += bytes;
    s->publishes.bytes += bytes;
    return part;
}

struct bus_message *publish_send(struct scheduler *s, struct publish *p,
                                 const ProtobufCMessageDescriptor *type, struct bytes body,
                                 bool json)
{
    struct bus_message *m = &effects_add(s->out, EFFECT_PUBLISH, p->id)->publish;

    m->body = body;
    m->content_type = wire_content_type(json);
    m->type = type ? type->name : NULL;
    return m;
}

struct bus_message *publish_message(struct scheduler *s, struct op *op,
                                    const ProtobufCMessage *body, bool json)
{
    struct publish *p = publish_new(s, 1, &plain);
    struct bytes packed = body ? wire_pack(s->out, body, json) : BYTES_EMPTY;

    publish_add(s, p, op, packed.len);
    return publish_send(s, p, body ? body->descriptor : NULL, packed, json);
}

/* The sender that is responsible for the address of an answer. If a direct reply-to address turns
 * out to be invalid, the bus stops sending direct replies for its sender. Agents that cannot be
 * told apart are one sender. */
static const char *sender_of(struct scheduler *s, const struct item *item)
{
    if (*item->user)
        return effects_str(s->out, item->user);
    if (item->source == SCHEDULER_REPLIES && (*item->actor || s->access->required))
        return effects_printf(s->out, "\n%s", item->actor);
    return "";
}

void publish_reply(struct scheduler *s, struct op *op, const ProtobufCMessage *body)
{
    struct item *item = op->item;
    struct bus_message *m;

    if (!*item->reply_to)
        return;
    m = publish_message(s, op, body, item->json);
    m->exchange = "";
    m->key = effects_str(s->out, item->reply_to);
    m->correlation_id = effects_str(s->out, item->correlation);
    m->sender = sender_of(s, item);
    m->mandatory = true;
}

void publish_outcome(struct scheduler *s, uint64_t id, enum bus_outcome outcome)
{
    struct publish *p;

    HASH_FIND(hh, s->publishes.by_id, &id, sizeof(id), p);
    if (!p)
        return;
    HASH_DEL(s->publishes.by_id, p);
    s->publishes.bytes -= p->bytes;
    for (unsigned i = 0; i < p->n; i++) {
        struct publish_part *part = &p->parts[i];

        if (outcome == BUS_RETURNED || outcome == BUS_NACKED)
            part->op->returned |= !part->optional;
        if (p->kind->outcome)
            p->kind->outcome(s, part, outcome);
        op_unref(s, part->op);
    }
    free(p);
}

void publish_free_all(struct scheduler *s)
{
    struct publish *p, *next;

    HASH_ITER(hh, s->publishes.by_id, p, next) {
        HASH_DEL(s->publishes.by_id, p);
        for (unsigned i = 0; i < p->n; i++) {
            if (p->kind->free)
                p->kind->free(&p->parts[i]);
            p->parts[i].op->then = NULL;
            op_drop(s, p->parts[i].op);
        }
        free(p);
    }
}
