// SPDX-License-Identifier: Apache-2.0
/*
 * Pair: two schedulers over one store, steered by hand
 *
 * The test decides which scheduler gets which delivery, what the broker does with an alert, which
 * scheduler dies when, and what the store forgets. Alerts are kept as text: "A NO_AGENT j0, B
 * PARKED j1".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "drover/v1/task.pb-c.h"
#include "scheduler/scheduler.h"
#include "store/replay.h"
#include "store/store.h"

#define PAIR_PARTITIONS 2
#define PAIR_EPOCH INT64_C(1700000000000)
#define PAIR_WAIT_MS INT64_C(1000) /* of each job's step, and its lease */
#define PAIR_JOBS_MAX 16
#define PAIR_LOSS_WINDOW_MS INT64_C(20000)

enum peer {
    A,
    B,
    PEERS_
};

/* What the broker does with an alert. */
enum mood {
    CONFIRMS,
    NACKS,
    SILENT
};

struct pair_job {
    char id[16];
    struct buf request; /* the last one published */
};

struct pair {
    struct simstore *store;
    struct replay *calls; /* store calls */
    const char *run;      /* the run id of its server */
    struct scheduler *peers[PEERS_];
    int64_t next[PEERS_]; /* when they want a tick */
    int64_t now;
    enum mood mood;
    bool full;           /* the store is full */
    const char *deaf_to; /* a function: the answer to its next call is lost; NULL: none */
    struct pair_job jobs[PAIR_JOBS_MAX];
    size_t n_jobs;
    uint64_t handle;
    struct buf reply; /* the last one */
    struct buf story;
};

/* For cmocka; the state is a struct pair. */
int pair_setup(void **state);
int pair_teardown(void **state);

void pair_step(struct pair *w, enum peer peer, struct scheduler_event event);

/* Connects it to the store again. */
void pair_connect(struct pair *w, enum peer peer);

/* It dies, and a new scheduler takes its place. */
void pair_die(struct pair *w, enum peer peer);

/* Lets time pass, with the ticks that are due. */
void pair_pass(struct pair *w, int64_t ms);

/* Delivers a message; pair_deliver_again(): with the redelivered flag. */
void pair_deliver(struct pair *w, enum peer peer, enum scheduler_source source, struct bytes body);
void pair_deliver_again(struct pair *w, enum peer peer, enum scheduler_source source,
                        struct bytes body);

struct pair_job *pair_job(struct pair *w, const char *id);

/* Submits a job of one step for actor "hand", which parks if it fails for good. */
void pair_submit(struct pair *w, enum peer peer, const char *id);

/* An agent has done the job's step, or failed; this scheduler gets the reply. */
void pair_served(struct pair *w, enum peer peer, const char *id);
void pair_reply(struct pair *w, enum peer peer, const char *id, Drover__V1__Error *error);

/* Compares the alerts since the last call. */
void pair_expect(struct pair *w, const char *story);
