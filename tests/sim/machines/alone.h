// SPDX-License-Identifier: Apache-2.0
/*
 * Alone: one scheduler over the simulated store; a test delivers its messages and answers its calls
 *
 * What the scheduler does is kept as text, in order: "request s1" (one step, or all steps of a
 * batch), "reply {...}" and "dead REASON {...}" (bodies as they are, so ask in JSON), "event
 * {...}", "alert REASON", "inspect QUEUE", "declare ACTOR", "ack", "given back", "pause",
 * "consume". The broker confirms everything, or gives the outcome that is set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/wire.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

#define ALONE_EPOCH INT64_C(1700000000000)

/* The answer to the next call of a function, in place of that of the store. */
struct alone_answer {
    const char *function; /* NULL: the store answers */
    enum store_result result;
    /* items between spaces, + is a space within one; an error's message, NULL for none */
    const char *words;
};

struct alone {
    struct simstore *store;
    struct scheduler *scheduler;
    int64_t now, next;
    uint64_t handle, call, publish; /* of the last event or effect */
    uint64_t confirmed;             /* by alone_confirm(), up to here */
    struct alone_answer instead;
    uint32_t times;                 /* how many calls are answered so, */
    uint32_t skip;                  /* after this many others */
    const char *cut;                /* a function: of its answers only ... */
    uint32_t left;                  /* ... the first @left items arrive */
    uint32_t items;                 /* in the last answer of that function, uncut */
    enum bus_outcome outcome;       /* of all publishes but requests */
    bool unroutable;                /* no queue takes a request */
    const char *gone;               /* a reply queue that does not exist */
    bool waited;                    /* a request expires in the bus, as the broker reads nothing */
    uint32_t letters;               /* messages in drover.dead */
    bool silent;                    /* nothing has an outcome until alone_confirm() */
    char token[WIRE_TOKEN_MAX + 1]; /* of the last request, and */
    char actor[ID_NAME_MAX + 1];    /* its actor */
    char alert_step[ID_NAME_MAX + 1]; /* of the last alert */
    unsigned declared;                /* requests before which their queue is declared */
    const struct access *access; /* from the next restart on; NULL: everybody may do everything */
    int64_t horizon_ms;          /* likewise; 0: jobs may start at any time */
    struct buf reply;            /* the last one */
    struct buf alert;            /* likewise */
    struct buf reply_routes;     /* "queue/correlation " of each reply */
    struct buf request;          /* the last message with requests */
    struct buf tokens;           /* "step/token " of each request */
    struct buf story;
};

/* For cmocka; the state is a struct alone. */
int alone_setup(void **state);
int alone_teardown(void **state);

/* Replaces the scheduler by a new one, which has neither its operations nor its definitions. */
void alone_restart(struct alone *w);

void alone_step(struct alone *w, struct scheduler_event event);

/* Lets time pass, with the ticks that are due. */
void alone_pass(struct alone *w, int64_t ms);

/* Confirms all that was published so far. */
void alone_confirm(struct alone *w);

/* @d: NULL strings are "". Replies go to the queue "me" unless reply_to says otherwise. */
void alone_deliver(struct alone *w, struct bus_delivery d);
void alone_submit(struct alone *w, const char *json);
void alone_control(struct alone *w, const char *json);
void alone_replies(struct alone *w, const char *json);

/* Delivers a Control and decodes the Answer; the caller frees it. */
void alone_ask(struct alone *w, const char *json, struct wire_message *answer);

/* @said: the agent's reply to the last request, in JSON, such as "\"achieved\": \"STATE_ACTIVE\"".
 * */
void alone_serve(struct alone *w, const char *job, const char *step, const char *said);

/* Compares the story since the last call. */
void alone_expect(struct alone *w, const char *story);
