// SPDX-License-Identifier: Apache-2.0
/*
 * Stories: makes small workflows, and a plain world around one job
 *
 * See story.h. Called by test_failures.c and test_narrative.c.
 */
#include "world/story.h"

Drover__V1__Workflow *story_chain(struct timeline *t)
{
    Drover__V1__Workflow *w = plan_workflow(t, 3);

    plan_after(t, w, 1, 0);
    plan_after(t, w, 2, 1);
    return w;
}

Drover__V1__Workflow *story_diamond(struct timeline *t)
{
    Drover__V1__Workflow *w = plan_workflow(t, 4);

    plan_after(t, w, 1, 0);
    plan_after(t, w, 2, 0);
    plan_after(t, w, 3, 1);
    plan_after(t, w, 3, 2);
    return w;
}

static void add_reverts(struct timeline *t, Drover__V1__Workflow *w)
{
    Drover__V1__Revert *reverts = timeline_alloc(t, w->n_steps * sizeof(*reverts));

    for (size_t i = 0; i < w->n_steps; i++) {
        drover__v1__revert__init(&reverts[i]);
        w->steps[i]->revert = &reverts[i];
    }
}

static Drover__V1__Policy *add_policy(struct timeline *t, Drover__V1__Workflow *w)
{
    w->retry = timeline_alloc(t, sizeof(*w->retry));
    drover__v1__policy__init(w->retry);
    w->retry->initial_interval_ms = 500;
    return w->retry;
}

Drover__V1__Workflow *story_saga(struct timeline *t)
{
    Drover__V1__Workflow *w = story_chain(t);

    add_reverts(t, w);
    add_policy(t, w)->on_permanent = DROVER__V1__RECOURSE__RECOURSE_COMPENSATE;
    return w;
}

Drover__V1__Workflow *story_patient(struct timeline *t)
{
    Drover__V1__Workflow *w = plan_workflow(t, 1);

    add_policy(t, w);
    return w;
}

Drover__V1__Workflow *story_one_try(struct timeline *t)
{
    Drover__V1__Workflow *w = story_patient(t);

    w->retry->maximum_attempts = 1;
    w->retry->park_interval_ms = w->retry->silence_interval_ms = -1;
    return w;
}

void story_plan(struct plan *plan, Drover__V1__Workflow *w)
{
    w->lock_ms = STORY_LEASE_MS;
    w->wait_ms = STORY_LEASE_MS;
    *plan = (struct plan){
        .pace = 1,
        .partitions = 1,
        .schedulers = 1,
        .agents = 1,
        .supervisors = 1,
        .clients = 1,
        .actors = 1,
        .jobs = 1,
        .handlers = {.most_ms = STORY_HANDLER_MS},
        .definitions = {{.message = w}},
        .n_definitions = 1,
        .prefetch = 10,
        .most_unconfirmed = 1024,
        .concurrency = 2,
        .election = true,
        .supervisor_period_ms = 1000,
        .sweep_ms = 600000,
        .client_retry_ms = 10000,
        .settle_ms = 60000,
        .retention_ms = 3600000,
    };
}
