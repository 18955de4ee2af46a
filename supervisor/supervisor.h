// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisor: finds steps that are due, and asks the schedulers to go on with their jobs
 *
 * This is the interface of the supervisor's machine. The driver calls it in the daemon
 * (supervisor_io.c), the simulator in the tests.
 *
 * The machine is a pure step function: event in, effects out. It knows nothing of workflows and
 * decides nothing: the store says what is due, and a scheduler what follows from it. Any number of
 * supervisors may run. A lease in the store says which supervisor leads a partition. That only
 * saves load: without election each supervisor leads all partitions, and all is still correct.
 *
 *   TIMER each third    lead: take or keep the lead of each partition that the rotation assigns to
 *         of a lease    this supervisor
 *   TIMER first job is  expire, of the partitions that it leads; at least once each period.
 *         due           Withdraw the tokens whose LockedUntil has passed, count the expiries, and
 *                       name what is due. Publish a Recover for each job, a Notify for each
 *                       notification in the outbox
 *   TIMER each sweep,   sweep: compare each unfinished job with the indexes, and repair what
 *   ON store up again   differs. Publish a Notify for a corrupt job
 *   TIMER each 10 s     forget: delete jobs that ended longer than the retention ago
 *   ON marker           drover.marker was inspected. If it is empty the broker has lost requests
 * and replies: lost, of all partitions; then publish the marker. Nothing expires until it is there
 *   ON replies queue    drover.replies was inspected. Nothing expires while it has no consumer, or
 *                       while the broker does not answer. While replies wait in it, a dispatch
 *                       expires ten leases later
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "model/effect.h"

#define SUPERVISOR_MARKER_NAME "drover.marker" /* exchange and queue: BUS_MARKER of io/bus */

struct supervisor;

enum supervisor_event_type {
    SUPERVISOR_STORE_UP, /* the store is connected (again), and has so many partitions */
    SUPERVISOR_STORE_DOWN,
    SUPERVISOR_ANSWER,  /* of the store call with this id */
    SUPERVISOR_OUTCOME, /* of the publish with this id */
    SUPERVISOR_QUEUE,  /* an inspection of drover.replies; all 0 where the broker does not answer */
    SUPERVISOR_MARKER, /* an inspection of drover.marker, over the present connection */
    SUPERVISOR_BUS_DOWN,
    SUPERVISOR_STOP, /* give up the lead of all partitions */
    SUPERVISOR_TICK, /* the time that supervisor_step() returned has come */
};

struct supervisor_event {
    enum supervisor_event_type type;
    int64_t now; /* ms, monotonic */
    uint64_t id;
    union {
        struct {
            uint32_t partitions;
            const char *run; /* of the server, another one after each of its starts */
        } store;
        const struct store_answer *answer;
        enum bus_outcome outcome;
        bool marker; /* it is there */
        struct {
            uint32_t messages;
            uint32_t consumers;
        } queue;
    };
};

/* What the machine asks of its driver by EFFECT_ROLE, when it makes a single round. */
enum supervisor_effect {
    SUPERVISOR_DECISION, /* object: a line of text, valid until the effects are reset */
    SUPERVISOR_DONE,     /* the round is over, and all its publishes have an outcome */
};

struct supervisor_config {
    const char *name;     /* with which it leads; copied */
    int64_t period_ms;    /* the longest time between two calls of expire; usually 1000 */
    int64_t lease_ms;     /* of the lead; usually 5000 */
    bool election;        /* false: lead all partitions */
    int64_t retention_ms; /* usually 7 days */
    int64_t sweep_ms;     /* between two rounds of sweep; usually 10 min */
    bool once;            /* make one round over all partitions, and say what it does */
    bool dry_run;         /* once: change nothing */
    bool marker;          /* the broker may lose requests and replies, which its marker shows */
};

struct supervisor_stats {
    uint64_t leading; /* partitions that it leads now */
    /* Jobs of these partitions that need attention for this reason; up to 10 s old. */
    uint64_t parked, deadline, ended;
    uint64_t expires;     /* calls of expire */
    uint64_t recovers;    /* published */
    uint64_t notifies;    /* published */
    uint64_t mended;      /* records and indexes that sweeps have repaired */
    uint64_t torn;        /* corrupt jobs that sweeps have met, each once a round */
    uint64_t forgotten;   /* jobs that were deleted after their retention */
    uint64_t held;        /* calls of expire that extended leases because of drover.replies */
    uint64_t clock_jumps; /* of the store's clock, forward */
    uint64_t losses;      /* how often the broker had lost requests and replies, as this one saw */
};

/**
 * supervisor_new() - create the machine of a supervisor
 * @out:    set where 0 is returned; freed by supervisor_free()
 * @config: copied, with all that it points to; not needed afterwards
 * @seed:   copied; spreads the first calls over time. From the kernel or the simulation
 *
 * Return: 0 or -ENOMEM.
 */
int supervisor_new(struct supervisor **out, const struct supervisor_config *config,
                   const struct rng *seed);

/* Accepts NULL; returns NULL. */
struct supervisor *supervisor_free(struct supervisor *s);

/**
 * supervisor_step() - take one event
 * @event: borrowed; valid during the call
 * @out:   the effects are appended, in the order in which the driver must perform them
 *
 * Out of memory aborts.
 *
 * Return: the monotonic ms of the next SUPERVISOR_TICK that the machine needs, INT64_MAX for none.
 */
int64_t supervisor_step(struct supervisor *s, const struct supervisor_event *event,
                        struct effects *out);

/* Return: after SUPERVISOR_STOP: whether it leads no partition any more, and each publish has an
 * outcome. */
bool supervisor_idle(const struct supervisor *s);

/* Copies the counters to @out. */
void supervisor_stats(const struct supervisor *s, struct supervisor_stats *out);
