// SPDX-License-Identifier: Apache-2.0
/*
 * Outgoing messages, each followed to its outcome
 *
 * Called by all files of the agent's machine that publish; agent.c reports the outcomes.
 */
#include "agent/outgoing.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/state.h"
#include "base/log.h"

#define REFUSED_MS 200      /* the pause after the first refusal of a message; doubles */
#define REFUSED_DOUBLINGS 6 /* at most: 12.8 s */

void *outgoing_new(struct agent *a, size_t size, const struct outgoing_kind *kind)
{
    struct outgoing *o = or_abort(calloc(1, size));

    o->id = ++a->last_id;
    o->kind = kind;
    HASH_ADD(hh, a->outgoing, id, sizeof(o->id), o);
    return o;
}

void outgoing_free(struct agent *a, struct outgoing *o)
{
    timer_stop(a, &o->again_timer);
    HASH_DEL(a->outgoing, o);
    if (o->kind->free)
        o->kind->free(o);
    free(o);
}

void outgoing_free_all(struct agent *a)
{
    struct outgoing *o, *next;

    HASH_ITER(hh, a->outgoing, o, next)
        outgoing_free(a, o);
}

void outgoing_outcome(struct agent *a, uint64_t id, enum bus_outcome outcome)
{
    struct outgoing *o;

    HASH_FIND(hh, a->outgoing, &id, sizeof(id), o);
    assert(o);
    switch (outcome) {
    case BUS_CONFIRMED:
        o->kind->confirmed(a, o);
        break;
    case BUS_WAITED: /* unreachable: the agent does not set ask_after */
    case BUS_UNSENT:
    case BUS_EXPIRED:
        o->kind->resend(a, o);
        break;
    case BUS_RETURNED:
    case BUS_NACKED:
        o->kind->refused(a, o);
        break;
    }
}

static void on_again(struct agent *a, struct timer *t)
{
    struct outgoing *o = container_of(t, struct outgoing, again_timer);

    o->kind->resend(a, o);
}

/* The queue is missing, or full: a person may repair that while the leases last. So the message is
 * published again after a pause, at the latest when the first lease ends. */
void outgoing_pause(struct agent *a, struct outgoing *o, const char *exchange, size_t replies,
                    int64_t end)
{
    unsigned doublings = o->refusals < REFUSED_DOUBLINGS ? o->refusals : REFUSED_DOUBLINGS;
    int64_t wait = (int64_t)REFUSED_MS << doublings;
    int64_t when = a->now + wait + (int64_t)rng_below(&a->rng, (uint64_t)wait / 10);

    o->refusals++;
    a->stats.refusals++;
    log_warn("publish_refused", LOG_S("exchange", exchange), LOG_I("replies", replies),
             LOG_I("again_ms", wait));
    timer_set(a, &o->again_timer, when < end ? when : end, on_again);
}

const char *outgoing_exchange(struct agent *a, const char *actor)
{
    return effects_printf(a->out, WIRE_REPLY_EXCHANGE "%s", actor);
}

struct bus_message *outgoing_replies(struct agent *a, const struct outgoing *o,
                                     const Drover__V1__Replies *body, const char *actor, bool json)
{
    struct bytes packed = wire_pack(a->out, &body->base, json);
    struct bus_message *m = &effects_add(a->out, EFFECT_PUBLISH, o->id)->publish;

    m->exchange = outgoing_exchange(a, actor);
    m->key = "reply";
    m->body = packed;
    m->content_type = wire_content_type(json);
    m->type = body->base.descriptor->name;
    return m;
}

struct bus_message *outgoing_progress(struct agent *a, const struct outgoing *o,
                                      const struct delivery *about, Drover__V1__Progress *progress,
                                      int64_t not_after)
{
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    struct bus_message *m;

    progress->agent = (char *)a->config.name;
    body.progress = &progress;
    body.n_progress = 1;
    m = outgoing_replies(a, o, &body, about->actor, about->message.json);
    m->not_after = not_after;
    m->expires = true;
    m->transient = true;
    return m;
}

void outgoing_headers(struct agent *a, struct bus_message *m,
                      const Drover__V1__StepRequest *request)
{
    m->job = effects_str(a->out, request->job_id);
    m->step = effects_str(a->out, request->step);
    m->attempt = request->attempt;
    if (*request->traceparent)
        m->traceparent = effects_str(a->out, request->traceparent);
}
