// SPDX-License-Identifier: Apache-2.0
/*
 * Definitions: the cache of this process; loads definitions from the store and stores them
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/op.h"

/* Of all cached definitions; the newest one is kept in any case. */
#define DEFINITION_CACHED_BYTES 0x800000

struct definitions {
    struct definition *cached; /* oldest first */
    size_t bytes;              /* of memory that they take */
};

/* The cached definition of a digest, owned by the cache; NULL if it is not cached. */
struct workflow *definition_find(struct scheduler *s, const char *digest);

/* The workflow of a Submit: from the cache, or checked and new. Return: as workflow_new(); *out
 * is a new reference, released by the caller. */
int definition_of(struct scheduler *s, const Drover__V1__Workflow *m, struct workflow **out,
                  struct problem *problem);
/* Adds a definition to the cache, with a reference of its own. */
void definition_keep(struct scheduler *s, struct workflow *w);

/* Loads the definition of the operation's digest into the cache, then calls @resume with a copy of
 * what @rest still holds. */
void definition_load(struct scheduler *s, struct op *op, const struct ops_reader *rest,
                     op_answered_fn *resume);

/* Stores the operation's own definition piece by piece, then calls @then (NULL: nothing). */
void definition_store(struct scheduler *s, struct op *op, op_fn *then);

/* Empties the cache. Operations may still have references to what was in it. */
void definition_free_all(struct scheduler *s);
