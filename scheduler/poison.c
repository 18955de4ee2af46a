// SPDX-License-Identifier: Apache-2.0
/*
 * Poison messages: counts which incarnations of schedulers have died of a message
 *
 * A message that the broker delivers again may have killed the process that had it first: it is a
 * suspect. Before a scheduler reads a suspect, the store records, under the digest of its body,
 * that this incarnation begins it. If the message is handled within 100 ms of being read the store
 * deletes the whole record, later only this incarnation. One that stays recorded is taken for dead.
 * The third one to begin a message puts it into drover.dead instead (POISON); not within 200 ms of
 * when another one has begun it, as the broker may have delivered two copies of the message, and
 * that process may be alive.
 *
 * Suspects are read one at a time. Those that wait are not recorded. A scheduler withdraws its
 * record 100 ms after it has read the message, and when it loses a connection to the broker: then
 * the broker may give the message to another scheduler while this one is alive.
 *
 * Called by on_delivery.c and scheduler.c.
 */
#include "scheduler/poison.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "scheduler/dead_letter.h"
#include "scheduler/intake.h"
#include "scheduler/state.h"
#include "scheduler/watch.h"

struct suspect_op {
    struct op op;                  /* in suspects.waiting, or of the present one */
    enum ops_suspect what;         /* what the call records */
    struct bus_delivery *delivery; /* of a suspect to be read; owned; else NULL */
};

static struct suspect_op *suspect_of(struct op *op)
{
    return container_of(op, struct suspect_op, op);
}

static void suspect_free(struct op *op)
{
    free(suspect_of(op)->delivery);
}

/* ---- what the store records ---- */

static void suspect_call(struct scheduler *s, struct op *op)
{
    ops_suspect(s->out, op_call_id(s, op), op->partition, op->job, s->incarnation,
                suspect_of(op)->what);
}

static void ignore_answer(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* An operation of its own: the delivery does not wait for it. */
static void suspect_end(struct scheduler *s, const char *digest, enum ops_suspect what)
{
    struct item *item = item_internal(s);
    struct suspect_op *suspect = op_new(s, item, digest, sizeof(*suspect), suspect_free);

    suspect->what = what;
    op_call(s, &suspect->op, suspect_call, ignore_answer);
    op_unref(s, &suspect->op);
    item_unref(s, item);
}

/* ---- suspects, one at a time ---- */

static void ask(struct scheduler *s, struct op *op)
{
    if (s->suspects.present == op->item) {
        suspect_call(s, op);
    } else {
        item_give_back(s, op->item);
        op_unref(s, op);
    }
}

static void on_begun(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct item *item = op->item;
    uint32_t incarnations = ops_read_suspect(r);

    if (s->suspects.present != item) {
        item_give_back(s, item);
        return;
    }
    if (incarnations == 0) {
        op->refs++; /* for the timer */
        op_repeat_at(s, op, s->now + OP_REPEAT_MS);
        return;
    }
    if (incarnations < POISON_INCARNATIONS) {
        intake_read(s, item, suspect_of(op)->delivery);
        return;
    }
    log_error("poison", LOG_S("digest", op->job), LOG_I("incarnations", incarnations));
    dead_letter_send(s, item, "POISON");
    /* Evidence: without it the request would be sent again without end. */
    if (item->source == SCHEDULER_REPLIES && *suspect_of(op)->delivery->job)
        watch_record_evidence(s, suspect_of(op)->delivery->job,
                              suspect_of(op)->delivery->message_id);
}

static void next(struct scheduler *s)
{
    struct list *first;
    struct op *op;

    if (s->suspects.present || !(first = list_pop(&s->suspects.waiting)))
        return;
    op = list_entry(first, struct op, link);
    s->suspects.present = op->item;
    s->suspects.until = INT64_MAX; /* until it is read */
    suspect_of(op)->what = OPS_SUSPECT_BEGIN;
    op_call(s, op, ask, on_begun);
    op_unref(s, op); /* the reference of poison_add() */
}

void poison_add(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    char digest[ID_DIGEST_LEN + 1];
    struct suspect_op *suspect;

    id_digest(item->body, digest);
    suspect = op_new(s, item, digest, sizeof(*suspect), suspect_free);
    suspect->delivery = intake_copy(d, item->body);
    item->suspect = or_abort(strdup(digest));
    list_append(&s->suspects.waiting, &suspect->op.link);
    next(s);
}

void poison_read(struct scheduler *s, const struct item *item)
{
    if (s->suspects.present == item)
        s->suspects.until = s->now + POISON_SUSPECT_MS;
}

void poison_done(struct scheduler *s, struct item *item)
{
    if (s->suspects.present != item)
        return;
    s->suspects.present = NULL;
    suspect_end(s, item->suspect, OPS_SUSPECT_END);
    next(s);
}

static void take_back(struct scheduler *s)
{
    struct item *item = s->suspects.present;

    if (!item)
        return;
    s->suspects.present = NULL;
    suspect_end(s, item->suspect, OPS_SUSPECT_BACK);
}

void poison_lost(struct scheduler *s)
{
    for (struct list *l; (l = list_pop(&s->suspects.waiting));) {
        struct op *op = list_entry(l, struct op, link);

        item_give_back(s, op->item);
        op_unref(s, op);
    }
    take_back(s);
}

void poison_tick(struct scheduler *s)
{
    if (!s->suspects.present || s->now < s->suspects.until)
        return;
    take_back(s);
    next(s);
}

int64_t poison_next(const struct scheduler *s)
{
    return s->suspects.present ? s->suspects.until : INT64_MAX;
}
