// SPDX-License-Identifier: Apache-2.0
/*
 * Watched requests: evidence for agents that send no Progress
 *
 * A dispatch that nobody answers is a death only where an agent had the request: it may as well
 * stand in its queue, behind others that live longer, until LockedUntil has passed. So a dispatch
 * that follows one without evidence, or a death, is watched. From the broker's confirm until its
 * wait is over the scheduler looks at its queue, by passive declares. Where the last look has found
 * consumers and no message that is ready, an agent has the request, or had it: before the end of
 * its wait it cannot have expired. The store is told so (taken), and counts a death should
 * LockedUntil pass.
 *
 * What schedulers die of is evidence as well: a reply that is given up has come from an agent. It
 * is not read, but its properties name the request, where it answers one only.
 *
 * Between those looks drover.dead is looked at, once a minute: what others than schedulers have put
 * there is an alert.
 *
 * Nothing is kept beyond this process, nor beyond its connection: the broker may come back without
 * its queues. What was not seen to the end has no evidence: it is sent again, and watched again.
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

/* Sooner towards the end of the wait: it is the last look that counts. */
static int64_t look_again(const struct scheduler *s, const struct watched *w)
{
    int64_t half = (w->wait_ends - s->now) / 2;

    if (half < MACHINE_LOOK_MIN_MS)
        half = MACHINE_LOOK_MIN_MS;
    return s->now + (half < MACHINE_LOOK_MAX_MS ? half : MACHINE_LOOK_MAX_MS);
}

/* Of those of an actor without agents the waits grow, and they would fill the list for ever. */
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
    w->look_at = look_again(s, w);
    list_append(&s->watched, &w->link);
    s->n_watched++;
}

void watch_lost(struct scheduler *s)
{
    s->look_began = 0;
    list_foreach_safe(l, &s->watched)
        unwatch(s, list_entry(l, struct watched, link));
}

/* Of the looked-at queue, confirmed before the look was sent, and answered before the wait is over.
 */
static bool is_shown(const struct scheduler *s, const struct watched *w)
{
    return strcmp(w->actor, s->looked) == 0 && w->confirmed < s->look_began &&
           s->now < w->wait_ends;
}

/* ---- dead letters ---- */

static void look(struct scheduler *s, const char *queue, const char *actor)
{
    struct effect *e = effects_add(s->out, EFFECT_ROLE, 0);

    e->role.what = SCHEDULER_LOOK;
    e->role.object = (void *)queue;
    snprintf(s->looked, sizeof(s->looked), "%s", actor);
    s->look_began = s->now;
}

static void look_at_letters(struct scheduler *s)
{
    look(s, "drover.dead", "");
    s->letters.look_at = s->now + MACHINE_TOLD_AGAIN_MS;
}

/* When to look next. Before the store has answered first there is no connection to the broker. */
static int64_t letters_at(const struct scheduler *s)
{
    return s->partitions > 0 ? s->letters.look_at : INT64_MAX;
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
            w->left = messages == 0 && consumers > 0;
    }
}

void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers)
{
    if (s->look_began == 0)
        return; /* it was asked for on a connection that is lost */
    if (*s->looked)
        requests_answered(s, messages, consumers);
    else
        letters_seen(s, messages);
    s->look_began = 0;
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

void taken_tell(struct scheduler *s, const char *job, const char *token)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, job);

    item->looks = true;
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
        if (w->left)
            taken_tell(s, w->job, w->token);
        unwatch(s, w);
    }
}

static void look_at(struct scheduler *s, const struct watched *due)
{
    look(s, effects_printf(s->out, QUEUE_PREFIX "%s", due->actor), due->actor);
    list_foreach(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (strcmp(w->actor, s->looked) == 0)
            w->look_at = look_again(s, w);
    }
}

/* The one that has waited longest for a look. */
static struct watched *next_look(const struct scheduler *s)
{
    struct watched *next = NULL;

    list_foreach(l, &s->watched) {
        struct watched *w = list_entry(l, struct watched, link);

        if (!next || w->look_at < next->look_at)
            next = w;
    }
    return next;
}

void watch_tick(struct scheduler *s)
{
    struct watched *next;

    end_waits(s);
    if (s->look_began > 0)
        return;
    next = next_look(s);
    if (next && next->look_at <= s->now)
        look_at(s, next);
    else if (letters_at(s) <= s->now)
        look_at_letters(s);
}

int64_t watch_next(const struct scheduler *s)
{
    int64_t next = s->look_began == 0 ? letters_at(s) : INT64_MAX;

    list_foreach(l, &s->watched) {
        const struct watched *w = list_entry(l, struct watched, link);

        if (w->wait_ends < next)
            next = w->wait_ends;
        if (s->look_began == 0 && w->look_at < next)
            next = w->look_at;
    }
    return next;
}
