// SPDX-License-Identifier: Apache-2.0
/*
 * Task queues: those that the publisher sends to are looked for, and declared
 *
 * A message to an actor is sent once the task queue of that actor was found, declared or refused
 * over the connection. If the queue was deleted, with all that was in it, that is reported first
 * (bus_callbacks.on_lost), and the messages to it are held until bus_declare(), at most for
 * BUS_HOLD_MS. All that over the side channel, so that a refusal does not take the confirms of
 * other messages with it. A process that may not declare learns only by a returned message that a
 * queue is gone.
 *
 * Used by publisher.c and bus.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/list.h"
#include "io/bus/link.h"
#include "io/bus/outgoing.h"

struct task_queues {
    struct list actors;          /* see io/bus/actors.h; declared: on this connection */
    struct list held;            /* messages to actors whose queue is not there */
    int64_t hold_until;          /* CLOCK_MONOTONIC ms; of all that are held */
    char asked[ID_NAME_MAX + 1]; /* the actor whose queue is looked for, or declared; "": none.
                                    Until that is answered nothing is sent, to keep the order */
};

void task_queues_init(struct task_queues *q);

/* The held messages have an owner of their own: see bus.c. */
void task_queues_deinit(struct task_queues *q);

/* The message was routed to its queue, or it came back. */
void task_queues_routed(struct task_queues *q, const struct link *link, const struct outgoing *m);
void task_queues_returned(struct task_queues *q, const struct link *link, const struct outgoing *m);

/* Whether the queue of this message must be looked for, or declared, before it is sent. */
bool task_queues_must_ask(const struct task_queues *q, const struct link *link,
                          const struct outgoing *m);

/* Looks for the queue of this message, or declares it. Return: 0 or enum link_error. */
int task_queues_ask(struct task_queues *q, struct link *link, const struct outgoing *m);

/* Takes the messages that are to be held from the head of @waiting, and puts back those that were
 * held for long enough. */
void task_queues_hold(struct task_queues *q, const struct link *link, struct list *waiting);
void task_queues_release(struct task_queues *q, struct link *link, struct list *waiting);

/* See bus_declare(). Its messages go to the head of @waiting. */
void task_queues_allow(struct task_queues *q, const struct link *link, struct list *waiting,
                       const char *actor);

/* The connection is lost. An actor over whose queue the broker has closed it is not declared over
 * the next one. */
void task_queues_lost(struct task_queues *q, const struct link *link);
