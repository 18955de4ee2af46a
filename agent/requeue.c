// SPDX-License-Identifier: Apache-2.0
/*
 * Crowding: gives waiting requests back to the broker, for an agent that has a free slot
 *
 * A part of the agent's machine; agent.c, run.c and suspects.c call it.
 *
 * The prefetch keeps the broker from sending more requests than the agent has slots. But the broker
 * does not count runs whose message was acknowledged early, and counts a batch as one. If all slots
 * have been taken for a tenth of a second, some of them by runs that the broker does not count, the
 * agent cancels its consumers and gives the waiting requests back, until a slot comes free. Batched
 * work is short: as long as all such runs are batched ones, and slots come free and are taken
 * again, the agent does not do that.
 */
#include "agent/machine.h"

#define MOMENT_MS 100 /* in this time short work frees its slots */

static void want(struct agent *a, bool wanted)
{
    a->paused = !wanted;
    effects_add(a->out, EFFECT_CONSUME, 0)->wanted = wanted;
}

static void requeue_waiting(struct agent *a)
{
    list_foreach_safe(l, &a->waiting) {
        struct run *run = list_entry(l, struct run, link);

        if (run->delivery->acked)
            run_defer(a, run);
        else if (!delivery_is_batch(run->delivery))
            run_leave(a, run);
    }
    suspects_requeue(a);
}

/* slots_watch() gives back what waits, at the end of this step. */
static void on_crowded(struct agent *a, struct timer *t)
{
    want(a, false);
}

void slots_watch(struct agent *a)
{
    bool free_slot = a->stats.running < a->config.concurrency;
    bool waits = !list_empty(&a->waiting) || !list_empty(&a->suspects);
    bool crowded = !free_slot && (a->unseen > 0 || (a->hidden > 0 && waits));

    if (a->draining) {
        timer_stop(a, &a->crowded);
        return;
    }
    if (!crowded || (a->freed && a->unseen == 0))
        timer_stop(a, &a->crowded);
    if (crowded && !a->paused && !timer_is_set(&a->crowded))
        timer_set(a, &a->crowded, a->now + MOMENT_MS, on_crowded);
    a->freed = false;
    if (a->paused && free_slot)
        want(a, true);
    else if (a->paused)
        requeue_waiting(a);
}
