// SPDX-License-Identifier: Apache-2.0
/*
 * ON store up: checks whether the store went back in time
 */
#pragma once

#include "base/list.h"
#include "scheduler/op.h"
#include "scheduler/scheduler.h"

/* Accepted jobs that are remembered at most; 100 bytes each. */
#define ROLLBACK_ACCEPTED_MAX 65536

struct rollback {
    char run[SCHEDULER_RUN_MAX + 1]; /* of the store's server */
    struct watermark *watermarks;    /* by partition */
    int64_t window_ms;               /* an accepted job is remembered for this time */
    struct list accepted;            /* jobs that the store has answered CREATED or ALREADY */
    unsigned n_accepted;
    uint64_t last_accepted;
    struct list missing_jobs; /* jobs that are lost; reported at the end of the check */
    unsigned check;           /* number of the last check */
    unsigned ops_running;     /* operations of all checks that are not done */
    unsigned unanswered;      /* not 0 when ops_running is 0: an answer could not be read */
    unsigned n_back;          /* partitions that went back ... */
    unsigned n_lost;          /* ... or were lost as a whole, found in this check */
    bool unnamed;             /* jobs are gone that were accepted and forgotten */
};

void rollback_init(struct rollback *r, int64_t window_ms);
/* The store is connected: begins a check. To be called before any other call to the store. @run:
 * the run of its server. */
void rollback_store_up(struct scheduler *s, const char *run);
/* Compares the watermark in an answer with that remembered. */
void rollback_observe(struct scheduler *s, const struct op *op, uint64_t count);
/* Remembers an accepted job: the store has answered CREATED or ALREADY. @count: the watermark in
 * the answer; 0: none. */
void rollback_accepted(struct scheduler *s, const struct op *op, uint64_t count);
/* Forgets the jobs that were accepted too long ago to be lost. To be called only when the store has
 * answered: during an outage none may be forgotten. */
void rollback_forget_old(struct scheduler *s);
void rollback_free(struct scheduler *s);
