// SPDX-License-Identifier: Apache-2.0
/*
 * Poison messages: counts which incarnations of schedulers have died of a message
 *
 * A message that the broker delivers again may have killed the process that had it first: it is a
 * suspect. Before a scheduler reads a suspect, the store records, under the digest of its body,
 * that this incarnation begins it. If the message is handled within 100 ms of being read the store
 * deletes the whole record, later only this incarnation. One that stays recorded is taken for dead.
 *
 * It may have died of another message, which it had read at the same time. So a scheduler that
 * finds such a record begins the message alone, when all other suspects that it has begun are done
 * or survived: it reads nothing else meanwhile. If another one has died of it so, the scheduler
 * puts it into drover.dead instead (POISON); not within 200 ms of when the other one has begun it,
 * as the broker may have delivered two copies of the message, and that process may be alive.
 *
 * A message of several Submits is one suspect. If another incarnation has died of it the scheduler
 * splits it alone, and begins each Submit in it alone.
 *
 * All others are begun side by side, but only a few at a time: a scheduler that is killed from
 * outside leaves a record of each, and the next one begins each of these alone. Those that wait are
 * not recorded. A scheduler withdraws its record 100 ms after it has read the message, and when it
 * loses a connection to the broker: then the broker may give the message to another scheduler while
 * this one is alive. If the broker delivers it to this one again, and this one had survived it, it
 * is no suspect. The record of a message that was given up stays: another copy of it may come.
 *
 * Called by on_delivery.c, submits.c, intake.c and scheduler.c.
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
    struct op op;                  /* in suspects.waiting or .held, or of the present one */
    enum ops_suspect what;         /* what the call records */
    struct bus_delivery *delivery; /* of a message to be read; owned; else NULL */
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

/* ---- the suspects that are begun ---- */

static void enter(struct scheduler *s, const struct item *item)
{
    list_append(&s->suspects.present, &item->suspect->link);
    s->suspects.n_present++;
    s->suspects.unread_bytes += item->body.len;
}

static void leave(struct scheduler *s, const struct item *item)
{
    list_remove(&item->suspect->link);
    s->suspects.n_present--;
    if (item->suspect->until == INT64_MAX)
        s->suspects.unread_bytes -= item->body.len;
}

static void take_back(struct scheduler *s, const struct item *item)
{
    leave(s, item);
    suspect_end(s, item->suspect->digest, OPS_SUSPECT_BACK);
}

static void ask(struct scheduler *s, struct op *op)
{
    if (poison_is_present(op->item)) {
        suspect_call(s, op);
    } else {
        item_give_back(s, op->item);
        op_unref(s, op);
    }
}

static void give_up(struct scheduler *s, struct op *op)
{
    const struct bus_delivery *d = suspect_of(op)->delivery;

    op->item->suspect->given_up = true;
    log_error("poison", LOG_S("digest", op->job));
    dead_letter_send(s, op->item, "POISON");
    /* Evidence: without it the request would be sent again without end. */
    if (op->item->source == SCHEDULER_REPLIES && *d->job)
        watch_record_evidence(s, d->job, d->message_id);
}

static void next(struct scheduler *s);

/* It is the next one to be begun, when all others are done or survived. */
static void begin_alone(struct scheduler *s, struct op *op)
{
    leave(s, op->item);
    suspect_of(op)->what = OPS_SUSPECT_ALONE;
    op->refs++; /* for the list */
    list_append(s->suspects.waiting.next, &op->link);
    next(s);
}

static void on_begun(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct suspect_op *suspect = suspect_of(op);
    uint32_t incarnations = ops_read_suspect(r);

    if (!poison_is_present(op->item)) {
        item_give_back(s, op->item);
    } else if (incarnations == 0) {
        op->refs++; /* for the timer */
        op_repeat_at(s, op, s->now + OP_REPEAT_MS);
    } else if (incarnations == 1) {
        intake_read(s, op->item, suspect->delivery);
    } else if (suspect->what == OPS_SUSPECT_BEGIN) {
        begin_alone(s, op);
    } else {
        give_up(s, op);
    }
}

/* Reads the messages that had to wait while a suspect was read alone. */
static void release(struct scheduler *s)
{
    s->suspects.alone = false;
    for (struct list *l; (l = list_pop(&s->suspects.held));) {
        struct op *op = list_entry(l, struct op, link);

        intake_read(s, op->item, suspect_of(op)->delivery);
        op_unref(s, op);
    }
}

/* The operation of the suspect that is begun next; NULL: none waits. */
static struct op *first(const struct scheduler *s)
{
    const struct list *waiting = &s->suspects.waiting;

    return list_empty(waiting) ? NULL : list_entry(waiting->next, struct op, link);
}

static bool is_alone(struct op *op)
{
    return suspect_of(op)->what == OPS_SUSPECT_ALONE;
}

/* Suspects do not wait in the intake: others wait for them. */
static bool fits(const struct scheduler *s, const struct item *item)
{
    size_t present = s->suspects.unread_bytes + s->intake.queues[item->source].read_bytes;

    return item->body.len <= INTAKE_SMALL_BYTES || present + item->body.len <= INTAKE_READ_BYTES;
}

static bool may_begin(const struct scheduler *s, struct op *op)
{
    if (s->suspects.n_present == 0)
        return true;
    return !s->suspects.alone && !is_alone(op) && s->suspects.n_present < POISON_PRESENT_MAX &&
           fits(s, op->item);
}

/* Held messages wait until all suspects that are begun alone are done or survived: if a held
 * message killed this process, the next suspect would seem to have done so. */
static void next(struct scheduler *s)
{
    struct op *op = first(s);

    if (s->suspects.n_present == 0 && !(op && is_alone(op)))
        release(s);
    while ((op = first(s)) && may_begin(s, op)) {
        list_remove(&op->link);
        enter(s, op->item);
        s->suspects.alone = is_alone(op);
        op_call(s, op, ask, on_begun);
        op_unref(s, op); /* the reference of the list */
    }
}

/* ---- deliveries ---- */

static void add(struct scheduler *s, struct list *list, struct item *item,
                const struct bus_delivery *d, const char *digest, enum ops_suspect what)
{
    struct suspect_op *suspect = op_new(s, item, digest, sizeof(*suspect), suspect_free);

    suspect->what = what;
    suspect->delivery = intake_copy(d, item->body);
    list_append(list, &suspect->op.link);
}

static void add_suspect(struct scheduler *s, struct item *item, const struct bus_delivery *d,
                        enum ops_suspect what)
{
    item->suspect = or_abort(calloc(1, sizeof(*item->suspect)));
    list_init(&item->suspect->link);
    item->suspect->item = item;
    item->suspect->until = INT64_MAX;
    id_digest(item->body, item->suspect->digest);
    add(s, &s->suspects.waiting, item, d, item->suspect->digest, what);
}

bool poison_takes(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    if (d->redelivered && !recent_has(&s->suspects.survived, item->body)) {
        add_suspect(s, item, d, OPS_SUSPECT_BEGIN);
        next(s);
        return true;
    }
    if (s->suspects.alone)
        add(s, &s->suspects.held, item, d, "", OPS_SUSPECT_BEGIN);
    return s->suspects.alone;
}

/* ---- a message of several Submits ---- */

bool poison_takes_part(struct scheduler *s, struct item *part, const struct bus_delivery *d)
{
    if (!s->suspects.alone || !poison_is_present(part->batch))
        return false;
    add_suspect(s, part, d, OPS_SUSPECT_ALONE);
    return true;
}

void poison_parted(struct scheduler *s, struct item *item)
{
    if (!s->suspects.alone || !poison_is_present(item))
        return;
    take_back(s, item);
    item->suspect->until = INT64_MAX; /* its Submits are not read */
    next(s);
}

/* ---- how it goes on ---- */

void poison_read(struct scheduler *s, const struct item *item)
{
    if (!poison_is_present(item))
        return;
    item->suspect->until = s->now + POISON_SUSPECT_MS;
    s->suspects.unread_bytes -= item->body.len;
}

void poison_done(struct scheduler *s, struct item *item)
{
    bool present = poison_is_present(item);

    if (!present && !(item->several && item->handle))
        return;
    /* The record of one that was given up stays: another copy of it may come. */
    suspect_end(s, item->suspect->digest,
                item->suspect->given_up ? OPS_SUSPECT_BACK : OPS_SUSPECT_END);
    if (!present)
        return;
    leave(s, item);
    next(s);
}

static void give_back(struct scheduler *s, struct list *list)
{
    for (struct list *l; (l = list_pop(list));) {
        struct op *op = list_entry(l, struct op, link);

        item_give_back(s, op->item);
        op_unref(s, op);
    }
}

static bool is_survived(const struct item *item)
{
    return !item->suspect || (item->suspect->until != INT64_MAX && !poison_is_present(item));
}

/* The broker delivers the messages that this process has not acknowledged again, to this process or
 * to another one. */
static void note_survived(struct scheduler *s)
{
    list_foreach(l, &s->items) {
        const struct item *item = list_entry(l, struct item, link);

        if (item->handle && is_survived(item))
            recent_add(&s->suspects.survived, item->body);
    }
}

void poison_lost(struct scheduler *s)
{
    give_back(s, &s->suspects.waiting);
    give_back(s, &s->suspects.held);
    s->suspects.alone = false;
    note_survived(s);
    list_foreach_safe(l, &s->suspects.present)
        take_back(s, list_entry(l, struct suspect, link)->item);
}

/* Withdraws the records of the suspects that were survived. Return: whether there are any. */
static bool survive(struct scheduler *s)
{
    bool any = false;

    list_foreach_safe(l, &s->suspects.present) {
        const struct suspect *suspect = list_entry(l, struct suspect, link);

        if (s->now < suspect->until)
            continue;
        take_back(s, suspect->item);
        any = true;
    }
    return any;
}

void poison_tick(struct scheduler *s)
{
    if (survive(s))
        next(s);
}

int64_t poison_next(const struct scheduler *s)
{
    int64_t earliest = INT64_MAX;

    list_foreach(l, &s->suspects.present) {
        int64_t until = list_entry(l, struct suspect, link)->until;

        earliest = until < earliest ? until : earliest;
    }
    return earliest;
}
