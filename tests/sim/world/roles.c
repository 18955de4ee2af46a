// SPDX-License-Identifier: Apache-2.0
/*
 * Roles: connect the machines of scheduler, agent and supervisor to a process
 *
 * Called by the other parts of the world; see parts.h.
 */
#include "world/parts.h"

#include <stdlib.h>
#include <string.h>

#include "model/wire.h"

#define INSPECT_MS 2000 /* how often a supervisor inspects the replies queue */
#define KILLED_MS 5     /* from the signal to the end of a handler, at most */
#define HALF 500000     /* millionths */

static struct rng rng_of(struct process *p)
{
    struct rng rng;

    rng_seed(&rng, timeline_seed(p->world->t));
    return rng;
}

static void ok(int result)
{
    if (result)
        abort();
}

/* ---- schedulers ---- */

static void scheduler_event(struct process *p, struct scheduler_event e)
{
    e.now = process_now(p);
    process_perform(p, scheduler_step(p->scheduler, &e, &p->out));
}

/* The inspection is on its way to the broker, or the answer on its way back. */
struct inspection {
    struct event event;
    struct process *process;
    uint64_t incarnation;
    uint64_t epoch;
    const char *queue;
    bool asked;
    uint32_t messages;
    uint32_t consumers;
};

static void inspection_move(struct inspection *inspection)
{
    struct world *w = inspection->process->world;
    uint64_t d = digest_str(digest_str(DIGEST_INIT, inspection->process->name), inspection->queue);

    inspection->event.digest =
        digest_number(d, (uint64_t)inspection->asked << 63 | (uint64_t)inspection->messages << 32 |
                             inspection->consumers);
    timeline_add(w->t, &inspection->event, timeline_between(w->t, 0, w->faults.bus.delay_ms));
}

static void on_inspection(struct event *e)
{
    struct inspection *inspection = container_of(e, struct inspection, event);
    struct process *p = inspection->process;
    const struct simqueue *q = simbus_queue(p->world->bus, inspection->queue, true);

    if (p->incarnation != inspection->incarnation || !p->alive ||
        p->link.epoch != inspection->epoch || !p->link.up)
        return;
    if (!inspection->asked) {
        inspection->asked = true;
        inspection->messages = simqueue_taken(q);
        inspection->consumers = simqueue_consumers(q);
        e->held_until = &p->held_until;
        inspection_move(inspection);
        return;
    }
    process_hears(p, inspection->event.digest);
    scheduler_event(
        p, (struct scheduler_event){.type = SCHEDULER_QUEUE,
                                    .queue = {inspection->messages, inspection->consumers}});
}

static void scheduler_inspects(struct process *p, const char *queue)
{
    struct inspection *inspection = timeline_alloc(p->world->t, sizeof(*inspection));

    inspection->event.fire = on_inspection;
    inspection->event.lane = (uintptr_t)p;
    inspection->process = p;
    inspection->incarnation = p->incarnation;
    inspection->epoch = p->link.epoch;
    inspection->queue = timeline_str(p->world->t, queue);
    inspection_move(inspection);
}

static void scheduler_start(struct process *p)
{
    static const struct {
        const char *queue;
        int source; /* enum scheduler_source */
    } queues[] = {
        {"drover.submit", SCHEDULER_SUBMIT},
        {"drover.replies", SCHEDULER_REPLIES},
        {"drover.control", SCHEDULER_CONTROL},
        {"drover.expired", SCHEDULER_EXPIRED},
    };
    struct world *w = p->world;
    struct rng rng = rng_of(p);
    uint64_t incarnation = p->incarnation;
    struct nonces nonces;

    nonces_seed(&nonces, rng.s[0]);
    ok(scheduler_new(&p->scheduler,
                     &(struct scheduler_config){.name = p->name,
                                                .most_unconfirmed = w->plan->most_unconfirmed,
                                                .few = w->plan->few,
                                                .nonces = &nonces,
                                                .declared_actors = UINT_MAX},
                     &rng));
    for (uint32_t i = 0; i < w->plan->n_definitions; i++) {
        if (w->definitions[i].registered)
            ok(scheduler_register(p->scheduler, w->definitions[i].workflow));
        if (w->definitions[i].newer)
            ok(scheduler_register(p->scheduler, w->definitions[i].newer));
    }
    scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_STORE_UP,
                                                .partitions = w->plan->partitions,
                                                .run = w->run});
    for (size_t i = 0; p->incarnation == incarnation && p->alive && i < array_size(queues); i++)
        simlink_consume(&p->link, simbus_queue(w->bus, queues[i].queue, false), queues[i].source,
                        w->plan->prefetch);
}

/* ---- supervisors ---- */

static void supervisor_event(struct process *p, struct supervisor_event e)
{
    e.now = process_now(p);
    process_perform(p, supervisor_step(p->supervisor, &e, &p->out));
}

static void inspect_marker(struct process *p)
{
    uint32_t n = simqueue_messages(simbus_queue(p->world->bus, SUPERVISOR_MARKER_NAME, false));

    process_hears(p, n);
    supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_MARKER, .marker = n > 0});
}

static void on_inspect_replies(struct event *e)
{
    struct process *p = container_of(e, struct process, inspection);
    struct simqueue *q = p->world->replies;

    timeline_add(p->world->t, &p->inspection, INSPECT_MS);
    process_hears(p, digest_number(simqueue_messages(q), simqueue_consumers(q)));
    if (p->world->plan->forgets && p->alive && p->link.up)
        inspect_marker(p);
    if (p->alive)
        supervisor_event(
            p, (struct supervisor_event){.type = SUPERVISOR_QUEUE,
                                         .queue = {simqueue_messages(q), simqueue_consumers(q)}});
}

static void supervisor_start(struct process *p)
{
    const struct plan *plan = p->world->plan;
    const struct supervisor_config config = {
        .name = p->name,
        .period_ms = plan->supervisor_period_ms,
        .lease_ms = SUPERVISOR_LEASE_MS,
        .election = plan->election,
        .retention_ms = plan->retention_ms,
        .sweep_ms = plan->sweep_ms,
        .marker = plan->forgets,
    };
    struct rng rng = rng_of(p);

    ok(supervisor_new(&p->supervisor, &config, &rng));
    p->inspection.fire = on_inspect_replies;
    p->inspection.held_until = &p->held_until;
    timeline_add(p->world->t, &p->inspection, INSPECT_MS);
    supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_STORE_UP,
                                                  .store = {plan->partitions, p->world->run}});
}

/* ---- agents ---- */

/* One run of a handler. */
struct handler {
    struct handler *older;
    struct event act; /* takes effect */
    struct event end;
    struct event known; /* the agent receives the result */
    struct event beat;
    struct process *process;
    uint64_t incarnation;
    uint64_t id;
    const char *token;
    const char *label; /* as in the trace: "job=j1 step=s0 attempt=1" */
    int64_t deadline;
    bool stopped;
    bool acted;
    bool ended;
    int64_t began;
    int64_t heartbeat;
    struct agent_result result;
};

static void agent_feed(struct process *p, struct agent_event e)
{
    e.now = process_now(p);
    process_perform(p, agent_step(p->agent, &e, &p->out));
}

static const char *actor_queue(struct world *w, uint32_t actor)
{
    return effects_printf(&w->t->arena, "drover.task.a%u", (unsigned)actor);
}

/* Every actor has an agent: the i-th serves actor i, and some of the others. */
static bool serves(const struct process *p, uint32_t actor)
{
    const struct plan *plan = p->world->plan;

    return actor % p->world->counts[ROLE_AGENT] == p->index ||
           ((plan->seed >> (actor + 3 * p->index)) & 3) == 0;
}

/* Notes runs that took effect and end with their agent. */
static void agent_end(struct process *p)
{
    for (const struct handler *h = p->handlers; h; h = h->older)
        if (h->acted && !h->ended && h->incarnation == p->incarnation) {
            timeline_note(p->world->t, FEATURE_EFFECT_UNREPORTED);
            grid_met(p->world->t, FAULT_CRASH_AFTER, AT(6));
            grid_met(p->world->t, FAULT_KILL, AT(6));
        }
    p->agent = agent_free(p->agent);
}

static void agent_start(struct process *p)
{
    struct world *w = p->world;
    struct agent_actor actors[PLAN_ACTORS];
    struct agent_config config = {
        .name = p->name,
        .concurrency = w->plan->concurrency,
        .few = w->plan->few,
        .actors = actors,
        .n_actors = w->plan->actors,
    };
    struct rng rng = rng_of(p);

    for (uint32_t i = 0; i < w->plan->actors; i++)
        actors[i] = (struct agent_actor){
            .name = effects_printf(&w->t->arena, "a%u", (unsigned)i),
            .lease_retries = w->plan->lease_retries,
            .early_ack_ms = w->plan->early_ack_ms,
            .batch = w->plan->batch,
        };
    ok(agent_new(&p->agent, &config, &rng));
    p->link.direct_source = AGENT_ANSWERS;
    for (uint32_t i = 0; i < w->plan->actors; i++)
        if (serves(p, i))
            simlink_consume(&p->link, simbus_queue(w->bus, actor_queue(w, i), true), AGENT_REQUESTS,
                            w->plan->concurrency);
}

static bool handler_runs(const struct handler *h)
{
    return h->process->alive && h->process->incarnation == h->incarnation;
}

static uint64_t handler_digest(const struct handler *h, const char *what)
{
    uint64_t d = digest_str(digest_str(DIGEST_INIT, h->process->name), h->token);

    d = digest_number(digest_str(d, what),
                      (uint64_t)h->stopped << 2 | (uint64_t)h->acted << 1 | (uint64_t)h->result.ok);
    return digest_number(digest_str(d, h->result.class), handler_runs(h));
}

/* Adds an event of the handler. */
static void handler_add(struct handler *h, struct event *e, const char *what, int64_t after)
{
    e->digest = handler_digest(h, what);
    e->lane = (uintptr_t)h;
    timeline_add(h->process->world->t, e, after);
}

static void on_known(struct event *e)
{
    struct handler *h = container_of(e, struct handler, known);

    process_hears(h->process, handler_digest(h, "told"));
    if (process_now(h->process) > h->deadline)
        grid_met(h->process->world->t, FAULT_LATE, AT(7));
    h->process->behind = AT(6);
    if (handler_runs(h))
        agent_feed(h->process,
                   (struct agent_event){.type = AGENT_DONE, .id = h->id, .result = &h->result});
}

/* Whether the labels are of runs of one step, in the same direction. */
static bool is_same_step(const struct handler *h, const struct handler *other)
{
    return strncmp(h->label, other->label, (size_t)(strstr(h->label, "attempt=") - h->label)) == 0;
}

/* An older run takes effect after a younger one. */
static void note_overtaken(const struct handler *h)
{
    const struct world *w = h->process->world;

    for (uint32_t i = 0; i < w->n_processes; i++)
        for (const struct handler *o = w->processes[i].handlers; o; o = o->older)
            if (o->acted && o->began > h->began && is_same_step(h, o))
                grid_met(w->t, FAULT_OVERTAKEN, AT(6));
}

/* The run takes effect between its beginning and its end, whether its agent learns of that or not.
 * */
static void on_act(struct event *e)
{
    struct handler *h = container_of(e, struct handler, act);

    if (!handler_runs(h))
        return;
    h->acted = true;
    note_overtaken(h);
    h->process->world->effects_seen += digest_str(DIGEST_INIT, h->token);
    if (!checker_act(h->process->world->checker, h->token) && h->result.ok)
        h->result = (struct agent_result){.class = "taken_back", .message = "not again"};
}

/* The handler ends whether its agent learns of that or not. */
static void on_end(struct event *e)
{
    struct handler *h = container_of(e, struct handler, end);
    struct world *w = h->process->world;
    struct timeline *t = w->t;

    if (!handler_runs(h))
        return;
    if (!h->result.ok && h->result.effect == DROVER__V1__EFFECT__EFFECT_NONE &&
        !checker_did_nothing(w->checker, h->token))
        h->result.effect = DROVER__V1__EFFECT__EFFECT_UNKNOWN;
    h->ended = true;
    if (h->heartbeat > 0 && t->now > h->began + 3 * h->heartbeat)
        timeline_note(t, FEATURE_LONG_RUN);
    tell(t, h->process->name, "end %s result=%s", h->label, h->result.ok ? "ok" : h->result.class);
    timeline_cancel(t, &h->act);
    timeline_cancel(t, &h->beat);
    h->known.fire = on_known;
    h->known.held_until = &h->process->held_until;
    handler_add(h, &h->known, "told", 0);
}

static void on_beat(struct event *e)
{
    struct handler *h = container_of(e, struct handler, beat);

    if (!handler_runs(h) || h->stopped)
        return;
    handler_add(h, &h->beat, "beat", 100);
    process_hears(h->process, handler_digest(h, "beat"));
    agent_feed(h->process, (struct agent_event){.type = AGENT_PROGRESS,
                                                .id = h->id,
                                                .progress = {.fraction = 0.5, .note = "half way"}});
}

static struct agent_result failure(struct world *w, const char *class, Drover__V1__Verdict verdict)
{
    bool harmless = timeline_chance(w->t, w->plan->handlers.harmless);
    bool waits = timeline_chance(w->t, w->plan->handlers.waits);

    return (struct agent_result){.class = class,
                                 .message = "as planned",
                                 .verdict = verdict,
                                 .retry_after_ms = waits ? timeline_between(w->t, 1, 3000) : 0,
                                 .effect = harmless ? DROVER__V1__EFFECT__EFFECT_NONE
                                                    : DROVER__V1__EFFECT__EFFECT_UNKNOWN};
}

static struct agent_result success(const struct world *w)
{
    static uint8_t large[WIRE_RESULT_MAX + 1];
    bool is_large = !w->calmed && timeline_chance(w->t, w->plan->handlers.large);

    return (struct agent_result){.ok = true,
                                 .content_type = "text/plain",
                                 .result =
                                     is_large ? bytes_of(large, sizeof(large)) : bytes_str("done")};
}

static struct agent_result draw_result(struct world *w)
{
    const struct plan_handlers *plan = &w->plan->handlers;

    if (timeline_chance(w->t, plan->permanent))
        return failure(w, "broken", DROVER__V1__VERDICT__VERDICT_PERMANENT);
    if (!w->calmed && timeline_chance(w->t, plan->transient))
        return failure(w, "flaky", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    if (!w->calmed && timeline_chance(w->t, plan->deferred))
        return failure(w, "busy", DROVER__V1__VERDICT__VERDICT_DEFER);
    return success(w);
}

/* Draws the result of a run, and how long it takes. */
static int64_t draw_end(struct handler *h, const struct agent_run *run, enum world_verdict verdict)
{
    struct world *w = h->process->world;
    const struct plan_handlers *plan = &w->plan->handlers;
    int64_t lease = run->deadline - process_now(h->process);
    int64_t most = lease > 1 && lease / 2 < plan->most_ms ? lease / 2 : plan->most_ms;

    if (verdict == WORLD_FAILS)
        h->result = failure(w, "flaky", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    else if (verdict == WORLD_BREAKS)
        h->result = failure(w, "broken", DROVER__V1__VERDICT__VERDICT_PERMANENT);
    else
        h->result = draw_result(w);
    if (w->script)
        return plan->most_ms;
    if (w->calmed)
        return 0;
    if (run->request->heartbeat_ms > 0 && timeline_chance(w->t, HALF) && lease > 0)
        return timeline_between(w->t, 0, lease * 9 / 10);
    if (timeline_chance(w->t, plan->slow) && lease > 0)
        return lease + timeline_between(w->t, 0, lease);
    return timeline_between(w->t, 0, most);
}

/* A run that reports a failure may have taken effect, unless it reports that it has not. */
static bool draw_effect(struct handler *h)
{
    return h->result.ok || (h->result.effect != DROVER__V1__EFFECT__EFFECT_NONE &&
                            timeline_chance(h->process->world->t, HALF));
}

static void handler_plan(struct handler *h, const struct agent_run *run, enum world_verdict verdict)
{
    struct timeline *t = h->process->world->t;
    int64_t end = draw_end(h, run, verdict);

    h->act.fire = on_act;
    h->end.fire = on_end;
    if (draw_effect(h))
        handler_add(h, &h->act, "act",
                    h->process->world->script ? end : timeline_between(t, 0, end));
    handler_add(h, &h->end, "end", end);
}

static void print_fields(void *ctx, const char *event, const struct log_field *fields, int n)
{
    trace_print(ctx, event, fields, n);
}

static const char *label_of(struct world *w, const Drover__V1__StepRequest *request)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    trace_run("", request, NULL, print_fields, &out);
    return timeline_str(w->t, buf_str(&out) + 1);
}

/* Notes if another run of this step is in progress. */
static void note_two_runs(struct world *w, const struct handler *started)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        for (const struct handler *h = w->processes[i].handlers; h; h = h->older)
            if (h != started && !h->ended && handler_runs(h) && is_same_step(h, started)) {
                timeline_note(w->t, FEATURE_TWO_RUNS);
                if (strcmp(h->token, started->token) == 0)
                    grid_met(w->t, FAULT_DOUBLED, AT(6));
            }
}

/* A connection of an agent: deliveries of an earlier one may come again on this one. */
static uint64_t connection_of(const struct process *p)
{
    return digest_number(digest_number(digest_number(DIGEST_INIT, p->index), p->incarnation),
                         p->link.epoch);
}

static void handler_start(struct process *p, struct agent_run *run)
{
    struct world *w = p->world;
    struct handler *h;
    enum world_verdict verdict = WORLD_GOES_ON;

    checker_begun(w->checker, run->request->token);
    if (poison_handler(p, run->request->token))
        return;
    h = timeline_alloc(w->t, sizeof(*h));
    h->process = p;
    h->incarnation = p->incarnation;
    h->id = run->id;
    h->token = timeline_str(w->t, run->request->token);
    h->label = label_of(w, run->request);
    h->deadline = run->deadline;
    h->began = w->t->now;
    h->heartbeat = run->request->heartbeat_ms;
    h->older = p->handlers;
    p->handlers = h;
    run->driver = h;
    timeline_about(w->t, "%s start %s", p->name, h->label);
    note_two_runs(w, h);
    grid_runs(w, run->request->job_id, run->request->step);
    checker_run(w->checker, run->request, run->deadline - process_now(p));
    tell(w->t, p->name, "start %s", h->label);
    if (w->script)
        verdict = process_verdict(p, effects_printf(&w->t->arena, "start %s", h->label));
    if (verdict == WORLD_KILLS)
        return;
    if (verdict != WORLD_HANGS)
        handler_plan(h, run, verdict);
    if (verdict == WORLD_STALLS) {
        p->held_until = w->t->now + 2 * run->request->lock_ms;
        tell(w->t, p->name, "stands still until %lld", (long long)p->held_until);
    }
    if (run->request->heartbeat_ms > 0) {
        h->beat.fire = on_beat;
        h->beat.held_until = &p->held_until;
        handler_add(h, &h->beat, "beat", 50);
    }
}

static void handler_stop(struct process *p, const struct agent_run *run)
{
    struct handler *h = run->driver;

    if (heap_holds(&h->known.node) || h->stopped)
        return;
    timeline_note(p->world->t, FEATURE_RUN_STOPPED);
    if (process_now(p) >= h->deadline)
        grid_met(p->world->t, FAULT_LATE, AT(6));
    tell(p->world->t, p->name, "stop %s", h->label);
    h->stopped = true;
    h->result = failure(p->world, "stopped", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    h->end.fire = on_end;
    handler_add(h, &h->end, "end", timeline_between(p->world->t, 0, KILLED_MS));
}

/* A request that arrived twice may find no slot the second time: no handler belongs to that reply.
 * */
static bool found_no_slot(const Drover__V1__StepReply *m)
{
    return m->error && strcmp(m->error->class_, "NO_SLOT") == 0;
}

void role_replies(struct process *p, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    if (wire_decode(WIRE_REPLIES, body, NULL, &m, NULL)) {
        checker_fail(p->world->checker, "%s sends replies that are broken", p->name);
        return;
    }
    for (size_t i = 0; i < m.replies->n_replies; i++) {
        const struct handler *h = p->handlers;

        while (h && (h->incarnation != p->incarnation ||
                     strcmp(h->token, m.replies->replies[i]->token) != 0))
            h = h->older;
        if (found_no_slot(m.replies->replies[i]) && m.replies->replies[i]->error->retry_after_ms)
            timeline_note(p->world->t, FEATURE_BATCH_DEFERRED);
        if (h && !found_no_slot(m.replies->replies[i]) && process_now(p) > h->deadline)
            checker_fail(p->world->checker, "I4 %s replies to %s after its lease", p->name,
                         h->label);
    }
    for (size_t i = 0; i < m.replies->n_progress; i++)
        checker_begun(p->world->checker, m.replies->progress[i]->token);
}

void role_publishes(struct process *p, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    /* without a connection the delivery that it reports on is lost, and the next one may be given
     * back */
    if (p->role != ROLE_AGENT || !p->link.up || wire_decode(WIRE_REPLIES, body, NULL, &m, NULL))
        return;
    for (size_t i = 0; i < m.replies->n_progress; i++)
        checker_says_begun(p->world->checker, m.replies->progress[i]->token, connection_of(p));
}

void role_acknowledges_nothing(struct process *p)
{
    if (p->role == ROLE_AGENT)
        checker_handed_in_nothing(p->world->checker, connection_of(p));
}

void role_hands_in(struct process *p, const struct bus_delivery *d, bool acknowledged)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    if (p->role != ROLE_AGENT || !d || wire_decode(WIRE_REQUESTS, d->body, NULL, &m, NULL))
        return;
    for (size_t i = 0; i < m.requests->n_requests; i++)
        checker_handed_in(p->world->checker, m.requests->requests[i]->token, connection_of(p),
                          acknowledged);
}

/* ---- all roles ---- */

void role_start(struct process *p)
{
    process_hears(p, digest_str(DIGEST_INIT, "born"));
    switch (p->role) {
    case ROLE_SCHEDULER:
        scheduler_start(p);
        break;
    case ROLE_AGENT:
        agent_start(p);
        break;
    case ROLE_SUPERVISOR:
        supervisor_start(p);
        break;
    default:
        break;
    }
}

void role_end(struct process *p)
{
    switch (p->role) {
    case ROLE_SCHEDULER:
        p->scheduler = scheduler_free(p->scheduler);
        break;
    case ROLE_AGENT:
        agent_end(p);
        break;
    case ROLE_SUPERVISOR:
        p->supervisor = supervisor_free(p->supervisor);
        timeline_cancel(p->world->t, &p->inspection);
        break;
    default:
        break;
    }
}

/* Schedulers need not finish anything: unacknowledged messages are delivered again. A supervisor
 * always has calls in progress. */
bool role_idle(const struct process *p)
{
    return !p->alive || (p->role == ROLE_SCHEDULER && scheduler_idle(p->scheduler)) ||
           (p->role == ROLE_AGENT && agent_idle(p->agent)) || p->role > ROLE_AGENT;
}

void role_drain(struct process *p)
{
    simlink_want(&p->link, false);
    if (p->role == ROLE_AGENT)
        agent_feed(p, (struct agent_event){.type = AGENT_DRAIN});
    else if (p->role == ROLE_SUPERVISOR)
        supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_STOP});
}

void role_store_down(struct process *p)
{
    process_hears(p, digest_str(DIGEST_INIT, "store down"));
    if (p->role == ROLE_SUPERVISOR)
        supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_STORE_DOWN});
}

void role_store_up(struct process *p)
{
    const struct world *w = p->world;

    process_hears(p, digest_str(DIGEST_INIT, "store up"));
    if (p->role == ROLE_SCHEDULER) {
        scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_STORE_UP,
                                                    .partitions = w->plan->partitions,
                                                    .run = w->run});
        return;
    }
    supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_STORE_UP,
                                                  .store = {w->plan->partitions, w->run}});
}

void role_bus_down(struct process *p)
{
    process_hears(p, digest_str(DIGEST_INIT, "down"));
    if (p->role == ROLE_SCHEDULER)
        scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    else if (p->role == ROLE_SUPERVISOR)
        supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
}

void role_tick(struct process *p)
{
    process_hears(p, DIGEST_INIT);
    switch (p->role) {
    case ROLE_SCHEDULER:
        scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_TICK});
        break;
    case ROLE_AGENT:
        agent_feed(p, (struct agent_event){.type = AGENT_TICK});
        break;
    case ROLE_SUPERVISOR:
        supervisor_event(p, (struct supervisor_event){.type = SUPERVISOR_TICK});
        break;
    default:
        break;
    }
}

void role_answer(struct process *p, uint64_t id, const struct store_answer *answer)
{
    process_hears(p, answer_digest(digest_number(DIGEST_INIT, id), answer));
    if (p->role == ROLE_SCHEDULER)
        scheduler_event(
            p, (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = id, .answer = answer});
    else if (p->role == ROLE_SUPERVISOR)
        supervisor_event(
            p, (struct supervisor_event){.type = SUPERVISOR_ANSWER, .id = id, .answer = answer});
}

void role_delivery(struct process *p, const struct bus_delivery *d, const char *type)
{
    process_hears(p, digest_number(digest_bytes(digest_str(DIGEST_INIT, type), d->body),
                                   (uint64_t)d->redelivered << 1 | d->resent));
    if (p->role == ROLE_SCHEDULER)
        scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = d});
    else if (p->role == ROLE_AGENT) {
        liar_hears(p, d->source == AGENT_REQUESTS ? d->body : BYTES_EMPTY);
        agent_feed(p, (struct agent_event){.type = AGENT_DELIVERY, .delivery = d});
    }
}

void role_outcome(struct process *p, uint64_t id, enum bus_outcome outcome)
{
    process_hears(p, digest_number(digest_number(DIGEST_INIT, id), outcome));
    if (p->role == ROLE_SCHEDULER)
        scheduler_event(
            p, (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = id, .outcome = outcome});
    else if (p->role == ROLE_SUPERVISOR)
        supervisor_event(
            p, (struct supervisor_event){.type = SUPERVISOR_OUTCOME, .id = id, .outcome = outcome});
    else if (p->role == ROLE_AGENT)
        agent_feed(p, (struct agent_event){.type = AGENT_OUTCOME, .id = id, .outcome = outcome});
}

void role_lost(struct process *p, const char *actor)
{
    process_hears(p, digest_str(DIGEST_INIT, actor));
    if (p->role == ROLE_SCHEDULER)
        scheduler_event(p, (struct scheduler_event){.type = SCHEDULER_LOST, .lost_actor = actor});
    else if (p->role == ROLE_AGENT)
        agent_feed(p, (struct agent_event){.type = AGENT_LOST, .lost_actor = actor});
}

/* The loss is recorded, or reported: the queue of the actor is declared. */
static void declare(struct process *p, const char *actor)
{
    struct world *w = p->world;

    timeline_note(w->t, FEATURE_QUEUE_BACK);
    simqueue_restore(
        simbus_queue(w->bus, effects_printf(&w->t->arena, "drover.task.%s", actor), true));
}

void role_effect(struct process *p, const struct effect *e)
{
    if (p->role == ROLE_SCHEDULER && e->role.what == SCHEDULER_INSPECT)
        scheduler_inspects(p, e->role.object);
    if (p->role == ROLE_SCHEDULER && e->role.what == SCHEDULER_DECLARE)
        declare(p, e->role.object);
    if (p->role != ROLE_AGENT) /* an alert for people */
        return;
    if (e->role.what == AGENT_DECLARE)
        declare(p, e->role.object);
    else if (e->role.what == AGENT_START)
        handler_start(p, e->role.object);
    else
        handler_stop(p, e->role.object);
}
