// SPDX-License-Identifier: Apache-2.0
/*
 * Plan: the world of a seed
 *
 * How many processes there are, what the jobs look like, and which faults strike how often until
 * they stop. Each kind of fault is absent from about half of the worlds, so that frequent faults do
 * not hide rare combinations (swarm testing; Groce et al. 2012).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"
#include "drover/v1/types.pb-c.h"
#include "world/timeline.h"

#define PLAN_DEFINITIONS 3
#define PLAN_ACTORS 4
#define PLAN_FEW_JOBS 5

/* Rates are in millionths of the occasions named. */
struct plan_faults {
    struct simbus_faults bus;
    uint32_t crash;        /* of effects: the process dies before or after it */
    uint32_t cut;          /* of effects: the process loses its connection to the broker */
    uint32_t stall;        /* of events at a process: it stops for a while */
    uint32_t drain;        /* of events at a process: it is told to end, and does so later */
    uint32_t store_lost;   /* of calls: no answer, and it may have been executed, or may be later */
    uint32_t store_error;  /* of calls: refused */
    uint32_t store_outage; /* of calls: no process reaches the store for a while */
    uint32_t store_cut;    /* of calls: the process loses its connection to the store */
    uint32_t store_full;   /* of calls: out of memory for a while */
    uint32_t rollback;     /* of calls: the store loses what it did in the last two seconds */
    uint32_t clock_jump;   /* of calls: the store's clock jumps forward or steps back */
    uint32_t queue_gone;   /* of effects: some queue is deleted for a while */
    uint32_t poison;       /* of messages: they kill the process that reads them */
    uint32_t lie;          /* of requests at an agent: it sends false replies */
    uint32_t wipe;         /* of effects: the broker loses all its data */
    uint32_t restart;      /* of effects: the broker loses its transient messages */
    int64_t restart_ms;    /* at most */
    int64_t stall_ms;
    int64_t outage_ms;
};

/* How handlers end, in millionths of the runs; the others succeed at once or within the lease. */
struct plan_handlers {
    uint32_t transient;
    uint32_t permanent;
    uint32_t deferred;
    uint32_t harmless; /* of the failures: they report that they had no effect */
    uint32_t waits;    /* of the failures: they name a pause before the next try */
    uint32_t slow;     /* longer than the lease */
    uint32_t large;    /* of the successes: with a result that is too large */
    int64_t most_ms;
};

/* A command of a client about each job, besides those drawn by chance. */
struct plan_command {
    enum {
        PLAN_DISABLE,
        PLAN_ENABLE,
        PLAN_CANCEL,
        PLAN_KILL,
        PLAN_PAUSE,
        PLAN_RESUME,
        PLAN_RETRY, /* all steps */
    } what;
    int64_t after_ms; /* after its Submit */
};

struct plan_definition {
    Drover__V1__Workflow *message;
    Drover__V1__Workflow *newer; /* its next version, to which jobs migrate; NULL: none */
    bool registered;             /* submitted by name; else the Submit contains it */
};

struct plan {
    uint64_t seed;
    int64_t pace; /* all times that are drawn are multiplied by it */
    uint32_t partitions;
    uint32_t schedulers, agents, supervisors, clients;
    uint32_t actors;
    uint32_t jobs;
    int64_t begins_at_ms; /* all jobs begin at that time; 0: each when it is submitted */
    int64_t submit_after_ms;
    int64_t submit_within_ms;
    int64_t faults_end; /* ms from the beginning */
    bool lingers;       /* goes on with faults when all has settled, for late events */
    int64_t settle_ms;  /* L1: everything has settled after that time */
    struct plan_faults faults;
    const char *struck; /* only this process, or these kinds, die and lose connections; NULL: all */
    struct plan_handlers handlers;
    struct plan_definition definitions[PLAN_DEFINITIONS];
    uint32_t n_definitions;
    bool big;        /* a definition of more steps than one call touches */
    uint32_t budget; /* variant of the store functions, see store.h */
    int64_t retention_ms;
    uint32_t prefetch;
    uint32_t most_unconfirmed; /* publishes of a scheduler, before requests wait */
    uint32_t few;              /* records, requests or replies that leave at once, see pace.h */
    uint32_t concurrency;
    uint32_t batch; /* requests that an agent takes in one message; 0: one */
    uint32_t lease_retries;
    int64_t early_ack_ms;
    bool election;
    bool forgets; /* step messages are transient, and the broker has a marker */
    int64_t supervisor_period_ms;
    int64_t sweep_ms;
    uint32_t steers;                     /* in millionths: one more command about a job */
    const struct plan_command *commands; /* about each job */
    uint32_t n_commands;
    uint32_t queries; /* in millionths: a question about a job */
    int64_t asks_all; /* all questions, so long after its Submit; 0: none */
    uint32_t wrong;   /* in millionths: the client of a job sends an invalid message */
    uint32_t skewed;  /* of the jobs: the clock by which their commands are issued is wrong */
    uint32_t delayed;
    uint32_t disabled;
    uint32_t step_events;
    uint32_t step_replies; /* of the others: step events to their clients */
    int64_t client_retry_ms;
};

/* Few jobs of few steps: a larger world takes up to a hundred times as long. */
static inline bool plan_small(const struct plan *plan)
{
    return !plan->big && plan->jobs <= PLAN_FEW_JOBS;
}

/* Everything is in @t's arena and drawn from its chance. */
void plan_draw(struct plan *plan, struct timeline *t, uint64_t seed);

/* ---- definitions ---- */

/* A workflow with @n steps named s0, s1, ... of actor a0, without dependencies or policies. */
Drover__V1__Workflow *plan_workflow(struct timeline *t, uint32_t n);
void plan_after(struct timeline *t, Drover__V1__Workflow *w, uint32_t step, uint32_t dependency);

/* Removes the step of this name, which is a pointer of its own, and all dependencies on it. */
void plan_leave_out(struct timeline *t, Drover__V1__Workflow *w, const char *gone);
