// SPDX-License-Identifier: Apache-2.0
/*
 * Topology: the exchanges and queues of the wire contract
 *
 * All functions make calls of a link, and return 0 or an enum link_error. Used by publisher.c and
 * consumer.c.
 */
#pragma once

#include "io/bus/link.h"

#define TOPOLOGY_EXPIRED "drover.expired" /* exchange and queue */

/* Declares the exchanges, queues and bindings, but those of topology_declare(); or checks that all
 * exchanges and queues are there. */
int topology_ensure(struct link *link);

/* See struct link_role: queues that exist keep their type if config->as_found is set. */
bool topology_adapt(struct link *link);

/* Looks for the task queue of an actor, and the exchange for its replies; or for the queue of the
 * replies of WIRE_ALL_ACTORS. The broker closes the channel if one is not there. */
int topology_find(struct link *link, uint16_t channel, const char *actor);

/* Which of them does not exist, by the broker's last refusal. The exchange stays when the queue is
 * deleted: so if only the queue is missing, it was deleted. */
enum topology_missing {
    TOPOLOGY_NOTHING,
    TOPOLOGY_QUEUE,
    TOPOLOGY_ALL,
};
enum topology_missing topology_missing(const struct link *link, const char *actor);

/* Declares what topology_find() looks for. */
int topology_declare(struct link *link, uint16_t channel, const char *actor);

/* Declares a queue of this connection for pulses over the side channel, and proves that it may be
 * read. @key: binds it. */
int topology_declare_pulse(struct link *link, const char *queue, const char *key);

/* Asks how many messages and consumers a queue has, over the side channel. */
int topology_inspect(struct link *link, const char *queue, link_answered answered);
