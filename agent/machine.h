// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the agent: deliveries, runs, publishes
 *
 * A delivery is kept from its arrival to its end. Each of its requests is one run; what cannot be
 * run goes out as one dead letter. The delivery is acknowledged when nothing of it is open.
 *
 *     delivery ── run ── reply ──┐
 *             └── run ── reply ──┴─ publish ── confirmed: runs end, deliveries are acknowledged
 *             └── publish (dead letter)
 *                 run ── publish (Progress) ── confirmed: the lease is renewed
 *
 * States of a run, and where each leads:
 *
 *     WAITING   in agent.waiting, without a slot      → RUNNING · REPLYING with DEFER after a while
 *     RUNNING   the driver has it, it holds a slot    → BACKOFF · REPLYING · STOPPING
 *     BACKOFF   between two tries, keeps its slot     → RUNNING · REPLYING
 *     STOPPING  told to end, holds its slot until it has → REPLYING if in time · silence
 *               before its time, because of `cut`: what it fails with is not its own fault
 *     REPLYING  in agent.replies, then in a publish   → ended by the confirm, or by its deadline
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pace.h"
#include "model/wire.h"

#define MACHINE_RECENT 1024  /* requests that are remembered for a while */
#define MACHINE_HEARTBEATS 3 /* that the store waits for Progress */
#define MACHINE_RETRY_MS 100
/* A run that outlasts so much of its lease is told of once, where it needs no heartbeats: evidence
 * that its agent has begun. */
#define MACHINE_EVIDENCE_SHARE 4
#define MACHINE_EVIDENCE_MS 10000
#define MACHINE_EVIDENCE_AGAIN_MS 1000 /* where the broker has not taken it */
#define SUSPECT_PROGRESS UINT64_MAX
#define MACHINE_REFUSED_MS 200            /* before a refused publish is made again; doubles ... */
#define MACHINE_REFUSED_DOUBLINGS 6       /* ... up to 12.8 s */
#define MACHINE_JSON_GROWTH 6             /* at most: a control character becomes \u0001 */
#define MACHINE_REPLY_BASE (4 * WIRE_KIB) /* what a reply has besides result and details */

static_assert(MACHINE_JSON_GROWTH *
                      (WIRE_RESULT_MAX + WIRE_ERROR_DETAILS_MAX + MACHINE_REPLY_BASE) <=
                  WIRE_MESSAGE_MAX,
              "any one reply fits a message");

struct timer;
typedef void timer_fn(struct agent *a, struct timer *t);

struct timer {
    struct heap_node node; /* in agent.timers */
    timer_fn *fire;
};

struct delivery {
    struct list link; /* in agent.deliveries */
    uint64_t handle;
    unsigned refs;
    unsigned open; /* of the refs, those that hold the ack back */
    bool repeated; /* delivered or sent before */
    bool left;     /* to the broker: never acknowledged, delivered to another agent */
    bool acked;    /* before its time: see suspects.c */
    bool counted;  /* by the broker, for a run that has a slot */
    int64_t received;
    const char *actor; /* of its queue; as in agent.config, "" for none of those */
    struct wire_message message;
    struct bytes body; /* of a dead letter; owned */
};

enum run_state {
    RUN_WAITING,
    RUN_RUNNING,
    RUN_BACKOFF,
    RUN_STOPPING,
    RUN_REPLYING,
};

struct run {
    struct agent_run seen; /* by the driver */
    enum run_state state;
    UT_hash_handle by_id;
    UT_hash_handle by_token;
    struct list link; /* in agent.waiting, or in agent.replies[] */
    struct delivery *delivery;
    bool unseen;                    /* by the broker: acknowledged, and has a slot */
    bool hidden;                    /* from it, as its delivery counts for another one */
    bool settled;                   /* the delivery does not wait for this run any more */
    const struct agent_result *cut; /* short: what is said in place of a failure; NULL: it is not */
    struct list followers;          /* struct follower: deliveries of the same token */
    struct timer deadline;
    struct timer beat; /* Progress is due */
    struct timer again;
    int64_t started;    /* the first try */
    int64_t tried;      /* the present one */
    int64_t held_until; /* by the last Progress that the broker has taken */
    double fraction;
    char note[WIRE_NOTE_MAX + 1];
    Drover__V1__StepReply reply; /* the next three belong to it */
    Drover__V1__Payload result;
    Drover__V1__Error error;
    char *memory; /* that reply, result and error point into; owned */
};

struct follower {
    struct list link;
    struct delivery *delivery;
};

/* Digests of what was seen lately; all zero has seen nothing. */
struct recent {
    uint64_t digests[MACHINE_RECENT];
    size_t next;
};

/* A delivery that has not been read, or has just been. */
struct suspect {
    struct list link; /* in agent.suspects */
    struct delivery *delivery;
    struct bus_delivery seen; /* its body, owned, and whether that is all of it */
    char *job;                /* that its properties name, with the next two; owned */
    char *step;
    char *token;
    bool begun;
};

/* One message without an outcome: replies of these runs, or a dead letter, or Progress. */
struct publish {
    uint64_t id;
    UT_hash_handle hh;
    struct timer again;
    unsigned refusals;
    struct delivery *dead;
    char *reason;      /* of the dead letter; owned */
    uint64_t progress; /* of the run with this id, or SUSPECT_PROGRESS; 0: it is none */
    int64_t sent;
    size_t n;
    struct run *runs[AGENT_REPLIES];
};

struct agent {
    struct agent_config config; /* with what it points to */
    struct rng rng;
    bool draining;
    int64_t now;
    struct effects *out; /* of the step under way */
    uint64_t last_id;
    struct list deliveries;
    struct run *runs; /* by id */
    struct run *runs_by_token;
    struct recent bodies;    /* that were read, and did not kill us */
    struct recent ended;     /* tokens of which all is said */
    struct list suspects;    /* to be looked at, one after the other */
    struct suspect *suspect; /* the one that is */
    struct timer alone;
    struct list waiting; /* for a slot */
    unsigned unseen;     /* runs with a slot that the broker counts no more ... */
    unsigned hidden;     /* ... or never did: they came with others */
    bool freed;          /* a slot, in this step */
    struct timer crowded;
    bool paused;            /* no more deliveries are wanted */
    struct list replies[2]; /* for the turn's end; [1] as JSON */
    struct pace replying;
    struct publish *publishes;
    struct heap timers;
    struct agent_stats stats;
};

/* ---- agent.c ---- */

void timer_set(struct agent *a, struct timer *t, int64_t when, timer_fn *fire);
void timer_stop(struct agent *a, struct timer *t);
const struct agent_actor *actor_find(const struct agent *a, const char *name);

/* ---- on_requests.c ---- */

void on_requests(struct agent *a, const struct bus_delivery *d);
void on_answers(struct agent *a, const struct bus_delivery *d);
/* Reads it, and begins what it asks for; takes over the first hold on @delivery. */
void requests_begin(struct agent *a, struct delivery *delivery, const struct bus_delivery *d);
void delivery_hold(struct delivery *d);
/* What was held is done with: the ack, where it was the last. */
void delivery_settle(struct agent *a, struct delivery *d);
void delivery_drop(struct delivery *d);

/* ---- suspects.c ---- */

void recent_add(struct recent *r, struct bytes b);
bool recent_has(const struct recent *r, struct bytes b);
bool suspect(const struct agent *a, const struct bus_delivery *d);
/* Keeps it until it may be read; takes over the first hold on @delivery. */
void suspect_new(struct agent *a, struct delivery *delivery, const struct bus_delivery *d);
void suspect_free(struct suspect *s);
/* Ends a step: the next one, where there is a slot for it and the one before is done with. */
void suspects_admit(struct agent *a);
void suspects_requeue(struct agent *a);
/* The Progress of the present one has an outcome. */
void suspects_told(struct agent *a);

/* ---- requeue.c ---- */

void delivery_requeue(struct agent *a, struct delivery *d);
/* Ends a step: no more than there is room for. */
void slots_watch(struct agent *a);

/* ---- run.c ---- */

void run_new(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request);
/* Fills the free slots. */
void runs_start(struct agent *a);
void run_done(struct agent *a, uint64_t id, const struct agent_result *result);
void run_progress(struct agent *a, uint64_t id, double fraction, const char *note);
void run_unwanted(struct agent *a, struct run *run);
/* ms from one Progress to the next: at most its lease, whoever asked for more. */
int64_t run_heartbeat(const struct run *run);
/* The broker has taken the Progress that was published at @sent. */
void run_renewed(struct agent *a, uint64_t id, int64_t sent);
/* ... has not. */
void run_not_renewed(struct agent *a, uint64_t id);
/* Its lease is over: nothing is said. */
void run_silent(struct agent *a, struct run *run);
void run_end(struct agent *a, struct run *run);
/* It waits, and there is no slot: DEFER, or, where it was not acknowledged, it is the broker's
 * again. */
void run_defer(struct agent *a, struct run *run);
void run_leave(struct agent *a, struct run *run);
void run_free(struct agent *a, struct run *run);
/* Ends all runs that no handler works at: one whose message was acknowledged is answered DEFER, the
 * others are given back to the broker. */
void runs_end_waiting(struct agent *a);
void runs_drain(struct agent *a);

/* ---- replies.c ---- */

/* Keeps what the run is to say; on top of what it was to say before. */
void reply_set(struct agent *a, struct run *run, const struct agent_result *result);
void reply_gather(struct agent *a, struct run *run);
void replies_flush(struct agent *a);
void progress_publish(struct agent *a, const struct run *run);
/* Of what its properties say; nobody has read it. */
void progress_of_suspect(struct agent *a, const struct suspect *s);
void dead_letter(struct agent *a, struct delivery *d, const struct bus_delivery *from,
                 const char *reason);
void on_outcome(struct agent *a, uint64_t id, enum bus_outcome outcome);
void publish_free(struct agent *a, struct publish *p);

/* Copies at most @max bytes of text and a NUL: well-formed UTF-8 in whole characters, without
 * control characters but, where @lines, those that make lines. Return: bytes without the NUL. */
size_t text_copy(char *to, struct bytes from, size_t max, bool lines);
