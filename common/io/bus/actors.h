// SPDX-License-Identifier: Apache-2.0
/*
 * Actors: those whose task queues were declared on a connection, part of the publisher
 *
 * Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"

bool actors_have(const struct list *actors, const char *name);

/* Adds an actor, at the end. Return: 0 or -ENOMEM. */
int actors_add(struct list *actors, const char *name);

void actors_forget(struct list *actors);

/* Forgets all but the last that was added. */
void actors_forget_older(struct list *actors);
