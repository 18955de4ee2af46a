// SPDX-License-Identifier: Apache-2.0
/*
 * Agent: the step function of the machine, which gives each event to the file that handles it
 *
 * agent_io.c calls the functions of agent.h; state.h describes the other files.
 */
#include "agent/agent.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/loss.h"
#include "agent/on_answers.h"
#include "agent/on_requests.h"
#include "agent/running.h"
#include "agent/settings.h"
#include "agent/state.h"

int agent_new(struct agent **out, const struct agent_config *config, const struct rng *seed)
{
    struct agent *a = calloc(1, sizeof(*a));

    if (!a)
        return -ENOMEM;
    a->rng = *seed;
    list_init(&a->deliveries);
    list_init(&a->suspects.waiting);
    list_init(&a->waiting);
    replies_init(&a->replies, config->few);
    if (settings_copy(&a->config, config)) {
        agent_free(a);
        return -ENOMEM;
    }
    *out = a;
    return 0;
}

struct agent *agent_free(struct agent *a)
{
    if (!a)
        return NULL;
    outgoing_free_all(a);
    run_free_all(a);
    suspect_free_all(a);
    timer_stop(a, &a->crowding.timer);
    assert(list_empty(&a->deliveries));
    heap_deinit(&a->timers);
    settings_free(&a->config);
    free(a);
    return NULL;
}

static void on_delivery(struct agent *a, const struct bus_delivery *d)
{
    if (d->source == AGENT_ANSWERS)
        on_answers(a, d);
    else if (a->draining)
        effects_add(a->out, EFFECT_REQUEUE, d->handle);
    else
        on_requests(a, d);
}

static void on_drain(struct agent *a)
{
    a->draining = true;
    suspect_requeue_all(a);
    running_drain(a);
}

static int64_t next_tick(const struct agent *a)
{
    int64_t next = timer_next(a), flush_at = replies_next(a);

    return flush_at < next ? flush_at : next;
}

int64_t agent_step(struct agent *a, const struct agent_event *event, struct effects *out)
{
    a->now = event->now;
    a->out = out;
    switch (event->type) {
    case AGENT_DELIVERY:
        on_delivery(a, event->delivery);
        break;
    case AGENT_OUTCOME:
        outgoing_outcome(a, event->id, event->outcome);
        break;
    case AGENT_DONE:
        running_done(a, event->id, event->result);
        break;
    case AGENT_PROGRESS:
        running_progress(a, event->id, event->progress.fraction, event->progress.note);
        break;
    case AGENT_LOST:
        loss_report(a, event->lost_actor);
        break;
    case AGENT_DRAIN:
        on_drain(a);
        break;
    case AGENT_TICK:
        timer_tick(a);
        replies_flush(a);
        break;
    }
    suspect_admit(a);
    running_start(a);
    crowding_watch(a);
    return next_tick(a);
}

bool agent_idle(const struct agent *a)
{
    return list_empty(&a->deliveries);
}

void agent_stats(const struct agent *a, struct agent_stats *out)
{
    *out = a->stats;
}
