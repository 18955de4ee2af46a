// SPDX-License-Identifier: Apache-2.0
/*
 * Publisher: the link that sends and learns what became of it
 *
 * Used by bus.c and the fuzz target frames.
 */
#pragma once

#include "io/bus/direct.h"
#include "io/bus/link.h"
#include "io/bus/outgoing.h"
#include "io/bus/renewal.h"
#include "io/bus/task_queues.h"

/* A question about a queue. A new one replaces it. */
struct inspection {
    char queue[BUS_QUEUE_MAX + 1]; /* "": nothing is to be asked */
    bool asked;                    /* the broker */
    bool answered;                 /* by it: to be reported */
    bus_inspect_cb cb;
    void *ctx;
    uint32_t messages;
    uint32_t consumers;
};

/* Whether the broker reads on behind the first message of a connection: not under an alarm. */
enum reads {
    READS_UNKNOWN, /* none was sent */
    READS_ASKED,
    READS,
};

struct publisher {
    struct link link;
    struct list waiting; /* to be sent, in order */
    struct list wire;    /* sent, not confirmed, in order of tags */
    struct list refused; /* to be sent over another connection */
    int n_wire;
    uint64_t last_tag;
    enum reads reads;
    int64_t heard;   /* CLOCK_MONOTONIC ms of the last confirm, pulses aside */
    int64_t held_up; /* likewise: until then at least by an alarm */
    struct direct direct;
    struct renewal renewal;
    struct task_queues task_queues;
    struct inspection inspection;
};

extern const struct link_role publisher_role;

void publisher_init(struct publisher *p);
void publisher_deinit(struct publisher *p);

/* Takes messages over, to be sent after those that wait; without a connection it refuses those that
 * are bound to it. A pulse is sent before them: it has to
 * come back also while a queue confirms nothing, and many wait for that. */
void publisher_take(struct publisher *p, struct list *messages);

/* See bus_declare(). */
void publisher_allow(struct publisher *p, const char *actor);

/* See bus_inspect(). */
void publisher_inspect(struct publisher *p, const char *queue, bus_inspect_cb cb, void *ctx);
