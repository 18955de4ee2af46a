// SPDX-License-Identifier: Apache-2.0
/*
 * Effects: what a role machine wants done in the world
 *
 * A machine is a pure step function, event in, effects out. Its driver performs the effects in the
 * order in which they stand, then resets the list. Everything an effect points to lives in the
 * list's arena until that reset, so a machine may build bodies there and forget them.
 *
 * The structs below are also what the bus and the store speak, so that the simulator's bus and
 * store and the real ones take the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* One delivery. All text NUL-terminated, "" where the property is absent. */
struct bus_delivery {
    uint64_t handle; /* for the ack */
    int source;
    bool redelivered;
    bool resent;   /* header drover-resent: there may be another copy, at work already */
    bool oversize; /* body cut at the limit: only good for a dead letter */
    struct bytes body;
    const char
        *actor; /* of the task queue that it was read from, or, of replies, as wire_reply_by()
                   says it of the exchange that they were published to; "" for none */
    const char *content_type;
    const char *message_id;
    const char *correlation_id;
    const char *reply_to;
    const char *user_id;
    const char
        *traceparent; /* the header; likewise drover-job, drover-step and x-first-death-reason */
    const char *job;
    const char *step;
    const char *died_of; /* why the broker has dead-lettered it: expired, rejected, … */
};

/* A message to publish. NULL strings are left out. */
struct bus_message {
    const char *exchange; /* "" is the default exchange: key = queue */
    const char *key;
    struct bytes body;
    const char *content_type;
    const char *type; /* full message name, such as "drover.v1.Requests" */
    const char *message_id;
    const char *correlation_id;
    const char *reply_to;
    const char *traceparent; /* header */
    const char *job;         /* header drover-job; likewise the next two */
    const char *step;
    const char *reason; /* header drover-reason */
    int64_t attempt;    /* header drover-attempt; 0: none */
    int64_t ask_after; /* CLOCK_MONOTONIC ms from which on it is not sent for the first time, as who
                          publishes it is to ask first whether it is wanted still; 0: always */
    int64_t not_after; /* CLOCK_MONOTONIC ms from which on it is not sent any more; 0: always */
    const char *sender; /* who has named the key, an address of direct reply-to, and answers for it;
                           NULL or "": nobody knows */
    const char *actor;  /* not NULL: the actor's task queue is declared (once a connection)
                           before the publish, where the bus may declare */
    bool expires; /* nor delivered from not_after on: AMQP expiration, what is left when sent */
    bool resent;  /* header drover-resent: it may have been sent before */
    bool mandatory;
    bool transient; /* delivery mode 1 */
};

enum bus_outcome {
    BUS_CONFIRMED, /* the broker has it, routed */
    BUS_RETURNED,  /* mandatory and no queue: the broker dropped it */
    BUS_NACKED,  /* the broker refused it, or did so or returned it when it was sent once more after
                    a  connection was lost: the broker may have it all the same */
    BUS_WAITED,  /* ask_after passed, and the broker never saw it */
    BUS_UNSENT,  /* not_after passed, and the broker never saw it */
    BUS_EXPIRED, /* not_after passed, and a connection that was lost may have carried it */
};

enum store_result {
    STORE_OK,      /* answer holds what the function returned */
    STORE_ERROR,   /* the server refused; answer holds one item, its message; nothing was done, or
                      less than all: repeat when the cause is gone */
    STORE_OOM,     /* out of memory: refused whole */
    STORE_UNKNOWN, /* no answer: repeat */
};

struct store_answer {
    enum store_result result;
    const struct bytes *items; /* valid during the callback only */
    uint32_t n;
};

/* A copy in one piece of memory, which free() frees; NULL where out of memory. */
struct store_answer *store_answer_copy(const struct store_answer *answer);

enum effect_type {
    EFFECT_STORE,   /* call a store function; the answer comes back with the id */
    EFFECT_PUBLISH, /* publish; the outcome comes back with the id, unless that is 0 */
    EFFECT_ACK,     /* acknowledge the delivery whose handle is the id */
    EFFECT_REQUEUE, /* give it back instead: the broker delivers it to whoever consumes */
    EFFECT_CONSUME, /* more deliveries are wanted, or not; what was sent before still arrives */
    EFFECT_ROLE,    /* what only this role's driver understands */
};

struct effect {
    enum effect_type type;
    uint64_t id;
    union {
        struct {
            uint32_t partition;
            const char *function;
            const struct bytes *args;
            int n;
        } store;
        struct bus_message publish;
        bool wanted;
        struct {
            int what; /* the role's own enum */
            void *object;
        } role;
    };
};

struct effect_block;

/* All zero is an empty list. */
struct effects {
    struct effect *items;
    size_t n;
    size_t size;
    struct effect_block *blocks;
};

void effects_deinit(struct effects *fx);

/* Forgets the effects and their memory; keeps one block for the next turn. */
void effects_reset(struct effects *fx);

/* Memory that lives until the reset, aligned for any type. Out of memory aborts: a turn's effects
 * are bounded by the prefetch, and half of them must never be performed. */
void *effects_alloc(struct effects *fx, size_t len);
struct bytes effects_copy(struct effects *fx, struct bytes b);
char *effects_text(struct effects *fx, struct bytes b); /* with a NUL behind */
const char *effects_str(struct effects *fx, const char *s);
struct bytes effects_int(struct effects *fx, int64_t i); /* in decimal, with a NUL behind */
const char *effects_printf(struct effects *fx, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

/* A new effect at the end, zeroed but for type and id; valid until the next one is added. */
struct effect *effects_add(struct effects *fx, enum effect_type type, uint64_t id);
