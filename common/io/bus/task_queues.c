// SPDX-License-Identifier: Apache-2.0
/*
 * Task queues: see io/bus/task_queues.h
 *
 * Called by publisher.c.
 */
#include "io/bus/task_queues.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "io/bus/actors.h"
#include "io/bus/publisher.h"
#include "io/bus/topology.h"

static struct task_queues *task_queues_of(struct link *link)
{
    return &container_of(link, struct publisher, link)->task_queues;
}

static int set_state(struct link *link, const char *actor, enum actor_state state)
{
    return actors_set(&task_queues_of(link)->actors, actor, state)
               ? link_fail(link, LINK_E_LOST, "out of memory for an actor")
               : 0;
}

/* ---- looking for a queue, and declaring it ---- */

/* A refusal (the queue is there with other arguments) is reported, and messages to the actor are
 * sent all the same. */
static int on_declared(struct link *link, bool refused)
{
    struct task_queues *q = task_queues_of(link);
    int r = refused ? set_state(link, q->asked, ACTOR_REFUSED) : 0;

    if (refused)
        link_report_refused(link);
    *q->asked = '\0';
    return r;
}

static int declare(struct task_queues *q, struct link *link)
{
    int r = set_state(link, q->asked, ACTOR_DECLARED);

    if (!r)
        r = link_side_begin(link, on_declared);
    return r ? r : topology_declare(link, LINK_SIDE_CHANNEL, q->asked);
}

static int on_looked_for(struct link *link, bool refused)
{
    struct task_queues *q = task_queues_of(link);
    enum topology_missing missing = refused ? topology_missing(link, q->asked) : TOPOLOGY_ALL;
    enum actor_state state = missing == TOPOLOGY_ALL     ? ACTOR_ALLOWED
                             : missing == TOPOLOGY_QUEUE ? ACTOR_LOST
                                                         : ACTOR_REFUSED;
    int r = set_state(link, q->asked, state);

    if (state == ACTOR_REFUSED)
        link_report_refused(link);
    if (state == ACTOR_LOST && list_empty(&q->held))
        q->hold_until = clock_monotonic_ms() + BUS_HOLD_MS;
    *q->asked = '\0'; /* the publisher declares it: now an alarm may have come */
    return r;
}

int task_queues_ask(struct task_queues *q, struct link *link, const struct outgoing *m)
{
    int r;

    snprintf(q->asked, sizeof(q->asked), "%s", m->message.actor);
    if (actors_state(&q->actors, q->asked) == ACTOR_ALLOWED)
        return declare(q, link);
    r = link_side_begin(link, on_looked_for);
    return r ? r : topology_find(link, LINK_SIDE_CHANNEL, q->asked);
}

bool task_queues_must_ask(const struct task_queues *q, const struct link *link,
                          const struct outgoing *m)
{
    return m && m->message.actor && link->config->declare &&
           actors_state(&q->actors, m->message.actor) < ACTOR_DECLARED;
}

/* ---- what the outcome of a message shows ---- */

void task_queues_routed(struct task_queues *q, const struct link *link, const struct outgoing *m)
{
    if (m->message.actor && !link->config->declare)
        (void)actors_set(&q->actors, m->message.actor, ACTOR_UNKNOWN);
}

/* The queue of an actor may be gone: it is looked for before the next message. */
void task_queues_returned(struct task_queues *q, const struct link *link, const struct outgoing *m)
{
    actors_forget(&q->actors, ACTOR_DECLARED);
    if (m->message.actor && !link->config->declare &&
        actors_state(&q->actors, m->message.actor) == ACTOR_UNKNOWN)
        (void)actors_set(&q->actors, m->message.actor, ACTOR_LOST);
}

/* ---- messages that are held ---- */

/* Whether the first that waits is to wait for bus_declare(). */
static bool is_held(const struct task_queues *q, const struct link *link,
                    const struct list *waiting)
{
    const struct outgoing *m;
    enum actor_state state;

    if (list_empty(waiting) || !link->config->declare)
        return false;
    m = list_entry(waiting->next, struct outgoing, node);
    if (!m->message.actor)
        return false;
    state = actors_state(&q->actors, m->message.actor);
    return state == ACTOR_LOST || state == ACTOR_MISSING;
}

void task_queues_hold(struct task_queues *q, const struct link *link, struct list *waiting)
{
    while (is_held(q, link, waiting))
        list_append(&q->held, list_pop(waiting));
}

/* Messages are not held for ever for a loss that cannot be recorded. */
void task_queues_release(struct task_queues *q, struct link *link, struct list *waiting)
{
    int64_t now = clock_monotonic_ms();

    if (list_empty(&q->held))
        return;
    if (now < q->hold_until) {
        link_tick_within(link, q->hold_until - now);
        return;
    }
    actors_move(&q->actors, ACTOR_MISSING, ACTOR_ALLOWED);
    list_move_all(&q->held, waiting);
    list_move_all(waiting, &q->held);
}

void task_queues_allow(struct task_queues *q, const struct link *link, struct list *waiting,
                       const char *actor)
{
    struct list *rest = waiting->next; /* before it, in their order */

    if (!link->config->declare || actors_state(&q->actors, actor) != ACTOR_MISSING)
        return;
    (void)actors_set(&q->actors, actor, ACTOR_ALLOWED);
    list_foreach_safe(it, &q->held) {
        if (strcmp(list_entry(it, struct outgoing, node)->message.actor, actor) != 0)
            continue;
        list_remove(it);
        list_append(rest, it);
    }
}

/* ---- */

void task_queues_lost(struct task_queues *q, const struct link *link)
{
    bool kept = *q->asked && link->closed_over_queue;

    actors_forget(&q->actors, ACTOR_DECLARED);
    actors_forget(&q->actors, ACTOR_REFUSED);
    if (kept)
        (void)actors_set(&q->actors, q->asked, ACTOR_REFUSED);
    *q->asked = '\0';
}

void task_queues_init(struct task_queues *q)
{
    list_init(&q->actors);
    list_init(&q->held);
}

void task_queues_deinit(struct task_queues *q)
{
    actors_deinit(&q->actors);
}
