// SPDX-License-Identifier: Apache-2.0
/*
 * Crowding: gives waiting requests back to the broker, for an agent that has a free slot
 *
 * The prefetch keeps the broker from sending more requests than the agent has slots. But the broker
 * does not count runs whose message was acknowledged early, and counts a batch as one. If all slots
 * have been taken for a tenth of a second, some of them by runs that the broker does not count, the
 * agent cancels its consumers and gives the waiting requests back, until a slot comes free. Batched
 * work is short: as long as all such runs are batched ones, and slots come free and are taken
 * again, the agent does not do that.
 *
 * Called by agent.c.
 */
#include "agent/crowding.h"

#include "agent/state.h"
#include "agent/waiting.h"

#define MOMENT_MS 100 /* in this time short work frees its slots */

static void want(struct agent *a, bool wanted)
{
    a->crowding.paused = !wanted;
    effects_add(a->out, EFFECT_CONSUME, 0)->wanted = wanted;
}

static void requeue_waiting(struct agent *a)
{
    waiting_give_back_all(a);
    suspect_requeue_all(a);
}

/* crowding_watch() gives back what waits, at the end of this step. */
static void on_crowded(struct agent *a, struct timer *t)
{
    want(a, false);
}

void crowding_watch(struct agent *a)
{
    bool free_slot = slots_any_free(a);
    bool waits = !list_empty(&a->waiting) || !list_empty(&a->suspects.waiting);
    bool crowded = !free_slot && (a->slots.unseen > 0 || (a->slots.hidden > 0 && waits));

    if (a->draining) {
        timer_stop(a, &a->crowding.timer);
        return;
    }
    if (!crowded || (a->slots.freed && a->slots.unseen == 0))
        timer_stop(a, &a->crowding.timer);
    if (crowded && !a->crowding.paused && !timer_is_set(&a->crowding.timer))
        timer_set(a, &a->crowding.timer, a->now + MOMENT_MS, on_crowded);
    a->slots.freed = false;
    if (a->crowding.paused && free_slot)
        want(a, true);
    else if (a->crowding.paused)
        requeue_waiting(a);
}
