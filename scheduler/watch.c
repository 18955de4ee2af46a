// SPDX-License-Identifier: Apache-2.0
/*
 * Watched requests: evidence for agents that send no Progress
 *
 * A dispatch without a reply is an expiry only if an agent had the request. The request may as well
 * have stood in its queue until LockedUntil, behind others with longer waits. So a dispatch is
 * watched if the previous one of the step was unstarted, or its work has had an expiry: from the
 * broker's confirm until its wait is over the scheduler inspects its queue, by passive declares. If
 * the last inspection has found consumers and no ready message, an agent has the request, or had
 * it: before the end of its wait it cannot have expired. The scheduler records that in the store
 * (taken), which counts an expiry if LockedUntil passes.
 *
 * A reply that kills schedulers is evidence as well: it came from an agent. It is not read, but the
 * properties of a message with a single reply name its request.
 *
 * Between those inspections drover.dead is inspected, once a minute: messages there about which no
 * scheduler has raised an alert are an alert.
 *
 * All this is lost with the process, and with its connection, because the broker may come back
 * without its queues. A request that was not watched to the end has no evidence: it is sent again,
 * and watched again.
 *
 * Called by dispatch.c, scheduler.c and poison.c.
 */
#include "scheduler/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/alert.h"
#include "scheduler/dead_letter.h"
#include "scheduler/op.h"
#include "scheduler/state.h"

#define QUEUE_PREFIX "drover.task."

/* A request whose queue is inspected until its wait is over. */
struct watched {
    struct list link;   /* in watches.list once it is confirmed; before, in a part of a message */
    int64_t confirmed;  /* when */
    int64_t wait_ends;  /* then the broker may return the request */
    int64_t inspect_at; /* time of the next inspection */
    bool left_queue;    /* the last inspection did not find it in the queue */
    char *job;
    char token[WIRE_TOKEN_MAX + 1];
    char actor[ID_NAME_MAX + 1];
};

struct watched *watch_new(const char *job, const char *token, const char *actor, int64_t wait_ends)
{
    struct watched *w = or_abort(calloc(1, sizeof(*w)));

    list_init(&w->link);
    w->job = or_abort(strdup(job));
    w->wait_ends = wait_ends;
    snprintf(w->token, sizeof(w->token), "%s", token);
    snprintf(w->actor, sizeof(w->actor), "%s", actor);
    return w;
}

void watch_free(struct watched *w)
{
    if (!w)
        return;
    list_remove(&w->link);
    free(w->job);
    free(w);
}

static void unwatch(struct scheduler *s, struct watched *w)
{
    s->watches.n--;
    watch_free(w);
}

/* When to inspect the queue again: sooner towards the end of the wait, because the last
 * inspection counts. */
static int64_t inspect_again(const struct scheduler *s, const struct watched *w)
{
    int64_t half = (w->wait_ends - s->now) / 2;

    if (half < WATCH_INSPECT_MIN_MS)
        half = WATCH_INSPECT_MIN_MS;
    return s->now + (half < WATCH_INSPECT_MAX_MS ? half : WATCH_INSPECT_MAX_MS);
}

/* The request whose wait ends last. The waits of requests to an actor without agents grow; they
 * would fill the list for ever. */
static struct watched *last_to_end(const struct scheduler *s)
{
    struct watched *last = NULL;

    list_foreach(l, &s->watches.list) {
        struct watched *w = list_entry(l, struct watched, link);

        if (!last || w->wait_ends > last->wait_ends)
            last = w;
    }
    return last;
}

void watch_begin(struct scheduler *s, struct watched *w)
{
    if (s->now >= w->wait_ends) {
        watch_free(w);
        return;
    }
    if (s->watches.n == WATCH_MAX) {
        struct watched *last = last_to_end(s);

        if (w->wait_ends >= last->wait_ends) {
            watch_free(w);
            return;
        }
        unwatch(s, last);
    }
    w->confirmed = s->now;
    w->inspect_at = inspect_again(s, w);
    list_append(&s->watches.list, &w->link);
    s->watches.n++;
}

void watch_lost(struct scheduler *s)
{
    s->watches.inspection_began = 0;
    list_foreach_safe(l, &s->watches.list)
        unwatch(s, list_entry(l, struct watched, link));
}

/* Whether the inspection shows something about this request: it is one of that queue, was
 * confirmed before the inspection was sent, and its wait is not over. */
static bool is_shown(const struct scheduler *s, const struct watched *w)
{
    return strcmp(w->actor, s->watches.inspected) == 0 &&
           w->confirmed < s->watches.inspection_began && s->now < w->wait_ends;
}

/* ---- inspections ---- */

static void inspect(struct scheduler *s, const char *queue, const char *actor)
{
    struct effect *e = effects_add(s->out, EFFECT_ROLE, 0);

    e->role.what = SCHEDULER_INSPECT;
    e->role.object = (void *)queue;
    snprintf(s->watches.inspected, sizeof(s->watches.inspected), "%s", actor);
    s->watches.inspection_began = s->now;
}

static void inspect_letters(struct scheduler *s)
{
    inspect(s, "drover.dead", "");
    s->dead_letters.inspect_at = s->now + ALERT_AGAIN_MS;
}

static void requests_answered(struct scheduler *s, uint32_t messages, uint32_t consumers)
{
    list_foreach(l, &s->watches.list) {
        struct watched *w = list_entry(l, struct watched, link);

        if (is_shown(s, w))
            w->left_queue = messages == 0 && consumers > 0;
    }
}

void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers)
{
    if (s->watches.inspection_began == 0)
        return; /* asked for on a connection that is lost */
    if (*s->watches.inspected)
        requests_answered(s, messages, consumers);
    else
        dead_letter_inspected(s, messages);
    s->watches.inspection_began = 0;
}

/* ---- evidence ---- */

struct evidence_op {
    struct op op;
    char token[WIRE_TOKEN_MAX + 1];
};

static const char *token_of(struct op *op)
{
    return container_of(op, struct evidence_op, op)->token;
}

static void taken_call(struct scheduler *s, struct op *op)
{
    ops_taken(s->out, op_call_id(s, op), op->partition, op->job, token_of(op));
}

static void taken_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    log_debug("request_taken", LOG_S("job", op->job),
              LOG_S("token", ops_token_id(s->out, token_of(op))));
}

void watch_record_evidence(struct scheduler *s, const char *job, const char *token)
{
    struct item *item = item_internal(s);
    struct evidence_op *e = op_new(s, item, job, sizeof(*e), NULL);

    item->background = true;
    snprintf(e->token, sizeof(e->token), "%s", token);
    op_call(s, &e->op, taken_call, taken_answered);
    op_unref(s, &e->op);
    item_unref(s, item);
}

/* ---- time ---- */

static void end_waits(struct scheduler *s)
{
    list_foreach_safe(l, &s->watches.list) {
        struct watched *w = list_entry(l, struct watched, link);

        if (s->now < w->wait_ends)
            continue;
        if (w->left_queue)
            watch_record_evidence(s, w->job, w->token);
        unwatch(s, w);
    }
}

static void inspect_queue(struct scheduler *s, const struct watched *due)
{
    inspect(s, effects_printf(s->out, QUEUE_PREFIX "%s", due->actor), due->actor);
    list_foreach(l, &s->watches.list) {
        struct watched *w = list_entry(l, struct watched, link);

        if (strcmp(w->actor, s->watches.inspected) == 0)
            w->inspect_at = inspect_again(s, w);
    }
}

/* The request whose inspection is due first. */
static struct watched *next_inspection(const struct scheduler *s)
{
    struct watched *next = NULL;

    list_foreach(l, &s->watches.list) {
        struct watched *w = list_entry(l, struct watched, link);

        if (!next || w->inspect_at < next->inspect_at)
            next = w;
    }
    return next;
}

void watch_tick(struct scheduler *s)
{
    struct watched *next;

    end_waits(s);
    if (s->watches.inspection_began > 0)
        return;
    next = next_inspection(s);
    if (next && next->inspect_at <= s->now)
        inspect_queue(s, next);
    else if (dead_letter_inspect_at(s) <= s->now)
        inspect_letters(s);
}

int64_t watch_next(const struct scheduler *s)
{
    int64_t next = s->watches.inspection_began == 0 ? dead_letter_inspect_at(s) : INT64_MAX;

    list_foreach(l, &s->watches.list) {
        const struct watched *w = list_entry(l, struct watched, link);

        if (w->wait_ends < next)
            next = w->wait_ends;
        if (s->watches.inspection_began == 0 && w->inspect_at < next)
            next = w->inspect_at;
    }
    return next;
}
