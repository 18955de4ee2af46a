// SPDX-License-Identifier: Apache-2.0
/*
 * Registration: the workflows of the configuration, which this scheduler registers in the store
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/item.h"

struct registration {
    struct workflow **workflows; /* owned */
    size_t n;
    unsigned in_progress; /* workflows that are not yet stored ... */
    bool repeat;          /* ... and then all once more: the store may have lost them */
};

/* Adds a workflow, with a reference of its own. Return: 0 or -ENOMEM. */
int registration_add(struct scheduler *s, struct workflow *w);

/* Stores the workflows: whenever the store may have lost them. */
void registration_begin(struct scheduler *s);

/* Whether one of the workflows names the actor. */
bool registration_has_actor(const struct scheduler *s, const char *actor);

void registration_free(struct scheduler *s);
