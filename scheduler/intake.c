// SPDX-License-Identifier: Apache-2.0
/*
 * Intake: bounds the bytes of messages that are worked on at a time
 *
 * The prefetch bounds the number of messages, not their bytes, and a message takes up to
 * WIRE_MEMORY_FACTOR times its size once it is decoded. So for each queue at most
 * INTAKE_READ_BYTES are read at a time, not counting small messages. Other messages wait
 * undecoded, in their order; small ones pass them. If more than INTAKE_UNREAD_BYTES of large
 * messages wait, the next large ones go back to the broker, and the scheduler stops consuming until
 * no more than half of that waits.
 *
 * A suspect is read at once, because others wait for it (poison.c); so are the Submits of a message
 * that is read. While a suspect is read alone nothing else is.
 *
 * Called by on_delivery.c and scheduler.c; poison.c calls intake_read() for suspects.
 */
#include "scheduler/intake.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/state.h"

/* A message that waits to be read. */
struct waiting {
    struct op op;                  /* in intake_queue.waiting */
    struct bus_delivery *delivery; /* owned */
};

static void waiting_free(struct op *op)
{
    free(container_of(op, struct waiting, op)->delivery);
}

/* ---- a copy of a delivery ---- */

static size_t append(char *to, size_t at, const char *text)
{
    size_t size = strlen(text) + 1;

    if (to)
        memcpy(to + at, text, size);
    return at + size;
}

struct bus_delivery *intake_copy(const struct bus_delivery *d, struct bytes body)
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

/* ---- the bounds ---- */

static void consume(struct scheduler *s, bool wanted)
{
    s->intake.consuming_stopped = !wanted;
    effects_add(s->out, EFFECT_CONSUME, 0)->wanted = wanted;
}

bool intake_gives_back(struct scheduler *s, const struct bus_delivery *d)
{
    if (d->body.len <= INTAKE_LARGE_BYTES ||
        s->intake.unread_bytes + d->body.len <= INTAKE_UNREAD_BYTES)
        return false;
    s->stats.given_back++;
    effects_add(s->out, EFFECT_REQUEUE, d->handle);
    if (!s->intake.consuming_stopped)
        consume(s, false);
    return true;
}

void intake_init(struct intake *in, intake_read_fn *read)
{
    in->read = read;
    for (int source = 0; source < SCHEDULER_SOURCES; source++)
        list_init(&in->queues[source].waiting);
}

void intake_came(struct scheduler *s, struct item *item)
{
    if (item->body.len <= INTAKE_LARGE_BYTES)
        return;
    item->large = ITEM_UNREAD;
    s->intake.unread_bytes += item->body.len;
}

/* One message may always be read, however large it is. */
static bool has_capacity(const struct intake_queue *in, const struct item *item)
{
    return in->read_bytes == 0 || in->read_bytes + item->body.len <= INTAKE_READ_BYTES;
}

static bool is_small(const struct item *item)
{
    return item->body.len <= INTAKE_SMALL_BYTES;
}

static void read_item(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    if (item->large == ITEM_UNREAD) {
        item->large = ITEM_READ;
        s->intake.unread_bytes -= item->body.len;
    }
    if (!is_small(item) && !item->batch) { /* whose bytes count */
        item->read = true;
        s->intake.queues[item->source].read_bytes += item->body.len;
    }
    s->intake.read(s, item, d);
}

void intake_read(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    struct intake_queue *in = &s->intake.queues[item->source];
    struct waiting *w;

    bool waits = !is_small(item) && (!list_empty(&in->waiting) || !has_capacity(in, item));

    if (!waits || item->batch || poison_is_present(item)) {
        read_item(s, item, d);
        return;
    }
    w = op_new(s, item, "", sizeof(*w), waiting_free);
    w->delivery = intake_copy(d, item->body);
    list_append(&in->waiting, &w->op.link);
}

void intake_done(struct scheduler *s, const struct item *item)
{
    if (item->large == ITEM_UNREAD)
        s->intake.unread_bytes -= item->body.len;
    if (item->read)
        s->intake.queues[item->source].read_bytes -= item->body.len;
}

static struct op *next(struct intake_queue *in)
{
    struct op *op;

    if (list_empty(&in->waiting))
        return NULL;
    op = list_entry(in->waiting.next, struct op, link);
    if (!has_capacity(in, op->item))
        return NULL;
    list_remove(&op->link);
    return op;
}

void intake_go_on(struct scheduler *s)
{
    struct op *op;

    for (int source = 0; source < SCHEDULER_SOURCES && !s->suspects.alone; source++) {
        while (!s->suspects.alone && (op = next(&s->intake.queues[source]))) {
            read_item(s, op->item, container_of(op, struct waiting, op)->delivery);
            op_unref(s, op); /* the reference of intake_read() */
        }
    }
    if (s->intake.consuming_stopped && s->intake.unread_bytes <= INTAKE_UNREAD_BYTES / 2)
        consume(s, true);
}

void intake_lost(struct scheduler *s)
{
    for (int source = 0; source < SCHEDULER_SOURCES; source++) {
        for (struct list *l; (l = list_pop(&s->intake.queues[source].waiting));) {
            struct op *op = list_entry(l, struct op, link);

            item_give_back(s, op->item);
            op_unref(s, op);
        }
    }
}

void intake_free(struct scheduler *s)
{
    for (int source = 0; source < SCHEDULER_SOURCES; source++)
        op_free_list(s, &s->intake.queues[source].waiting);
}
