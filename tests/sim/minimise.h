// SPDX-License-Identifier: Apache-2.0
/*
 * Minimiser: the least of a world that still violates what it violated
 *
 * Takes back choices of chance (choices.h), first all of one site, then pieces of ever fewer (delta
 * debugging; Zeller, Hildebrandt 2002), as long as the same is said of what is violated, names and
 * numbers aside, until none can be taken back alone. Jobs, processes, steps and commands are
 * choices, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "choices.h"
#include "world.h"

/* So many times the events that it had at first, and a world counts as one without an end. */
#define MINIMISE_TIMES 10

/* Runs the world, so decided. */
typedef void minimise_run(void *ctx, struct decider *decider, struct world_result *out);

struct minimise_result {
    struct world_result before, after;
    uint32_t choices_before, choices_after; /* the least so far, while it goes on */
    uint32_t worlds;                        /* that were run */
};

/* After each world: how far it is. @kept: the choices, where they are fewer or earlier than ever,
 * and still violate the same; else NULL. */
typedef void minimise_told(void *ctx, const struct minimise_result *r, const struct choices *kept);

enum minimise_outcome {
    MINIMISE_LEAST,
    MINIMISE_NOTHING,  /* is violated */
    MINIMISE_DIVERGED, /* not where the choices that were just recorded are followed: our fault */
};

/* @choices: new ones. */
enum minimise_outcome minimise(struct choices *choices, minimise_run *run, minimise_told *told,
                               void *ctx, struct minimise_result *out);
