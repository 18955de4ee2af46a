// SPDX-License-Identifier: Apache-2.0
/*
 * Actors: see io/bus/actors.h
 *
 * Called by publisher.c.
 */
#include "io/bus/actors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct actor {
    struct list node;
    char name[];
};

static struct actor *of_node(const struct list *node)
{
    return list_entry(node, struct actor, node);
}

bool actors_have(const struct list *actors, const char *name)
{
    list_foreach(it, actors) {
        if (strcmp(of_node(it)->name, name) == 0)
            return true;
    }
    return false;
}

int actors_add(struct list *actors, const char *name)
{
    size_t size = strlen(name) + 1;
    struct actor *actor = malloc(sizeof(*actor) + size);

    if (!actor)
        return -ENOMEM;
    memcpy(actor->name, name, size);
    list_append(actors, &actor->node);
    return 0;
}

void actors_forget(struct list *actors)
{
    struct list *node;

    while ((node = list_pop(actors)))
        free(of_node(node));
}

void actors_forget_older(struct list *actors)
{
    while (!list_empty(actors) && actors->next != actors->prev)
        free(of_node(list_pop(actors)));
}
