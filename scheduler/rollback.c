// SPDX-License-Identifier: Apache-2.0
/*
 * ON store up: checks whether the store went back in time
 *
 * A Redis that lost power comes back without its last second; a replica that was promoted lacks
 * what it had not received yet. Both look like any other Redis. So each partition has a watermark:
 * it counts jobs that were created and turns that have ended, and the answers of these calls carry
 * it. A partition went back if it shows a watermark that is lower than one that this scheduler has
 * seen. The first call on each connection compares it. That call also stores the run of the
 * server with the watermark at which this run began: other schedulers may have connected earlier,
 * and moved the watermark beyond what was lost.
 *
 * A job is accepted when the store has answered a Submit of it with CREATED or ALREADY. Each
 * accepted job that is gone raises the alert JOB_LOST. A scheduler remembers accepted jobs for a
 * time, and so many at most. Of those that it has forgotten it keeps the highest watermark at which
 * one was created: if the partition now shows a lower one, jobs are gone that nobody can name, and
 * STORE_LOSS_UNKNOWN says so. Nothing else has to be done: a reply for a
 * job that is gone is answered UNKNOWN_JOB, one to a token that is gone STALE, and a step whose
 * result is gone is done again under the same idempotency key.
 *
 * Called by scheduler.c, on_submit.c and transition.c.
 */
#include "scheduler/rollback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/alert.h"
#include "scheduler/registration.h"
#include "scheduler/state.h"

#define WENT_BACK "STORE_WENT_BACK"
#define LOST "STORE_LOST"
#define JOB_LOST "JOB_LOST"
#define LOSS_UNKNOWN "STORE_LOSS_UNKNOWN"

/* The watermark of a partition, as the last answer has shown it. */
struct watermark {
    char id[NONCE_LEN + 1]; /* "": the partition has not answered yet */
    char run[SCHEDULER_RUN_MAX + 1];
    uint64_t count;
    uint64_t forgotten;      /* the highest one at which a forgotten job was created; 0: none */
    struct list jobs;        /* accepted ones of this partition, oldest first */
    bool may_have_gone_back; /* a job that it does not have is lost */
};

/* An accepted job. */
struct accepted {
    struct list age;  /* in rollback.accepted, oldest first */
    struct list node; /* in the jobs of its partition; or in rollback.missing_jobs */
    uint64_t number;  /* ascending */
    uint64_t count;   /* the watermark that it was created at; 0: not known, or by another call */
    int64_t at;
    uint32_t partition;
    char job[];
};

/* A call that compares the watermark of one partition, and asks for accepted jobs. */
struct check_op {
    struct op op;
    unsigned check;      /* number of the check */
    uint64_t first;      /* the first accepted job that the call asks for */
    uint64_t remembered; /* the watermark, when the check began */
};

static struct check_op *check_of(struct op *op)
{
    return container_of(op, struct check_op, op);
}

/* ---- accepted jobs ---- */

static struct accepted *accepted_of(struct list *l)
{
    return list_entry(l, struct accepted, node);
}

static void forget(struct scheduler *s, struct accepted *accepted)
{
    struct watermark *watermark = &s->rollback.watermarks[accepted->partition];

    if (accepted->count > watermark->forgotten)
        watermark->forgotten = accepted->count;
    list_remove(&accepted->age);
    list_remove(&accepted->node);
    s->rollback.n_accepted--;
    free(accepted);
}

void rollback_forget_old(struct scheduler *s)
{
    /* While a check asks for accepted jobs none is forgotten. */
    while (s->rollback.ops_running == 0 && !list_empty(&s->rollback.accepted)) {
        struct accepted *oldest = list_entry(s->rollback.accepted.next, struct accepted, age);

        if (s->rollback.n_accepted <= ROLLBACK_ACCEPTED_MAX &&
            s->now - oldest->at < s->rollback.window_ms)
            return;
        forget(s, oldest);
    }
}

void rollback_accepted(struct scheduler *s, const struct op *op, uint64_t count)
{
    size_t len = strlen(op->job);
    struct accepted *accepted = or_abort(malloc(sizeof(*accepted) + len + 1));

    accepted->number = ++s->rollback.last_accepted;
    accepted->count = count;
    accepted->at = s->now;
    accepted->partition = op->partition;
    memcpy(accepted->job, op->job, len + 1);
    list_append(&s->rollback.accepted, &accepted->age);
    list_append(&s->rollback.watermarks[op->partition].jobs, &accepted->node);
    s->rollback.n_accepted++;
    rollback_forget_old(s);
}

void rollback_free(struct scheduler *s)
{
    for (struct list *l; (l = list_pop(&s->rollback.accepted));)
        free(list_entry(l, struct accepted, age));
    for (struct list *l; (l = list_pop(&s->rollback.missing_jobs));)
        free(accepted_of(l));
    free(s->rollback.watermarks);
}

/* ---- the end of a check ---- */

static void report(struct scheduler *s, struct item *item)
{
    const char *reason = s->rollback.n_lost > 0 ? LOST : WENT_BACK;
    unsigned jobs = 0;

    s->stats.store_rollbacks++;
    item->background = false; /* a stopping scheduler waits for these alerts */
    alert_of_store(s, item, "", reason, s->store_time);
    for (struct list *l; (l = list_pop(&s->rollback.missing_jobs)); jobs++) {
        alert_of_store(s, item, accepted_of(l)->job, JOB_LOST, s->store_time);
        free(accepted_of(l));
    }
    if (s->rollback.unnamed)
        alert_of_store(s, item, "", LOSS_UNKNOWN, s->store_time);
    s->stats.losses_unknown += s->rollback.unnamed;
    s->stats.lost += jobs;
    log_error("store_went_back", LOG_S("reason", reason),
              LOG_I("partitions", s->rollback.n_back + s->rollback.n_lost), LOG_I("jobs", jobs),
              LOG_I("unnamed", s->rollback.unnamed));
}

/* The call of this operation has its answer. The last one ends the check. */
static void check_done(struct scheduler *s, struct op *op)
{
    if (--s->rollback.ops_running > 0)
        return;
    for (uint32_t p = 0; s->rollback.unanswered == 0 && p < s->partitions; p++)
        s->rollback.watermarks[p].may_have_gone_back = false;
    if (s->rollback.n_back + s->rollback.n_lost > 0)
        report(s, op->item);
    s->rollback.n_back = s->rollback.n_lost = 0;
    s->rollback.unnamed = false;
}

/* ---- a check ---- */

static void check_call(struct scheduler *s, struct op *op)
{
    const char *jobs[OPS_BUDGET];
    int n = 0;

    /* A later check, on another connection, asks for all of it again. */
    if (check_of(op)->check != s->rollback.check) {
        s->rollback.unanswered--;
        op_unref(s, op);
        return;
    }
    list_foreach(l, &s->rollback.watermarks[op->partition].jobs) {
        if (accepted_of(l)->number >= check_of(op)->first)
            jobs[n++] = accepted_of(l)->job;
        if (n == OPS_BUDGET)
            break;
    }
    ops_watermark(s->out, op_call_id(s, op), op->partition, s->rollback.run, op->nonce, jobs, n);
}

/* Jobs above this count are gone; one with such an id that is there was created again. */
static void forget_counts(struct watermark *watermark, uint64_t kept)
{
    list_foreach(l, &watermark->jobs)
        if (accepted_of(l)->count > kept)
            accepted_of(l)->count = 0;
}

/*
 * Compares what the partition shows with what was remembered when it was asked, and remembers it.
 * In another run of the server, other schedulers may have increased the watermark again. Then
 * `count_at_run_start` and the missing jobs are checked instead.
 */
static void compare(struct scheduler *s, struct watermark *watermark, uint64_t remembered,
                    const struct ops_watermark_answer *shows)
{
    bool known = watermark->id[0] != '\0';
    bool other_run = strcmp(watermark->run, s->rollback.run) != 0;
    bool lost = known && !bytes_is(shows->id, watermark->id);
    uint64_t kept = lost ? 0 : other_run ? shows->count_at_run_start : shows->count;
    bool back = known && kept < remembered;

    s->rollback.n_lost += lost;
    s->rollback.n_back += back && !lost && !watermark->may_have_gone_back; /* by another call */
    if (lost || back)
        forget_counts(watermark, kept);
    if (known && kept < watermark->forgotten) {
        s->rollback.unnamed = true;
        watermark->forgotten = kept; /* what it keeps may be lost another time */
    }
    watermark->may_have_gone_back |= lost || back || (known && other_run);
    if (lost || back || shows->count > watermark->count)
        watermark->count = shows->count;
    snprintf(watermark->id, sizeof(watermark->id), "%.*s", (int)shows->id.len,
             (const char *)shows->id.data);
    memcpy(watermark->run, s->rollback.run, sizeof(watermark->run));
}

/* Takes the jobs that are gone from those accepted. They come in the order in which they were
 * asked for. */
static void take_missing_jobs(struct scheduler *s, uint32_t partition,
                              const struct ops_watermark_answer *shows)
{
    struct list *jobs = &s->rollback.watermarks[partition].jobs, *from = jobs->next;

    for (uint32_t i = 0; i < shows->n_missing_jobs; i++) {
        struct list *l = from;

        while (l != jobs && !bytes_is(shows->missing_jobs[i], accepted_of(l)->job))
            l = l->next;
        if (l == jobs)
            continue; /* it was not asked for */
        from = l->next;
        list_remove(&accepted_of(l)->age);
        list_remove(l);
        s->rollback.n_accepted--;
        list_append(&s->rollback.missing_jobs, l);
    }
}

static void check_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_watermark_answer shows;

    if (ops_read_watermark(r, s->out, &shows)) {
        log_error("store_answer_broken", LOG_S("job", ""));
        return;
    }
    s->rollback.unanswered--;
    s->store_time = shows.now;
    compare(s, &s->rollback.watermarks[op->partition], check_of(op)->remembered, &shows);
    if (!s->rollback.watermarks[op->partition].may_have_gone_back || shows.n_missing_jobs == 0)
        return;
    if (s->rollback.n_back + s->rollback.n_lost == 0)
        s->rollback.n_back = 1; /* by a run that this scheduler has not seen */
    take_missing_jobs(s, op->partition, &shows);
}

static void check_partition(struct scheduler *s, struct item *item, uint32_t partition,
                            uint64_t first)
{
    struct check_op *c = op_new(s, item, "", sizeof(*c), NULL);

    c->op.partition = partition;
    c->op.then = check_done;
    c->first = first;
    c->check = s->rollback.check;
    /* Remembered now, because other answers may increase the value while this call is being
     * repeated. */
    c->remembered = s->rollback.watermarks[partition].count;
    s->rollback.ops_running++;
    s->rollback.unanswered++;
    op_call(s, &c->op, check_call, check_answered);
    op_unref(s, &c->op);
}

/* Begins a check whether the store went back. */
static void rollback_check(struct scheduler *s)
{
    struct item *item = item_internal(s);

    item->background = true;
    s->rollback.check++;
    if (s->rollback.ops_running == 0)
        s->rollback.unanswered = 0;
    for (uint32_t p = 0; p < s->partitions; p++) {
        uint32_t n = 0;

        list_foreach(l, &s->rollback.watermarks[p].jobs)
            if (n++ % OPS_BUDGET == 0)
                check_partition(s, item, p, accepted_of(l)->number);
        if (n == 0)
            check_partition(s, item, p, 0);
    }
    item_unref(s, item);
}

/* The answers on one connection come in order, and each watermark is greater than the one
 * before; if not, the store was emptied. */
void rollback_observe(struct scheduler *s, const struct op *op, uint64_t count)
{
    struct watermark *watermark = &s->rollback.watermarks[op->partition];

    if (count > watermark->count) {
        watermark->count = count;
    } else if (count > 0 && s->rollback.ops_running == 0) {
        rollback_check(s);
        registration_begin(s);
    }
}

void rollback_init(struct rollback *r, int64_t window_ms)
{
    r->window_ms = window_ms;
    list_init(&r->accepted);
    list_init(&r->missing_jobs);
}

void rollback_store_up(struct scheduler *s, const char *run)
{
    snprintf(s->rollback.run, sizeof(s->rollback.run), "%s", run);
    if (!s->rollback.watermarks) {
        s->rollback.watermarks = or_abort(calloc(s->partitions, sizeof(*s->rollback.watermarks)));
        for (uint32_t p = 0; p < s->partitions; p++)
            list_init(&s->rollback.watermarks[p].jobs);
    }
    rollback_check(s);
}
