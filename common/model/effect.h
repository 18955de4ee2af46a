// SPDX-License-Identifier: Apache-2.0
/*
 * Effects: what a machine wants done
 *
 * A machine is a pure step function: an event goes in, effects come out. The driver of the daemon
 * performs the effects in the order of the list, then resets the list. All that an effect points to
 * is in the arena of the list and is valid until that reset, so a machine may build bodies there
 * and need not free them.
 *
 * The bus and the store use the structs below as well, so the simulated bus and store take the same
 * structs as the real ones. Called by machines, their drivers and the simulator.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* A message that the broker has delivered. All texts are NUL-terminated, and "" if the property is
 * absent. */
struct bus_delivery {
    uint64_t handle; /* id of EFFECT_ACK and EFFECT_REQUEUE */
    int source;
    bool redelivered;
    bool resent;    /* header drover-resent: an agent may have another copy already */
    bool transient; /* neither it nor its queue is on disk: a broker that restarts loses it */
    bool batch;     /* its type is drover.v1.Submits */
    bool oversize;  /* the body was cut at the limit: it is refused, or a dead letter */
    struct bytes body;
    const char *actor; /* of the task queue that it came from; for replies, what wire_reply_by()
                          returns for the exchange that they were published to; "" for none */
    const char *content_type;
    const char *message_id;
    const char *correlation_id;
    const char *reply_to;
    const char *user_id;
    const char *traceparent; /* header traceparent */
    const char *job;         /* header drover-job */
    const char *step;        /* header drover-step */
    const char *died_of;     /* header x-first-death-reason: why the broker has dead-lettered it:
                                expired, rejected, … */
};

/* A message to publish. A property or header whose string is NULL is left out. */
struct bus_message {
    const char *exchange; /* "" for the default exchange: the key is the queue */
    const char *key;
    struct bytes body;
    const char *content_type;
    const char *type; /* full name of the message, such as "drover.v1.Requests" */
    const char *message_id;
    const char *correlation_id;
    const char *reply_to;
    const char *traceparent; /* header traceparent */
    const char *job;         /* header drover-job */
    const char *step;        /* header drover-step */
    const char *reason;      /* header drover-reason */
    int64_t attempt;         /* header drover-attempt; 0 for none */
    int64_t ask_after;  /* CLOCK_MONOTONIC ms; from then on the bus does not send it for the first
                           time (BUS_WAITED), so that the machine asks the store first whether it is
                           still wanted; 0 for no such time */
    int64_t not_after;  /* CLOCK_MONOTONIC ms; from then on the bus does not send it any more; 0 for
                           no such time */
    const char *sender; /* the user that has named the key, an address of direct reply-to, and that
                           is accountable for it; NULL or "" if unknown */
    const char *actor;  /* if not NULL, and bus_config.declare is set, the bus declares the task
                           queue of this actor before the publish: once in a connection, and again
                           after a returned message */
    bool expires;   /* the broker does not deliver it from not_after on: AMQP expiration, set to the
                       time that is left when it is sent */
    bool resent;    /* header drover-resent: it may have been sent before */
    bool mandatory; /* the broker returns it if no queue takes it */
    bool transient; /* delivery mode 1 */
    bool cached;    /* the store can have it made again: transient if the broker's queues are of one
                       node, see bus_config.cached */
    bool bound;     /* sent over the present connection or not at all (BUS_NACKED) */
};

enum bus_outcome {
    BUS_CONFIRMED, /* the broker has routed it and is responsible for it */
    BUS_RETURNED,  /* it is mandatory and no queue took it: the broker has dropped it */
    BUS_NACKED,    /* the broker refused the message, or returned it after a second send, or the bus
                      gave it up. If an earlier send was on a connection that was lost the broker
                      may have that copy */
    BUS_WAITED,    /* ask_after passed, and the broker has never received it */
    BUS_UNSENT,    /* not_after passed, and the broker has never received it */
    BUS_EXPIRED,   /* not_after passed, and a connection that was lost may have carried it */
};

enum store_result {
    STORE_OK,      /* the answer holds what the function returned */
    STORE_ERROR,   /* the store refused; the answer holds one item, the error message. Nothing or
                      only a part was done: the caller repeats the call when the cause is gone */
    STORE_OOM,     /* the store is out of memory and has done nothing */
    STORE_UNKNOWN, /* no answer: the store may have done it. The caller repeats the call */
};

struct store_answer {
    enum store_result result;
    const struct bytes *items; /* valid during the callback only */
    uint32_t n;
};

/* Return: a copy in one piece of memory, which the caller frees with free(); NULL if out of memory.
 */
struct store_answer *store_answer_copy(const struct store_answer *answer);

enum effect_type {
    EFFECT_STORE,   /* call a store function; the answer comes back with the id */
    EFFECT_PUBLISH, /* publish a message; the outcome comes back with the id, unless that is 0 */
    EFFECT_ACK,     /* acknowledge the delivery whose handle is the id */
    EFFECT_REQUEUE, /* give that delivery back: the broker delivers it again, to any consumer */
    EFFECT_CONSUME, /* start or stop consuming; what the broker has sent before still arrives */
    EFFECT_ROLE,    /* an effect of one role, which only its driver knows */
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
        bool wanted; /* EFFECT_CONSUME: start, else stop */
        struct {
            int what; /* an enum of the role */
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

/* Removes all effects and frees their memory; keeps one block for the next step. */
void effects_reset(struct effects *fx);

/* Memory in the arena, valid until the reset, aligned for any type. The process aborts if memory is
 * out: the prefetch bounds the effects of one step, and a driver must never perform only a part of
 * them. */
void *effects_alloc(struct effects *fx, size_t len);
struct bytes effects_copy(struct effects *fx, struct bytes b);
char *effects_text(struct effects *fx, struct bytes b); /* followed by a NUL */
const char *effects_str(struct effects *fx, const char *s);
struct bytes effects_int(struct effects *fx, int64_t i); /* in decimal, followed by a NUL */
const char *effects_printf(struct effects *fx, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

/* Adds an effect at the end of the list, all zero except type and id. The pointer is valid until
 * the next effect is added. */
struct effect *effects_add(struct effects *fx, enum effect_type type, uint64_t id);
