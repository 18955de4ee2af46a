// SPDX-License-Identifier: Apache-2.0
/*
 * Agent: takes the requests of its actors, runs their handlers within the lease, and replies
 *
 * This is the interface of the agent's machine. The driver calls it in the daemon (agent_io.c), the
 * simulator in the tests.
 *
 * The machine is a pure step function: event in, effects out. It talks to the broker only. It needs
 * no store, and no clock but its own monotonic one: a handler has `lock_ms` ms from the moment when
 * the agent received the request. After that moment the agent does not own the attempt any more. It
 * stops the handler, acknowledges the request, and sends no reply.
 *
 * Order of effects: run the handler, publish the reply, and acknowledge the request when the broker
 * has confirmed the reply. After a crash before the ack the broker delivers the request again, with
 * the same token and the same idempotency key. A broker takes a delivery back when a consumer holds
 * it for too long. So a request with a long lease (early_ack_ms) is acknowledged as soon as the
 * broker has confirmed a Progress of its run; from then on a crash costs the rest of the lease, or
 * three heartbeats.
 *
 *   ON Requests   start a handler for each request, or let the request wait for a free slot, for a
 *                 limited time. A request whose token is here already, or has been answered, is a
 *                 duplicate and starts no second run
 *   ON suspect    a Requests message that the broker delivers again, and that this process has not
 *                 read before, may have killed an agent. Acknowledge it first, then read it; one
 *                 suspect at a time
 *   ON batch      a request that came with others and got no slot within 80 ms: reply DEFER, as
 *                 another agent may have a free slot
 *   ON result     gather the reply. The replies of an iteration of the loop leave together, at most
 *                 AGENT_REPLIES in one message
 *   ON failure    that is transient: try again within the same lease, where lease_retries are left,
 *                 the pause is not too long, and the lease has time for the pause and for a try as
 *                 long as the last one. Else reply. If that further try is deferred, the reply
 *                 reports the failure before it
 *   ON refusal    of a reply by the broker: publish it again after a pause, until its lease is over
 *   ON deadline   stop the handler, send no reply, and acknowledge when the handler has ended
 *   ON evidence   due for a run without heartbeats that has lasted for a quarter of its lease or
 *                 ten seconds: publish Progress, until the broker has confirmed one
 *   ON heartbeat  due for a step that asks for heartbeats, the first when its handler starts:
 *                 publish Progress. The agent stops the handler when an answer says
 *                 `wanted = false`, and when the broker has taken no Progress for three heartbeats,
 *                 because the store has then withdrawn the token, or will. The reply is DEFER,
 *                 which is not counted; where the handler succeeds all the same, the reply is that
 *                 success
 *   ON crowding   all slots are taken, some of them by runs that the broker does not count: cancel
 *                 the consumers and give waiting requests back, until a slot comes free
 *   ON loss       of the task queue of an actor: report it to the schedulers, which send again what
 *                 is in flight; then have the queue declared
 *   ON drain      start nothing new, give waiting requests back, and let the runs finish
 *
 * agent/state.h says which files the machine has, and how they fit together.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"

#define AGENT_REPLIES 32 /* at most in one message */

struct agent;

enum agent_source {
    AGENT_REQUESTS, /* from drover.task.<actor> */
    AGENT_ANSWERS,  /* ProgressAnswers, by direct reply-to */
};

/* What the machine asks of its driver by EFFECT_ROLE. The id of the effect is that of the run. */
enum agent_effect {
    AGENT_START, /* object: struct agent_run; AGENT_DONE follows exactly once */
    AGENT_STOP,  /* object: likewise; the run must end now, and its AGENT_DONE still follows */
    /* object: the name of an actor, whose queue the bus may declare, after AGENT_LOST. No id */
    AGENT_DECLARE,
};

/* One run of a handler. The machine owns it; it is valid until its AGENT_DONE. */
struct agent_run {
    uint64_t id;
    const Drover__V1__StepRequest *request;
    int64_t deadline; /* monotonic ms: the end of the lease */
    unsigned tries;   /* how many tries of this attempt ended within this lease */
    bool repeated;    /* it was sent or delivered before: another agent may have begun it */
    void *driver;     /* for the driver alone */
};

/* How a run ended. The pointers are borrowed: they are valid during the event. NULL texts count as
 * empty. */
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
    AGENT_PROGRESS, /* the run with this id reports how far it is */
    AGENT_LOST,     /* the queue of an actor is not there, or was deleted, with its requests */
    AGENT_DRAIN,    /* the process is to end: finish the runs, start nothing */
    AGENT_TICK,     /* an iteration ends, or the time that agent_step() returned has come */
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
        const char *lost_actor;
    };
};

/* The settings of one actor. */
struct agent_actor {
    const char *name;
    unsigned lease_retries; /* further tries within one lease after a transient failure */
    int64_t early_ack_ms;   /* the shortest lease whose request is acknowledged early; 0: none is */
    unsigned batch;         /* most requests that a message to this agent may hold; 0: one */
};

struct agent_config {
    const char *name;     /* shown in replies; copied */
    unsigned concurrency; /* runs at a time */
    int64_t retry_ms;     /* before the first further try in a lease; 0: 100 */
    unsigned few;         /* most replies that leave at once: PACE_FEW, see pace.h */
    /* A run is stopped this long before its lease ends. Only a test sets it. */
    int64_t reply_margin_ms;
    const struct agent_actor *actors; /* copied; an actor that is not listed has all 0 */
    size_t n_actors;
};

struct agent_stats {
    uint64_t requests, runs, succeeded, failed;
    uint64_t repeated;   /* runs of requests that came again: another agent may have begun them */
    uint64_t retries;    /* further tries within a lease */
    uint64_t stopped;    /* runs, at their deadline */
    uint64_t unwanted;   /* runs that were stopped because the job does not want them any more */
    uint64_t cut_off;    /* runs that were stopped because the broker took no Progress */
    uint64_t deferred;   /* requests that were answered DEFER because no slot came free */
    uint64_t requeued;   /* messages that were given back to their queue, not begun */
    uint64_t silent;     /* attempts without a reply, because their lease was over */
    uint64_t replies;    /* that the broker has confirmed */
    uint64_t refusals;   /* publishes that the broker returned or refused, but for Progress */
    uint64_t duplicates; /* requests whose token was here already, or had been answered */
    uint64_t suspects;   /* messages */
    uint64_t dead_letters;
    uint64_t losses;           /* of task queues, reported */
    uint64_t running, waiting; /* now: runs with a slot, requests without one */
};

/**
 * agent_new() - create the machine of an agent
 * @out:    set where 0 is returned; freed by agent_free()
 * @config: copied, with all that it points to; not needed afterwards
 * @seed:   copied; spreads repeated publishes over time. From the kernel or the simulation
 *
 * Return: 0 or -ENOMEM.
 */
int agent_new(struct agent **out, const struct agent_config *config, const struct rng *seed);

/* Forgets all unfinished work: the broker still has each delivery that was not acknowledged. The
 * driver must not have a run under way any more. Accepts NULL; returns NULL. */
struct agent *agent_free(struct agent *a);

/**
 * agent_step() - take one event
 * @event: borrowed; valid during the call
 * @out:   the effects are appended, in the order in which the driver must perform them
 *
 * Replies are gathered and leave with an AGENT_TICK, at the pace of pace.h. Out of memory aborts.
 *
 * Return: the monotonic ms of the next AGENT_TICK that the machine needs, INT64_MAX for none.
 */
int64_t agent_step(struct agent *a, const struct agent_event *event, struct effects *out);

/* Return: whether nothing runs or waits, and the broker has confirmed each reply and dead letter: a
 * draining agent may end. */
bool agent_idle(const struct agent *a);

/* Copies the counters to @out. */
void agent_stats(const struct agent *a, struct agent_stats *out);
