// SPDX-License-Identifier: Apache-2.0
/*
 * Transitions: reads the answer of a store call that has changed a job, and carries it out
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/op.h"

struct transition_op;
typedef void transition_fn(struct scheduler *s, struct transition_op *t,
                           const struct ops_transition *transition, struct workflow *w);

/* An operation whose call changes a job. */
struct transition_op {
    struct op op;
    transition_fn *apply;   /* gets the answer, read, and the definition */
    uint32_t requested;     /* number of requests of the last answer that are published */
    int64_t answered_at;    /* when the last answer came; the wait of its requests begins then */
    bool watermark_pending; /* the watermark in its answer is not compared yet */
    bool rechecked;         /* the store was asked whether its requests are still wanted */
};

/* The operation with a transition whose first member @op is. */
struct transition_op *transition_of(struct op *op);

/* Reads the answer of such a call, loads the definition first if it is needed, then calls @apply,
 * with the definition of the job; NULL if it is not needed. */
void transition_answered(struct scheduler *s, struct op *op, struct ops_reader *r,
                         transition_fn *apply);

/* Publishes what follows from the answer to submit, record, drive, unsent or steer: requests,
 * alerts, notifications and step events. Drives the job on if the call has used up its budget. A
 * transition_fn. */
void transition_publish(struct scheduler *s, struct transition_op *t,
                        const struct ops_transition *transition, struct workflow *w);

/* A request has waited in this process: asks the store whether it is still wanted, and publishes
 * it then. */
void transition_recheck(struct scheduler *s, struct item *item, const char *job, const char *token);

/* Publishes requests that waited for capacity, as many as it allows. */
void transition_resume_stalled(struct scheduler *s);
