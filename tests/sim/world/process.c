// SPDX-License-Identifier: Apache-2.0
/*
 * Processes: start, die and perform the effects of their machines
 *
 * Called by the other parts of the world; see parts.h.
 */
#include "model/wire.h"
#include "world/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HALF 500000 /* millionths */

/* What two runs of a seed must have in common besides what the store and the broker see. */
enum mixed {
    MIXED_DELIVERY,
    MIXED_OUTCOME,
    MIXED_ACK,
    MIXED_REQUEUE,
    MIXED_END,
};

static void mix(const struct process *p, enum mixed what, uint64_t number)
{
    struct timeline *t = p->world->t;

    timeline_mix_number(t, (uint64_t)what << 32 | (uint64_t)p->role << 16 | p->index);
    timeline_mix_number(t, number);
}

/* ---- effects ---- */

static void print_first(void *ctx, const char *event, const struct log_field *fields, int n)
{
    struct buf *out = ctx;

    if (out->len == 0)
        trace_print(out, event, fields, n);
}

/* The text of an effect, for the script and for choices. */
static const char *describe(struct world *w, const struct effect *e)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    switch (e->type) {
    case EFFECT_STORE:
        trace_call(e->store.function, e->store.args, e->store.n, NULL, print_first, &out);
        if (out.len == 0)
            buf_printf(&out, "store call=%s", e->store.function);
        break;
    case EFFECT_PUBLISH:
        trace_effect(e, print_first, &out);
        break;
    case EFFECT_ACK:
        return "ack";
    case EFFECT_REQUEUE:
        return "requeue";
    case EFFECT_CONSUME:
        return e->wanted ? "consume" : "pause";
    case EFFECT_ROLE:
        return "handler";
    }
    return timeline_str(w->t, buf_str(&out));
}

void process_tell(void *ctx, const char *event, const struct log_field *fields, int n)
{
    const struct process *p = ctx;
    CLEANUP(buf_deinit) struct buf line = {0};

    trace_print(&line, event, fields, n);
    timeline_tell(p->world->t, p->name, "%s", buf_str(&line));
}

static void perform_ack(struct process *p, uint64_t handle)
{
    const struct bus_delivery *d = simlink_delivery(&p->link, handle);

    if (!d) {
        role_acknowledges_nothing(p);
        return;
    }
    mix(p, MIXED_ACK, handle);
    if (p->role == ROLE_SCHEDULER) {
        poison_acked(p->world, d->body);
        checker_acked(p->world->checker, store_now(p->world), &p->link, d);
    }
    role_hands_in(p, d, true);
    simlink_ack(&p->link, handle);
}

static void perform(struct process *p, const struct effect *e)
{
    switch (e->type) {
    case EFFECT_STORE:
        process_call(p, e);
        break;
    case EFFECT_PUBLISH:
        grid_publishes(p, &e->publish);
        if (wire_reply_actor(e->publish.exchange))
            role_publishes(p, e->publish.body);
        simlink_publish(&p->link, &e->publish, e->id);
        break;
    case EFFECT_ACK:
        perform_ack(p, e->id);
        break;
    case EFFECT_REQUEUE:
        mix(p, MIXED_REQUEUE, e->id);
        role_hands_in(p, simlink_delivery(&p->link, e->id), false);
        simlink_requeue(&p->link, e->id);
        break;
    case EFFECT_CONSUME:
        simlink_want(&p->link, e->wanted);
        break;
    case EFFECT_ROLE:
        role_effect(p, e);
        break;
    }
}

/* A process learns that the queue of an actor is gone. */
struct loss {
    struct event event;
    struct process *process;
    uint64_t incarnation;
    const char *actor;
};

static void on_loss(struct event *e)
{
    const struct loss *loss = container_of(e, struct loss, event);

    if (loss->process->alive && loss->process->incarnation == loss->incarnation)
        role_lost(loss->process, loss->actor);
}

static void learn_of_loss(struct process *p, const char *actor)
{
    struct loss *loss = timeline_alloc(p->world->t, sizeof(*loss));

    loss->process = p;
    loss->incarnation = p->incarnation;
    loss->actor = timeline_str(p->world->t, actor);
    loss->event.fire = on_loss;
    loss->event.held_until = &p->held_until;
    loss->event.digest = digest_str(digest_str(DIGEST_INIT, p->name), actor);
    timeline_add(p->world->t, &loss->event, 0);
}

struct absence {
    struct event end;
    struct simqueue *queue;
};

static void on_restored(struct event *e)
{
    simqueue_restore(container_of(e, struct absence, end)->queue);
}

static void strike_actor(struct world *w, const struct simqueue *queue, const char *actor)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].alive && w->processes[i].role == ROLE_AGENT &&
            simlink_consumes(&w->processes[i].link, queue))
            learn_of_loss(&w->processes[i], actor);
}

/* A queue of agents or clients is gone for a while. */
static void strike_queue(struct world *w)
{
    struct absence *absence = timeline_alloc(w->t, sizeof(*absence));
    bool of_agents = timeline_chance(w->t, HALF);
    const char *name, *actor = NULL;

    if (of_agents) {
        actor = effects_printf(&w->t->arena, "a%u",
                               (unsigned)timeline_between(w->t, 0, w->plan->actors - 1));
        name = effects_printf(&w->t->arena, "drover.task.%s", actor);
    } else {
        name = effects_printf(&w->t->arena, "client-%u.inbox",
                              (unsigned)timeline_between(w->t, 1, w->plan->clients));
    }
    absence->queue = simbus_queue(w->bus, name, of_agents);
    simqueue_delete(absence->queue);
    timeline_note(w->t, FEATURE_QUEUE_GONE);
    tell(w->t, "broker", "queue %s is gone", name);
    if (actor)
        strike_actor(w, absence->queue, actor);
    absence->end.fire = on_restored;
    timeline_add(w->t, &absence->end, timeline_between(w->t, 1, w->faults.outage_ms));
}

static void on_link_down(struct event *e)
{
    struct process *p = container_of(e, struct process, down);

    if (p->alive)
        role_bus_down(p);
}

static void lose_link(struct process *p)
{
    struct world *w = p->world;

    simlink_lose(&p->link, timeline_between(w->t, 0, w->faults.restart_ms));
    p->down.fire = on_link_down;
    timeline_add(w->t, &p->down, 0);
}

static void cut_link(struct process *p)
{
    timeline_note(p->world->t, FEATURE_CONNECTION_CUT);
    grid_cut(p);
    tell(p->world->t, p->name, "loses its connection");
    lose_link(p);
}

static void wipe_broker(struct world *w)
{
    simbus_wipe(w->bus);
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].alive)
            lose_link(&w->processes[i]);
}

static void restart_broker(struct world *w)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].alive)
            lose_link(&w->processes[i]);
    simbus_restart(w->bus);
}

/* Whether it may die or lose its connection by chance. */
static bool is_struck(const struct process *p)
{
    const char *struck = p->world->plan->struck;

    return !struck || strncmp(p->name, struck, strlen(struck)) == 0;
}

enum world_verdict process_verdict(struct process *p, const char *what)
{
    struct world *w = p->world;
    enum world_verdict verdict = WORLD_GOES_ON;

    if (w->script)
        verdict = w->script(w->script_ctx, p->name, what);
    else if (is_struck(p) && timeline_chance(w->t, w->faults.crash))
        verdict = WORLD_KILLS;
    if (verdict == WORLD_KILLS)
        process_kill(p, timeline_between(w->t, 0, w->faults.restart_ms));
    else if (verdict == WORLD_CUTS)
        cut_link(p);
    else if (verdict == WORLD_ALARMS)
        simbus_alarm(w->bus, w->faults.bus.alarm_ms);
    else if (verdict == WORLD_WIPES)
        wipe_broker(w);
    else if (verdict == WORLD_RESTARTS)
        restart_broker(w);
    return verdict;
}

static void strike_link(struct process *p)
{
    struct world *w = p->world;

    if (is_struck(p) && timeline_chance(w->t, w->faults.cut))
        cut_link(p);
    if (timeline_chance(w->t, w->faults.wipe))
        wipe_broker(w);
    if (timeline_chance(w->t, w->faults.restart))
        restart_broker(w);
    if (timeline_chance(w->t, w->faults.queue_gone))
        strike_queue(w);
}

static void arm(struct process *p, int64_t next)
{
    if (next == INT64_MAX)
        timeline_cancel(p->world->t, &p->tick);
    else
        timeline_add(p->world->t, &p->tick, next - process_now(p));
}

void process_perform(struct process *p, int64_t next_tick)
{
    struct world *w = p->world;
    const char *what = "nothing";

    grid_performs(p);
    for (p->next = 0; p->next < p->out.n; p->next++) {
        const struct effect *e = &p->out.items[p->next];

        what = w->script || w->t->trace || (w->t->decider && w->t->decider->about) ? describe(w, e)
                                                                                   : "";
        timeline_about(w->t, "%s %s", p->name, what);
        if (process_verdict(p, what) == WORLD_KILLS)
            return;
        if (w->t->trace)
            trace_effect(e, process_tell, p);
        perform(p, e);
        if (!p->alive)
            return;
        strike_link(p);
    }
    timeline_about(w->t, "%s idle after %s", p->name, what);
    if (process_verdict(p, "idle") == WORLD_KILLS)
        return;
    effects_reset(&p->out);
    p->behind = 0;
    arm(p, next_tick);
}

/* ---- incarnations ---- */

void process_hears(struct process *p, uint64_t digest)
{
    struct timeline *t = p->world->t;

    if (!timeline_explored(t))
        return;
    p->heard = digest_number(digest_number(p->heard, digest), (uint64_t)t->now);
    t->decider->hears(t->decider, digest_number(digest_str(p->heard, p->name), p->incarnation));
}

static void on_drained(struct event *e)
{
    struct process *p = container_of(e, struct process, drained);

    process_kill(p, timeline_between(p->world->t, 0, p->world->faults.restart_ms));
}

static void drain(struct process *p)
{
    struct world *w = p->world;

    timeline_note(w->t, FEATURE_DRAIN);
    tell(w->t, p->name, "is told to end");
    p->drained.fire = on_drained;
    timeline_add(w->t, &p->drained, timeline_between(w->t, 0, w->faults.outage_ms));
    role_drain(p);
}

void process_strike(struct process *p)
{
    struct world *w = p->world;

    if (timeline_chance(w->t, w->faults.drain) && !heap_holds(&p->drained.node) &&
        p->role != ROLE_CLIENT)
        drain(p);
    if (!timeline_chance(w->t, w->faults.stall))
        return;
    p->held_until = w->t->now + timeline_between(w->t, 1, w->faults.stall_ms);
    timeline_note(w->t, FEATURE_STALL);
    tell(w->t, p->name, "stops until %" PRId64, p->held_until);
}

static void on_start(struct event *e)
{
    process_start(container_of(e, struct process, start));
}

static void on_tick(struct event *e)
{
    struct process *p = container_of(e, struct process, tick);

    role_tick(p);
}

static void on_delivery(void *ctx, const struct bus_delivery *d, const char *type)
{
    struct process *p = ctx;
    uint64_t incarnation = p->incarnation;

    timeline_about(p->world->t, "%s gets %s", p->name, type);
    mix(p, MIXED_DELIVERY, d->handle << 8 | (uint64_t)d->redelivered << 1 | d->resent);
    process_strike(p);
    if (!p->alive || p->incarnation != incarnation)
        return;
    if (p->role != ROLE_CLIENT && p->world->t->trace)
        trace_delivery(d, process_tell, p);
    if (p->role == ROLE_CLIENT)
        client_delivery(p, d, type);
    else if (!poison_delivery(p, d))
        role_delivery(p, d, type);
}

static void on_outcome(void *ctx, uint64_t id, enum bus_outcome outcome)
{
    struct process *p = ctx;

    mix(p, MIXED_OUTCOME, id << 8 | outcome);
    if (p->role == ROLE_CLIENT)
        return;
    if (p->world->t->trace)
        trace_outcome(outcome, process_tell, p);
    role_outcome(p, id, outcome);
}

static void on_unconfirmed(void *ctx)
{
    struct process *p = ctx;

    timeline_about(p->world->t, "%s misses a confirm", p->name);
    lose_link(p);
}

static void on_lost(void *ctx, const char *actor)
{
    learn_of_loss(ctx, actor);
}

static void on_send(void *ctx, const struct bus_message *m)
{
    struct process *p = ctx;

    if (p->role == ROLE_AGENT && wire_reply_actor(m->exchange) && !liar_said(m))
        role_replies(p, m->body);
}

void process_start(struct process *p)
{
    static const struct simlink_callbacks callbacks = {
        .on_delivery = on_delivery,
        .on_outcome = on_outcome,
        .on_send = on_send,
        .on_unconfirmed = on_unconfirmed,
        .on_lost = on_lost,
    };
    struct world *w = p->world;

    tell(w->t, p->name, "starts");
    timeline_about(w->t, "%s starts", p->name);
    p->alive = true;
    p->incarnation++;
    p->heard = DIGEST_INIT;
    p->held_until = 0;
    p->store_gone = false;
    while (list_pop(&p->calls))
        continue; /* of the incarnation before: their answers are ignored */
    timeline_cancel(w->t, &p->store_lost);
    timeline_cancel(w->t, &p->reconnect);
    p->tick.fire = on_tick;
    p->tick.held_until = &p->held_until;
    p->link.name = p->name;
    p->link.callbacks = &callbacks;
    p->link.ctx = p;
    p->link.held_until = &p->held_until;
    p->link.clock = p->clock;
    p->link.daemon = p->role != ROLE_CLIENT;
    p->link.eager = p->role == ROLE_CLIENT;
    simlink_open(&p->link, w->bus);
    role_start(p);
}

void process_kill(struct process *p, int64_t back_after)
{
    struct world *w = p->world;

    timeline_note(w->t, FEATURE_CRASH);
    grid_dies(p);
    tell(w->t, p->name, "dies");
    mix(p, MIXED_END, (uint64_t)back_after);
    if (p->role == ROLE_SCHEDULER)
        checker_died(w->checker);
    p->alive = false;
    timeline_cancel(w->t, &p->tick);
    timeline_cancel(w->t, &p->drained);
    timeline_cancel(w->t, &p->down);
    simlink_close(&p->link);
    role_end(p);
    effects_reset(&p->out);
    p->behind = 0;
    p->start.fire = on_start;
    timeline_add(w->t, &p->start, back_after);
}
