// SPDX-License-Identifier: Apache-2.0
/*
 * Suspects: what the broker has delivered before
 *
 * A message may be what killed whoever had it. Before a byte of it is read, the store notes by its
 * digest that this life begins it; how it ends is noted as well, and so a life that is noted and
 * did not end it well was lost over it. When two were, the third gives it to drover.dead; not while
 * one of the two has begun it just now, with a copy, and may live.
 *
 * One at a time: what was merely delivered beside it waits, and is not noted. A life that loses the
 * broker takes back what it has begun, because the message goes to another one while it lives; so
 * does one that has survived it for so long, and waits only for the store or the broker.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* ---- a delivery, kept ---- */

static size_t append(char *to, size_t at, const char *text)
{
    size_t size = strlen(text) + 1;

    if (to)
        memcpy(to + at, text, size);
    return at + size;
}

struct bus_delivery *delivery_copy(const struct bus_delivery *d, struct bytes body)
{
    static const size_t texts[] = {
        offsetof(struct bus_delivery, content_type),
        offsetof(struct bus_delivery, message_id),
        offsetof(struct bus_delivery, correlation_id),
        offsetof(struct bus_delivery, reply_to),
        offsetof(struct bus_delivery, user_id),
        offsetof(struct bus_delivery, traceparent),
        offsetof(struct bus_delivery, job),
        offsetof(struct bus_delivery, step),
        offsetof(struct bus_delivery, died_of),
        offsetof(struct bus_delivery, actor),
    };
    size_t size = 0, at = 0;
    struct bus_delivery *copy;
    char *text;

    for (size_t i = 0; i < array_size(texts); i++)
        size = append(NULL, size, *(const char *const *)((const char *)d + texts[i]));
    copy = or_abort(malloc(sizeof(*copy) + size));
    text = (char *)(copy + 1);
    *copy = *d;
    copy->body = body;
    for (size_t i = 0; i < array_size(texts); i++) {
        const char **member = (const char **)((char *)copy + texts[i]);
        const char *from = *member;

        *member = text + at;
        at = append(text, at, from);
    }
    return copy;
}

/* ---- what the store is told ---- */

static void tell(struct scheduler *s, struct op *op)
{
    ops_suspect(s->out, op_call_id(s, op), op->partition, op->job, s->life, op->suspect);
}

static void told(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* Beside the delivery, which does not wait for it. */
static void tell_end(struct scheduler *s, const char *digest, enum ops_suspect what)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, digest);

    op->suspect = what;
    op_call(s, op, tell, told);
    op_unref(s, op);
    item_unref(s, item);
}

/* ---- one at a time ---- */

static void ask(struct scheduler *s, struct op *op)
{
    if (s->suspect == op->item) {
        tell(s, op);
    } else { /* the broker has it again */
        op->item->handle = 0;
        op_unref(s, op);
    }
}

static void on_begun(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct item *item = op->item;
    uint32_t lives = ops_read_suspect(r);

    if (s->suspect != item) { /* the broker has it again */
        item->handle = 0;
        return;
    }
    if (lives == 0) {
        op->open++; /* the timer holds it */
        op_repeat_at(s, op, s->now + MACHINE_REPEAT_MS);
        return;
    }
    if (lives < MACHINE_SUSPECT_LIVES) {
        intake_read(s, item, op->delivery);
        return;
    }
    log_error("poison", LOG_S("digest", op->job), LOG_I("lives", lives));
    item_dead(s, item, "POISON");
    if (item->source == SCHEDULER_REPLIES && *op->delivery->job)
        taken_tell(s, op->delivery->job, op->delivery->message_id); /* or the next one would come */
}

static void next(struct scheduler *s)
{
    struct list *first;
    struct op *op;

    if (s->suspect || !(first = list_pop(&s->suspects)))
        return;
    op = list_entry(first, struct op, link);
    s->suspect = op->item;
    s->suspect_until = INT64_MAX; /* until it is read */
    op->suspect = OPS_SUSPECT_BEGIN;
    op_call(s, op, ask, on_begun);
    op_unref(s, op); /* what suspects_add() holds */
}

void suspects_add(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    char digest[ID_DIGEST_LEN + 1];
    struct op *op;

    id_digest(item->body, digest);
    op = op_new(s, item, digest);
    op->delivery = delivery_copy(d, item->body);
    item->suspect = or_abort(strdup(digest));
    list_append(&s->suspects, &op->link);
    next(s);
}

void suspects_read(struct scheduler *s, const struct item *item)
{
    if (s->suspect == item)
        s->suspect_until = s->now + MACHINE_SUSPECT_MS;
}

void suspects_done(struct scheduler *s, struct item *item)
{
    if (s->suspect != item)
        return;
    s->suspect = NULL;
    tell_end(s, item->suspect, OPS_SUSPECT_END);
    next(s);
}

static void take_back(struct scheduler *s)
{
    struct item *item = s->suspect;

    if (!item)
        return;
    s->suspect = NULL;
    tell_end(s, item->suspect, OPS_SUSPECT_BACK);
}

void suspects_lost(struct scheduler *s)
{
    for (struct list *l; (l = list_pop(&s->suspects));) {
        struct op *op = list_entry(l, struct op, link);

        item_give_back(s, op->item);
        op_unref(s, op);
    }
    take_back(s);
}

void suspects_tick(struct scheduler *s)
{
    if (!s->suspect || s->now < s->suspect_until)
        return;
    take_back(s);
    next(s);
}
