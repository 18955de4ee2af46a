// SPDX-License-Identifier: Apache-2.0
/*
 * Timers: what the agent's machine does at a certain time
 *
 * Called by all files of the machine that wait for a time; agent.c ticks.
 */
#include "agent/timer.h"

#include <stdlib.h>

#include "agent/state.h"

void timer_set(struct agent *a, struct timer *t, int64_t when, timer_fn *fire)
{
    t->fire = fire;
    if (heap_set(&a->timers, &t->node, when))
        abort();
}

void timer_stop(struct agent *a, struct timer *t)
{
    heap_remove(&a->timers, &t->node);
}

void timer_tick(struct agent *a)
{
    struct heap_node *n;

    while ((n = heap_first(&a->timers)) && n->when <= a->now) {
        struct timer *t = container_of(n, struct timer, node);

        heap_remove(&a->timers, n);
        t->fire(a, t);
    }
}

int64_t timer_next(const struct agent *a)
{
    const struct heap_node *n = heap_first(&a->timers);

    return n ? n->when : INT64_MAX;
}
