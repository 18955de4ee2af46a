// SPDX-License-Identifier: Apache-2.0
/*
 * Settings: the machine's own copy of its configuration
 *
 * agent.c makes it; the files that need the settings of an actor look them up.
 */
#include "agent/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 100 /* the default of agent_config.retry_ms */

/* A message holds at most as many requests as the agent can begin at once: each actor gets an equal
 * share of the slots. Return: 0 for messages of one request. */
static unsigned batch_of(const struct agent_config *config, const struct agent_actor *actor)
{
    unsigned slots = config->concurrency / (unsigned)config->n_actors;
    unsigned batch = actor->batch < slots ? actor->batch : slots;

    return batch > 1 ? batch : 0;
}

int settings_copy(struct agent_config *to, const struct agent_config *from)
{
    struct agent_actor *actors = calloc(from->n_actors + 1, sizeof(*actors));

    *to = *from;
    to->actors = actors;
    to->n_actors = 0;
    to->name = strdup(from->name);
    if (!actors || !to->name)
        return -ENOMEM;
    for (; to->n_actors < from->n_actors; to->n_actors++) {
        actors[to->n_actors] = from->actors[to->n_actors];
        actors[to->n_actors].name = strdup(from->actors[to->n_actors].name);
        actors[to->n_actors].batch = batch_of(from, &from->actors[to->n_actors]);
        if (!actors[to->n_actors].name)
            return -ENOMEM;
    }
    if (to->retry_ms == 0)
        to->retry_ms = RETRY_MS;
    return 0;
}

void settings_free(struct agent_config *config)
{
    for (size_t i = 0; i < config->n_actors; i++)
        free((char *)config->actors[i].name);
    free((void *)config->actors);
    free((char *)config->name);
}

const struct agent_actor *settings_actor(const struct agent_config *config, const char *name)
{
    static const struct agent_actor plain = {.name = ""};

    for (size_t i = 0; i < config->n_actors; i++)
        if (strcmp(config->actors[i].name, name) == 0)
            return &config->actors[i];
    return &plain;
}
