// SPDX-License-Identifier: Apache-2.0
/*
 * Deliveries: messages of requests, from their arrival to their end
 *
 * Each request of a delivery that is valid becomes one run. If one is not, the whole message is
 * also published as a dead letter. The delivery is acknowledged when all of its parts are settled,
 * and freed when nothing refers to it.
 *
 *     delivery ── run ── reply ──┐
 *             └── run ── reply ──┴─ message ── confirmed: runs end, deliveries are acknowledged
 *             └── message (dead letter)
 *                 run ── message (Progress) ── confirmed: a run with heartbeats may go on for
 *                                              three more of them, within its lease
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/status.h"
#include "model/effect.h"
#include "model/wire.h"

struct agent;

struct delivery {
    struct list link;   /* in agent.deliveries */
    uint64_t handle;    /* of the bus, for the ack */
    unsigned refs;      /* from runs, followers (run.h), a dead letter, a suspect */
    unsigned unsettled; /* how many of the refs the ack waits for */
    bool repeated;      /* it was delivered or sent before */
    bool left;          /* given back, or left unacknowledged: the broker delivers it again */
    bool acked;         /* it was acknowledged before it was read: see suspect.c */
    bool counted;       /* one of its runs with a slot stands for it in the broker's prefetch */
    int64_t received;   /* monotonic ms */
    const char *actor;  /* of its queue, as in agent.config; "" if the config does not list it */
    struct wire_message message;
    struct bytes body; /* of the dead letter that it became; owned */
};

/* Return: a new delivery with one reference, until all its requests are runs. */
struct delivery *delivery_new(struct agent *a, const struct bus_delivery *d);

/* Decodes the body @d. Return: NULL, or what is wrong with the whole message; see wire_reason(). */
const char *delivery_decode(enum wire_type type, const struct bus_delivery *d,
                            struct wire_message *out, struct problem *problem);

/* Adds a reference that the ack waits for. delivery_settle() ends that wait, delivery_drop()
 * releases the reference. */
void delivery_ref(struct delivery *d);
/* The ack waits for one reference less. Acknowledges the delivery when it was the last. */
void delivery_settle(struct agent *a, struct delivery *d);
/* One reference less. Frees the delivery when it was the last. */
void delivery_drop(struct delivery *d);

/* Acknowledges a delivery before it is read. */
void delivery_acknowledge(struct agent *a, struct delivery *d);

/* Gives the message back to the broker, unless that was done or it was acknowledged. */
void delivery_requeue(struct agent *a, struct delivery *d);
/* The same, for one of its runs. A message that other runs refer to does not go back now. It is
 * left unacknowledged, so that the broker delivers all of it again when the connection ends. */
void delivery_leave(struct agent *a, struct delivery *d);

/* Whether the message has several requests. It must have been decoded. */
static inline bool delivery_is_batch(const struct delivery *d)
{
    return d->message.requests->n_requests > 1;
}
