// SPDX-License-Identifier: Apache-2.0
/*
 * Items: deliveries that a scheduler works on, from their arrival to their acknowledgement
 *
 * An item has one operation (op.h) for each thing that it asks for: a Replies message with three
 * replies is one item with three operations. The item is acknowledged when its last operation is
 * done. Work that no delivery asks for has an item too, without a handle.
 *
 * All functions of this header, and of the others of the machine, run inside scheduler_step(),
 * except those that create, register or free. All times are monotonic ms, but those that are named
 * otherwise. Out of memory aborts the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "model/effect.h"
#include "model/wire.h"

struct scheduler;
struct item;
struct suspect;

/* What follows for an item, by the file that has made it. NULL: nothing. */
struct item_kind {
    /* The store refuses for good what the item asks for. @reason: of the dead letter. */
    void (*give_up)(struct scheduler *s, struct item *item, const char *reason);
    /* The item is acknowledged, and about to be freed. */
    void (*done)(struct scheduler *s, struct item *item);
};

/* How the bytes of a large message count in the intake. */
enum item_large {
    ITEM_NOT_LARGE, /* up to INTAKE_LARGE_BYTES */
    ITEM_UNREAD,
    ITEM_READ,
};

struct item {
    struct list link;   /* in scheduler.items */
    struct item *batch; /* the message of several Submits that it came in, and that waits for it */
    const struct item_kind *kind;
    uint64_t handle; /* of the delivery; 0: there is nothing to acknowledge */
    int source;
    bool redelivered;
    bool json;               /* the message is in JSON, so the answers are as well */
    bool several;            /* a message of several Submits */
    bool background;         /* a stopping scheduler does not wait for it; no delivery */
    struct suspect *suspect; /* owned; NULL: it is none (poison.c) */
    unsigned refs;           /* reference count: operations, and others that keep it */
    enum item_large large;
    bool read;      /* its body counts in intake_queue.read_bytes */
    char *reply_to; /* "" for none */
    char *user;     /* who sent it, as the broker says; "": the broker does not */
    char *actor;    /* of replies: whose agents sent them, as the broker says; "": it does not */
    char *correlation;
    struct wire_message message;
    struct bytes body; /* kept for a dead letter; owned */
};

/**
 * item_new() - begin to work on a delivery
 * @d:    copied as far as it is needed; NULL if no delivery asks for the work
 * @kind: not copied
 *
 * Return: the item with one reference, which the caller releases by item_unref().
 */
struct item *item_new(struct scheduler *s, const struct bus_delivery *d,
                      const struct item_kind *kind);

/* A new item for work that no delivery asks for, and that a stopping scheduler waits for. */
struct item *item_internal(struct scheduler *s);

/* Releases one reference to the item. When the last is released the delivery is acknowledged. */
void item_unref(struct scheduler *s, struct item *item);

/* Gives a delivery back to the broker, with all that came in one message, which may deliver it to
 * any scheduler. To be called when one of the two connections is lost and nothing that the delivery
 * asks for was begun. Has no effect if it came by the lost connection: then the broker has it
 * already. */
void item_give_back(struct scheduler *s, struct item *item);

/* Whether its message is large, and must not be kept in memory for long. */
bool item_is_large(const struct item *item);

/* Frees an item without acknowledging it: the scheduler is about to be freed. */
void item_free(struct scheduler *s, struct item *item);
