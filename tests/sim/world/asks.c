// SPDX-License-Identifier: Apache-2.0
/*
 * Questions of clients: the status of a job, its history, which jobs and workflows there are
 *
 * A question with several pages is repeated until the last page.
 */
#include "world/parts.h"

#include <string.h>

#define HALF 500000 /* millionths */

/* ---- History ---- */

struct history_walk {
    struct client_job *job;
    uint64_t from;
    uint32_t most; /* entries per page; 0: the maximum */
};

static void hear_history(void *ctx, const Drover__V1__Answer *m);

static void ask_history(struct history_walk *walk)
{
    struct timeline *t = walk->job->world->t;
    struct command *c = client_command(walk->job, "history", t->now);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_HISTORY;
    c->message.history = timeline_alloc(t, sizeof(*c->message.history));
    drover__v1__history__init(c->message.history);
    c->message.history->from_seq = walk->from;
    c->message.history->max_entries = walk->most;
    c->hear = hear_history;
    c->hear_ctx = walk;
}

static void hear_history(void *ctx, const Drover__V1__Answer *m)
{
    struct history_walk *walk = ctx;
    struct world *w = walk->job->world;

    if (m->code != DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE)
        return; /* the job is forgotten */
    checker_history(w->checker, walk->job->id, walk->from, m);
    if (m->n_history == 0) {
        timeline_note(w->t, FEATURE_HISTORY_READ);
        return;
    }
    walk->from = m->history[m->n_history - 1]->seq + 1;
    ask_history(walk);
}

void ask_for_history(struct client_job *job, uint32_t most)
{
    struct history_walk *walk = timeline_alloc(job->world->t, sizeof(*walk));

    *walk = (struct history_walk){.job = job, .from = 1, .most = most};
    ask_history(walk);
}

/* ---- ListJobs ---- */

struct list_walk {
    struct client_job *job; /* whose client asks */
    struct checker_list *list;
    uint32_t most; /* jobs per page */
    const char *after;
};

static void hear_list(void *ctx, const Drover__V1__Answer *m);

static void ask_list(struct list_walk *walk)
{
    struct timeline *t = walk->job->world->t;
    struct command *c = client_command(walk->job, "list", t->now);

    c->message.job_id = (char *)"";
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_LIST_JOBS;
    c->message.list_jobs = timeline_alloc(t, sizeof(*c->message.list_jobs));
    drover__v1__list_jobs__init(c->message.list_jobs);
    c->message.list_jobs->limit = walk->most;
    c->message.list_jobs->after = (char *)walk->after;
    c->hear = hear_list;
    c->hear_ctx = walk;
}

static void hear_list(void *ctx, const Drover__V1__Answer *m)
{
    struct list_walk *walk = ctx;
    struct world *w = walk->job->world;

    checker_listed(w->checker, walk->list, walk->most, m);
    if (!*m->next)
        return;
    timeline_note(w->t, FEATURE_LIST_GOES_ON);
    walk->after = timeline_str(w->t, m->next);
    ask_list(walk);
}

void ask_for_jobs(struct client_job *job, uint32_t most)
{
    struct list_walk *walk = timeline_alloc(job->world->t, sizeof(*walk));

    *walk = (struct list_walk){.job = job, .most = most, .after = ""};
    walk->list = checker_list(job->world->checker);
    ask_list(walk);
}

/* ---- ListWorkflows ---- */

static const struct workflow *registered(const struct world *w, const char *full_name)
{
    for (uint32_t i = 0; i < w->plan->n_definitions; i++) {
        const struct definition *d = &w->definitions[i];

        if (d->registered && strcmp(d->workflow->full_name, full_name) == 0)
            return d->workflow;
        if (d->registered && d->newer && strcmp(d->newer->full_name, full_name) == 0)
            return d->newer;
    }
    return NULL;
}

/* Each workflow in the answer is registered, and they are in the order of their names. */
static void hear_workflows(void *ctx, const Drover__V1__Answer *m)
{
    struct client_job *job = ctx;
    struct world *w = job->world;
    const char *last = "";

    for (size_t i = 0; i < m->n_workflows; i++) {
        const Drover__V1__WorkflowInfo *info = m->workflows[i];
        const struct workflow *known = registered(w, info->workflow);

        if (!known || strcmp(known->digest, info->definition) != 0 || known->n_steps != info->steps)
            checker_fail(w->checker, "I10 a list of workflows contains %s", info->workflow);
        if (strcmp(last, info->workflow) >= 0)
            checker_fail(w->checker, "workflows listed out of order: %s, %s", last, info->workflow);
        last = info->workflow;
    }
    if (*m->next)
        checker_fail(w->checker, "a list of %zu workflows goes on", m->n_workflows);
    if (m->n_workflows > 0)
        timeline_note(w->t, FEATURE_WORKFLOWS_LISTED);
}

void ask_for_workflows(struct client_job *job)
{
    struct timeline *t = job->world->t;
    struct command *c = client_command(job, "workflows", t->now);

    c->message.job_id = (char *)"";
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS;
    c->message.list_workflows = timeline_alloc(t, sizeof(*c->message.list_workflows));
    drover__v1__list_workflows__init(c->message.list_workflows);
    c->hear = hear_workflows;
    c->hear_ctx = job;
}

/* ---- Query, or any question ---- */

static void ask_for_status(struct client_job *job)
{
    struct command *c = client_command(job, "query", job->world->t->now);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_QUERY;
    c->message.query = timeline_alloc(job->world->t, sizeof(*c->message.query));
    drover__v1__query__init(c->message.query);
    c->message.query->with_data = true;
}

void ask_something(struct client_job *job)
{
    struct timeline *t = job->world->t;

    switch (timeline_between(t, 0, 6)) {
    case 0:
    case 1:
        ask_for_history(job, timeline_chance(t, HALF) ? (uint32_t)timeline_between(t, 20, 60) : 0);
        break;
    case 2:
    case 3:
        ask_for_jobs(job, (uint32_t)timeline_between(t, 1, 4));
        break;
    case 4:
        ask_for_workflows(job);
        break;
    default:
        ask_for_status(job);
        break;
    }
}
