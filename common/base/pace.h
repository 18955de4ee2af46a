// SPDX-License-Identifier: Apache-2.0
/*
 * Pace: when messages that are sent in bulk leave
 *
 * A message, or a store call, costs about the same however much it carries. So items that come
 * within PACE_MS after the last one left wait for the end of that time, and leave together. Under
 * low load no other item would come in that time, and waiting would add PACE_MS to each hop of a
 * chain of steps: then items leave at once. Called by the scheduler (requests; replies to be
 * recorded) and the agent (replies).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_MS 1
#define PACE_WINDOW_MS INT64_C(8) /* items are counted in windows of this length */
#define PACE_FEW 32 /* up to this many in a window are low load: four in a millisecond */

/* All zero: no message has left yet, and no load counts as low. Times are monotonic ms. */
struct pace {
    unsigned few;          /* items in a window that are low load, usually PACE_FEW */
    bool any_sent;         /* a message has left */
    int64_t sent_at;       /* when the last one left */
    int64_t window;        /* when the present window began */
    unsigned added;        /* items in the present window */
    unsigned added_before; /* items in the window before it */
};

/* Counts an item that has come. */
void pace_add(struct pace *p, int64_t now);

/* Return: when the items that wait may leave: @now or later. */
int64_t pace_when(const struct pace *p, int64_t now);

/* Records that a message leaves. */
void pace_sent(struct pace *p, int64_t now);
