// SPDX-License-Identifier: Apache-2.0
/*
 * Alone: one scheduler over the simulated store, to be asked and told by hand
 *
 * What it says is kept as text, one thing after the other: "request s1" (a step, or all of those
 * that travel together), "reply {…}" and "dead REASON {…}" (bodies as they are, so ask in JSON),
 * "event {…}", "alert REASON", "look QUEUE", "ack",
 * "given back", "pause", "consume". The broker takes all of it, or what outcome
 * says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/wire.h"
#include "scheduler/scheduler.h"
#include "store.h"

#define ALONE_EPOCH INT64_C(1700000000000)

/* What the store answers to the next call of a function, instead of being called. */
struct alone_answer {
    const char *function; /* NULL: the store answers */
    enum store_result result;
    const char
        *words; /* the items, with spaces between, and + for one within; of an error its message */
};

struct alone {
    struct simstore *store;
    struct scheduler *scheduler;
    int64_t now, next;
    uint64_t handle, call, publish; /* the last */
    uint64_t confirmed;             /* by hand, up to here */
    struct alone_answer instead;
    uint32_t times;                 /* how often ... */
    uint32_t skip;                  /* ... behind so many calls */
    const char *cut;                /* a function: of its answers only the first ... */
    uint32_t left;                  /* ... so many items arrive */
    uint32_t items;                 /* the last answer of that function had so many */
    enum bus_outcome outcome;       /* of all but requests ... */
    bool unroutable;                /* ... which no queue takes */
    const char *gone;               /* a queue that does not exist */
    bool waited;                    /* ... or which the broker read nothing of for long */
    uint32_t letters;               /* that are in drover.dead */
    bool silent;                    /* nothing has an outcome, until alone_confirm() */
    char token[WIRE_TOKEN_MAX + 1]; /* of the last request, ... */
    char actor[ID_NAME_MAX + 1];    /* ... and to whom it went */
    unsigned declared;              /* requests whose queue is declared before */
    const struct access *access; /* from the next restart on; NULL: everybody may do everything */
    struct buf reply;            /* the last */
    struct buf told;             /* "queue/correlation " of each reply */
    struct buf story;
};

/* For cmocka; the state is a struct alone. */
int alone_setup(void **state);
int alone_teardown(void **state);

/* Another scheduler in its place: without what it had begun, and the definitions that it knew. */
void alone_restart(struct alone *w);

void alone_step(struct alone *w, struct scheduler_event event);

/* Time passes, with the ticks that fall into it. */
void alone_pass(struct alone *w, int64_t ms);

/* What was published so far has reached the broker, and is confirmed. */
void alone_confirm(struct alone *w);

/* @d: NULL strings are "". Replies go to the queue "me", where reply_to does not say otherwise. */
void alone_deliver(struct alone *w, struct bus_delivery d);
void alone_submit(struct alone *w, const char *json);
void alone_control(struct alone *w, const char *json);
void alone_replies(struct alone *w, const char *json);

/* Likewise, and reads the answer; the caller's. */
void alone_ask(struct alone *w, const char *json, struct wire_message *answer);

/* What the agent says of the last request, in JSON, such as "\"achieved\": \"STATE_ACTIVE\"". */
void alone_serve(struct alone *w, const char *job, const char *step, const char *said);

/* Compares what was said since the last look. */
void alone_expect(struct alone *w, const char *story);
