// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the agent's machine: runs and publishes
 *
 * What the files of the machine share: agent.c, on_requests.c, suspects.c, run.c, requeue.c and
 * replies.c. No other file may include this header.
 *
 * The states of a run, and where each leads:
 *
 *     WAITING   in agent.waiting, without a slot      → RUNNING · REPLYING with DEFER · given back
 *     RUNNING   the driver has it, it holds a slot    → BACKOFF · REPLYING · STOPPING · no reply
 *     BACKOFF   between two tries, keeps its slot     → RUNNING · REPLYING
 *     STOPPING  AGENT_STOP was sent; holds its slot until its AGENT_DONE → REPLYING if in time · no
 *               reply. With `cut` set it was stopped before its lease was over: `cut` replaces the
 *               failure that the handler reports
 *     REPLYING  in agent.replies, then in a publish   → ends with the confirm, or at its deadline
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/delivery.h"
#include "agent/recent.h"
#include "agent/timer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/pace.h"
#include "model/wire.h"

#define MACHINE_HEARTBEATS 3 /* how many heartbeats the store waits for a Progress */
/* Where a step asks for no heartbeats, the agent publishes Progress once, as evidence that it has
 * begun: when the run has lasted for this share of its lease (a quarter) or for this time,
 * whichever is shorter. */
#define MACHINE_EVIDENCE_SHARE 4
#define MACHINE_EVIDENCE_MS 10000
#define MACHINE_EVIDENCE_AGAIN_MS 1000 /* before a refused one is published again */
#define SUSPECT_PROGRESS UINT64_MAX    /* publish.progress of a suspect, which is no run yet */
#define MACHINE_REFUSED_MS 200         /* the pause after the first refusal of a publish; doubles */
#define MACHINE_REFUSED_DOUBLINGS 6    /* at most: 12.8 s */
#define MACHINE_JSON_GROWTH 6          /* at most: a control character becomes \u0001 */
#define MACHINE_REPLY_BASE (4 * WIRE_KIB) /* most bytes of a reply besides result and details */

static_assert(MACHINE_JSON_GROWTH *
                      (WIRE_RESULT_MAX + WIRE_ERROR_DETAILS_MAX + MACHINE_REPLY_BASE) <=
                  WIRE_MESSAGE_MAX,
              "any one reply fits a message");

enum run_state {
    RUN_WAITING,
    RUN_RUNNING,
    RUN_BACKOFF,
    RUN_STOPPING,
    RUN_REPLYING,
};

/* One request, from its delivery to its reply. */
struct run {
    struct agent_run seen; /* what the driver sees of it */
    enum run_state state;
    UT_hash_handle by_id;
    UT_hash_handle by_token;
    struct list link; /* in agent.waiting, or in agent.replies[] */
    struct delivery *delivery;
    bool unseen;                    /* has a slot, and its delivery was acknowledged */
    bool hidden;                    /* has a slot, and its delivery is counted for another run */
    bool settled;                   /* the ack of the delivery does not wait for it any more */
    const struct agent_result *cut; /* replaces a failure of a run that was stopped; else NULL */
    struct list followers;          /* struct follower: further deliveries of the same token */
    struct timer deadline;          /* the end of the lease; of a waiting run: no slot came free */
    struct timer beat;              /* Progress is due */
    struct timer again;             /* the next try is due */
    int64_t started;                /* when the first try began; all times are monotonic ms */
    int64_t tried;                  /* when the present try began */
    int64_t held_until;             /* until when the last confirmed Progress keeps the lease */
    double fraction;                /* of the work that is done, 0 to 1; negative: not known */
    char note[WIRE_NOTE_MAX + 1];
    Drover__V1__StepReply reply; /* points to result or error, and with them into memory */
    Drover__V1__Payload result;
    Drover__V1__Error error;
    char *memory; /* owned */
};

/* A further delivery of a token that has a run; acknowledged together with it. */
struct follower {
    struct list link;
    struct delivery *delivery;
};

/* A suspect that waits to be read, or the present one. */
struct suspect {
    struct list link; /* in agent.suspects */
    struct delivery *delivery;
    struct bus_delivery seen; /* its body, owned, and whether that was cut; nothing else */
    char *job;                /* that its properties name, as the next two; owned, NULL: none */
    char *step;
    char *token;
    bool begun; /* it was read */
};

/* One message that has no outcome yet: the replies of its runs, or a dead letter, or Progress. */
struct publish {
    uint64_t id;
    UT_hash_handle hh;
    struct timer again; /* it is to be published again, after a refusal */
    unsigned refusals;
    struct delivery *dead; /* the dead letter; NULL: it is none */
    char *reason;          /* of the dead letter; owned */
    uint64_t progress;     /* of the run with this id, or SUSPECT_PROGRESS; 0: it is none */
    int64_t sent;          /* monotonic ms */
    size_t n;
    struct run *runs[AGENT_REPLIES];
};

struct agent {
    struct agent_config config; /* with what it points to */
    struct rng rng;
    bool draining;
    int64_t now;         /* of the present event, monotonic ms */
    struct effects *out; /* of the present event */
    uint64_t last_id;
    struct list deliveries;
    struct run *runs; /* by id */
    struct run *runs_by_token;
    struct recent bodies;    /* messages that this process has read and survived */
    struct recent ended;     /* tokens that were answered, or whose lease is over */
    struct list suspects;    /* that wait to be read */
    struct suspect *suspect; /* the present one */
    struct timer alone;      /* the present one may be read, or has proved harmless */
    struct list waiting;     /* runs without a slot */
    unsigned unseen;         /* runs with a slot whose message the broker does not count any more */
    unsigned hidden;         /* runs with a slot that the broker never counted: they were batched */
    bool freed;              /* a slot came free in this step */
    struct timer crowded;
    bool paused;            /* the consumers are cancelled */
    struct list replies[2]; /* gathered, for the next tick; [1]: to be sent as JSON */
    struct pace replying;
    struct publish *publishes;
    struct heap timers;
    struct agent_stats stats;
};

/* ---- on_requests.c ---- */

void on_requests(struct agent *a, const struct bus_delivery *d);
void on_answers(struct agent *a, const struct bus_delivery *d);
/* Reads the message @d and makes a run of each good request. Takes over the first hold on
 * @delivery. */
void requests_begin(struct agent *a, struct delivery *delivery, const struct bus_delivery *d);

/* ---- suspects.c ---- */

/* Return: whether the broker delivers @d again and this process has not read it. */
bool suspect(const struct agent *a, const struct bus_delivery *d);
/* Keeps the message until it may be read. Takes over the first hold on @delivery. */
void suspect_new(struct agent *a, struct delivery *delivery, const struct bus_delivery *d);
void suspect_free(struct suspect *s);
/* Runs at the end of each agent_step(): makes the next suspect the present one, if a slot is free
 * and the present one has ended. */
void suspects_admit(struct agent *a);
/* Gives all suspects back to the broker, but for the present one. */
void suspects_requeue(struct agent *a);
/* The Progress of the present suspect has an outcome. */
void suspects_told(struct agent *a);

/* ---- requeue.c ---- */

/* Runs at the end of each agent_step(): sees to it that the agent holds no more requests than it
 * has slots for. */
void slots_watch(struct agent *a);

/* ---- run.c ---- */

/* Makes a run of a request, which waits for a slot; of a duplicate none. @request: part of @d. */
void run_new(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request);
/* Fills the free slots with waiting runs. */
void runs_start(struct agent *a);
void run_done(struct agent *a, uint64_t id, const struct agent_result *result);
void run_progress(struct agent *a, uint64_t id, double fraction, const char *note);
/* The job does not want the run any more: stops it. */
void run_unwanted(struct agent *a, struct run *run);
/* Return: ms from one Progress to the next: at most the lease, even if the step asks for more. */
int64_t run_heartbeat(const struct run *run);
/* The broker has confirmed the Progress that was published at @sent. */
void run_renewed(struct agent *a, uint64_t id, int64_t sent);
/* The broker has returned or refused a Progress, or it was not sent in time. */
void run_not_renewed(struct agent *a, uint64_t id);
/* Ends a run whose lease is over, without a reply. */
void run_silent(struct agent *a, struct run *run);
/* Releases the ack, and frees the run. */
void run_end(struct agent *a, struct run *run);
/* Answers a waiting run DEFER; if its lease is over, gives it back or ends it without a reply. */
void run_defer(struct agent *a, struct run *run);
/* Gives a waiting run back to the broker, with its followers. */
void run_leave(struct agent *a, struct run *run);
void run_free(struct agent *a, struct run *run);
/* Ends all runs that no handler works on. Of the waiting ones, a run that came in a batch, or whose
 * message was acknowledged, is answered DEFER; the others are given back to the broker. A run in
 * BACKOFF is answered with its last failure. */
void runs_end_waiting(struct agent *a);
/* Starts draining. */
void runs_drain(struct agent *a);

/* ---- replies.c ---- */

/* Copies @result into the run's reply, in place of an earlier one. */
void reply_set(struct agent *a, struct run *run, const struct agent_result *result);
/* Adds the reply to those that leave with the next tick. */
void reply_gather(struct agent *a, struct run *run);
/* Publishes the gathered replies, if pace.h lets them leave now. */
void replies_flush(struct agent *a);
void progress_publish(struct agent *a, const struct run *run);
/* Publishes Progress of the request that the properties name: its body has not been read. */
void progress_of_suspect(struct agent *a, const struct suspect *s);
/* Publishes @from as a dead letter; @reason is copied. Holds the ack of @d until the confirm. */
void dead_letter(struct agent *a, struct delivery *d, const struct bus_delivery *from,
                 const char *reason);
/* A publish has an outcome. */
void on_outcome(struct agent *a, uint64_t id, enum bus_outcome outcome);
void publish_free(struct agent *a, struct publish *p);
