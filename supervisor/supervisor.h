// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisor: finds what nobody answered, and asks the scheduler to recover it
 *
 * A pure step function: an event goes in, effects come out. It knows nothing of the business and
 * decides nothing: the store says what is due, the scheduler says what becomes of it. Any number of
 * supervisors may run; each leads some partitions by a lease in the store, which only saves load:
 * without election (lead everything) all of it stays correct.
 *
 *   TIMER each third    lead: take or keep the lease of every partition whose turn is ours
 *         of a lease
 *   TIMER each period   expire, where we lead: withdraw the tokens whose LockedUntil has passed,
 *                       count the deaths, name what is due; a Recover for each job, a Notify for
 *                       each owed notice
 *   TIMER each sweep,   walk over unfinished jobs and mend what an index has lost
 *   ON store up again
 *   TIMER each 10 s     forget what was settled longer than the retention ago
 *   ON replies queue    without a consumer, or not known, expiry waits; with a backlog, ten leases
 *                       at most
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "model/effect.h"

struct supervisor;

enum supervisor_event_type {
    SUPERVISOR_STORE_UP, /* the store is there (again); has so many partitions */
    SUPERVISOR_STORE_DOWN,
    SUPERVISOR_ANSWER,
    SUPERVISOR_OUTCOME,
    SUPERVISOR_QUEUE, /* what drover.replies looks like; without consumers where nobody can tell */
    SUPERVISOR_STOP,  /* give the leases up */
    SUPERVISOR_TICK,
};

struct supervisor_event {
    enum supervisor_event_type type;
    int64_t now; /* ms, monotonic */
    uint64_t id;
    union {
        uint32_t partitions;
        const struct store_answer *answer;
        enum bus_outcome outcome;
        struct {
            uint32_t messages;
            uint32_t consumers;
        } queue;
    };
};

/* EFFECT_ROLE: for the driver, of a supervisor that makes one round. */
enum supervisor_effect {
    SUPERVISOR_DECISION, /* object: a line of text; valid until the reset */
    SUPERVISOR_DONE,     /* the round is over, and all that was published is confirmed */
};

struct supervisor_config {
    const char *name;     /* in the leases; copied */
    int64_t period_ms;    /* the longest time between two looks; default 1000 */
    int64_t lease_ms;     /* default 5000 */
    bool election;        /* false: lead everything */
    int64_t retention_ms; /* default 7 days */
    int64_t sweep_ms;     /* a round over all unfinished jobs; default 10 min */
    bool once;            /* one round over everything, without election, and tell what it does */
    bool dry_run;         /* once: but do nothing */
};

struct supervisor_stats {
    uint64_t leading; /* partitions */
    uint64_t parked, deadline,
        ended;         /* jobs in these that need a person for that, 10 s ago at most */
    uint64_t expires;  /* calls */
    uint64_t recovers; /* jobs named to the schedulers */
    uint64_t notifies;
    uint64_t mended;    /* records and indexes that a sweep had to mend */
    uint64_t torn;      /* jobs that a sweep could not read, once a round */
    uint64_t forgotten; /* jobs past their retention */
    uint64_t held;      /* looks at which expiry waited */
    uint64_t clock_jumps;
};

int supervisor_new(struct supervisor **out, const struct supervisor_config *config,
                   const struct rng *seed);

/* Accepts NULL; returns NULL. */
struct supervisor *supervisor_free(struct supervisor *s);

/* Return: the monotonic ms of the next SUPERVISOR_TICK needed, INT64_MAX for none. */
int64_t supervisor_step(struct supervisor *s, const struct supervisor_event *event,
                        struct effects *out);

/* After SUPERVISOR_STOP: every lease given up, nothing unconfirmed. */
bool supervisor_idle(const struct supervisor *s);

void supervisor_stats(const struct supervisor *s, struct supervisor_stats *out);
