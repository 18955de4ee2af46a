// SPDX-License-Identifier: Apache-2.0
/*
 * Poison messages: counts which incarnations of schedulers have died of a message
 *
 * A message that the broker delivers again may have killed the process that had it first: it is a
 * suspect. Before a scheduler reads a suspect, the store records, under the digest of its body,
 * that this incarnation begins it. Once the message is handled the store deletes that. An
 * incarnation that stays recorded is taken for dead. The third one to begin a message puts it into
 * drover.dead instead (POISON); not within 200 ms of when another one has begun it, as the broker
 * may have delivered two copies of the message, and that process may be alive.
 *
 * Suspects are read one at a time. Those that wait are not recorded. A scheduler withdraws its
 * record when it loses the broker, because the broker gives the message to another scheduler while
 * this one is alive, and 100 ms after it has read the message.
 *
 * Called by scheduler.c, and by intake.c when a suspect is read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* ---- a copy of a delivery ---- */

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

/* ---- what the store records ---- */

static void suspect_call(struct scheduler *s, struct op *op)
{
    ops_suspect(s->out, op_call_id(s, op), op->partition, op->job, s->incarnation, op->suspect);
}

static void suspect_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* An operation of its own: the delivery does not wait for it. */
static void suspect_end(struct scheduler *s, const char *digest, enum ops_suspect what)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, digest);

    op->suspect = what;
    op_call(s, op, suspect_call, suspect_answered);
    op_unref(s, op);
    item_unref(s, item);
}

/* ---- suspects, one at a time ---- */

static void ask(struct scheduler *s, struct op *op)
{
    if (s->suspect == op->item) {
        suspect_call(s, op);
    } else { /* the broker has it again */
        op->item->handle = 0;
        op_unref(s, op);
    }
}

static void on_begun(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct item *item = op->item;
    uint32_t incarnations = ops_read_suspect(r);

    if (s->suspect != item) { /* the broker has it again */
        item->handle = 0;
        return;
    }
    if (incarnations == 0) {
        op->open++; /* held by the timer */
        op_repeat_at(s, op, s->now + MACHINE_REPEAT_MS);
        return;
    }
    if (incarnations < MACHINE_POISON_AT) {
        intake_read(s, item, op->delivery);
        return;
    }
    log_error("poison", LOG_S("digest", op->job), LOG_I("incarnations", incarnations));
    item_dead(s, item, "POISON");
    /* Evidence: without it the request would be sent again without end. */
    if (item->source == SCHEDULER_REPLIES && *op->delivery->job)
        evidence_record(s, op->delivery->job, op->delivery->message_id);
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
    op_unref(s, op); /* held by suspects_add() */
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
    suspect_end(s, item->suspect, OPS_SUSPECT_END);
    next(s);
}

static void take_back(struct scheduler *s)
{
    struct item *item = s->suspect;

    if (!item)
        return;
    s->suspect = NULL;
    suspect_end(s, item->suspect, OPS_SUSPECT_BACK);
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
