// SPDX-License-Identifier: Apache-2.0
/*
 * Minimiser: the smallest world that still violates the same
 *
 * Takes choices back (choices.h), first all of one site, then pieces of fewer and fewer (delta
 * debugging; Zeller, Hildebrandt 2002), as long as the violation is the same except for names and
 * numbers, until no single choice can be taken back. Jobs, processes, steps and commands are
 * choices, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "explorer/choices.h"
#include "world/world.h"

/* A world with so many times the original number of events counts as endless. */
#define MINIMISE_TIMES 10

/* Runs the world with these decisions. */
typedef void minimise_run(void *ctx, struct decider *decider, struct world_result *out);

struct minimise_result {
    struct world_result before, after;
    uint32_t choices_before, choices_after; /* the smallest so far, while it goes on */
    uint32_t worlds;                        /* that were run */
};

/* Called after each world with the progress. @kept: the choices, if they are fewer or earlier than
 * before and still violate the same; else NULL. */
typedef void minimise_progress(void *ctx, const struct minimise_result *r,
                               const struct choices *kept);

enum minimise_outcome {
    MINIMISE_LEAST,
    MINIMISE_NOTHING,  /* no violation */
    MINIMISE_DIVERGED, /* none when the new choices are followed: an error here */
};

/* @choices: new ones. */
enum minimise_outcome minimise(struct choices *choices, minimise_run *run,
                               minimise_progress *progress, void *ctx, struct minimise_result *out);
