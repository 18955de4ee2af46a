// SPDX-License-Identifier: Apache-2.0
/*
 * Runs: requests, from their delivery to their reply
 *
 * The states of a run, and where each leads:
 *
 *     WAITING   in agent.waiting, without a slot      → RUNNING · REPLYING with DEFER · given back
 *     RUNNING   the driver has it, it holds a slot    → BACKOFF · REPLYING · STOPPING · no reply
 *     BACKOFF   between two tries, keeps its slot     → RUNNING · REPLYING
 *     STOPPING  AGENT_STOP was sent; holds its slot   → REPLYING if the handler ends in time · no
 *               until its AGENT_DONE                    reply
 *     REPLYING  in agent.replies, then in a message   → ends with the confirm, or at its deadline
 *
 * If `cut` is set, the run was stopped before the end of its lease, and `cut` replaces a failure
 * that the handler reports.
 *
 * waiting.c has the runs that wait, running.c those with a slot, replies.c those that reply.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/delivery.h"
#include "agent/reply.h"
#include "agent/slots.h"
#include "agent/timer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/recent.h"

enum run_state {
    RUN_WAITING,
    RUN_RUNNING,
    RUN_BACKOFF,
    RUN_STOPPING,
    RUN_REPLYING,
};

/* One request. All times are monotonic ms. */
struct run {
    struct agent_run seen; /* what the driver sees of it */
    enum run_state state;
    UT_hash_handle by_id;
    UT_hash_handle by_token;
    struct list link; /* in agent.waiting, or in agent.replies */
    struct delivery *delivery;
    struct list followers; /* further deliveries of the same token: run.c */
    struct slot slot;
    bool settled;                   /* the ack of the delivery does not wait for it any more */
    const struct agent_result *cut; /* replaces a failure of a run that was stopped; else NULL */
    struct timer deadline;          /* the end of the lease; of a waiting run: no slot came free */
    struct timer beat;              /* Progress is due */
    struct timer again_timer;       /* the next try is due */
    int64_t started;                /* when the first try began */
    int64_t tried;                  /* when the present try began */
    int64_t lease_until;            /* until when the last confirmed Progress keeps the lease */
    double fraction;                /* of the work that is done, 0 to 1; negative: not known */
    char note[WIRE_NOTE_MAX + 1];
    struct reply reply;
};

struct runs {
    struct run *by_id;
    struct run *by_token;
    struct recent ended; /* tokens that were answered, or whose lease is over */
};

/* Return: a new run of a request, in the state WAITING; NULL for a duplicate. @request: part of
 * @d. */
struct run *run_new(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request);

/* Return: NULL if there is none. */
struct run *run_find(const struct agent *a, uint64_t id);
struct run *run_find_token(const struct agent *a, const char *token);

/* Whether it is in progress, and was not stopped. */
static inline bool run_is_under_way(const struct run *run)
{
    return run->state == RUN_RUNNING || run->state == RUN_BACKOFF;
}

/* Return: when the handler must stop, so that a reply is in time. */
int64_t run_stop_time(const struct agent *a, const struct run *run);
/* Sets the timer to the end of the lease: as the request gave it, or as the last confirmed Progress
 * renewed it, whichever is earlier. */
void run_watch_lease(struct agent *a, struct run *run, timer_fn *fire);
/* A confirmed Progress keeps the lease until then. */
void run_renew(struct agent *a, struct run *run, int64_t lease_until);

/* Copies @result into the run's reply, in place of an earlier one. */
void run_set_reply(struct agent *a, struct run *run, const struct agent_result *result);

/* Releases the ack of its deliveries, unless that was done. */
void run_settle(struct agent *a, struct run *run);

/* The following end a run, and free it. */

/* The broker has its reply. */
void run_answered(struct agent *a, struct run *run);
/* Its lease is over: there is no reply. */
void run_silent(struct agent *a, struct run *run);
/* Gives it back to the broker, with its followers. */
void run_give_back(struct agent *a, struct run *run);
/* The agent is about to be freed. */
void run_free_all(struct agent *a);
