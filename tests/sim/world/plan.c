// SPDX-License-Identifier: Apache-2.0
/*
 * Plan: draws the processes, jobs and faults of a world from its seed
 *
 * See plan.h. Called by main.c, explore_main.c, world.c, story.c and tests.
 */
#include "world/plan.h"

#include "model/wire.h"
#include "store/store.h"

#define PERCENT 10000 /* millionths */
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)

/* ---- definitions ---- */

Drover__V1__Workflow *plan_workflow(struct timeline *t, uint32_t n)
{
    Drover__V1__Workflow *w = timeline_alloc(t, sizeof(*w));
    Drover__V1__Step *steps = timeline_alloc(t, n * sizeof(*steps));

    drover__v1__workflow__init(w);
    w->n_steps = n;
    w->steps = timeline_alloc(t, n * sizeof(*w->steps));
    for (uint32_t i = 0; i < n; i++) {
        drover__v1__step__init(&steps[i]);
        steps[i].name = (char *)effects_printf(&t->arena, "s%u", i);
        steps[i].actor = (char *)"a0";
        w->steps[i] = &steps[i];
    }
    return w;
}

void plan_after(struct timeline *t, Drover__V1__Workflow *w, uint32_t step, uint32_t dependency)
{
    Drover__V1__Step *m = w->steps[step];
    char **after = timeline_alloc(t, (m->n_after + 1) * sizeof(*after));

    for (size_t i = 0; i < m->n_after; i++)
        after[i] = m->after[i];
    after[m->n_after++] = w->steps[dependency]->name;
    m->after = after;
}

static Drover__V1__Workflow *draw_chain(struct timeline *t)
{
    uint32_t n = (uint32_t)timeline_between(t, 1, 6);
    Drover__V1__Workflow *w = plan_workflow(t, n);

    for (uint32_t i = 1; i < n; i++)
        plan_after(t, w, i, i - 1);
    return w;
}

/* One step, @n parallel ones, and one that waits for all of those. */
static Drover__V1__Workflow *draw_fan(struct timeline *t, uint32_t n)
{
    Drover__V1__Workflow *w = plan_workflow(t, n + 2);
    Drover__V1__Step *join = w->steps[n + 1];

    join->after = timeline_alloc(t, n * sizeof(*join->after));
    join->n_after = n;
    for (uint32_t i = 1; i <= n; i++) {
        plan_after(t, w, i, 0);
        join->after[i - 1] = w->steps[i]->name;
    }
    return w;
}

static Drover__V1__Workflow *draw_any(struct timeline *t)
{
    uint32_t n = (uint32_t)timeline_between(t, 2, 12);
    Drover__V1__Workflow *w = plan_workflow(t, n);
    uint32_t density = (uint32_t)timeline_between(t, 5, 50) * PERCENT;
    bool reversed = timeline_chance(t, 50 * PERCENT); /* the first step is defined last */

    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (timeline_chance(t, density))
                plan_after(t, w, reversed ? k : i, reversed ? i : k);
    return w;
}

/* So many roots, or so many dependents of one step, that they need several calls. */
static Drover__V1__Workflow *draw_big(struct timeline *t)
{
    uint32_t n = (uint32_t)timeline_between(t, 501, 1200);

    if (timeline_chance(t, 30 * PERCENT))
        return plan_workflow(t, n);
    return draw_fan(t, n);
}

static Drover__V1__Workflow *draw_shape(struct timeline *t, bool big)
{
    if (big)
        return draw_big(t);
    switch (timeline_between(t, 0, 3)) {
    case 0:
        return draw_chain(t);
    case 1:
        return draw_fan(t, 2);
    case 2:
        return draw_fan(t, (uint32_t)timeline_between(t, 1, 8));
    default:
        return draw_any(t);
    }
}

/* Mostly the default. */
static Drover__V1__Recourse draw_recourse(struct timeline *t)
{
    return timeline_chance(t, 50 * PERCENT) ? DROVER__V1__RECOURSE__RECOURSE_UNSPECIFIED
                                            : (Drover__V1__Recourse)timeline_between(t, 1, 3);
}

/* A time in ms, times the pace of the world. */
static int64_t draw_ms(struct timeline *t, const struct plan *plan, int64_t least, int64_t most)
{
    return plan->pace * timeline_between(t, least, most);
}

static void draw_policy(struct timeline *t, const struct plan *plan, Drover__V1__Policy *p)
{
    p->on_permanent = draw_recourse(t);
    p->on_exhausted = draw_recourse(t);
    p->initial_interval_ms = draw_ms(t, plan, 20, 800);
    p->backoff_coefficient = 1.0 + (double)timeline_between(t, 0, 20) / 10;
    p->maximum_interval_ms = draw_ms(t, plan, 800, 4000);
    p->maximum_attempts = (uint32_t)timeline_between(t, 1, 6);
    p->maximum_expiries = (uint32_t)timeline_between(t, 1, 8);
    p->jitter = (double)timeline_between(t, 0, 5) / 10;
    p->park_interval_ms = timeline_chance(t, 30 * PERCENT) ? -1 : draw_ms(t, plan, 500, 5 * SECOND);
    p->silence_interval_ms =
        timeline_chance(t, 30 * PERCENT) ? -1 : draw_ms(t, plan, 500, 5 * SECOND);
    if (timeline_chance(t, 10 * PERCENT)) {
        p->non_retryable = timeline_alloc(t, sizeof(*p->non_retryable));
        p->non_retryable[p->n_non_retryable++] = (char *)"flaky";
    }
}

static char *draw_actor(struct timeline *t, const struct plan *plan)
{
    return (char *)effects_printf(&t->arena, "a%u",
                                  (unsigned)timeline_between(t, 0, plan->actors - 1));
}

static Drover__V1__Revert *draw_revert(struct timeline *t, const struct plan *plan,
                                       const Drover__V1__Step *of)
{
    Drover__V1__Revert *m = timeline_alloc(t, sizeof(*m));

    drover__v1__revert__init(m);
    m->action = (char *)"take_back";
    if (timeline_chance(t, 30 * PERCENT))
        m->actor = draw_actor(t, plan);
    if (timeline_chance(t, 30 * PERCENT))
        m->lock_ms = (of->heartbeat_ms ? of->heartbeat_ms : 100) + draw_ms(t, plan, 0, 3 * SECOND);
    if (timeline_chance(t, 30 * PERCENT)) {
        m->retry = timeline_alloc(t, sizeof(*m->retry));
        drover__v1__policy__init(m->retry);
        draw_policy(t, plan, m->retry);
    }
    return m;
}

static void draw_steps(struct timeline *t, const struct plan *plan, Drover__V1__Workflow *w)
{
    uint32_t reverts = (uint32_t)timeline_between(t, 0, 100) * PERCENT;

    for (size_t i = 0; i < w->n_steps; i++) {
        Drover__V1__Step *m = w->steps[i];

        m->actor = draw_actor(t, plan);
        m->action = (char *)"do";
        m->waive_revert = timeline_chance(t, 20 * PERCENT);
        if (timeline_chance(t, 30 * PERCENT))
            m->lock_ms = draw_ms(t, plan, 100, 3 * SECOND);
        if (timeline_chance(t, 20 * PERCENT))
            m->wait_ms = draw_ms(t, plan, 100, 3 * SECOND);
        if (timeline_chance(t, 10 * PERCENT)) {
            m->lock_ms = draw_ms(t, plan, 600, 4 * SECOND);
            m->heartbeat_ms = m->lock_ms / timeline_between(t, 2, 6);
        }
        if (timeline_chance(t, 5 * PERCENT)) {
            m->lock_ms = draw_ms(t, plan, 10 * SECOND, 60 * SECOND);
            m->heartbeat_ms = draw_ms(t, plan, 300, 3 * SECOND);
        }
        if (timeline_chance(t, reverts))
            m->revert = draw_revert(t, plan, m);
    }
}

void plan_leave_out(struct timeline *t, Drover__V1__Workflow *w, const char *gone)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->n_steps; i++) {
        Drover__V1__Step *m = w->steps[i];
        char **after = timeline_alloc(t, m->n_after * sizeof(*after));
        size_t n = 0;

        for (size_t k = 0; k < m->n_after; k++)
            if (m->after[k] != gone)
                after[n++] = m->after[k];
        m->after = after;
        m->n_after = n;
        if (m->name != gone)
            w->steps[kept++] = m;
    }
    w->n_steps = kept;
}

static void put_in(struct timeline *t, const struct plan *plan, Drover__V1__Workflow *w)
{
    Drover__V1__Step *m = timeline_alloc(t, sizeof(*m));

    drover__v1__step__init(m);
    m->name = (char *)"new";
    m->actor = draw_actor(t, plan);
    w->steps[w->n_steps++] = m;
    plan_after(t, w, (uint32_t)w->n_steps - 1,
               (uint32_t)timeline_between(t, 0, (int64_t)w->n_steps - 2));
}

/* Some steps have another actor, one may be removed, one may be added; and their order differs. */
static Drover__V1__Workflow *draw_newer(struct timeline *t, const struct plan *plan,
                                        const Drover__V1__Workflow *of)
{
    Drover__V1__Workflow *w = timeline_alloc(t, sizeof(*w));
    Drover__V1__Step *steps = timeline_alloc(t, of->n_steps * sizeof(*steps));
    uint32_t changed = (uint32_t)timeline_between(t, 0, 30) * PERCENT;

    *w = *of;
    w->version++;
    w->steps = timeline_alloc(t, (of->n_steps + 1) * sizeof(*w->steps));
    for (size_t i = 0; i < of->n_steps; i++) {
        steps[i] = *of->steps[i];
        if (timeline_chance(t, changed))
            steps[i].actor = draw_actor(t, plan);
        w->steps[i] = &steps[i];
    }
    if (w->n_steps > 1 && timeline_chance(t, 50 * PERCENT))
        plan_leave_out(t, w, w->steps[timeline_between(t, 0, (int64_t)w->n_steps - 1)]->name);
    if (timeline_chance(t, 50 * PERCENT))
        put_in(t, plan, w);
    for (size_t i = 0; i < w->n_steps / 2 && timeline_chance(t, 70 * PERCENT); i++) {
        Drover__V1__Step *m = w->steps[i];

        w->steps[i] = w->steps[w->n_steps - 1 - i];
        w->steps[w->n_steps - 1 - i] = m;
    }
    return w;
}

static void draw_definition(struct timeline *t, const struct plan *plan,
                            struct plan_definition *out, uint32_t i, bool big)
{
    Drover__V1__Workflow *w = draw_shape(t, big);
    Drover__V1__Policy *policy = timeline_alloc(t, sizeof(*policy));

    drover__v1__policy__init(policy);
    draw_policy(t, plan, policy);
    draw_steps(t, plan, w);
    w->retry = policy;
    w->lock_ms = draw_ms(t, plan, 100, 3 * SECOND);
    if (timeline_chance(t, 50 * PERCENT))
        w->wait_ms = draw_ms(t, plan, 100, 3 * SECOND);
    w->on_deadline = draw_recourse(t);
    if (timeline_chance(t, 10 * PERCENT))
        w->complete_within_ms = draw_ms(t, plan, 1, 20 * SECOND);
    w->tries = (uint32_t)timeline_between(t, 0, 3);
    w->tries_interval_ms =
        timeline_chance(t, 30 * PERCENT) ? -1 : draw_ms(t, plan, 500, 5 * SECOND);
    w->tries_coefficient = 1.0 + (double)timeline_between(t, 0, 20) / 10;
    w->compensation_expected = timeline_chance(t, 30 * PERCENT);
    out->message = w;
    out->registered = timeline_chance(t, 50 * PERCENT);
    if (out->registered) {
        w->name = (char *)effects_printf(&t->arena, "w%u", i);
        w->version = 1;
        if (timeline_chance(t, 50 * PERCENT))
            out->newer = draw_newer(t, plan, w);
    }
}

/* ---- faults ---- */

/* 0 in half of the worlds, else up to @most; small rates are more frequent. */
static uint32_t rate(struct timeline *t, uint32_t most)
{
    if (timeline_chance(t, 50 * PERCENT))
        return 0;
    return (uint32_t)timeline_between(t, 1, (int64_t)most >> timeline_between(t, 0, 6));
}

static void draw_faults(struct timeline *t, const struct plan *plan, struct plan_faults *f)
{
    f->bus.lost = rate(t, 20 * PERCENT);
    f->bus.doubled = rate(t, 10 * PERCENT);
    f->bus.kept = rate(t, 10 * PERCENT);
    f->bus.refused = rate(t, 3 * PERCENT);
    f->bus.kept_ms = draw_ms(t, plan, 10, 10 * SECOND);
    f->bus.delay_ms = timeline_between(t, 0, 20);
    f->crash = rate(t, 2 * PERCENT);
    f->cut = rate(t, 2 * PERCENT);
    f->stall = rate(t, 1 * PERCENT);
    f->drain = rate(t, PERCENT / 2);
    f->store_lost = rate(t, 30 * PERCENT);
    f->store_error = rate(t, 1 * PERCENT);
    f->store_outage = rate(t, PERCENT / 5);
    f->store_full = rate(t, PERCENT / 5);
    f->clock_jump = timeline_chance(t, 15 * PERCENT) ? rate(t, PERCENT) : 0;
    f->queue_gone = timeline_chance(t, 20 * PERCENT) ? rate(t, 2 * PERCENT) : 0;
    f->restart_ms = draw_ms(t, plan, 1, 5 * SECOND);
    f->stall_ms = draw_ms(t, plan, 100, 10 * SECOND);
    f->outage_ms = draw_ms(t, plan, 100, 5 * SECOND);
}

/* Later additions are drawn last, so that the worlds of a seed change little. */
static void draw_more_faults(struct timeline *t, const struct plan *plan, struct plan_faults *f)
{
    f->bus.alarm = rate(t, 5 * PERCENT);
    f->bus.alarm_ms = draw_ms(t, plan, 10, 20 * SECOND >> timeline_between(t, 0, 4));
    f->bus.withheld = rate(t, 5 * PERCENT);
    f->bus.withheld_ms = draw_ms(t, plan, 100, 60 * SECOND >> timeline_between(t, 0, 4));
    f->poison = rate(t, 10 * PERCENT);
    f->lie = rate(t, 60 * PERCENT);
    f->wipe = rate(t, PERCENT / 2);
    if (timeline_chance(t, 3 * PERCENT)) /* slow: all calls are repeated */
        f->rollback = (uint32_t)timeline_between(t, 1, 2 * PERCENT);
    f->store_cut = rate(t, 2 * PERCENT);
    if (timeline_chance(t, 50 * PERCENT))
        f->bus.never = (uint32_t)timeline_between(t, 10 * PERCENT, 100 * PERCENT);
}

/* Errors of people and programs. */
static void draw_wrongs(struct timeline *t, struct plan *plan)
{
    plan->skewed =
        timeline_chance(t, 10 * PERCENT) ? (uint32_t)timeline_between(t, 10, 100) * PERCENT : 0;
    plan->wrong =
        timeline_chance(t, 10 * PERCENT) ? (uint32_t)timeline_between(t, 5, 60) * PERCENT : 0;
    plan->handlers.large = timeline_chance(t, 20 * PERCENT) ? rate(t, 10 * PERCENT) : 0;
}

static void draw_handlers(struct timeline *t, const struct plan *plan, struct plan_handlers *h)
{
    h->transient = rate(t, 40 * PERCENT);
    h->permanent = rate(t, 5 * PERCENT);
    h->deferred = rate(t, 20 * PERCENT);
    h->harmless = rate(t, 100 * PERCENT);
    h->waits = rate(t, 50 * PERCENT);
    h->slow = rate(t, 10 * PERCENT);
    h->most_ms = draw_ms(t, plan, 1, 1500);
    if (plan->batch > 0 && timeline_chance(t, 60 * PERCENT))
        h->most_ms = timeline_between(t, 0, 2); /* so short that they are sent in batches */
}

static void draw_topology(struct timeline *t, struct plan *plan)
{
    plan->partitions = (uint32_t)timeline_between(t, 1, 2);
    plan->schedulers = (uint32_t)timeline_between(t, 1, 3);
    plan->agents = (uint32_t)timeline_between(t, 1, 4);
    plan->supervisors = timeline_chance(t, 20 * PERCENT) ? 5 : (uint32_t)timeline_between(t, 1, 2);
    plan->clients = (uint32_t)timeline_between(t, 1, 2);
    plan->actors = (uint32_t)timeline_between(t, 1, PLAN_ACTORS);
    plan->jobs = (uint32_t)timeline_between(t, 1, PLAN_FEW_JOBS);
    plan->prefetch = (uint32_t)timeline_between(t, 1, 20);
    plan->most_unconfirmed =
        timeline_chance(t, 50 * PERCENT) ? (uint32_t)timeline_between(t, 1, 8) : 1024;
    plan->few = timeline_chance(t, 30 * PERCENT) ? (uint32_t)timeline_between(t, 1, 2) : 0;
    plan->concurrency = (uint32_t)timeline_between(t, 1, 4);
    if (timeline_chance(t, 40 * PERCENT)) {
        plan->batch = (uint32_t)timeline_between(t, 2, WIRE_BATCH_MAX);
        plan->concurrency = plan->actors * (uint32_t)timeline_between(t, 2, 4);
    }
    plan->lease_retries = (uint32_t)timeline_between(t, 0, 2);
    plan->early_ack_ms = timeline_chance(t, 20 * PERCENT) ? draw_ms(t, plan, 100, 3000) : 0;
    plan->election = timeline_chance(t, 70 * PERCENT);
    plan->supervisor_period_ms =
        timeline_between(t, 200, plan->pace > 1 ? 10 * SECOND : 2 * SECOND);
    plan->sweep_ms =
        timeline_chance(t, 50 * PERCENT) ? draw_ms(t, plan, SECOND, 20 * SECOND) : 600 * SECOND;
}

static void draw_jobs(struct timeline *t, struct plan *plan)
{
    plan->steers =
        timeline_chance(t, 50 * PERCENT) ? 0 : (uint32_t)timeline_between(t, 10, 80) * PERCENT;
    plan->queries = rate(t, 50 * PERCENT);
    plan->delayed = rate(t, 40 * PERCENT);
    plan->disabled = rate(t, 5 * PERCENT);
    plan->step_events = rate(t, 50 * PERCENT);
    plan->step_replies = 50 * PERCENT;
    plan->client_retry_ms = draw_ms(t, plan, 200, 3 * SECOND);
}

/* So many small jobs in one partition that a supervisor takes those that are due, or to be
 * forgotten, in pieces. */
static void draw_crowd(struct timeline *t, struct plan *plan)
{
    Drover__V1__Workflow *w = plan_workflow(t, 1);

    w->lock_ms = draw_ms(t, plan, 500, 3 * SECOND);
    w->on_deadline = DROVER__V1__RECOURSE__RECOURSE_FAIL;
    plan->definitions[0] = (struct plan_definition){.message = w};
    plan->n_definitions = 1;
    plan->partitions = 1;
    plan->jobs = (uint32_t)timeline_between(t, 110, 180);
    plan->submit_within_ms = timeline_between(t, 0, SECOND);
    plan->supervisor_period_ms = 2 * SECOND;
    plan->begins_at_ms =
        timeline_chance(t, 50 * PERCENT) ? draw_ms(t, plan, SECOND, 20 * SECOND) : 0;
    plan->steers = plan->queries = plan->delayed = 0;
    if (plan->faults.clock_jump == 0 && timeline_chance(t, 50 * PERCENT))
        plan->retention_ms = plan->pace * 600 * SECOND; /* longer than copies of a Submit wait */
}

/* In one world of eight, without a draw, so that the other worlds stay as they were. */
static uint32_t closings(uint64_t seed)
{
    return (seed * UINT64_C(0x9e3779b97f4a7c15)) >> 61 == 0 ? PERCENT / 2 : 0;
}

/* Likewise. */
static void draw_restarts(struct plan *plan)
{
    uint64_t drawn = plan->seed * UINT64_C(0xd1342543de82ef95);

    if (drawn >> 61 != 0)
        return;
    plan->forgets = true;
    plan->faults.restart = (uint32_t)(drawn >> 32 & 0xff) * PERCENT / 100;
}

void plan_draw(struct plan *plan, struct timeline *t, uint64_t seed)
{
    *plan = (struct plan){.seed = seed, .pace = 1};
    if (timeline_chance(t, 15 * PERCENT))
        plan->pace = timeline_between(t, 2, 60);
    draw_topology(t, plan);
    draw_jobs(t, plan);
    draw_faults(t, plan, &plan->faults);
    draw_handlers(t, plan, &plan->handlers);
    plan->big = timeline_chance(t, PERCENT / 5);
    plan->n_definitions = plan->big ? 1 : (uint32_t)timeline_between(t, 1, PLAN_DEFINITIONS);
    if (plan->big) {
        plan->jobs = 1;
        timeline_note(t, FEATURE_MANY_STEPS);
    }
    for (uint32_t i = 0; i < plan->n_definitions; i++)
        draw_definition(t, plan, &plan->definitions[i], i, plan->big);
    plan->submit_within_ms = draw_ms(t, plan, 0, 5 * SECOND);
    plan->faults_end = draw_ms(t, plan, 5 * SECOND, 30 * SECOND);
    if (!plan->big && timeline_chance(t, 25 * PERCENT))
        plan->budget = (uint32_t)timeline_between(t, 1, SIMSTORE_BUDGETS - 1);
    plan->retention_ms = timeline_chance(t, 5 * PERCENT) ? plan->pace * 60 * SECOND : HOUR * 24 * 7;
    plan->lingers = timeline_chance(t, 25 * PERCENT);
    plan->settle_ms = 2 * HOUR;
    draw_more_faults(t, plan, &plan->faults);
    draw_wrongs(t, plan);
    plan->faults.bus.closed = closings(seed);
    draw_restarts(plan);
    if (!plan->big && timeline_chance(t, PERCENT / 2))
        draw_crowd(t, plan);
    /* a Submit whose confirm is missing is sent again when that counts as missed, perhaps several
     * times */
    if (plan->faults.bus.withheld && plan->faults.bus.never && plan->retention_ms < HOUR)
        plan->retention_ms = HOUR;
}
