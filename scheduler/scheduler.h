// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler: records jobs, orders their steps, dispatches them, records what came of it
 *
 * A pure step function: an event goes in, effects come out. Time and randomness arrive from
 * outside; no file descriptor, no clock. Any number of schedulers work side by side and none owns a
 * job: all state that matters is in the store, and every transition there is one atomic function.
 * What a scheduler keeps in memory is the work it has begun and not acknowledged, and a cache of
 * definitions; both may be lost at any moment.
 *
 * Order of effects: store, then publish, then, when every publish is confirmed, ack. A crash
 * between any two is repaired by the broker, which delivers again, or by the supervisor, which asks
 * again.
 *
 *   ON Submit    record the job, lock its roots; publish their requests and the Receipt
 *   ON Reply     record it, lock what became ready; publish
 *   ON Progress  renew the lease; answer whether the attempt is still wanted
 *   ON expired   nobody took a request: withdraw its token, lock again with a longer wait; publish
 *   ON confirm   of a request that follows one without evidence: watch its queue
 *   ON Control   a question: answer; Recover: drive; Notify: publish what is owed; a command of
 *                a person, such as Cancel: steer
 *   ON redelivered  before it is read: count the lives that it has cost, one message at a time
 *   ON settled   publish the JobEvent; when confirmed, settle what is owed
 *   ON store up  compare what it shows with what is remembered: a store that went back in time
 *
 * One file each: on_submit.c, on_replies.c, on_expired.c, on_control.c (steer.c, migrate.c; the
 * questions in list.c, history.c, catalog.c), intake.c, suspects.c, notice.c, rollback.c, watch.c.
 * What the store has decided is carried out in driven.c, dispatch.c and event.c; scheduler.c
 * carries work along, see machine.h.
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

#define SCHEDULER_RUN_MAX 40

/* What a delivery's source means to a scheduler. */
enum scheduler_source {
    SCHEDULER_SUBMIT,
    SCHEDULER_REPLIES,
    SCHEDULER_CONTROL,
    SCHEDULER_EXPIRED,
};
#define SCHEDULER_SOURCES (SCHEDULER_EXPIRED + 1)

/* EFFECT_ROLE: for the driver. */
enum scheduler_effect {
    SCHEDULER_ALERT, /* object: a struct scheduler_alert; valid until the reset */
    SCHEDULER_LOOK,  /* object: a text, the name of a queue; SCHEDULER_QUEUE follows, unless the
                        connection is lost before */
};

struct scheduler_alert {
    const char *about; /* whose job it is, or else of which workflow; "" where nobody knows */
    const char *event; /* a JobEvent in JSON */
};

enum scheduler_event_type {
    SCHEDULER_STORE_UP, /* the store is there (again) */
    SCHEDULER_BUS_DOWN, /* what was delivered and not acknowledged will be delivered again */
    SCHEDULER_DELIVERY,
    SCHEDULER_ANSWER,   /* of the store call with this id */
    SCHEDULER_OUTCOME,  /* of the publish with this id */
    SCHEDULER_STOP,     /* soon nothing more is told: alerts do not wait for others */
    SCHEDULER_QUEUE,    /* what the last SCHEDULER_LOOK has found */
    SCHEDULER_MEMORY,   /* how full the store is */
    SCHEDULER_ISOLATED, /* the broker closes the connection over a publish, which was given up */
    SCHEDULER_TICK,     /* a turn ends, or the time that scheduler_step() returned has come */
};

struct scheduler_event {
    enum scheduler_event_type type;
    int64_t now; /* ms, monotonic */
    uint64_t id;
    union {
        struct {
            uint32_t partitions; /* of the store */
            const char *run;     /* of its server: another one after each start; up to
                                    SCHEDULER_RUN_MAX bytes */
        };
        const struct bus_delivery *delivery;
        const struct store_answer *answer;
        enum bus_outcome outcome;
        struct {
            uint32_t messages; /* ready; without consumers where there is no such queue */
            uint32_t consumers;
        } queue;
        struct {
            uint64_t used; /* bytes ... */
            uint64_t most; /* ... and the store's maxmemory; 0: none is set */
        } memory;
        struct {
            const char *job; /* that it was about; "" for none */
        } isolated;
    };
};

struct scheduler_stats {
    uint64_t submits, created, already, conflicts, rejected;
    uint64_t recorded, stale, unknown;
    uint64_t dispatched; /* requests published ... */
    uint64_t messages;   /* ... in so many messages */
    uint64_t settled;
    uint64_t unstarted, unroutable;
    uint64_t recovered; /* Recover commands */
    uint64_t dead_letters;
    uint64_t alerts;
    uint64_t store_repeats;    /* calls made again: no answer, or it would not */
    uint64_t store_rollbacks;  /* times the store was found to have gone back */
    uint64_t lost;             /* accepted jobs that were gone then */
    uint64_t open;             /* deliveries not acknowledged */
    uint64_t undeclared;       /* requests to actors beyond declared_actors */
    uint64_t ignored;          /* messages of replies that were not looked at */
    uint64_t progress_ignored; /* Progress, likewise */
    uint64_t retry_later;      /* Submits and Controls refused for now */
    uint64_t store_full;       /* 1: no new jobs are taken, as there is little room for them */
    uint64_t given_back;       /* large ones, for which there was no room */
    uint64_t unread_bytes;     /* of large ones that wait to be read */
};

#define SCHEDULER_UNCONFIRMED 1024

struct scheduler_config {
    const char *name; /* shown as locked_by; copied */
    unsigned
        most_unconfirmed;    /* publishes without an outcome, from which on requests wait; from 1 */
    bool transient;          /* requests, which the store can have made again */
    unsigned few;            /* records, or requests, that leave at once: PACE_FEW, see pace.h */
    const char *json_actors; /* that get requests in JSON: names, with a space between them; copied;
                                NULL: none */
    const struct nonces *nonces; /* for tokens; copied */
    const struct access *access; /* kept; NULL: everybody may do everything */
    unsigned declared_actors;  /* whose task queues are declared though no registered workflow names
                                  them */
    int64_t bad_replies;       /* of an actor's agents, a second, that no step waits for; 0: any */
    int64_t horizon_ms;        /* in which a job must start; 0: any time */
    int64_t alert_interval_ms; /* in which alerts of one cause are told once; 0: a minute */
    unsigned full_at;          /* percent of the store's memory at which no job is taken; 0: 100 */
};

/**
 * scheduler_new() - create
 * @seed: for waits; like the nonces from the kernel, or the simulation's
 *
 * Return: 0 or -ENOMEM.
 */
int scheduler_new(struct scheduler **out, const struct scheduler_config *config,
                  const struct rng *seed);

/* Accepts NULL; returns NULL. */
struct scheduler *scheduler_free(struct scheduler *s);

/* Registers a workflow in the store as soon as that is up, in every partition. Takes a reference.
 */
int scheduler_register(struct scheduler *s, struct workflow *w);

/**
 * scheduler_step() - take one event
 * @out: effects are appended
 *
 * Records are gathered and leave, one call for each partition, with a SCHEDULER_TICK, at the pace
 * of pace.h. So do requests for one actor whose agents take several.
 *
 * Return: the monotonic ms of the next SCHEDULER_TICK needed, INT64_MAX for none.
 */
int64_t scheduler_step(struct scheduler *s, const struct scheduler_event *event,
                       struct effects *out);

/* Nothing begun that is not acknowledged. */
bool scheduler_idle(const struct scheduler *s);

void scheduler_stats(const struct scheduler *s, struct scheduler_stats *out);
