// SPDX-License-Identifier: Apache-2.0
/*
 * Actors: what a link knows of the task queues of actors
 *
 * Pure. Used by task_queues.c, consumer.c and bus.c.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"

enum actor_state {
    ACTOR_UNKNOWN, /* its queue has to be looked for */
    ACTOR_LOST, /* its queue is not there, or was deleted: to be reported by bus_callbacks.on_lost
                 */
    ACTOR_MISSING, /* that is reported; bus_declare() is to follow */
    ACTOR_ALLOWED, /* its queue is to be declared */
    ACTOR_DECLARED,
    ACTOR_REFUSED, /* the broker will not declare it: on this connection it is not looked for again
                    */
};

/* All that are not in the list are unknown. */
enum actor_state actors_state(const struct list *actors, const char *name);

/* Sets the state of an actor. Return: 0 or -ENOMEM. */
int actors_set(struct list *actors, const char *name, enum actor_state state);

/* Return: an actor in this state, owned by the list; NULL for none. */
const char *actors_in(const struct list *actors, enum actor_state state);

/* Forgets the actors in this state. */
void actors_forget(struct list *actors, enum actor_state state);

/* Gives all actors in one state another. */
void actors_move(struct list *actors, enum actor_state from, enum actor_state to);

void actors_deinit(struct list *actors);
