// SPDX-License-Identifier: Apache-2.0
/*
 * Intake: bounds the bytes of messages that are worked on at a time
 */
#pragma once

#include "scheduler/op.h"
#include "scheduler/scheduler.h"

#define INTAKE_SMALL_BYTES (2 * WIRE_KIB)   /* up to this a message is small, and never waits */
#define INTAKE_LARGE_BYTES (64 * WIRE_KIB)  /* beyond this it is large */
#define INTAKE_READ_BYTES (4 * WIRE_MIB)    /* read at a time, of each queue, without small ones */
#define INTAKE_UNREAD_BYTES (32 * WIRE_MIB) /* of large messages that wait, of all queues */

/* The messages of one queue that are not small. */
struct intake_queue {
    struct list waiting; /* operations of messages that are not read yet */
    size_t read_bytes;   /* of the messages that are read and not done */
};

/* Reads a message and begins what it asks for. */
typedef void intake_read_fn(struct scheduler *s, struct item *item, const struct bus_delivery *d);

struct intake {
    intake_read_fn *read;
    struct intake_queue queues[SCHEDULER_SOURCES];
    size_t unread_bytes;    /* of large messages that wait */
    bool consuming_stopped; /* too many of these bytes: nothing is consumed */
};

/* @read: called for each message, when there is capacity. */
void intake_init(struct intake *in, intake_read_fn *read);
/* Whether a delivery goes back to the broker instead of being read. */
bool intake_gives_back(struct scheduler *s, const struct bus_delivery *d);
/* A new item: counts its body if it is large. */
void intake_came(struct scheduler *s, struct item *item);
/* Reads a message now, or when there is capacity. @d: copied if it waits. */
void intake_read(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* The item is done: its bytes do not count any more. */
void intake_done(struct scheduler *s, const struct item *item);
/* Reads messages that wait, as far as there is capacity. */
void intake_go_on(struct scheduler *s);
/* A connection to the broker is lost: gives back the messages that wait. */
void intake_lost(struct scheduler *s);
void intake_free(struct scheduler *s);

/* A copy of a delivery, valid after the present event; its body remains the item's. The caller
 * frees it by one free(). */
struct bus_delivery *intake_copy(const struct bus_delivery *d, struct bytes body);
