// SPDX-License-Identifier: Apache-2.0
/*
 * Dispatch: publishes requests, alone or in batches
 *
 * Requests for short actions are sent in batches: requests for one actor that leave within a
 * millisecond share a message, if the agents of the actor say that they begin several at once
 * (StepReply.batch) and the action was fast of late. One agent gets the whole batch. It may have
 * fewer free slots when the message arrives, and then requests would wait for those slots. So a
 * batch holds at most SERVICE_TIME_BATCH_US of work for each slot of an agent (StepReply.batch), by
 * the service time of each action. A slow reply raises the service time at once; it falls
 * gradually. A request is sent alone and at once if its action is not measured yet or slow, if it
 * is large, or if it is no first attempt.
 *
 * Called by request.c; scheduler.c flushes the batches. What the outcome of a request means for its
 * dispatch is reported upwards, by struct dispatch_reports.
 */
#include "scheduler/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/registration.h"
#include "scheduler/service_time.h"
#include "scheduler/state.h"
#include "scheduler/watch.h"

/* Requests for one actor that leave together. */
struct batch {
    struct list link; /* in dispatcher.batches */
    struct publish *publish;
    struct buf body;
    unsigned room; /* maximum size of the batch: the smallest limit among its requests */
    int64_t not_after;
    bool rechecked; /* the first request was */
    char actor[ID_NAME_MAX + 1];
    char step[ID_NAME_MAX + 1]; /* of the first request; traceparent likewise */
    char traceparent[WIRE_TRACEPARENT_MAX + 1];
};

/* An actor whose task queue this scheduler declares. */
struct actor {
    UT_hash_handle hh;
    char name[];
};

/* ---- task queues ---- */

static struct actor *actor_find(const struct scheduler *s, const char *name)
{
    struct actor *a;

    HASH_FIND_STR(s->dispatcher.actors, name, a);
    return a;
}

static void actor_add(struct scheduler *s, const char *name)
{
    size_t size = strlen(name) + 1;
    struct actor *a;

    a = or_abort(malloc(sizeof(*a) + size));
    memcpy(a->name, name, size);
    HASH_ADD_STR(s->dispatcher.actors, name, a);
}

/* Whether the queue of the actor may be declared. A queue stays in the broker for ever, so for
 * actors that no registered workflow names only a limited number of queues is declared. */
static bool may_declare(struct scheduler *s, const char *actor)
{
    if (actor_find(s, actor))
        return true;
    if (!registration_has_actor(s, actor) && s->dispatcher.other_actors_left-- == 0) {
        s->dispatcher.other_actors_left = 0;
        s->stats.undeclared++;
        return false;
    }
    actor_add(s, actor);
    return true;
}

static void actors_free(struct scheduler *s)
{
    struct actor *a, *next;

    HASH_ITER(hh, s->dispatcher.actors, a, next) {
        HASH_DEL(s->dispatcher.actors, a);
        free(a);
    }
}

/* ---- outcomes ---- */

static void on_outcome(struct scheduler *s, struct publish_part *part, enum bus_outcome outcome)
{
    const struct dispatch_reports *report = s->dispatcher.reports;
    struct op *op = part->op;

    if ((outcome == BUS_RETURNED || outcome == BUS_NACKED) && !part->is_copy) {
        s->stats.unroutable++;
        report->not_delivered(s, op->item,
                              outcome == BUS_RETURNED ? REPORT_UNROUTABLE : REPORT_REFUSED, op->job,
                              part->token, NULL, NULL);
    } else if (outcome == BUS_WAITED) {
        report->waited(s, op->item, op->job, part->token);
    } else if (outcome == BUS_UNSENT && !part->is_copy) {
        s->stats.unstarted++; /* no agent has it from this scheduler: no expiry to be counted */
        report->not_delivered(s, op->item, REPORT_UNSENT, op->job, part->token, NULL, NULL);
    }
    if (outcome == BUS_CONFIRMED && part->watched)
        watch_begin(s, part->watched);
    else
        watch_free(part->watched);
}

static void part_free(struct publish_part *part)
{
    watch_free(part->watched);
}

static const struct publish_kind REQUEST = {on_outcome, part_free};

static struct publish_part *request_add(struct scheduler *s, struct publish *p, struct op *op,
                                        const char *token, size_t bytes)
{
    struct publish_part *part = publish_add(s, p, op, bytes);

    memcpy(part->token, token, strnlen(token, WIRE_TOKEN_MAX));
    return part;
}

/* ---- messages ---- */

static void address(struct scheduler *s, struct bus_message *message, const char *actor,
                    int64_t not_after, bool rechecked)
{
    message->exchange = "drover.tasks";
    message->key = effects_str(s->out, actor);
    message->actor = may_declare(s, actor) ? message->key : NULL;
    message->not_after = not_after;
    message->ask_after = s->now + (rechecked ? DISPATCH_RECHECK_AGAIN_MS : DISPATCH_RECHECK_MS);
    message->expires = true;
    message->mandatory = true;
    message->cached = true;
    s->stats.messages++;
}

static void send_alone(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                       const struct dispatch_terms *terms)
{
    bool json = words_have(s->dispatcher.json_actors, m->actor);
    bool again = terms->how == DISPATCH_AGAIN; /* a failure of this copy is not recorded */
    Drover__V1__StepRequest *list[] = {m};
    Drover__V1__Requests body = DROVER__V1__REQUESTS__INIT;
    struct publish_part *part;
    struct bus_message *message;
    struct publish *p;
    struct bytes packed;

    body.requests = list;
    body.n_requests = 1;
    packed = wire_pack(s->out, &body.base, json);
    if (packed.len == 0) { /* JSON takes more bytes */
        s->dispatcher.reports->not_delivered(s, op->item, REPORT_UNSENDABLE, op->job, m->token,
                                             "INPUT_TOO_LARGE",
                                             "in JSON the request exceeds the message limit");
        return;
    }
    p = publish_new(s, 1, &REQUEST);
    part = request_add(s, p, op, m->token, packed.len);
    part->is_copy = again;
    if (terms->how == DISPATCH_WATCHED)
        part->watched = watch_new(op->job, m->token, m->actor, terms->not_after);
    message = publish_send(s, p, body.base.descriptor, packed, json);
    address(s, message, m->actor, terms->not_after, terms->rechecked);
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
    list_foreach(l, &s->dispatcher.batches) {
        struct batch *b = list_entry(l, struct batch, link);

        if (strcmp(b->actor, actor) == 0)
            return b;
    }
    return NULL;
}

static struct batch *batch_new(struct scheduler *s, const Drover__V1__StepRequest *m,
                               const struct dispatch_terms *terms)
{
    struct batch *b = or_abort(calloc(1, sizeof(*b)));

    b->publish = publish_new(s, WIRE_BATCH_MAX, &REQUEST);
    b->room = WIRE_BATCH_MAX;
    b->not_after = terms->not_after;
    b->rechecked = terms->rechecked;
    snprintf(b->actor, sizeof(b->actor), "%s", m->actor);
    snprintf(b->step, sizeof(b->step), "%s", m->step);
    snprintf(b->traceparent, sizeof(b->traceparent), "%s", m->traceparent);
    list_append(&s->dispatcher.batches, &b->link);
    return b;
}

static void batch_send(struct scheduler *s, struct batch *b)
{
    const struct publish_part *first = &b->publish->parts[0];
    struct bus_message *message = publish_send(s, b->publish, &drover__v1__requests__descriptor,
                                               effects_copy(s->out, buf_or_abort(&b->body)), false);

    address(s, message, b->actor, b->not_after, b->rechecked);
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
    request_add(s, b->publish, op, m->token, buf_or_abort(&b->body).len - before);
    b->room = room < b->room ? room : b->room;
    if (b->publish->n == b->room)
        batch_send(s, b);
}

static void send_in_batch(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                          const struct dispatch_terms *terms, unsigned room)
{
    int64_t not_after = terms->not_after;
    struct batch *b = batch_find(s, m->actor);

    pace_add(&s->dispatcher.pace, s->now);
    /* the broker keeps them together: no request waits longer than it may, nor much shorter */
    if (b &&
        (b->publish->n >= room || not_after < b->not_after || not_after > b->not_after + PACE_MS)) {
        batch_send(s, b);
        b = NULL;
    }
    batch_add(s, b ? b : batch_new(s, m, terms), op, m, room);
}

void dispatch_request(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                      const struct dispatch_terms *terms)
{
    unsigned room = terms->how == DISPATCH_FIRST &&
                            terms->size <= DISPATCH_BATCH_BYTES / WIRE_BATCH_MAX &&
                            !words_have(s->dispatcher.json_actors, m->actor)
                        ? service_time_room(s, m->actor, m->action)
                        : 1;

    if (room > 1)
        send_in_batch(s, op, m, terms, room);
    else
        send_alone(s, op, m, terms);
    s->stats.dispatched++;
    s->stats.resent += terms->how == DISPATCH_AGAIN;
    log_debug("step_dispatched", LOG_S("job", m->job_id), LOG_S("step", m->step),
              LOG_I("attempt", m->attempt), LOG_S("token", ops_token_id(s->out, m->token)));
}

void dispatch_flush(struct scheduler *s)
{
    if (list_empty(&s->dispatcher.batches) || pace_when(&s->dispatcher.pace, s->now) > s->now)
        return;
    pace_sent(&s->dispatcher.pace, s->now);
    while (!list_empty(&s->dispatcher.batches))
        batch_send(s, list_entry(s->dispatcher.batches.next, struct batch, link));
}

int64_t dispatch_next(const struct scheduler *s)
{
    return list_empty(&s->dispatcher.batches) ? INT64_MAX : pace_when(&s->dispatcher.pace, s->now);
}

void dispatch_init(struct dispatcher *d, const struct dispatch_reports *reports)
{
    d->reports = reports;
    list_init(&d->batches);
}

void dispatch_free(struct scheduler *s)
{
    actors_free(s);
    list_foreach_safe(l, &s->dispatcher.batches)
        batch_free(list_entry(l, struct batch, link));
    free(s->dispatcher.json_actors);
}
