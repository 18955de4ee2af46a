// SPDX-License-Identifier: Apache-2.0
/*
 * Minimiser: the least of a world that still violates what it violated
 *
 * Takes back choices of chance (choices.h), first all of one site, then pieces of ever fewer (delta
 * debugging; Zeller, Hildebrandt 2002), as long as the same invariant is violated, until none can
 * be taken back alone. Jobs, processes, steps and commands are choices, too.
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
    uint32_t choices_before, choices_after;
    uint32_t worlds; /* that were run */
};

/* @choices: new ones. Return: false where nothing is violated. */
bool minimise(struct choices *choices, minimise_run *run, void *ctx, struct minimise_result *out);
