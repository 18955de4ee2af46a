// SPDX-License-Identifier: Apache-2.0
/*
 * Timers: what the agent's machine does at a certain time
 */
#pragma once

#include <stdint.h>

#include "base/heap.h"

struct agent;
struct timer;
typedef void timer_fn(struct agent *a, struct timer *t);

/* Part of the struct that it is about; all zero: not set. */
struct timer {
    struct heap_node node; /* in agent.timers */
    timer_fn *fire;
};

/* Sets a timer, or moves it. @when: monotonic ms. Out of memory aborts. */
void timer_set(struct agent *a, struct timer *t, int64_t when, timer_fn *fire);
/* Harmless on a timer that is not set. */
void timer_stop(struct agent *a, struct timer *t);

static inline bool timer_is_set(const struct timer *t)
{
    return heap_holds(&t->node);
}

/* Calls fire() of each timer whose time has come; timer_next() is the time of the next one,
 * INT64_MAX for none. */
void timer_tick(struct agent *a);
int64_t timer_next(const struct agent *a);
