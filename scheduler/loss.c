// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: requests that the broker has lost with a queue are sent again
 *
 * A loss concerns dispatches that were made before it was noticed. Later ones must not be sent
 * twice, so the scheduler gives the store the time that has passed since then. Several agents
 * notice the deletion of their queue at the same time, and each reports it: their reports are taken
 * together, and the time of the last one counts.
 *
 * A report is acknowledged when all partitions have recorded the loss, except those that came while
 * an earlier one was waiting: that one stands for them. The agents of an actor have one loss
 * recorded in ten seconds, because each costs the store a look at all jobs.
 *
 * Called by on_control.c, on_replies.c and scheduler.c.
 */
#include "scheduler/loss.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/answer.h"
#include "scheduler/op.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"
#include "scheduler/watch.h"

/* A loss that is recorded, one partition after the other. */
struct loss_op {
    struct op op;
    char *actor;              /* owned */
    int64_t noticed;          /* last */
    int64_t due;              /* while it waits */
    bool declares;            /* the bus may then declare the queue */
    struct ops_loss recorded; /* in the present partition */
};

static struct loss_op *loss_of(struct op *op)
{
    return container_of(op, struct loss_op, op);
}

static void free_kind(struct op *op)
{
    free(loss_of(op)->actor);
}

static struct loss_op *loss_new(struct scheduler *s, struct item *item, const char *actor)
{
    struct loss_op *loss = op_new(s, item, "", sizeof(*loss), free_kind);

    loss->op.partition = 0;
    loss->actor = or_abort(strdup(actor));
    loss->noticed = s->now;
    return loss;
}

/* ---- recording ---- */

static void record_call(struct scheduler *s, struct op *op)
{
    const struct loss_op *loss = loss_of(op);

    ops_lost(s->out, op_call_id(s, op), op->partition, loss->actor, s->now - loss->noticed,
             &loss->recorded);
}

static void answer(struct scheduler *s, struct op *op)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    publish_reply(s, op, &m.base);
}

static void declare(struct scheduler *s, const char *actor)
{
    struct effect *e = effects_add(s->out, EFFECT_ROLE, 0);

    e->role.what = SCHEDULER_DECLARE;
    e->role.object = (void *)effects_str(s->out, actor);
}

static void on_recorded(struct scheduler *s, struct loss_op *loss)
{
    struct op *op = &loss->op;

    s->stats.losses++;
    log_warn("requests_lost", LOG_S("actor", loss->actor),
             LOG_S("what", "those in flight are sent again"));
    if (loss->declares)
        declare(s, loss->actor);
    if (op->item->message.base && op->item->source == SCHEDULER_CONTROL)
        answer(s, op);
}

static void record_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct loss_op *loss = loss_of(op);

    if (ops_read_loss(r, &loss->recorded)) {
        log_error("store_answer_broken", LOG_S("what", "loss"));
        if (loss->declares) /* the requests that were lost wait for their LockedUntil */
            declare(s, loss->actor);
        return;
    }
    if (!*loss->recorded.cursor) {
        loss->recorded.at = 0;
        op->partition++;
    }
    if (op->partition < s->partitions)
        op_call(s, op, record_call, record_answered);
    else
        on_recorded(s, loss);
}

/* Takes over the reference of the caller. */
static void begin(struct scheduler *s, struct loss_op *loss)
{
    list_remove(&loss->op.link);
    watch_lost(s); /* that a queue is empty is no evidence if it was made anew */
    op_call(s, &loss->op, record_call, record_answered);
    op_unref(s, &loss->op);
}

/* ---- notices ---- */

void loss_resend(struct scheduler *s, struct item *item)
{
    const Drover__V1__Control *m = item->message.control;

    log_warn("resend_asked", LOG_S("actor", m->resend->actor), LOG_S("by", m->by),
             LOG_S("why", m->reason));
    begin(s, loss_new(s, item, m->resend->actor));
}

/* A loss of this actor that waits, and that a report stands for if @reported: the broker delivers
 * that again if this scheduler ends. */
static struct loss_op *waiting_for(struct scheduler *s, const char *actor, bool reported)
{
    list_foreach(l, &s->losses.waiting) {
        struct loss_op *loss = loss_of(list_entry(l, struct op, link));

        if (strcmp(loss->actor, actor) == 0 && (loss->op.item->handle || !reported))
            return loss;
    }
    return NULL;
}

/* ---- the last reports ---- */

/* An actor whose agents have reported a loss a short time ago. */
struct loss_report {
    UT_hash_handle hh;
    int64_t at;
    char actor[];
};

/* When the next loss that agents of the actor report may begin. */
static int64_t next_report(const struct scheduler *s, const char *actor)
{
    struct loss_report *r;

    HASH_FIND_STR(s->losses.reports, actor, r);
    return r ? r->at + LOSS_AGAIN_MS : 0;
}

static void forget_reports(struct scheduler *s, int64_t before)
{
    struct loss_report *r, *next;

    HASH_ITER(hh, s->losses.reports, r, next) {
        if (r->at > before)
            continue;
        HASH_DEL(s->losses.reports, r);
        free(r);
    }
}

static void remember_report(struct scheduler *s, const char *actor, int64_t at)
{
    size_t size = strlen(actor) + 1;
    struct loss_report *r;

    forget_reports(s, s->now - LOSS_AGAIN_MS);
    HASH_FIND_STR(s->losses.reports, actor, r);
    if (!r) {
        r = or_abort(malloc(sizeof(*r) + size));
        memcpy(r->actor, actor, size);
        HASH_ADD_STR(s->losses.reports, actor, r);
    }
    r->at = at;
}

/* Return: the loss of this actor that waits, or a new one. */
static struct loss_op *notice(struct scheduler *s, struct item *item, const char *actor)
{
    struct loss_op *loss = waiting_for(s, actor, item->handle);

    if (loss) {
        loss->noticed = s->now;
        return loss;
    }
    loss = loss_new(s, item, actor);
    list_append(&s->losses.waiting, &loss->op.link);
    return loss;
}

void loss_reported(struct scheduler *s, struct item *item)
{
    struct loss_op *loss;
    int64_t earliest;

    if (waiting_for(s, item->actor, true)) {
        notice(s, item, item->actor);
        return;
    }
    earliest = next_report(s, item->actor);
    loss = notice(s, item, item->actor);
    loss->due = s->now + LOSS_COLLECT_MS;
    if (loss->due < earliest)
        loss->due = earliest;
    remember_report(s, item->actor, loss->due);
}

void loss_found(struct scheduler *s, const char *actor)
{
    struct item *item = item_internal(s);
    struct loss_op *loss = notice(s, item, actor);

    item_unref(s, item);
    loss->due = s->now;
    loss->declares = true;
}

void loss_tick(struct scheduler *s)
{
    list_foreach_safe(l, &s->losses.waiting) {
        struct loss_op *loss = loss_of(list_entry(l, struct op, link));

        if (loss->due <= s->now)
            begin(s, loss);
    }
}

int64_t loss_next(const struct scheduler *s)
{
    int64_t next = INT64_MAX;

    list_foreach(l, &s->losses.waiting) {
        const struct loss_op *loss = loss_of(list_entry(l, struct op, link));

        next = loss->due < next ? loss->due : next;
    }
    return next;
}

void loss_init(struct losses *l)
{
    list_init(&l->waiting);
}

void loss_free(struct scheduler *s)
{
    op_free_list(s, &s->losses.waiting);
    forget_reports(s, INT64_MAX);
}
