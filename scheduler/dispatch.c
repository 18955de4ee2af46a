// SPDX-License-Identifier: Apache-2.0
/*
 * Requests on their way out
 *
 * Short work travels in company: requests for one actor that leave within a millisecond share a
 * message, where its agents say that they begin several at once (StepReply.batch) and the action
 * was fast of late. An agent may have fewer slots left when the message comes, and others would
 * wait for those: so it holds a few milliseconds of work for each that is begun at once, by what
 * each took when it was last done: a slow one counts at once, and fades. What was not measured yet,
 * is slow, large, or no first try travels alone, and leaves at once.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* ---- how long it takes ---- */

/* Both are names, checked with their definition. */
static unsigned tempo_key(char key[TEMPO_KEY], const char *actor, const char *action)
{
    return (unsigned)(stpcpy(stpcpy(stpcpy(key, actor), "/"), action) - key);
}

static struct tempo *tempo_find(const struct scheduler *s, const char *actor, const char *action)
{
    char key[TEMPO_KEY];
    unsigned len = tempo_key(key, actor, action);
    struct tempo *t;

    HASH_FIND(hh, s->tempos, key, len, t);
    return t;
}

static struct tempo *tempo_new(struct scheduler *s, const char *actor, const char *action)
{
    struct tempo *t = or_abort(calloc(1, sizeof(*t)));
    unsigned len = tempo_key(t->key, actor, action);

    if (HASH_COUNT(s->tempos) >= MACHINE_TEMPOS_MAX) {
        struct tempo *oldest = s->tempos;

        HASH_DEL(s->tempos, oldest);
        free(oldest);
    }
    t->batch = UINT_MAX; /* nobody has said anything yet */
    HASH_ADD(hh, s->tempos, key, len, t);
    return t;
}

/* Whichever agent takes the least; until it was not heard of for a while. */
static void room_heard(struct tempo *t, unsigned batch)
{
    if (batch <= t->batch)
        t->since = 0;
    if (batch < t->batch || t->since++ >= MACHINE_TEMPO_KEEPS)
        t->batch = batch;
}

static void heard(struct scheduler *s, const struct workflow_dispatch *d,
                  const Drover__V1__StepReply *m)
{
    struct tempo *t = tempo_find(s, d->actor, d->action);
    bool slow = m->duration_ms < 0 || m->duration_ms > MACHINE_SLOW_MS;
    int64_t took_us = 1000 * (slow ? MACHINE_SLOW_MS : m->duration_ms);

    if (!t && (m->batch < 2 || m->error))
        return; /* what nobody knows of travels alone as well */
    if (!t)
        t = tempo_new(s, d->actor, d->action);
    room_heard(t, m->batch);
    if (!m->error) /* to fail fast is no sign of being fast */
        t->took_us -= t->took_us / MACHINE_TEMPO_FADES;
    if (t->took_us < took_us)
        t->took_us = took_us;
}

void tempo_heard(struct scheduler *s, const struct workflow *w, const Drover__V1__StepReply *m)
{
    int64_t number = ops_token_step(bytes_str(m->token));

    if (number < 0 || number >= w->n_steps)
        return; /* unreachable: the store has recorded it */
    if (m->error && m->error->verdict == DROVER__V1__VERDICT__VERDICT_DEFER)
        return;                                                     /* it was not done */
    if (m->error || m->achieved == DROVER__V1__STATE__STATE_ACTIVE) /* undos travel alone */
        heard(s, &w->steps[number].forward, m);
}

/* How many of its kind a message may hold, by what its agents take, and what it took. */
static unsigned room_of(const struct scheduler *s, const Drover__V1__StepRequest *m)
{
    const struct tempo *t = tempo_find(s, m->actor, m->action);
    int64_t most, room;

    if (!t)
        return 1;
    most = t->batch < WIRE_BATCH_MAX ? t->batch : WIRE_BATCH_MAX;
    room = t->took_us ? most * MACHINE_BATCH_US / t->took_us : most;
    return (unsigned)(room < most ? room : most);
}

/* ---- queues ---- */

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

bool is_of_workflows(const struct scheduler *s, const char *actor)
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

/* A queue stays in the broker for ever, so those who bring definitions along have some made only.
 */
static bool may_declare(struct scheduler *s, const char *actor)
{
    if (actor_find(s, actor))
        return true;
    if (!is_of_workflows(s, actor) && s->other_actors-- == 0) {
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
    message->ask_after = s->now + (asked ? MACHINE_LONG_MOMENT_MS : MACHINE_MOMENT_MS);
    message->expires = true;
    message->mandatory = true;
    message->transient = s->transient;
    s->stats.messages++;
}

static void send_alone(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                       int64_t not_after, enum dispatch_how how)
{
    bool json = words_have(s->json_actors, m->actor);
    bool again = how == DISPATCH_AGAIN; /* then that this one finds no agent proves nothing */
    Drover__V1__StepRequest *list[] = {m};
    Drover__V1__Requests body = DROVER__V1__REQUESTS__INIT;
    struct bus_message *message;
    struct publish *p;
    struct bytes packed;

    body.requests = list;
    body.n_requests = 1;
    packed = wire_pack(s->out, &body.base, json);
    if (packed.len == 0) { /* JSON takes more */
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

/* ---- in company ---- */

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

/* Requests one behind the other in memory are Requests of them all. */
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

static void send_in_company(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                            int64_t not_after, unsigned room)
{
    struct batch *b = batch_find(s, m->actor);

    pace_came(&s->dispatching, s->now);
    /* the broker keeps them together: no longer than any of them may wait, and no less */
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
        send_in_company(s, op, m, not_after, room);
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
    struct tempo *t, *next;

    actors_free(s);
    HASH_ITER(hh, s->tempos, t, next) {
        HASH_DEL(s->tempos, t);
        free(t);
    }
    list_foreach_safe(l, &s->batches)
        batch_free(list_entry(l, struct batch, link));
}
