// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: publishes them, alone or in batches
 *
 * Requests for short actions are sent in batches: requests for one actor that leave within a
 * millisecond share a message, if the agents of the actor say that they begin several at once
 * (StepReply.batch) and the action was fast of late. One agent gets the whole batch. It may have
 * fewer free slots when the message arrives, and then requests would wait for those slots. So a
 * batch holds at most MACHINE_BATCH_US of work for each request that is begun at once, by the
 * service time of each action. A slow reply raises the service time at once; it falls gradually. A
 * request is sent alone and at once if its action is not measured yet or slow, if it is large, or
 * if it is no first attempt.
 *
 * Called by transition.c; scheduler.c flushes the batches and reports service times.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* ---- service times ---- */

/* Both are names, checked with their definition. */
static unsigned service_time_key(char key[SERVICE_TIME_KEY], const char *actor, const char *action)
{
    return (unsigned)(stpcpy(stpcpy(stpcpy(key, actor), "/"), action) - key);
}

static struct service_time *service_time_find(const struct scheduler *s, const char *actor,
                                              const char *action)
{
    char key[SERVICE_TIME_KEY];
    unsigned len = service_time_key(key, actor, action);
    struct service_time *t;

    HASH_FIND(hh, s->service_times, key, len, t);
    return t;
}

static struct service_time *service_time_new(struct scheduler *s, const char *actor,
                                             const char *action)
{
    struct service_time *t = or_abort(calloc(1, sizeof(*t)));
    unsigned len = service_time_key(t->key, actor, action);

    if (HASH_COUNT(s->service_times) >= MACHINE_SERVICE_TIMES_MAX) {
        struct service_time *oldest = s->service_times;

        HASH_DEL(s->service_times, oldest);
        free(oldest);
    }
    t->batch = UINT_MAX; /* no agent has said anything yet */
    HASH_ADD(hh, s->service_times, key, len, t);
    return t;
}

/* Notes the fewest requests that an agent takes at once; a larger number counts after
 * MACHINE_SERVICE_TIME_KEEPS replies without a smaller one. */
static void batch_limit_update(struct service_time *t, unsigned batch)
{
    if (batch <= t->batch)
        t->since = 0;
    if (batch < t->batch || t->since++ >= MACHINE_SERVICE_TIME_KEEPS)
        t->batch = batch;
}

static void service_time_update(struct scheduler *s, const struct workflow_dispatch *d,
                                const Drover__V1__StepReply *m)
{
    struct service_time *t = service_time_find(s, d->actor, d->action);
    bool slow = m->duration_ms < 0 || m->duration_ms > MACHINE_SLOW_MS;
    int64_t took_us = 1000 * (slow ? MACHINE_SLOW_MS : m->duration_ms);

    if (!t && (m->batch < 2 || m->error))
        return; /* an unknown action is sent alone as well */
    if (!t)
        t = service_time_new(s, d->actor, d->action);
    batch_limit_update(t, m->batch);
    if (!m->error) /* an action that fails fast need not be fast */
        t->took_us -= t->took_us / MACHINE_SERVICE_TIME_FADES;
    if (t->took_us < took_us)
        t->took_us = took_us;
}

void service_time_note(struct scheduler *s, const struct workflow *w,
                       const Drover__V1__StepReply *m)
{
    int64_t number = ops_token_step(bytes_str(m->token));

    if (number < 0 || number >= w->n_steps)
        return; /* unreachable: the store has recorded it */
    if (m->error && m->error->verdict == DROVER__V1__VERDICT__VERDICT_DEFER)
        return;                                                     /* it was not done */
    if (m->error || m->achieved == DROVER__V1__STATE__STATE_ACTIVE) /* undos are sent alone */
        service_time_update(s, &w->steps[number].forward, m);
}

/* The number of such requests that a message may hold, by the slots of the agents and the
 * service time of the action. */
static unsigned room_of(const struct scheduler *s, const Drover__V1__StepRequest *m)
{
    const struct service_time *t = service_time_find(s, m->actor, m->action);
    int64_t most, room;

    if (!t)
        return 1;
    most = t->batch < WIRE_BATCH_MAX ? t->batch : WIRE_BATCH_MAX;
    room = t->took_us ? most * MACHINE_BATCH_US / t->took_us : most;
    return (unsigned)(room < most ? room : most);
}

/* ---- task queues ---- */

static struct actor *actor_find(const struct scheduler *s, const char *name)
{
    struct actor *a;

    HASH_FIND_STR(s->actors, name, a);
    return a;
}

static void actor_add(struct scheduler *s, const char *name)
{
    size_t size = strlen(name) + 1;
    struct actor *a;

    if (actor_find(s, name))
        return;
    a = or_abort(malloc(sizeof(*a) + size));
    memcpy(a->name, name, size);
    HASH_ADD_STR(s->actors, name, a);
}

bool actor_is_registered(const struct scheduler *s, const char *actor)
{
    for (size_t k = 0; k < s->n_registered; k++) {
        const struct workflow *w = s->registered[k];

        for (uint32_t i = 0; i < w->n_steps; i++)
            if (strcmp(w->steps[i].forward.actor, actor) == 0 ||
                strcmp(w->steps[i].revert.actor, actor) == 0)
                return true;
    }
    return false;
}

/* Whether the queue of the actor may be declared. A queue stays in the broker for ever, so users
 * who submit definitions may have only some declared. */
static bool may_declare(struct scheduler *s, const char *actor)
{
    if (actor_find(s, actor))
        return true;
    if (!actor_is_registered(s, actor) && s->other_actors-- == 0) {
        s->other_actors = 0;
        s->stats.undeclared++;
        return false;
    }
    actor_add(s, actor);
    return true;
}

static void actors_free(struct scheduler *s)
{
    struct actor *a, *next;

    HASH_ITER(hh, s->actors, a, next) {
        HASH_DEL(s->actors, a);
        free(a);
    }
}

/* ---- messages ---- */

static void address(struct scheduler *s, struct bus_message *message, const char *actor,
                    int64_t not_after, bool asked)
{
    message->exchange = "drover.tasks";
    message->key = effects_str(s->out, actor);
    message->actor = may_declare(s, actor) ? message->key : NULL;
    message->not_after = not_after;
    message->ask_after = s->now + (asked ? MACHINE_LONG_MOMENT_MS : MACHINE_RECHECK_MS);
    message->expires = true;
    message->mandatory = true;
    message->transient = s->transient;
    s->stats.messages++;
}

static void send_alone(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                       int64_t not_after, enum dispatch_how how)
{
    bool json = words_have(s->json_actors, m->actor);
    bool again = how == DISPATCH_AGAIN; /* then an outcome of this copy proves nothing */
    Drover__V1__StepRequest *list[] = {m};
    Drover__V1__Requests body = DROVER__V1__REQUESTS__INIT;
    struct bus_message *message;
    struct publish *p;
    struct bytes packed;

    body.requests = list;
    body.n_requests = 1;
    packed = wire_pack(s->out, &body.base, json);
    if (packed.len == 0) { /* JSON takes more bytes */
        record_new(s, op->item, OP_UNSENDABLE, op->job, m->token, "INPUT_TOO_LARGE",
                   "in JSON the request exceeds the message limit");
        return;
    }
    p = publish_new(s, 1);
    publish_part(s, p, op, m->token, packed.len);
    p->parts[0].again = again;
    if (how == DISPATCH_WATCHED)
        p->parts[0].watched = watched_new(op, m->token, m->actor, not_after);
    message = publish_send(s, p, body.base.descriptor, packed, json);
    address(s, message, m->actor, not_after, op->tokens != NULL);
    message->message_id = m->token;
    message->job = effects_str(s->out, m->job_id);
    message->step = effects_str(s->out, m->step);
    message->attempt = m->attempt;
    message->traceparent = *m->traceparent ? m->traceparent : NULL;
    message->resent = again;
}

/* ---- batches ---- */

static struct batch *batch_free(struct batch *b)
{
    list_remove(&b->link);
    buf_deinit(&b->body);
    free(b);
    return NULL;
}

static struct batch *batch_find(struct scheduler *s, const char *actor)
{
    list_foreach(l, &s->batches) {
        struct batch *b = list_entry(l, struct batch, link);

        if (strcmp(b->actor, actor) == 0)
            return b;
    }
    return NULL;
}

static struct batch *batch_new(struct scheduler *s, const Drover__V1__StepRequest *m,
                               int64_t not_after)
{
    struct batch *b = or_abort(calloc(1, sizeof(*b)));

    b->publish = publish_new(s, WIRE_BATCH_MAX);
    b->room = WIRE_BATCH_MAX;
    b->not_after = not_after;
    snprintf(b->actor, sizeof(b->actor), "%s", m->actor);
    snprintf(b->step, sizeof(b->step), "%s", m->step);
    snprintf(b->traceparent, sizeof(b->traceparent), "%s", m->traceparent);
    list_append(&s->batches, &b->link);
    return b;
}

static void batch_send(struct scheduler *s, struct batch *b)
{
    const struct part *first = &b->publish->parts[0];
    struct bus_message *message = publish_send(s, b->publish, &drover__v1__requests__descriptor,
                                               effects_copy(s->out, buf_or_abort(&b->body)), false);

    address(s, message, b->actor, b->not_after, first->op->tokens != NULL);
    if (b->publish->n == 1) {
        message->message_id = effects_str(s->out, first->token);
        message->job = effects_str(s->out, first->op->job);
        message->step = effects_str(s->out, b->step);
        message->attempt = 1;
        message->traceparent = *b->traceparent ? effects_str(s->out, b->traceparent) : NULL;
    }
    batch_free(b);
}

/* Encoded Requests messages, concatenated, are one Requests message with all their requests. */
static void batch_add(struct scheduler *s, struct batch *b, struct op *op,
                      Drover__V1__StepRequest *m, unsigned room)
{
    Drover__V1__StepRequest *list[] = {m};
    Drover__V1__Requests body = DROVER__V1__REQUESTS__INIT;
    size_t before = b->body.len;

    body.requests = list;
    body.n_requests = 1;
    (void)wire_encode(&body.base, false, &b->body);
    publish_part(s, b->publish, op, m->token, buf_or_abort(&b->body).len - before);
    b->room = room < b->room ? room : b->room;
    if (b->publish->n == b->room)
        batch_send(s, b);
}

static void send_in_batch(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                          int64_t not_after, unsigned room)
{
    struct batch *b = batch_find(s, m->actor);

    pace_came(&s->dispatching, s->now);
    /* the broker keeps them together: no request waits longer than it may, nor much shorter */
    if (b &&
        (b->publish->n >= room || not_after < b->not_after || not_after > b->not_after + PACE_MS)) {
        batch_send(s, b);
        b = NULL;
    }
    batch_add(s, b ? b : batch_new(s, m, not_after), op, m, room);
}

void dispatch(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m, size_t size,
              int64_t not_after, enum dispatch_how how)
{
    unsigned room = how == DISPATCH_FIRST && size <= MACHINE_BATCH_BYTES / WIRE_BATCH_MAX &&
                            !words_have(s->json_actors, m->actor)
                        ? room_of(s, m)
                        : 1;

    if (room > 1)
        send_in_batch(s, op, m, not_after, room);
    else
        send_alone(s, op, m, not_after, how);
    s->stats.dispatched++;
    log_debug("step_dispatched", LOG_S("job", m->job_id), LOG_S("step", m->step),
              LOG_I("attempt", m->attempt), LOG_S("token", ops_token_id(s->out, m->token)));
}

void dispatch_flush(struct scheduler *s)
{
    if (list_empty(&s->batches) || pace_when(&s->dispatching, s->now) > s->now)
        return;
    pace_leave(&s->dispatching, s->now);
    while (!list_empty(&s->batches))
        batch_send(s, list_entry(s->batches.next, struct batch, link));
}

void dispatch_free(struct scheduler *s)
{
    struct service_time *t, *next;

    actors_free(s);
    HASH_ITER(hh, s->service_times, t, next) {
        HASH_DEL(s->service_times, t);
        free(t);
    }
    list_foreach_safe(l, &s->batches)
        batch_free(list_entry(l, struct batch, link));
}
