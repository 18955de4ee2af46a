// SPDX-License-Identifier: Apache-2.0
/*
 * Pace: when what is sent in bulk leaves
 *
 * Each message costs the same, however much it carries. So what comes within PACE_MS of the last
 * that left waits for the end of that time, and travels together. Where little comes, waiting would
 * bring nothing together, and add PACE_MS to each hop of a chain: then it leaves at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_MS 1
#define PACE_WINDOW_MS 8 /* in which what comes is counted ... */
#define PACE_FEW 32      /* ... and up to so many are little: four in a millisecond */

/* All zero is one that has nothing let go yet, and takes nothing for little. Times are monotonic
 * ms. */
struct pace {
    unsigned few;    /* PACE_FEW, or what is to count as that */
    bool begun;      /* something has left ... */
    int64_t left;    /* ... last at */
    int64_t window;  /* when this window began ... */
    unsigned came;   /* ... so many came in it ... */
    unsigned before; /* ... and in the one before it */
};

/* One more has come. */
void pace_came(struct pace *p, int64_t now);

/* When what has come may leave: @now, or later. */
int64_t pace_when(const struct pace *p, int64_t now);

/* It leaves. */
void pace_leave(struct pace *p, int64_t now);
