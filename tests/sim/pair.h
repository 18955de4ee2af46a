// SPDX-License-Identifier: Apache-2.0
/*
 * Pair: two schedulers over one store, steered by hand
 *
 * Which of them gets which delivery, what the broker makes of an alert, who dies when, what the
 * store forgets. What they tell of it is kept as text: "A NO_AGENT j0, B PARKED j1".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "drover/v1/task.pb-c.h"
#include "replay.h"
#include "scheduler/scheduler.h"
#include "store.h"

#define PAIR_PARTITIONS 2
#define PAIR_EPOCH INT64_C(1700000000000)
#define PAIR_WAIT_MS INT64_C(1000) /* of each job's step, and its lease */
#define PAIR_JOBS_MAX 16

enum peer {
    A,
    B,
    PEERS_
};

/* What the broker makes of an alert. */
enum mood {
    CONFIRMS,
    NACKS,
    SILENT
};

struct pair_job {
    char id[16];
    struct buf request; /* as last published */
};

struct pair {
    struct simstore *store;
    struct replay *calls; /* of the store */
    const char *run;      /* of its server */
    struct scheduler *peers[PEERS_];
    int64_t next[PEERS_]; /* when they want a tick */
    int64_t now;
    enum mood mood;
    bool full;           /* the store */
    const char *deaf_to; /* a function, of whose next call the answer is lost; NULL: none */
    struct pair_job jobs[PAIR_JOBS_MAX];
    size_t n_jobs;
    uint64_t handle;
    struct buf reply; /* the last */
    struct buf story;
};

/* For cmocka; the state is a struct pair. */
int pair_setup(void **state);
int pair_teardown(void **state);

void pair_step(struct pair *w, enum peer peer, struct scheduler_event event);

/* To the store, once more. */
void pair_connect(struct pair *w, enum peer peer);

/* Dies, and another takes its place. */
void pair_die(struct pair *w, enum peer peer);

/* Time passes, with the ticks that fall into it. */
void pair_pass(struct pair *w, int64_t ms);

/* A message; again with the redelivered flag. */
void pair_deliver(struct pair *w, enum peer peer, enum scheduler_source source, struct bytes body);
void pair_deliver_again(struct pair *w, enum peer peer, enum scheduler_source source,
                        struct bytes body);

struct pair_job *pair_job(struct pair *w, const char *id);

/* A job of one step for actor "hand", which parks where it fails for good. */
void pair_submit(struct pair *w, enum peer peer, const char *id);

/* An agent has done the job's step, or failed; this scheduler gets the reply. */
void pair_served(struct pair *w, enum peer peer, const char *id);
void pair_reply(struct pair *w, enum peer peer, const char *id, Drover__V1__Error *error);

/* Compares what was told since the last look. */
void pair_expect(struct pair *w, const char *story);
