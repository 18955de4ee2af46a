// SPDX-License-Identifier: Apache-2.0
/*
 * Agent: takes requests of its actors, runs their handlers within the lease, replies
 *
 * A pure step function: an event goes in, effects come out. The agent talks to the broker only; it
 * needs no store and no clock but its own monotonic one: the handler has `lock` ms from the moment
 * the request was received. Past that moment the agent says nothing about the attempt, because it
 * no longer owns it: the handler is stopped and the request acknowledged.
 *
 * Order of effects: run the handler, publish the reply, and when that is confirmed ack the request.
 * A crash before the ack makes the broker deliver again: the same token, the same idempotency key.
 * A broker gives up on a delivery that is held too long, so a long lease is acknowledged when its
 * handler starts instead (early_ack_ms); then a crash costs a lease.
 *
 *   ON Requests   start a handler for each, or let it wait for a free slot for a while;
 *                 a token that is here already, or has been answered, is no second run
 *   ON suspect    Requests that the broker delivers again, and that we have not read before: an
 *                 agent may have died of them. Acknowledged first, then read, one at a time
 *   ON company    a request that came with others, and got no slot for a moment, is DEFER: another
 *                 agent may have one
 *   ON result     gather the reply; replies of one turn travel together, at most AGENT_REPLIES
 *   ON failure    transient, lease_retries left, no long pause asked for, and as much time as the
 *                 last try took: again, within the same lease; else reply. A try that is deferred
 *                 leaves the failure before it as it is
 *   ON refusal    of a reply: publish it again after a while, as long as its lease lasts
 *   ON deadline   stop the handler, say nothing, ack when it is gone
 *   ON heartbeat  due for a step that asks for it, the first when its handler starts: publish
 *                 Progress. An answer that says `wanted = false` stops the handler, and so do three
 *                 heartbeats without a Progress that the broker has taken: the store has, or will
 *                 have, given the step to somebody else. The reply is then DEFER, uncounted; a
 *                 handler that ends well all the same is believed
 *   ON crowding   all slots taken, some by runs that were acknowledged early: want no more, and
 *                 give back what waits, until a slot comes free
 *   ON drain      start nothing new, give back what waits; finish what runs
 *
 * One file each: on_requests.c, suspects.c, run.c, requeue.c, replies.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"

#define AGENT_REPLIES 32 /* in one message */

struct agent;

enum agent_source {
    AGENT_REQUESTS, /* from drover.task.<actor> */
    AGENT_ANSWERS,  /* ProgressAnswers, by direct reply-to */
};

/* EFFECT_ROLE: what the driver does with handlers; the effect's id names the run. */
enum agent_effect {
    AGENT_START, /* object: struct agent_run; AGENT_DONE follows exactly once */
    AGENT_STOP,  /* object likewise: it is to end now; its AGENT_DONE still follows */
};

/* One run of a handler; valid until its AGENT_DONE. */
struct agent_run {
    uint64_t id;
    const Drover__V1__StepRequest *request;
    int64_t deadline; /* monotonic ms: the end of the lease */
    unsigned tries;   /* runs of this attempt before, within this lease */
    bool repeated;    /* the broker or the scheduler has sent it before: others may have begun it */
    void *driver;     /* the driver's own */
};

/* How a run ended; views, valid during the event. */
struct agent_result {
    bool ok;
    const char *content_type; /* of the result */
    struct bytes result;
    const char *class; /* of the error */
    const char *message;
    struct bytes details;
    Drover__V1__Verdict verdict;
    Drover__V1__Effect effect;
    int64_t retry_after_ms;
};

enum agent_event_type {
    AGENT_DELIVERY,
    AGENT_OUTCOME,  /* of the publish with this id */
    AGENT_DONE,     /* the run with this id has ended */
    AGENT_PROGRESS, /* the run with this id tells how far it is */
    AGENT_DRAIN,    /* finish what runs, start nothing */
    AGENT_TICK,     /* a turn ends, or the time that agent_step() returned has come */
};

struct agent_event {
    enum agent_event_type type;
    int64_t now; /* ms, monotonic */
    uint64_t id;
    union {
        const struct bus_delivery *delivery;
        const struct agent_result *result;
        enum bus_outcome outcome;
        struct {
            double fraction;
            const char *note;
        } progress;
    };
};

/* What is set for one actor. */
struct agent_actor {
    const char *name;
    unsigned lease_retries; /* further tries within one lease after a transient failure */
    int64_t early_ack_ms;   /* a lease this long is acknowledged when its handler starts; 0: none */
    unsigned batch;         /* requests that it takes in one message, and begins at once; 0: one */
};

struct agent_config {
    const char *name;                 /* shown in replies; copied */
    unsigned concurrency;             /* runs at a time */
    int64_t retry_ms;                 /* before another try within a lease, default 100 */
    bool transient;                   /* replies: what is lost, a lease brings back */
    unsigned few;                     /* replies that leave at once: PACE_FEW, see pace.h */
    int64_t reply_margin_ms;          /* a run is stopped this long before its lease ends */
    const struct agent_actor *actors; /* copied; for an actor that is not here all is 0 */
    size_t n_actors;
};

struct agent_stats {
    uint64_t requests, runs, succeeded, failed;
    uint64_t retries;    /* within a lease */
    uint64_t stopped;    /* at their deadline */
    uint64_t unwanted;   /* stopped because the job wants them no more */
    uint64_t cut_off;    /* stopped because no Progress got through */
    uint64_t deferred;   /* answered DEFER because no slot came free */
    uint64_t requeued;   /* given back to their queue, because no slot came free or it drains */
    uint64_t silent;     /* attempts of which nothing was said because their lease was over */
    uint64_t replies;    /* confirmed */
    uint64_t refusals;   /* of a publish: returned, or refused by the broker */
    uint64_t duplicates; /* a request whose token is already here, or was */
    uint64_t suspects;
    uint64_t dead_letters;
    uint64_t running, waiting;
};

/**
 * agent_new() - create
 * @seed: spreads publishes that are made again; from the kernel, or the simulation's
 *
 * Return: 0 or -ENOMEM.
 */
int agent_new(struct agent **out, const struct agent_config *config, const struct rng *seed);

/* Accepts NULL; returns NULL. No run may be under way in the driver any more. */
struct agent *agent_free(struct agent *a);

/**
 * agent_step() - take one event
 *
 * Replies are gathered and leave with an AGENT_TICK, at the pace of pace.h.
 *
 * Return: the monotonic ms of the next AGENT_TICK needed, INT64_MAX for none.
 */
int64_t agent_step(struct agent *a, const struct agent_event *event, struct effects *out);

/* Nothing runs or waits, and all is confirmed: a draining agent may leave. */
bool agent_idle(const struct agent *a);

void agent_stats(const struct agent *a, struct agent_stats *out);
