// SPDX-License-Identifier: Apache-2.0
/*
 * Slots: how many runs work at a time, and which of them the broker does not count
 *
 * Called by running.c and heartbeat.c; crowding.c acts on the numbers.
 */
#include "agent/slots.h"

#include "agent/state.h"

bool slots_any_free(const struct agent *a)
{
    return a->stats.running < a->config.concurrency;
}

static void count(struct agent *a, struct run *run)
{
    struct delivery *d = run->delivery;

    run->slot.unseen = d->acked || d->unsettled == 0;
    run->slot.hidden = !run->slot.unseen && d->counted;
    d->counted |= !run->slot.unseen;
    a->slots.unseen += run->slot.unseen;
    a->slots.hidden += run->slot.hidden;
}

static void uncount(struct agent *a, struct run *run)
{
    a->slots.unseen -= run->slot.unseen;
    a->slots.hidden -= run->slot.hidden;
    run->delivery->counted &= run->slot.unseen || run->slot.hidden;
}

void slots_take(struct agent *a, struct run *run)
{
    a->stats.running++;
    count(a, run);
}

void slots_leave(struct agent *a, struct run *run)
{
    a->stats.running--;
    uncount(a, run);
    a->slots.freed = true;
}

void slots_recount(struct agent *a, struct run *run)
{
    uncount(a, run);
    count(a, run);
}
