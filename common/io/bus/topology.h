// SPDX-License-Identifier: Apache-2.0
/*
 * Topology: the exchanges and queues of the wire contract
 *
 * All functions make calls of a link, and return 0 or an enum link_error. Used by publisher.c and
 * consumer.c.
 */
#pragma once

#include "io/bus/link.h"

/* Declares every exchange, queue and binding, or checks that the exchanges and queues are there. */
int topology_ensure(struct link *link);

/* See struct link_role: queues that exist keep their type if config->as_found is set. */
bool topology_adapt(struct link *link);

/* Declares the task queue of an actor over a channel. */
int topology_declare_task(struct link *link, uint16_t channel, const char *actor);

/* Declares a queue of this connection for pulses over the side channel, and proves that it may be
 * read. @key: binds it. */
int topology_declare_pulse(struct link *link, const char *queue, const char *key);

/* Asks how many messages and consumers a queue has, over the side channel. */
int topology_inspect(struct link *link, const char *queue, link_answered answered);
