// SPDX-License-Identifier: Apache-2.0
/*
 * ON store up: has the store gone back in time?
 *
 * A Redis that lost power comes back without its last second, a replica that is promoted without
 * what it had not yet got. Both look like any other Redis. So each partition counts, in its mark,
 * what was accepted and what was settled, and the answers to those calls say how far it has come;
 * a mark that shows less than what was heard of went back. The first call on each connection looks
 * at it, and notes there that a new run of the server has begun: others may have moved the mark
 * past what was lost before the last of us is connected again.
 *
 * What it has lost of that which this process has told clients of is told in alerts, job by job.
 * All else mends itself: a reply for a job that is gone is UNKNOWN_JOB, one to a token that is gone
 * is STALE, and a step whose record is gone is done again, under the same idempotency key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

#define WENT_BACK "STORE_WENT_BACK"
#define LOST "STORE_LOST"
#define JOB_LOST "JOB_LOST"

/* ---- what was accepted ---- */

static struct accepted *accepted_of(struct list *l)
{
    return list_entry(l, struct accepted, link);
}

static void forget(struct scheduler *s, struct accepted *accepted)
{
    list_remove(&accepted->link);
    s->n_accepted--;
    free(accepted);
}

/* While its jobs are looked for, none is forgotten. */
static void forget_old(struct scheduler *s)
{
    while (s->looks == 0 && !list_empty(&s->accepted)) {
        struct accepted *oldest = accepted_of(s->accepted.next);

        if (s->n_accepted <= MACHINE_ACCEPTED_MAX && s->now - oldest->at < MACHINE_ACCEPTED_MS)
            return;
        forget(s, oldest);
    }
}

void rollback_accepted(struct scheduler *s, const struct op *op)
{
    size_t len = strlen(op->job);
    struct accepted *accepted = or_abort(malloc(sizeof(*accepted) + len + 1));

    accepted->number = ++s->last_accepted;
    accepted->at = s->now;
    accepted->partition = op->partition;
    memcpy(accepted->job, op->job, len + 1);
    list_append(&s->accepted, &accepted->link);
    s->n_accepted++;
    forget_old(s);
}

void rollback_free(struct scheduler *s)
{
    for (struct list *l; (l = list_pop(&s->accepted));)
        free(accepted_of(l));
    for (struct list *l; (l = list_pop(&s->gone));)
        free(accepted_of(l));
    free(s->marks);
}

/* The next one of a partition behind @l. */
static struct accepted *next_of(struct scheduler *s, struct list *l, uint32_t partition)
{
    for (l = l->next; l != &s->accepted; l = l->next)
        if (accepted_of(l)->partition == partition)
            return accepted_of(l);
    return NULL;
}

/* ---- the end of a look ---- */

static void tell(struct scheduler *s, struct item *item)
{
    const char *reason = s->lost > 0 ? LOST : WENT_BACK;
    unsigned jobs = 0;

    s->stats.store_rollbacks++;
    item->looks = false; /* what is to be told is waited for */
    alert_of_store(s, item, "", reason, s->looked_at);
    for (struct list *l; (l = list_pop(&s->gone)); jobs++) {
        alert_of_store(s, item, accepted_of(l)->job, JOB_LOST, s->looked_at);
        free(accepted_of(l));
    }
    s->stats.lost += jobs;
    log_error("store_went_back", LOG_S("reason", reason), LOG_I("partitions", s->back + s->lost),
              LOG_I("jobs", jobs));
}

/* Every call has its answer. */
static void looked(struct scheduler *s, struct op *op)
{
    if (--s->looks > 0)
        return;
    for (uint32_t p = 0; s->unlooked == 0 && p < s->partitions; p++)
        s->marks[p].suspect = false;
    if (s->back + s->lost > 0)
        tell(s, op->item);
    s->back = s->lost = 0;
}

/* ---- a look ---- */

static void look_call(struct scheduler *s, struct op *op)
{
    const char *jobs[OPS_BUDGET];
    int n = 0;

    if (op->look != s->look) { /* all of it is looked at again since, on another connection */
        s->unlooked--;
        op_unref(s, op);
        return;
    }
    for (struct accepted *a = next_of(s, &s->accepted, op->partition); a && n < OPS_BUDGET;
         a = next_of(s, &a->link, op->partition))
        if (a->number >= op->first)
            jobs[n++] = a->job;
    ops_mark(s->out, op_call_id(s, op), op->partition, s->run, op->fresh, jobs, n);
}

/*
 * Compares what the partition shows with what was remembered when it was asked, and remembers it.
 * Where there is another run, others may have met one before it, and moved the mark on since: then
 * a job that is not there is all that shows.
 */
static void compare(struct scheduler *s, struct mark *mark, uint64_t remembered,
                    const struct ops_marked *shows)
{
    bool known = mark->id[0] != '\0';
    bool other_run = strcmp(mark->run, s->run) != 0;
    bool lost = known && !bytes_is(shows->id, mark->id);
    bool back = known && (other_run ? shows->began : shows->count) < remembered;

    s->lost += lost;
    s->back += back && !lost;
    mark->suspect |= lost || back || (known && other_run);
    if (lost || back || shows->count > mark->count)
        mark->count = shows->count;
    snprintf(mark->id, sizeof(mark->id), "%.*s", (int)shows->id.len, (const char *)shows->id.data);
    memcpy(mark->run, s->run, sizeof(mark->run));
}

/* They come in the order in which they were asked for. */
static void take_gone(struct scheduler *s, uint32_t partition, const struct ops_marked *shows)
{
    struct list *from = &s->accepted;

    for (uint32_t i = 0; i < shows->n_gone; i++) {
        struct accepted *a = next_of(s, from, partition);

        while (a && !bytes_is(shows->gone[i], a->job))
            a = next_of(s, &a->link, partition);
        if (!a)
            continue; /* nobody has asked for it */
        from = a->link.prev;
        list_remove(&a->link);
        s->n_accepted--;
        list_append(&s->gone, &a->link);
    }
}

static void look_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_marked shows;

    if (ops_read_marked(r, s->out, &shows)) {
        log_error("store_answer_broken", LOG_S("job", ""));
        return;
    }
    s->unlooked--;
    s->looked_at = shows.now;
    compare(s, &s->marks[op->partition], op->seq, &shows);
    if (!s->marks[op->partition].suspect || shows.n_gone == 0)
        return;
    if (s->back + s->lost == 0)
        s->back = 1; /* by a run that nobody here has met */
    take_gone(s, op->partition, &shows);
}

static void look_at(struct scheduler *s, struct item *item, uint32_t partition, uint64_t first)
{
    struct op *op = op_new(s, item, "");

    op->partition = partition;
    op->first = first;
    op->look = s->look;
    op->seq = s->marks[partition]
                  .count; /* not later: other calls move it on, should this one be refused */
    op->then = looked;
    s->looks++;
    s->unlooked++;
    op_call(s, op, look_call, look_answered);
    op_unref(s, op);
}

void rollback_look(struct scheduler *s)
{
    struct item *item = item_new(s, NULL);

    item->looks = true;
    s->look++;
    if (s->looks == 0)
        s->unlooked = 0;
    for (uint32_t p = 0; p < s->partitions; p++) {
        uint32_t n = 0;

        for (struct accepted *a = next_of(s, &s->accepted, p); a; a = next_of(s, &a->link, p))
            if (n++ % OPS_BUDGET == 0)
                look_at(s, item, p, a->number);
        if (n == 0)
            look_at(s, item, p, 0);
    }
    item_unref(s, item);
}

/* The answers on one connection come in order, and each mark is greater than the last; else
 * somebody has emptied the store. */
void rollback_heed(struct scheduler *s, const struct op *op, uint64_t count)
{
    struct mark *mark = &s->marks[op->partition];

    if (count > mark->count) {
        mark->count = count;
    } else if (count > 0 && s->looks == 0) {
        rollback_look(s);
        workflows_register(s);
    }
}
