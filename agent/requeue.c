// SPDX-License-Identifier: Apache-2.0
/*
 * Giving back: what waits here without a slot, another agent may begin at once
 *
 * The prefetch keeps the broker from sending more than there are slots, but for runs that were
 * acknowledged when they began, and those that came with others in one message: it knows nothing of
 * these. Where they have a part in all slots being taken for a moment, the agent wants no more, and
 * gives back what waits. Work that came in company is short: as long as slots come free, and are
 * taken again, nothing is wrong.
 */
#include "agent/machine.h"

#define MOMENT_MS 100 /* short work makes room by itself */

static void want(struct agent *a, bool wanted)
{
    a->paused = !wanted;
    effects_add(a->out, EFFECT_CONSUME, 0)->wanted = wanted;
}

void delivery_requeue(struct agent *a, struct delivery *d)
{
    if (!d->left && !d->acked) {
        a->stats.requeued++;
        effects_add(a->out, EFFECT_REQUEUE, d->handle);
    }
    d->left = true;
}

static void requeue_waiting(struct agent *a)
{
    list_foreach_safe(l, &a->waiting) {
        struct run *run = list_entry(l, struct run, link);

        if (run->delivery->acked)
            run_defer(a, run);
        else if (run->delivery->message.requests->n_requests == 1)
            run_leave(a, run);
    }
    suspects_requeue(a);
}

static void on_crowded(struct agent *a, struct timer *t)
{
    want(a, false);
}

/* Whatever else happens: it is looked at again when this step ends. */
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
    if (crowded && !a->paused && !heap_holds(&a->crowded.node))
        timer_set(a, &a->crowded, a->now + MOMENT_MS, on_crowded);
    a->freed = false;
    if (a->paused && free_slot)
        want(a, true);
    else if (a->paused)
        requeue_waiting(a);
}
