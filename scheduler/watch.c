// SPDX-License-Identifier: Apache-2.0
/*
 * Watched requests: evidence for agents that send no Progress
 *
 * A dispatch without a reply is an expiry only if an agent had the request. The request may as well
 * have stood in its queue until LockedUntil, behind others with longer waits. So a dispatch that
 * follows one without evidence, or an expiry, is watched: from the broker's confirm until its wait
 * is over the scheduler inspects its queue, by passive declares. If the last inspection has found
 * consumers and no ready message, an agent has the request, or had it: before the end of its wait
 * it cannot have expired. The scheduler records that in the store (taken), which counts an expiry
 * if LockedUntil passes.
 *
 * A reply that kills schedulers is evidence as well: it came from an agent. It is not read, but if
 * it answers one request only its properties name that request.
 *
 * Between those inspections drover.dead is inspected, once a minute: messages that others than
 * schedulers have put there are an alert.
 *
 * All this is lost with the process, and with its connection, because the broker may come back
 * without its queues. A request that was not watched to the end has no evidence: it is sent again,
 * and watched again.
 *
 * Called by dispatch.c, scheduler.c and poison.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

#define QUEUE_PREFIX "drover.task."

struct watched *watched_new(const struct op *op, const char *token, const char *actor,
                            int64_t wait_ends)
{
    struct watched *w = or_abort(calloc(1, sizeof(*w)));

    list_init(&w->link);
    w->job = or_abort(strdup(op->job));
    w->wait_ends = wait_ends;
    snprintf(w->token, sizeof(w->token), "%s", token);
    snprintf(w->actor, sizeof(w->actor), "%s", actor);
    return w;
}

struct watched *watched_free(struct watched *w)
{
    if (!w)
        return NULL;
    list_remove(&w->link);
    free(w->job);
    free(w);
    return NULL;
}

static void unwatch(struct scheduler *s, struct watched *w)
{
    s->n_watched--;
    watched_free(w);
}

/* When to inspect the queue again: sooner towards the end of the wait, because the last
 * inspection counts. */
static int64_t inspect_again(const struct scheduler *s, const struct watched *w)
{
    int64_t half = (w->wait_ends - s->now) / 2;

    if (half < MACHINE_INSPECT_MIN_MS)
        half = MACHINE_INSPECT_MIN_MS;
    return s->now + (half < MACHINE_INSPECT_MAX_MS ? half : MACHINE_INSPECT_MAX_MS);
}

/* The request whose wait ends last. The waits of requests to an actor without agents grow; they
 * would fill the list for ever. */
static struct watched *last_to_end(const struct scheduler *s)
{
    struct watched *last = NULL;

    list_foreach(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (!last || w->wait_ends > last->wait_ends)
            last = w;
    }
    return last;
}

void watch(struct scheduler *s, struct watched *w)
{
    if (s->now >= w->wait_ends) {
        watched_free(w);
        return;
    }
    if (s->n_watched == MACHINE_WATCHED_MAX) {
        struct watched *last = last_to_end(s);

        if (w->wait_ends >= last->wait_ends) {
            watched_free(w);
            return;
        }
        unwatch(s, last);
    }
    w->confirmed = s->now;
    w->inspect_at = inspect_again(s, w);
    list_append(&s->watched, &w->link);
    s->n_watched++;
}

void watch_lost(struct scheduler *s)
{
    s->inspection_began = 0;
    list_foreach_safe(l, &s->watched)
        unwatch(s, list_entry(l, struct watched, link));
}

/* Whether the inspection shows something about this request: it is one of that queue, was
 * confirmed before the inspection was sent, and its wait is not over. */
static bool is_shown(const struct scheduler *s, const struct watched *w)
{
    return strcmp(w->actor, s->inspected) == 0 && w->confirmed < s->inspection_began &&
           s->now < w->wait_ends;
}

/* ---- inspections ---- */

static void inspect(struct scheduler *s, const char *queue, const char *actor)
{
    struct effect *e = effects_add(s->out, EFFECT_ROLE, 0);

    e->role.what = SCHEDULER_INSPECT;
    e->role.object = (void *)queue;
    snprintf(s->inspected, sizeof(s->inspected), "%s", actor);
    s->inspection_began = s->now;
}

static void inspect_letters(struct scheduler *s)
{
    inspect(s, "drover.dead", "");
    s->letters.inspect_at = s->now + MACHINE_ALERT_AGAIN_MS;
}

/* When to inspect drover.dead. Before the store is connected there is no connection to the
 * broker. */
static int64_t letters_at(const struct scheduler *s)
{
    return s->partitions > 0 ? s->letters.inspect_at : INT64_MAX;
}

static void letters_seen(struct scheduler *s, uint32_t messages)
{
    s->letters.there = messages;
    alert_letters(s);
}

static void requests_answered(struct scheduler *s, uint32_t messages, uint32_t consumers)
{
    list_foreach(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (is_shown(s, w))
            w->left_queue = messages == 0 && consumers > 0;
    }
}

void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers)
{
    if (s->inspection_began == 0)
        return; /* asked for on a connection that is lost */
    if (*s->inspected)
        requests_answered(s, messages, consumers);
    else
        letters_seen(s, messages);
    s->inspection_began = 0;
}

/* ---- evidence ---- */

static void taken_call(struct scheduler *s, struct op *op)
{
    ops_taken(s->out, op_call_id(s, op), op->partition, op->job, op->token);
}

static void taken_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    log_debug("request_taken", LOG_S("job", op->job),
              LOG_S("token", ops_token_id(s->out, op->token)));
}

void evidence_record(struct scheduler *s, const char *job, const char *token)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, job);

    item->background = true;
    snprintf(op->token, sizeof(op->token), "%s", token);
    op_call(s, op, taken_call, taken_answered);
    op_unref(s, op);
    item_unref(s, item);
}

/* ---- time ---- */

static void end_waits(struct scheduler *s)
{
    list_foreach_safe(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (s->now < w->wait_ends)
            continue;
        if (w->left_queue)
            evidence_record(s, w->job, w->token);
        unwatch(s, w);
    }
}

static void inspect_queue(struct scheduler *s, const struct watched *due)
{
    inspect(s, effects_printf(s->out, QUEUE_PREFIX "%s", due->actor), due->actor);
    list_foreach(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (strcmp(w->actor, s->inspected) == 0)
            w->inspect_at = inspect_again(s, w);
    }
}

/* The request whose inspection is due first. */
static struct watched *next_inspection(const struct scheduler *s)
{
    struct watched *next = NULL;

    list_foreach(l, &s->watched) {
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
    if (s->inspection_began > 0)
        return;
    next = next_inspection(s);
    if (next && next->inspect_at <= s->now)
        inspect_queue(s, next);
    else if (letters_at(s) <= s->now)
        inspect_letters(s);
}

int64_t watch_next(const struct scheduler *s)
{
    int64_t next = s->inspection_began == 0 ? letters_at(s) : INT64_MAX;

    list_foreach(l, &s->watched) {
        const struct watched *w = list_entry(l, struct watched, link);

        if (w->wait_ends < next)
            next = w->wait_ends;
        if (s->inspection_began == 0 && w->inspect_at < next)
            next = w->inspect_at;
    }
    return next;
}
