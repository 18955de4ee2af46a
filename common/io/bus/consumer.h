// SPDX-License-Identifier: Apache-2.0
/*
 * Consumer: the link that delivers, and acknowledges what the loop is done with
 *
 * Used by bus.c and the fuzz target frames.
 */
#pragma once

#include "io/bus/actors.h"
#include "io/bus/link.h"

/* Acks: handles of deliveries, a growing array. */
struct acks {
    uint64_t *handles;
    size_t used;
    size_t size;
};

/* Puts one handle in. Return: 0 or -ENOMEM. */
int acks_push(struct acks *acks, uint64_t handle);

/* Moves all handles of @from behind those of @to. Return: 0, or -ENOMEM and nothing moved. */
int acks_move_all(struct acks *to, struct acks *from);

struct consumer {
    struct link link;
    bool stop;        /* no deliveries are wanted */
    bool stopped;     /* none come: cancelled, or not begun, on this connection */
    bool acks_lost;   /* out of memory: have everything delivered again */
    struct acks acks; /* for the next consumer_send(), like ... */
    struct acks requeues;
    uint64_t epoch;                        /* of this connection, from 1 */
    uint64_t low;                          /* all tags up to here are acknowledged */
    uint64_t high;                         /* the last tag delivered */
    uint8_t *tags;                         /* ring, state of the tags above low */
    size_t tags_size;                      /* a power of two */
    char pulse_key[BUS_PULSE_KEY_LEN + 1]; /* of this process */
    bool pulse_asked;      /* their queue is to be declared, as soon as the side channel is free */
    bool pulse;            /* it is consumed */
    struct list actors;    /* whose task queue is not there, to be consumed, see io/bus/actors.h */
    int64_t hold_until;    /* CLOCK_MONOTONIC ms: for so long they wait for bus_declare() */
    const char *declaring; /* one of them, over the side channel; NULL: none */
};

extern const struct link_role consumer_role;

/* After link_init(): makes the key of pulses. */
void consumer_init(struct consumer *c);
void consumer_deinit(struct consumer *c);

/* Whether it is connected, and all queues that it is to consume are there. */
bool consumer_is_up(const struct consumer *c);

/* See bus_declare(). */
void consumer_allow(struct consumer *c, const char *actor);

/* Asks for the queue of pulses, if there is none. */
void consumer_ask_for_pulse(struct consumer *c);
