// SPDX-License-Identifier: Apache-2.0
/*
 * Agent: the entry points of the machine, its timers, and the distribution of events to its parts
 *
 * Implements agent.h. Beside the driver only the machine's own files call in here, by machine.h.
 */
#include "agent/agent.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/machine.h"
#include "agent/settings.h"

/* ---- creation and release ---- */

int agent_new(struct agent **out, const struct agent_config *config, const struct rng *seed)
{
    struct agent *a = calloc(1, sizeof(*a));

    if (!a)
        return -ENOMEM;
    a->rng = *seed;
    a->replying.few = config->few;
    list_init(&a->deliveries);
    list_init(&a->suspects);
    list_init(&a->waiting);
    list_init(&a->replies[0]);
    list_init(&a->replies[1]);
    if (settings_copy(&a->config, config)) {
        agent_free(a);
        return -ENOMEM;
    }
    *out = a;
    return 0;
}

struct agent *agent_free(struct agent *a)
{
    struct publish *publish, *next_publish;
    struct run *run, *next_run;

    if (!a)
        return NULL;
    HASH_ITER(hh, a->publishes, publish, next_publish)
        publish_free(a, publish);
    HASH_ITER(by_id, a->runs, run, next_run)
        run_free(a, run);
    for (struct list *l; (l = list_pop(&a->suspects));)
        suspect_free(list_entry(l, struct suspect, link));
    if (a->suspect)
        suspect_free(a->suspect);
    timer_stop(a, &a->alone);
    timer_stop(a, &a->crowded);
    assert(list_empty(&a->deliveries));
    heap_deinit(&a->timers);
    settings_free(&a->config);
    free(a);
    return NULL;
}

/* ---- events ---- */

static void on_delivery(struct agent *a, const struct bus_delivery *d)
{
    if (d->source == AGENT_ANSWERS)
        on_answers(a, d);
    else if (a->draining)
        effects_add(a->out, EFFECT_REQUEUE, d->handle);
    else
        on_requests(a, d);
}

static int64_t next_tick(const struct agent *a)
{
    int64_t next = timer_next(a);
    int64_t flush_at = pace_when(&a->replying, a->now);
    bool gathered = !list_empty(&a->replies[0]) || !list_empty(&a->replies[1]);

    return gathered && flush_at < next ? flush_at : next;
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
        on_outcome(a, event->id, event->outcome);
        break;
    case AGENT_DONE:
        run_done(a, event->id, event->result);
        break;
    case AGENT_PROGRESS:
        run_progress(a, event->id, event->progress.fraction, event->progress.note);
        break;
    case AGENT_DRAIN:
        runs_drain(a);
        break;
    case AGENT_TICK:
        timer_tick(a);
        replies_flush(a);
        break;
    }
    suspects_admit(a);
    runs_start(a);
    slots_watch(a);
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
