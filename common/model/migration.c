// SPDX-License-Identifier: Apache-2.0
/*
 * Migration: arranges a newer definition by the step numbers of the one that a job has
 *
 * Also decides which steps differ, and how. See model/migration.h.
 */
#include "model/migration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing steps ---- */

static bool payload_same(const Drover__V1__Payload *a, const Drover__V1__Payload *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a->content_type, b->content_type) == 0 &&
           bytes_equal(bytes_of(a->data.data, a->data.len), bytes_of(b->data.data, b->data.len));
}

static bool policy_same(const struct policy *a, const struct policy *b)
{
    if (a->n_non_retryable != b->n_non_retryable)
        return false;
    for (size_t i = 0; i < a->n_non_retryable; i++)
        if (strcmp(a->non_retryable[i], b->non_retryable[i]) != 0)
            return false;
    return a->initial_interval_ms == b->initial_interval_ms &&
           a->backoff_coefficient == b->backoff_coefficient &&
           a->maximum_interval_ms == b->maximum_interval_ms &&
           a->maximum_attempts == b->maximum_attempts &&
           a->maximum_expiries == b->maximum_expiries && a->jitter == b->jitter &&
           a->park_interval_ms == b->park_interval_ms &&
           a->silence_interval_ms == b->silence_interval_ms && a->on_permanent == b->on_permanent &&
           a->on_exhausted == b->on_exhausted;
}

static bool work_same(const struct workflow_dispatch *a, const struct workflow_dispatch *b)
{
    return strcmp(a->actor, b->actor) == 0 && strcmp(a->action, b->action) == 0 &&
           payload_same(a->arguments, b->arguments);
}

static bool terms_same(const struct workflow_dispatch *a, const struct workflow_dispatch *b)
{
    return a->lock_ms == b->lock_ms && a->wait_ms == b->wait_ms &&
           a->heartbeat_ms == b->heartbeat_ms && policy_same(&a->policy, &b->policy);
}

static bool numbers_same(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof(*a)) == 0);
}

/* Dependents are not compared: a dependency belongs to the step that waits. */
enum difference migration_how(const struct workflow_step *from, const struct workflow_step *to)
{
    bool same = work_same(&from->forward, &to->forward) && from->has_revert == to->has_revert &&
                from->waive_revert == to->waive_revert &&
                (!from->has_revert || work_same(&from->revert, &to->revert)) &&
                numbers_same(from->after, from->n_after, to->after, to->n_after) &&
                numbers_same(from->take, from->n_take, to->take, to->n_take);

    return same ? DIFFERENCE_TERMS : DIFFERENCE_OTHER;
}

static bool step_same(const struct workflow_step *a, const struct workflow_step *b)
{
    return migration_how(a, b) == DIFFERENCE_TERMS && terms_same(&a->forward, &b->forward) &&
           (!a->has_revert || terms_same(&a->revert, &b->revert));
}

/* ---- numbers ---- */

/**
 * places_assign() - decide which step of the newer version gets each number
 * @places: set to the index in @to of the step at each number; to->n_steps long
 *
 * Return: whether each step of @to keeps the number that it has there.
 */
static bool places_assign(const struct workflow *from, const struct workflow *to, uint32_t *places)
{
    uint32_t free_place = 0;
    bool in_place = true;

    for (uint32_t i = 0; i < to->n_steps; i++)
        places[i] = WORKFLOW_NONE;
    for (uint32_t i = 0; i < from->n_steps && i < to->n_steps; i++)
        places[i] = workflow_find(to, bytes_str(from->steps[i].name));
    for (uint32_t i = 0; i < to->n_steps; i++) {
        uint32_t old = workflow_find(from, bytes_str(to->steps[i].name));

        if (old == WORKFLOW_NONE || old >= to->n_steps) { /* new, or its number is out of range */
            while (places[free_place] != WORKFLOW_NONE)
                free_place++;
            places[free_place] = i;
        }
    }
    for (uint32_t i = 0; i < to->n_steps; i++)
        in_place = in_place && places[i] == i;
    return in_place;
}

static int arrange(struct workflow **out, const struct workflow *to, const uint32_t *places,
                   struct problem *problem)
{
    Drover__V1__Workflow message = *to->message;
    int r;

    message.steps = calloc(to->n_steps, sizeof(*message.steps));
    if (!message.steps)
        return -ENOMEM;
    for (uint32_t i = 0; i < to->n_steps; i++)
        message.steps[i] = to->message->steps[places[i]];
    r = workflow_new(out, &message, "", problem);
    free(message.steps);
    return r > 0 ? MIGRATION_E_UNFIT : r;
}

static bool is_gone(const struct workflow *from, const struct workflow *to, uint32_t i)
{
    return i >= to->n_steps || strcmp(from->steps[i].name, to->steps[i].name) != 0;
}

static int add_differing(struct migration *m, uint32_t i, enum difference how,
                         struct problem *problem)
{
    if (m->n_differing == MIGRATION_DIFFERING_MAX) {
        problem_set(problem, "workflow", "more than %d steps differ", MIGRATION_DIFFERING_MAX);
        return MIGRATION_E_UNFIT;
    }
    m->differences[m->n_differing] = (char)how;
    m->differing[m->n_differing++] = i;
    return 0;
}

static int find_differing(struct migration *m, const struct workflow *from, struct problem *problem)
{
    const struct workflow *to = m->arranged;
    int r = 0;

    m->differing = calloc(MIGRATION_DIFFERING_MAX, sizeof(*m->differing));
    m->differences = calloc(MIGRATION_DIFFERING_MAX, 1);
    if (!m->differing || !m->differences)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < from->n_steps; i++)
        if (is_gone(from, to, i))
            r = add_differing(m, i, DIFFERENCE_OTHER, problem);
    m->n_gone = m->n_differing;
    for (uint32_t i = 0; r == 0 && i < from->n_steps; i++)
        if (!is_gone(from, to, i) && !step_same(&from->steps[i], &to->steps[i]))
            r = add_differing(m, i, migration_how(&from->steps[i], &to->steps[i]), problem);
    return r;
}

/* ---- the plan ---- */

static int plan(struct migration *m, const struct workflow *from, struct workflow *to,
                struct problem *problem)
{
    uint32_t *places = calloc(to->n_steps, sizeof(*places));
    int r = 0;

    if (!places)
        return -ENOMEM;
    if (places_assign(from, to, places))
        m->arranged = workflow_ref(to);
    else
        r = arrange(&m->arranged, to, places, problem);
    free(places);
    return r ? r : find_differing(m, from, problem);
}

int migration_plan(struct migration *out, const struct workflow *from, struct workflow *to,
                   struct problem *problem)
{
    int r;

    *out = (struct migration){0};
    if (*from->name == '\0' || strcmp(from->name, to->name) != 0) {
        problem_set(problem, "workflow", "the job is of %s",
                    *from->name ? from->full_name
                                : "a definition of its own, which has no versions");
        return MIGRATION_E_UNFIT;
    }
    r = plan(out, from, to, problem);
    if (r)
        migration_deinit(out);
    return r;
}

void migration_deinit(struct migration *m)
{
    workflow_unref(m->arranged);
    free(m->differing);
    free(m->differences);
    *m = (struct migration){0};
}
