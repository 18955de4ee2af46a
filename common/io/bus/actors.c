// SPDX-License-Identifier: Apache-2.0
/*
 * Actors: see io/bus/actors.h
 *
 * Called by task_queues.c, consumer.c and bus.c.
 */
#include "io/bus/actors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct actor {
    struct list node;
    enum actor_state state; /* not ACTOR_UNKNOWN */
    char name[];
};

static struct actor *of_node(const struct list *node)
{
    return list_entry(node, struct actor, node);
}

static struct actor *find(const struct list *actors, const char *name)
{
    list_foreach(it, actors) {
        if (strcmp(of_node(it)->name, name) == 0)
            return of_node(it);
    }
    return NULL;
}

static void forget(struct actor *actor)
{
    list_remove(&actor->node);
    free(actor);
}

enum actor_state actors_state(const struct list *actors, const char *name)
{
    const struct actor *actor = find(actors, name);

    return actor ? actor->state : ACTOR_UNKNOWN;
}

int actors_set(struct list *actors, const char *name, enum actor_state state)
{
    struct actor *actor = find(actors, name);
    size_t size = strlen(name) + 1;

    if (actor && state == ACTOR_UNKNOWN)
        forget(actor);
    else if (actor)
        actor->state = state;
    if (actor || state == ACTOR_UNKNOWN)
        return 0;
    actor = malloc(sizeof(*actor) + size);
    if (!actor)
        return -ENOMEM;
    actor->state = state;
    memcpy(actor->name, name, size);
    list_append(actors, &actor->node);
    return 0;
}

const char *actors_in(const struct list *actors, enum actor_state state)
{
    list_foreach(it, actors) {
        if (of_node(it)->state == state)
            return of_node(it)->name;
    }
    return NULL;
}

void actors_forget(struct list *actors, enum actor_state state)
{
    list_foreach_safe(it, actors) {
        if (of_node(it)->state == state)
            forget(of_node(it));
    }
}

void actors_move(struct list *actors, enum actor_state from, enum actor_state to)
{
    list_foreach(it, actors) {
        if (of_node(it)->state == from)
            of_node(it)->state = to;
    }
}

void actors_deinit(struct list *actors)
{
    list_foreach_safe(it, actors)
        forget(of_node(it));
}
