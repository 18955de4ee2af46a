// SPDX-License-Identifier: Apache-2.0
/*
 * Why: what is known of a job that does not move
 *
 * Only the files why*.c include it: why.c asks, why_facts.c finds out what the status does not say,
 * why_reason.c makes the sentences, and why_print.c prints them.
 */
#pragma once

#include "cli/command.h"
#include "client/session.h"

#define WHY_NAMES_SHOWN 3 /* of the steps that a step waits for; of the others the number */

/* A task queue that was inspected. */
struct why_queue {
    const char *actor;
    struct session_queue queue;
};

/* What is known about a step besides its status. */
struct why_step {
    struct buf names; /* of the steps that it waits for, WHY_NAMES_SHOWN at most */
    uint32_t waits;   /* their number */
    /* Unix ms: the first request after which no agent has answered; 0: unknown */
    int64_t unanswered_since;
    const char *code; /* NULL if it is where the job wants it */
    struct buf sentence;
};

struct why {
    const struct args *args;
    struct session *session;
    int64_t deadline;
    const Drover__V1__JobStatus *job; /* NULL if no scheduler has answered */
    struct why_step *steps;           /* for each step of the job; NULL if there is no job */
    struct why_queue *queues;         /* task queues */
    size_t n_queues;
    struct session_queue replies; /* unknown with --from-store */
    const char *code;             /* of the job */
    struct buf sentence;
};

/* ---- why_facts.c ---- */

/* Finds out what the status does not say: what steps wait for, and, unless with --from-store,
 * whether queues have consumers. Sets why->steps. Return: as session_ask(). */
int why_facts_find(struct why *why);

/* Whether a step is where the job wants it, and at rest. */
bool why_facts_is_there(const Drover__V1__StepStatus *step);

/* Return: the task queue of a step; NULL if it was not inspected. */
const struct session_queue *why_facts_queue(const struct why *why,
                                            const Drover__V1__StepStatus *step);

/* Whether the request of a step is, or was last, in a queue without consumers. Not if an agent has
 * begun it: an agent whose slots are all taken stops consuming. */
bool why_facts_has_no_consumer(const struct why *why, const Drover__V1__StepStatus *step);

/* ---- why_reason.c ---- */

/* Append the sentence. Return: the reason code; of a step NULL if it is where the job wants it, or
 * if the job has ended and the step has not failed for good. */
const char *why_reason_job(const Drover__V1__JobStatus *job, struct buf *out);
const char *why_reason_step(const struct why *why, const Drover__V1__StepStatus *step,
                            struct why_step *w);

/* ---- why_print.c ---- */

/* Prints codes and sentences in the format of --output. */
void why_print(struct why *why);
