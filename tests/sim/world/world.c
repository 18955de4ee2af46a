// SPDX-License-Identifier: Apache-2.0
/*
 * World: begins and ends the processes of a world, and runs it until all is at rest
 *
 * See world.h. Called by main.c, explore_main.c and tests.
 */
#include "world/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "world/parts.h"

#define PROBE_MS 500 /* between two checks whether all is at rest */
#define EVENTS_MAX                                                                                 \
    3000000              /* ten times as many as in the longest world seen; more count as endless */
#define CLOCKS_MS 100000 /* monotonic clocks begin anywhere up to here */

/* At least one of each kind. */
static uint32_t processes_count(struct world *w, const char *name, uint32_t planned)
{
    for (uint32_t n = 1; n < planned; n++) {
        timeline_about(w->t, "%s-%u", name, (unsigned)n + 1);
        if (!timeline_keeps(w->t))
            return n;
    }
    return planned;
}

static void processes_new(struct world *w)
{
    static const char *const names[ROLES_] = {"scheduler", "agent", "supervisor", "client"};
    const uint32_t planned[ROLES_] = {w->plan->schedulers, w->plan->agents, w->plan->supervisors,
                                      w->plan->clients};

    for (int role = 0; role < ROLES_; role++) {
        w->counts[role] = processes_count(w, names[role], planned[role]);
        w->n_processes += w->counts[role];
    }
    w->processes = timeline_alloc(w->t, w->n_processes * sizeof(*w->processes));
    for (uint32_t role = 0, at = 0; role < ROLES_; role++) {
        for (uint32_t i = 0; i < w->counts[role]; i++) {
            struct process *p = &w->processes[at++];

            p->world = w;
            p->role = (enum role)role;
            p->index = i;
            p->name = effects_printf(&w->t->arena, "%s-%u", names[role], (unsigned)i + 1);
            list_init(&p->calls);
            p->clock = timeline_between(w->t, 0, CLOCKS_MS);
        }
    }
}

static struct workflow *definition_new(const Drover__V1__Workflow *message)
{
    struct problem problem = {0};
    struct workflow *w;

    if (workflow_new(&w, message, "", &problem)) {
        fprintf(stderr, "definition: %s %s\n", problem.field, problem.reason);
        abort();
    }
    return w;
}

/* All but the first step may be left out. */
static void choose_steps(struct world *w, Drover__V1__Workflow *m, uint32_t n, const char *version)
{
    for (size_t i = m->n_steps - 1; i > 0; i--) {
        timeline_about(w->t, "%sdefinition %u %s", version, (unsigned)n + 1, m->steps[i]->name);
        if (!timeline_keeps(w->t))
            plan_leave_out(w->t, m, m->steps[i]->name);
    }
}

static void definitions_new(struct world *w)
{
    for (uint32_t i = 0; i < w->plan->n_definitions; i++) {
        const struct plan_definition *d = &w->plan->definitions[i];

        choose_steps(w, d->message, i, "");
        if (d->newer)
            choose_steps(w, d->newer, i, "newer ");
        w->definitions[i].workflow = definition_new(d->message);
        w->definitions[i].newer = d->newer ? definition_new(d->newer) : NULL;
        w->definitions[i].registered = d->registered;
    }
}

static void queues_new(struct world *w)
{
    static const char *const queues[] = {"drover.submit", "drover.control", "drover.expired",
                                         "drover.dead"};

    if (w->plan->forgets)
        simbus_queue(w->bus, SUPERVISOR_MARKER_NAME, false);

    for (size_t i = 0; i < array_size(queues); i++)
        simbus_queue(w->bus, queues[i], false);
    w->replies = simbus_queue(w->bus, "drover.replies", false);
}

/* ---- the end of the faults, and rest ---- */

static void on_calm(struct event *e)
{
    struct world *w = container_of(e, struct world, calm);
    const struct plan_faults none = {.bus = {.delay_ms = w->faults.bus.delay_ms, .kept_ms = 1},
                                     .restart_ms = 1,
                                     .stall_ms = 1,
                                     .outage_ms = 1};

    tell(w->t, "world", "faults stop");
    w->faults = none;
    w->calmed = true;
    for (uint32_t i = 0; i < w->n_processes; i++)
        w->processes[i].held_until = 0;
}

static void end_parked(void *ctx, const char *job)
{
    struct world *w = ctx;

    client_end(w, job, w->cleaning == 2);
}

/* Jobs that are parked for good are cancelled, and if an undo is parked then, killed: they have to
 * settle, too. Return: false: there are none. */
static bool clean(struct world *w)
{
    w->cleaning++;
    w->kept_jobs = UINT32_MAX;
    checker_parked(w->checker, end_parked, w);
    return client_is_busy(w);
}

static void on_rest(struct world *w)
{
    uint32_t kept = checker_kept(w->checker);

    if (kept != w->kept_jobs) /* otherwise only time has passed */
        checker_end(w->checker);
    w->kept_jobs = kept;
    while (w->cleaning < 2)
        if (clean(w))
            return;
    if (w->plan->retention_ms > w->plan->settle_ms || kept == 0)
        w->finished = true;
    if (kept == 0)
        checker_left(w->checker);
}

/* An explorer checks by itself, except for L1. */
static int64_t probe_ms(const struct world *w)
{
    return timeline_explored(w->t) ? w->plan->settle_ms : PROBE_MS;
}

static const struct process *busy_process(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (!role_idle(&w->processes[i]))
            return &w->processes[i];
    return NULL;
}

static void on_probe(struct event *e)
{
    struct world *w = container_of(e, struct world, probe);
    const struct process *busy = busy_process(w);
    bool rests = (w->calmed || w->script || !w->plan->lingers) && !client_is_busy(w) &&
                 checker_at_rest(w->checker);
    int64_t limit =
        w->plan->settle_ms * (rests ? 2 : 1) + /* settled jobs still have to be forgotten */
        w->set_back;

    timeline_add(w->t, &w->probe, probe_ms(w));
    if (rests && !busy)
        on_rest(w);
    else
        w->kept_jobs = UINT32_MAX;
    if (w->finished || w->t->now <= w->plan->faults_end + limit)
        return;
    checker_alerted(w->checker);
    if (rests && busy)
        checker_fail(w->checker, "M1 %s never finishes what it has in progress", busy->name);
    checker_fail(w->checker, "L1 not at %s %" PRId64 " s after the last fault",
                 rests ? "an end" : "rest", limit / 1000);
}

uint64_t world_digest(void *world)
{
    const struct world *w = world;
    uint64_t d = digest_number(simstore_digest(w->store), simbus_digest(w->bus));

    d = digest_number(digest_number(d, clients_digest(w)), w->effects_seen);
    for (uint32_t i = 0; i < w->n_processes; i++) {
        const struct process *p = &w->processes[i];

        d = digest_number(digest_number(digest_number(d, p->alive), p->incarnation), p->heard);
    }
    return digest_number(d, (uint64_t)w->cleaning);
}

bool world_quiet(void *world)
{
    struct world *w = world;
    int cleaning = w->cleaning;

    w->kept_jobs = UINT32_MAX;
    if (!client_is_busy(w) && checker_at_rest(w->checker))
        on_rest(w);
    return w->finished || w->cleaning != cleaning;
}

static void on_published(void *ctx, const struct bus_message *m, enum bus_outcome outcome,
                         bool lost)
{
    struct world *w = ctx;

    timeline_mix(w->t, m->body);
    poison_published(w, m);
    checker_published(w->checker, m, outcome, lost);
}

static void on_delivered(void *ctx, const struct bus_message *m)
{
    const struct world *w = ctx;

    checker_delivered(w->checker, m);
}

static void on_dropped(void *ctx, const struct bus_message *m, bool delivered)
{
    struct world *w = ctx;

    checker_dropped(w->checker, m, delivered);
}

/* ---- setup ---- */

struct world *world_new(const struct world_config *config)
{
    struct timeline *t = config->timeline;
    struct world *w = timeline_alloc(t, sizeof(*w));

    w->plan = config->plan;
    w->t = t;
    w->store = config->store;
    w->script = config->script;
    w->script_ctx = config->script_ctx;
    w->faults = w->plan->faults;
    w->run = "first";
    w->kept_jobs = UINT32_MAX;
    w->kept = w->faults.rollback ? replay_new() : NULL;
    simstore_reset(w->store, w->plan->budget);
    w->bus = simbus_new(t, &w->faults.bus, w->plan->forgets);
    list_init(&w->late);
    w->checker = checker_new(t, w->store, w->plan);
    w->watch = (struct simbus_watch){on_published, on_delivered, on_dropped, w};
    simbus_watch(w->bus, &w->watch);
    queues_new(w);
    definitions_new(w);
    processes_new(w);
    for (uint32_t i = 0; i < w->n_processes; i++)
        process_start(&w->processes[i]);
    clients_begin(w);
    w->calm.fire = on_calm;
    w->probe.fire = on_probe;
    timeline_add(t, &w->probe, probe_ms(w));
    if (!w->script)
        timeline_add(t, &w->calm, w->plan->faults_end);
    return w;
}

void world_run(struct world *w, struct world_result *out)
{
    const char *violation;

    while (!w->finished && !checker_violation(w->checker) && timeline_step(w->t))
        if (w->t->events > EVENTS_MAX)
            checker_fail(w->checker, "L1 no end after %d events", EVENTS_MAX);
    violation = checker_violation(w->checker);
    *out = (struct world_result){
        .hash = w->t->hash,
        .events = w->t->events,
        .calls = w->calls,
        .simulated_ms = w->t->now,
    };
    memcpy(out->seen, w->t->seen, sizeof(out->seen));
    if (violation)
        snprintf(out->violation, sizeof(out->violation), "%s", violation);
}

void world_describe(struct world *w, FILE *out)
{
    checker_describe(w->checker, out);
}

struct world *world_free(struct world *w)
{
    for (uint32_t i = 0; i < w->n_processes; i++) {
        role_end(&w->processes[i]);
        effects_deinit(&w->processes[i].out);
    }
    for (uint32_t i = 0; i < w->plan->n_definitions; i++) {
        workflow_unref(w->definitions[i].workflow);
        workflow_unref(w->definitions[i].newer);
    }
    checker_free(w->checker);
    replay_free(w->kept);
    return NULL;
}

void world_play(const struct world_config *config, struct world_result *out)
{
    struct world *w = world_new(config);

    world_run(w, out);
    if (config->timeline->trace && *out->violation)
        world_describe(w, config->timeline->trace);
    world_free(w);
}
