// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting: runs without a slot
 *
 * Called by on_requests.c, which adds requests, by running.c, which starts them, and by crowding.c.
 */
#include "agent/waiting.h"

#include "agent/replies.h"
#include "agent/state.h"

/* A request of a batch waits for a slot no longer than this, because another agent may have a free
 * one. */
#define BATCHED_PATIENCE_MS 80
#define BATCHED_AGAIN_MS 1 /* after which such a request is to be sent again */

static int64_t patience(const struct run *run)
{
    int64_t most = delivery_is_batch(run->delivery) ? BATCHED_PATIENCE_MS : WAITING_PATIENCE_MS;
    int64_t half = run->seen.request->lock_ms / 2;

    return half < most ? half : most;
}

static void on_no_slot(struct agent *a, struct timer *t)
{
    waiting_defer(a, container_of(t, struct run, deadline));
}

void waiting_add(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request)
{
    struct run *run = run_new(a, d, request);

    if (!run)
        return;
    timer_set(a, &run->deadline, d->received + patience(run), on_no_slot);
    list_append(&a->waiting, &run->link);
    a->stats.waiting++;
}

struct run *waiting_take(struct agent *a)
{
    struct list *first = list_pop(&a->waiting);

    if (!first)
        return NULL;
    a->stats.waiting--;
    return list_entry(first, struct run, link);
}

/* The lease of a request, as this agent counts it, was over before the request was begun. It is
 * given back to the broker, which delivers it again or lets it expire. But only once: a process
 * that is always late would get it again and again. */
void waiting_too_late(struct agent *a, struct run *run)
{
    if (run->delivery->acked || run->delivery->repeated || delivery_is_batch(run->delivery))
        run_silent(a, run);
    else
        run_give_back(a, run);
}

/* The broker sends too many requests where it does not count all runs. Another agent may have a
 * free slot, so the reply asks for another dispatch. If the ack of this request is lost, the broker
 * gives it to another agent, which may begin it: so the reply leaves the effect unknown. */
void waiting_defer(struct agent *a, struct run *run)
{
    struct agent_result busy = {
        .class = "NO_SLOT",
        .message = "all slots of the agent are taken",
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .retry_after_ms = delivery_is_batch(run->delivery) ? BATCHED_AGAIN_MS : 0,
    };

    a->stats.waiting--;
    timer_stop(a, &run->deadline);
    list_remove(&run->link);
    if (a->now >= run->seen.deadline) {
        waiting_too_late(a, run);
        return;
    }
    a->stats.deferred++;
    run->started = a->now;
    run_set_reply(a, run, &busy);
    run->state = RUN_REPLYING;
    replies_gather(a, run);
}

void waiting_give_back(struct agent *a, struct run *run)
{
    a->stats.waiting--;
    run_give_back(a, run);
}

void waiting_give_back_all(struct agent *a)
{
    list_foreach_safe(l, &a->waiting) {
        struct run *run = list_entry(l, struct run, link);

        if (run->delivery->acked)
            waiting_defer(a, run);
        else if (!delivery_is_batch(run->delivery))
            waiting_give_back(a, run);
    }
}
