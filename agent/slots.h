// SPDX-License-Identifier: Apache-2.0
/*
 * Slots: how many runs work at a time, and which of them the broker does not count
 *
 * The broker's prefetch counts a message until it is acknowledged, and a batch as one.
 */
#pragma once

#include <stdbool.h>

struct agent;
struct run;

struct slots {
    unsigned unseen; /* runs with a slot whose message the broker does not count any more */
    unsigned hidden; /* runs with a slot that the broker never counted: they were batched */
    bool freed;      /* a slot came free in this step */
};

/* How a run with a slot is counted. */
struct slot {
    bool unseen; /* its delivery was acknowledged */
    bool hidden; /* its delivery is counted for another run */
};

/* Whether fewer runs have a slot than agent.concurrency allows. */
bool slots_any_free(const struct agent *a);
/* Gives @run a slot, and notes whether the broker's prefetch counts its delivery. The caller has
 * checked slots_any_free(). */
void slots_take(struct agent *a, struct run *run);
/* Takes the slot from @run. */
void slots_leave(struct agent *a, struct run *run);
/* Its delivery may have been acknowledged. */
void slots_recount(struct agent *a, struct run *run);
