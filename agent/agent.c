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
#include <string.h>

#include "agent/machine.h"

/* ---- timers ---- */

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

static void on_timers(struct agent *a)
{
    struct heap_node *n;

    while ((n = heap_first(&a->timers)) && n->when <= a->now) {
        struct timer *t = container_of(n, struct timer, node);

        heap_remove(&a->timers, n);
        t->fire(a, t);
    }
}

/* ---- creation and release ---- */

const struct agent_actor *actor_find(const struct agent *a, const char *name)
{
    static const struct agent_actor plain = {.name = ""};

    for (size_t i = 0; i < a->config.n_actors; i++)
        if (strcmp(a->config.actors[i].name, name) == 0)
            return &a->config.actors[i];
    return &plain;
}

/* A message holds at most as many requests as the agent can begin at once: each actor gets an equal
 * share of the slots. Return: 0 for messages of one request. */
static unsigned batch_of(const struct agent_config *config, const struct agent_actor *actor)
{
    unsigned slots = config->concurrency / (unsigned)config->n_actors;
    unsigned batch = actor->batch < slots ? actor->batch : slots;

    return batch > 1 ? batch : 0;
}

static int copy_config(struct agent_config *to, const struct agent_config *from)
{
    struct agent_actor *actors = calloc(from->n_actors + 1, sizeof(*actors));

    *to = *from;
    to->actors = actors;
    to->n_actors = 0;
    to->name = strdup(from->name);
    if (!actors || !to->name)
        return -ENOMEM;
    for (; to->n_actors < from->n_actors; to->n_actors++) {
        actors[to->n_actors] = from->actors[to->n_actors];
        actors[to->n_actors].name = strdup(from->actors[to->n_actors].name);
        actors[to->n_actors].batch = batch_of(from, &from->actors[to->n_actors]);
        if (!actors[to->n_actors].name)
            return -ENOMEM;
    }
    if (to->retry_ms == 0)
        to->retry_ms = MACHINE_RETRY_MS;
    return 0;
}

static void free_config(struct agent_config *config)
{
    for (size_t i = 0; i < config->n_actors; i++)
        free((char *)config->actors[i].name);
    free((void *)config->actors);
    free((char *)config->name);
}

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
    if (copy_config(&a->config, config)) {
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
    free_config(&a->config);
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
    const struct heap_node *n = heap_first(&a->timers);
    int64_t next = n ? n->when : INT64_MAX;
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
        on_timers(a);
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
