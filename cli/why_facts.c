// SPDX-License-Identifier: Apache-2.0
/*
 * Why: finds out what the status of a job does not say
 *
 * The status has what the store knows, but not which steps a step waits for: that follows from the
 * dependencies. The broker knows whether queues have consumers: they are inspected. Since when a
 * queue without consumers has had a request of the job is in the history. Called by why.c and
 * why_reason.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/why.h"
#include "client/control.h"
#include "client/job_status.h"

/* ---- the steps that a step waits for ---- */

static bool under_way(const Drover__V1__StepStatus *step)
{
    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return true;
    default:
        return false;
    }
}

bool why_facts_is_there(const Drover__V1__StepStatus *step)
{
    return step->current == step->desired && !under_way(step);
}

static int by_name(const void *a, const void *b)
{
    Drover__V1__StepStatus *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static void add_wait(struct why_step *w, const char *name)
{
    if (w->waits++ < WHY_NAMES_SHOWN)
        buf_printf(&w->names, "%s`%s`", w->names.len > 0 ? ", " : "", name);
}

/* Counts one dependency of step @i: on the way forward the step waits for it, on the way back it
 * waits for the step. @places: the steps, sorted by_name(). */
static void take_edge(struct why *why, Drover__V1__StepStatus **places, size_t i, const char *name)
{
    Drover__V1__JobStatus *job = (Drover__V1__JobStatus *)why->job;
    Drover__V1__StepStatus key = {.name = (char *)name}, *pointer = &key;
    Drover__V1__StepStatus **found =
        bsearch(&pointer, places, job->n_steps, sizeof(*places), by_name);

    if (!found)
        return;
    if (job->desired == DROVER__V1__STATE__STATE_ACTIVE && !why_facts_is_there(*found))
        add_wait(&why->steps[i], name);
    else if (job->desired == DROVER__V1__STATE__STATE_DISABLED &&
             !why_facts_is_there(job->steps[i]) && (*found)->index < job->n_steps)
        add_wait(&why->steps[(*found)->index], job->steps[i]->name);
}

/* Return: 0 or -ENOMEM. */
static int find_waits(struct why *why)
{
    const Drover__V1__JobStatus *job = why->job;
    Drover__V1__StepStatus **places = calloc(job->n_steps + 1, sizeof(*places));

    if (!places)
        return -ENOMEM;
    if (job->n_steps > 0)
        memcpy(places, job->steps, job->n_steps * sizeof(*places));
    qsort(places, job->n_steps, sizeof(*places), by_name);
    for (size_t i = 0; i < job->n_steps; i++)
        for (size_t k = 0; k < job->steps[i]->n_after; k++)
            take_edge(why, places, i, job->steps[i]->after[k]);
    free(places);
    return 0;
}

/* ---- inspecting queues ---- */

static bool in_flight(const Drover__V1__StepStatus *step)
{
    return step->state == DROVER__V1__STEP_STATE__STEP_STATE_RUNNING ||
           step->state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
}

static bool needs_agent(const Drover__V1__StepStatus *step)
{
    return in_flight(step) ||
           (step->state == DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF && step->unstarted > 0);
}

const struct session_queue *why_facts_queue(const struct why *why,
                                            const Drover__V1__StepStatus *step)
{
    for (size_t i = 0; i < why->n_queues; i++)
        if (strcmp(why->queues[i].actor, step->actor) == 0)
            return &why->queues[i].queue;
    return NULL;
}

/* Return: as session_inspect(). */
static int inspect_actor(struct why *why, const char *actor)
{
    char name[SESSION_QUEUE_MAX + 1];
    struct why_queue *more = reallocarray(why->queues, why->n_queues + 1, sizeof(*more));
    struct why_queue *q;
    int r;

    if (!more)
        return -ENOMEM;
    why->queues = more;
    q = &more[why->n_queues];
    q->actor = actor;
    snprintf(name, sizeof(name), "drover.task.%s", actor);
    r = session_inspect(why->session, name, why->deadline, &q->queue);
    why->n_queues += r == 0;
    return r;
}

static int inspect_queues(struct why *why)
{
    int r = session_inspect(why->session, "drover.replies", why->deadline, &why->replies);

    for (size_t i = 0; i < why->job->n_steps && r == 0; i++) {
        const Drover__V1__StepStatus *step = why->job->steps[i];

        if (needs_agent(step) && !why_facts_queue(why, step))
            r = inspect_actor(why, step->actor);
    }
    return r;
}

/* ---- since when no agent has answered ---- */

/* Whether an event says that no agent has begun the request. */
static bool is_unanswered(const char *event)
{
    return strcmp(event, "unstarted") == 0 || strcmp(event, "silent") == 0 ||
           strcmp(event, "unroutable") == 0;
}

static void take_entry(struct why *why, const Drover__V1__HistoryEntry *e)
{
    for (size_t i = 0; *e->step && i < why->job->n_steps; i++) {
        struct why_step *w = &why->steps[i];

        if (!needs_agent(why->job->steps[i]) || strcmp(why->job->steps[i]->name, e->step) != 0)
            continue;
        if (strcmp(e->event, "dispatched") == 0)
            w->unanswered_since = w->unanswered_since ? w->unanswered_since : e->at;
        else if (!is_unanswered(e->event))
            w->unanswered_since = 0;
    }
}

/* Reads the history page after page. If that fails the sentences have no times. */
static void read_history(struct why *why)
{
    uint64_t from = 1;
    size_t n;

    do {
        CLEANUP(wire_free) struct wire_message answer = {0};

        if (control_history(why->session, why->job->job_id, from, why->deadline, &answer))
            return;
        n = answer.answer->n_history;
        for (size_t i = 0; i < n; i++)
            take_entry(why, answer.answer->history[i]);
        from = n > 0 ? answer.answer->history[n - 1]->seq + 1 : from;
    } while (n > 0);
}

bool why_facts_has_no_consumer(const struct why *why, const Drover__V1__StepStatus *step)
{
    const struct session_queue *queue = needs_agent(step) ? why_facts_queue(why, step) : NULL;

    return queue && queue->consumers == 0 && !step->begun &&
           (queue->messages > 0 || step->unstarted > 0);
}

static bool any_without_consumer(const struct why *why)
{
    for (size_t i = 0; i < why->job->n_steps; i++)
        if (why_facts_has_no_consumer(why, why->job->steps[i]))
            return true;
    return false;
}

/* ---- all of it ---- */

int why_facts_find(struct why *why)
{
    int r;

    why->steps = calloc(why->job->n_steps + 1, sizeof(*why->steps));
    r = why->steps ? find_waits(why) : -ENOMEM;
    if (r == 0 && !job_status_has_ended(why->job) && !why->args->from_store)
        r = inspect_queues(why);
    if (r == 0 && any_without_consumer(why))
        read_history(why);
    return r;
}
