// SPDX-License-Identifier: Apache-2.0
/*
 * Intake: bounds the bytes of messages that are worked on at a time
 *
 * The prefetch bounds the number of messages, not their bytes, and a message takes up to
 * WIRE_MEMORY_FACTOR times its size once it is decoded. So for each queue at most
 * MACHINE_READ_BYTES are read at a time, not counting small messages. Other messages wait
 * undecoded, in their order; small ones pass them. If more than MACHINE_UNREAD_BYTES of large
 * messages wait, the next large ones go back to the broker, and the scheduler stops consuming until
 * no more than half of that waits.
 *
 * Called by scheduler.c; poison.c calls intake_read() for suspects.
 */
#include <stdlib.h>

#include "scheduler/machine.h"

static void consume(struct scheduler *s, bool wanted)
{
    s->consuming_stopped = !wanted;
    effects_add(s->out, EFFECT_CONSUME, 0)->wanted = wanted;
}

bool intake_gives_back(struct scheduler *s, const struct bus_delivery *d)
{
    if (d->body.len <= MACHINE_LARGE_BYTES || s->unread_bytes + d->body.len <= MACHINE_UNREAD_BYTES)
        return false;
    s->stats.given_back++;
    effects_add(s->out, EFFECT_REQUEUE, d->handle);
    if (!s->consuming_stopped)
        consume(s, false);
    return true;
}

void intake_came(struct scheduler *s, struct item *item)
{
    if (item->body.len <= MACHINE_LARGE_BYTES)
        return;
    item->large = ITEM_UNREAD;
    s->unread_bytes += item->body.len;
}

/* One message may always be read, however large it is. */
static bool has_capacity(const struct intake *in, const struct item *item)
{
    return in->read_bytes == 0 || in->read_bytes + item->body.len <= MACHINE_READ_BYTES;
}

static bool is_small(const struct item *item)
{
    return item->body.len <= MACHINE_SMALL_BYTES;
}

static void read_item(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    if (item->large == ITEM_UNREAD) {
        item->large = ITEM_READ;
        s->unread_bytes -= item->body.len;
    }
    if (!is_small(item)) {
        item->read = true;
        s->intakes[item->source].read_bytes += item->body.len;
    }
    suspects_read(s, item);
    item_handle(s, item, d);
}

void intake_read(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    struct intake *in = &s->intakes[item->source];
    struct op *op;

    if (is_small(item) || (list_empty(&in->waiting) && has_capacity(in, item))) {
        read_item(s, item, d);
        return;
    }
    op = op_new(s, item, "");
    op->delivery = delivery_copy(d, item->body);
    list_append(&in->waiting, &op->link);
}

void intake_done(struct scheduler *s, const struct item *item)
{
    if (item->large == ITEM_UNREAD)
        s->unread_bytes -= item->body.len;
    if (item->read)
        s->intakes[item->source].read_bytes -= item->body.len;
}

static struct op *next(struct intake *in)
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

    for (int source = 0; source < SCHEDULER_SOURCES; source++) {
        while ((op = next(&s->intakes[source]))) {
            read_item(s, op->item, op->delivery);
            op_unref(s, op); /* held by intake_read() */
        }
    }
    if (s->consuming_stopped && s->unread_bytes <= MACHINE_UNREAD_BYTES / 2)
        consume(s, true);
}

void intake_lost(struct scheduler *s)
{
    for (int source = 0; source < SCHEDULER_SOURCES; source++) {
        for (struct list *l; (l = list_pop(&s->intakes[source].waiting));) {
            struct op *op = list_entry(l, struct op, link);

            item_give_back(s, op->item);
            op_unref(s, op);
        }
    }
}
