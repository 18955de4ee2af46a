// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler: records jobs, orders their steps, dispatches them, records their replies
 *
 * A step function: an event goes in, effects come out. The time comes in with the event; random
 * numbers and nonces come from generators that are seeded when the scheduler is made. Apart from
 * the log it has no effect of its own: it uses no file descriptor and no clock. Any number of
 * schedulers run side by side, and no job belongs to one of them: all state that matters is in the
 * store, and every transition of a job is one atomic store function. A scheduler keeps in memory
 * only the work that it has begun and not acknowledged, and caches; it may lose both at any moment.
 *
 * Order of effects: first the store call, then the publishes, then, when the broker has confirmed
 * every publish, the acknowledgement. A crash between any two of them is repaired: the broker
 * delivers again what was not acknowledged, and the supervisor asks again for what the store holds.
 *
 *   ON Submit    record the job and dispatch its roots in one call; publish requests and Receipt
 *   ON Reply     record it and dispatch the steps that have become ready; publish their requests
 *   ON Progress  renew the lease; answer whether the attempt is still wanted
 *   ON expired   no agent took a request in time: withdraw its token, dispatch the step again with
 *                a longer wait; publish
 *   ON confirm   of a request, if the previous dispatch of the step was unstarted, or its work has
 *                had an expiry: watch its queue
 *   ON Control   Query, History, ListJobs, ListWorkflows: answer; Recover: drive; Notify: publish
 *                a notification of the outbox; a command, such as Cancel: steer
 *   ON a redelivered message  before it is read: count the schedulers that have died of it
 *   ON settled   publish the JobEvent; when it is confirmed, take it out of the outbox
 *   ON store up  compare the watermarks of the store with those remembered: did the store go back?
 *
 * state.h names the files that do this, and says how they call each other.
 *
 * scheduler_io.c calls this in the daemon, and the simulator in tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/nonce.h"
#include "base/rng.h"
#include "model/effect.h"
#include "model/workflow.h"

struct access;
struct scheduler;

#define SCHEDULER_RUN_MAX 96

/* What the source of a delivery means to a scheduler: the queue that it was read from. */
enum scheduler_source {
    SCHEDULER_SUBMIT,
    SCHEDULER_REPLIES,
    SCHEDULER_CONTROL,
    SCHEDULER_EXPIRED,
};
#define SCHEDULER_SOURCES (SCHEDULER_EXPIRED + 1)

/* Effects of type EFFECT_ROLE. The driver of the scheduler performs them. */
enum scheduler_effect {
    SCHEDULER_ALERT, /* object: a struct scheduler_alert; valid until the effects are reset */
    /* object: the name of a queue. SCHEDULER_QUEUE follows unless the connection is lost before. */
    SCHEDULER_INSPECT,
    /* object: the name of an actor, whose queue the bus may declare, after SCHEDULER_LOST */
    SCHEDULER_DECLARE,
};

struct scheduler_alert {
    /* The owner of the job, or its workflow, or a cause that concerns all users; "" if none is
     * known. */
    const char *about;
    const char *event; /* a JobEvent in JSON */
};

enum scheduler_event_type {
    SCHEDULER_STORE_UP, /* the store is connected, for the first time or again */
    SCHEDULER_BUS_DOWN, /* a connection to the broker is lost: of deliveries, or of publishes */
    SCHEDULER_DELIVERY,
    SCHEDULER_ANSWER,   /* of the store call with this id */
    SCHEDULER_OUTCOME,  /* of the publish with this id */
    SCHEDULER_STOP,     /* the process is about to stop: alerts do not wait for others any more */
    SCHEDULER_QUEUE,    /* the result of the last SCHEDULER_INSPECT */
    SCHEDULER_MEMORY,   /* how full the store is */
    SCHEDULER_ISOLATED, /* the broker closed the connection over a publish, which was given up */
    SCHEDULER_LOST,     /* a queue is not there, or was deleted, with all that was in it */
    /* An iteration of the loop ends, or the time that scheduler_step() returned has come. */
    SCHEDULER_TICK,
};

struct scheduler_event {
    enum scheduler_event_type type;
    int64_t now; /* ms, monotonic */
    uint64_t id;
    union {
        struct {
            uint32_t partitions; /* of the store */
            /* Run of its server, another one after each start and promotion; at most
             * SCHEDULER_RUN_MAX bytes. */
            const char *run;
        };
        const struct bus_delivery *delivery;
        const struct store_answer *answer;
        enum bus_outcome outcome;
        struct {
            uint32_t messages; /* ready; if there is no such queue both are 0 */
            uint32_t consumers;
        } queue;
        struct {
            uint64_t used; /* bytes in use */
            uint64_t most; /* bytes: maxmemory of the store; 0: none is set */
        } memory;
        struct {
            const char *job; /* the job that the publish was about; "" for none */
        } isolated;
        const char *lost_actor; /* of the task queue; WIRE_ALL_ACTORS: it was drover.replies */
    };
};

struct scheduler_stats {
    uint64_t submits, created, already, conflicts, rejected;
    uint64_t recorded;
    uint64_t stale;      /* replies that came too late, or were recorded before */
    uint64_t unknown;    /* replies for jobs that the store does not have */
    uint64_t dispatched; /* requests published ... */
    uint64_t messages;   /* ... in this number of messages */
    uint64_t settled;
    uint64_t unstarted, unroutable;
    uint64_t recovered; /* Recover commands */
    uint64_t losses;    /* of queues, recorded in the store */
    uint64_t resent;    /* requests published again under their token */
    uint64_t dead_letters;
    uint64_t alerts;
    uint64_t store_repeats;    /* calls repeated: the store did not answer, or refused them */
    uint64_t store_rollbacks;  /* how often the store was found to have gone back */
    uint64_t lost;             /* accepted jobs that were gone then */
    uint64_t losses_unknown;   /* how often more were gone than were remembered */
    uint64_t open;             /* items: deliveries not acknowledged, and work of none */
    uint64_t undeclared;       /* requests to actors beyond declared_actors */
    uint64_t ignored;          /* messages of replies that were not read */
    uint64_t progress_ignored; /* Progress that was not read */
    uint64_t retry_later;      /* Submits and Controls refused for now */
    uint64_t transient;        /* Submits and commands that a restart of the broker would lose */
    uint64_t store_full;       /* 1: the store is nearly full, and no new job is taken */
    uint64_t given_back;       /* large messages that were given back to the broker */
    uint64_t unread_bytes;     /* bytes of large messages that wait to be read */
};

#define SCHEDULER_UNCONFIRMED 1024

struct scheduler_config {
    const char *name; /* copied; people see it as locked_by */
    /* Requests wait from this number of publishes without an outcome on; at least 1. */
    unsigned most_unconfirmed;
    /* Up to this number of records, or requests, leave at once: PACE_FEW, see pace.h. */
    unsigned few;
    /* Actors that get their requests in JSON: names separated by a space; copied; NULL: none. */
    const char *json_actors;
    const struct nonces *nonces; /* copied; tokens are made of them */
    /* Not copied, must outlive the scheduler; NULL: everybody may do everything. */
    const struct access *access;
    /* Number of task queues that are declared for actors that no registered workflow names. */
    unsigned declared_actors;
    /* Allowed rate of replies that no step waits for, per second and actor; 0: any number. */
    int64_t bad_replies;
    int64_t horizon_ms; /* ms from now within which a job must start; 0: any time */
    /* ms in which the log and the alert command get the first alert of a cause, and at the end the
     * last one; 0: a minute. */
    int64_t alert_interval_ms;
    int64_t loss_window_ms; /* an accepted job is remembered for this time; 0: 10 s */
    unsigned full_at; /* percent of the store's memory from which on no job is taken; 0: 100 */
};

/**
 * scheduler_new() - create
 * @out:    the scheduler; the caller frees it by scheduler_free()
 * @config: copied, except where noted
 * @seed:   for waits; from the kernel, as the nonces are, or from the simulation
 *
 * Return: 0 or -ENOMEM.
 */
int scheduler_new(struct scheduler **out, const struct scheduler_config *config,
                  const struct rng *seed);

/* Accepts NULL; returns NULL. */
struct scheduler *scheduler_free(struct scheduler *s);

/* Registers a workflow in every partition of the store as soon as the store is connected. Takes
 * a reference of its own. Return: 0 or -ENOMEM. */
int scheduler_register(struct scheduler *s, struct workflow *w);

/**
 * scheduler_step() - take one event
 * @event: its pointers are valid during the call only
 * @out:   the scheduler appends effects; their order is the order in which to perform them
 *
 * Records are collected. They leave, one call for each partition, with a SCHEDULER_TICK, at the
 * pace of pace.h. So do requests for an actor whose agents take batches.
 *
 * Return: the monotonic time in ms of the next SCHEDULER_TICK that is needed, INT64_MAX for none.
 */
int64_t scheduler_step(struct scheduler *s, const struct scheduler_event *event,
                       struct effects *out);

/* Whether all work that was begun is acknowledged. Work in the background does not count. */
bool scheduler_idle(const struct scheduler *s);

/* Copies the counters to *out. */
void scheduler_stats(const struct scheduler *s, struct scheduler_stats *out);
