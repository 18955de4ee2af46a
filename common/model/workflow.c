// SPDX-License-Identifier: Apache-2.0
/*
 * Definitions: checks a Workflow message and derives from it numbers, graph, policies and digest
 *
 * See model/workflow.h.
 */
#include "model/workflow.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/check.h"
#include "model/wire_encode.h"
#include "model/wire_unpack.h"

/* A workflow with what it owns; callers see only `shown`. */
struct owner {
    struct workflow shown;
    unsigned references;
    Drover__V1__Workflow *message;
    struct buf canonical;
    struct workflow_step *steps;
    uint32_t *numbers; /* memory of after, dependents, take, roots and sinks */
    uint32_t *table;   /* step number + 1 by hash of the name, open addressing; 0 is free */
    uint32_t mask;     /* slots of the table - 1 */
};

/* A dependency, sorted together with its name. */
struct link {
    uint32_t step;
    char *name;
};

/* Needed only while a workflow is made. */
struct builder {
    struct owner *owner;
    const struct path *where;
    struct problem *problem;
    uint32_t *marks;    /* one for each step */
    uint32_t *queue;    /* step numbers, at most one for each step */
    struct link *links; /* as many as the longest list of dependencies */
    uint32_t *next;     /* first unused element of owner->numbers */
};

static void builder_deinit_p(struct builder *b)
{
    free(b->marks);
    free(b->queue);
    free(b->links);
}

/* ---- values ---- */

static bool lease_check(int64_t ms, const struct path *where, struct problem *problem)
{
    return ms == 0 || (ms >= POLICY_LOCK_MIN_MS && ms <= POLICY_DURATION_MAX_MS) ||
           check_fail(problem, where, "must be %" PRId64 " to %" PRId64 " ms, or 0 for the default",
                      POLICY_LOCK_MIN_MS, POLICY_DURATION_MAX_MS);
}

static bool head_check(const Drover__V1__Workflow *m, const struct path *where,
                       struct problem *problem)
{
    if (!check_name_if(m->name, PATH(where, "name"), problem))
        return false;
    if ((m->name[0] != '\0') != (m->version != 0))
        return check_fail(problem, PATH(where, "version"),
                          "a name needs a version of at least 1, and a version a name");
    if (m->n_steps == 0 || m->n_steps > WIRE_STEPS_MAX)
        return check_fail(problem, PATH(where, "steps"), "must be 1 to %d steps, not %zu",
                          WIRE_STEPS_MAX, m->n_steps);
    if (m->complete_within_ms < 0 || m->complete_within_ms > WORKFLOW_COMPLETE_MAX_MS)
        return check_fail(problem, PATH(where, "complete_within_ms"),
                          "must be 1 to %" PRId64 " ms, or 0 for no bound",
                          WORKFLOW_COMPLETE_MAX_MS);
    if (m->tries > WORKFLOW_TRIES_MAX)
        return check_fail(problem, PATH(where, "tries"), "must be 1 to %d, or 0 for the default",
                          WORKFLOW_TRIES_MAX);
    if (m->tries_interval_ms > POLICY_DAY_MS)
        return check_fail(problem, PATH(where, "tries_interval_ms"),
                          "must be 1 to %" PRId64 " ms, 0 for the default, or negative for none",
                          POLICY_DAY_MS);
    if (m->tries_coefficient != 0 &&
        !(m->tries_coefficient >= 1 && m->tries_coefficient <= POLICY_COEFFICIENT_MAX))
        return check_fail(problem, PATH(where, "tries_coefficient"),
                          "must be 1 to %g, or 0 for the default", POLICY_COEFFICIENT_MAX);
    return lease_check(m->lock_ms, PATH(where, "lock_ms"), problem) &&
           lease_check(m->wait_ms, PATH(where, "wait_ms"), problem) &&
           policy_check(m->retry, PATH(where, "retry"), problem) &&
           check_enum(&drover__v1__recourse__descriptor, (int)m->on_deadline,
                      PATH(where, "on_deadline"), problem);
}

static bool revert_check(const Drover__V1__Revert *m, const struct path *where,
                         struct problem *problem)
{
    return check_name_if(m->action, PATH(where, "action"), problem) &&
           check_name_if(m->actor, PATH(where, "actor"), problem) &&
           check_payload(m->arguments, WIRE_INPUT_MAX, PATH(where, "arguments"), problem) &&
           lease_check(m->lock_ms, PATH(where, "lock_ms"), problem) &&
           lease_check(m->wait_ms, PATH(where, "wait_ms"), problem) &&
           policy_check(m->retry, PATH(where, "retry"), problem);
}

/* Checks all of a step that does not depend on other steps. */
static bool step_check(const Drover__V1__Step *m, const struct path *where, struct problem *problem)
{
    if (m->take_none && m->n_take > 0)
        return check_fail(problem, PATH(where, "take_none"), "contradicts take");
    return check_name(m->actor, PATH(where, "actor"), problem) &&
           check_name_if(m->action, PATH(where, "action"), problem) &&
           check_payload(m->arguments, WIRE_INPUT_MAX, PATH(where, "arguments"), problem) &&
           lease_check(m->lock_ms, PATH(where, "lock_ms"), problem) &&
           lease_check(m->wait_ms, PATH(where, "wait_ms"), problem) &&
           lease_check(m->heartbeat_ms, PATH(where, "heartbeat_ms"), problem) &&
           policy_check(m->retry, PATH(where, "retry"), problem) &&
           (!m->revert || revert_check(m->revert, PATH(where, "revert"), problem));
}

/* ---- names ---- */

static uint32_t name_hash(struct bytes name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ name.data[i]) * 16777619u;
    return hash;
}

/* Return: the slot that holds @name, or the free one for it. */
static uint32_t *table_slot(const struct owner *o, struct bytes name)
{
    uint32_t slot = name_hash(name) & o->mask;

    while (o->table[slot] != 0 && !bytes_is(name, o->message->steps[o->table[slot] - 1]->name))
        slot = (slot + 1) & o->mask;
    return &o->table[slot];
}

static int names_index(struct builder *b)
{
    struct owner *o = b->owner;
    uint32_t slots = 4;

    while (slots < 2 * o->shown.n_steps)
        slots *= 2;
    o->mask = slots - 1;
    o->table = calloc(slots, sizeof(*o->table));
    if (!o->table)
        return -ENOMEM;

    for (uint32_t i = 0; i < o->shown.n_steps; i++) {
        const char *name = o->message->steps[i]->name;
        const struct path *where = PATH(PATH_AT(b->where, "steps", i), "name");
        uint32_t *slot;

        if (!check_name(name, where, b->problem))
            return WORKFLOW_E_INVALID;
        slot = table_slot(o, bytes_str(name));
        if (*slot != 0) {
            check_fail(b->problem, where, "\"%s\" is already the name of steps[%u]", name,
                       *slot - 1);
            return WORKFLOW_E_INVALID;
        }
        *slot = i + 1;
    }
    return 0;
}

/* Adds the name of step @i to the reason of a problem, because people know a step by its name. */
static int step_judged(struct builder *b, size_t i, int r)
{
    if (r == WORKFLOW_E_INVALID && b->problem) {
        struct problem found = *b->problem;

        problem_set(b->problem, found.field, "step \"%s\": %s", b->owner->message->steps[i]->name,
                    found.reason);
    }
    return r;
}

/* ---- dependencies ---- */

static int link_compare(const void *a, const void *b)
{
    uint32_t x = ((const struct link *)a)->step, y = ((const struct link *)b)->step;

    return (x > y) - (x < y);
}

/**
 * links_resolve() - turn a list of names into step numbers, and sort both
 * @names: of the message; sorted in place
 * @from:  the mark that a named step must have; 0 for any mark except @to
 * @to:    the mark that a named step gets, so that it cannot be named twice
 * @step:  path of the step that has the list
 *
 * Return: the numbers; NULL if there is a problem, which is then set.
 */
static const uint32_t *links_resolve(struct builder *b, char **names, size_t n, uint32_t from,
                                     uint32_t to, const struct path *step, const char *field)
{
    uint32_t *numbers = b->next;

    for (size_t i = 0; i < n; i++) {
        uint32_t found = workflow_find(&b->owner->shown, bytes_str(names[i]));
        const char *wrong = NULL;

        if (found == WORKFLOW_NONE)
            wrong = "is no step of this workflow";
        else if (b->marks[found] == to)
            wrong = "is named twice";
        else if (from != 0 && b->marks[found] != from)
            wrong = "is not in after";
        if (wrong) {
            check_fail(b->problem, PATH_AT(step, field, i), "\"%.*s\" %s", ID_NAME_MAX, names[i],
                       wrong);
            return NULL;
        }
        b->marks[found] = to;
        b->links[i] = (struct link){.step = found, .name = names[i]};
    }
    qsort(b->links, n, sizeof(*b->links), link_compare);
    for (size_t i = 0; i < n; i++) {
        numbers[i] = b->links[i].step;
        names[i] = b->links[i].name;
    }
    b->next += n;
    return numbers;
}

static int step_link(struct builder *b, uint32_t i)
{
    struct workflow_step *s = &b->owner->steps[i];
    Drover__V1__Step *m = b->owner->message->steps[i];
    const struct path *where = PATH_AT(b->where, "steps", i);
    uint32_t in_after = 2 * i + 1, in_take = 2 * i + 2; /* marks that only this step uses */

    s->n_after = (uint32_t)m->n_after;
    s->after = links_resolve(b, m->after, m->n_after, 0, in_after, where, "after");
    if (!s->after)
        return WORKFLOW_E_INVALID;
    if (b->marks[i] == in_after) {
        check_fail(b->problem, PATH(where, "after"), "a step cannot wait for itself");
        return WORKFLOW_E_INVALID;
    }
    if (m->n_take > 0) {
        s->n_take = (uint32_t)m->n_take;
        s->take = links_resolve(b, m->take, m->n_take, in_after, in_take, where, "take");
        if (!s->take)
            return WORKFLOW_E_INVALID;
    } else if (!m->take_none && m->n_after <= WIRE_TAKE_DEFAULT_MAX) {
        s->n_take = s->n_after;
        s->take = s->after;
    }
    return 0;
}

/* Checks the number of dependencies before memory is allocated by it. */
static int edges_count(struct builder *b, size_t *longest)
{
    const Drover__V1__Workflow *m = b->owner->message;
    size_t edges = 0;

    *longest = 0;
    for (size_t i = 0; i < m->n_steps; i++) {
        const Drover__V1__Step *step = m->steps[i];

        if (step->n_take > step->n_after) {
            check_fail(b->problem, PATH(PATH_AT(b->where, "steps", i), "take"),
                       "names more steps than after");
            return step_judged(b, i, WORKFLOW_E_INVALID);
        }
        edges += step->n_after;
        if (step->n_after > *longest)
            *longest = step->n_after;
    }
    if (edges > WIRE_EDGES_MAX) {
        check_fail(b->problem, PATH(b->where, "steps"),
                   "must have at most %d dependencies, not %zu", WIRE_EDGES_MAX, edges);
        return WORKFLOW_E_INVALID;
    }
    b->owner->shown.n_edges = (uint32_t)edges;
    return 0;
}

/* Derives the dependents from `after`. Each list is ascending because the steps are read in order.
 */
static void dependents_fill(struct builder *b)
{
    struct owner *o = b->owner;
    uint32_t *filled = b->marks;

    for (uint32_t i = 0; i < o->shown.n_steps; i++)
        for (uint32_t k = 0; k < o->steps[i].n_after; k++)
            o->steps[o->steps[i].after[k]].n_dependents++;
    for (uint32_t i = 0; i < o->shown.n_steps; i++) {
        o->steps[i].dependents = b->next;
        b->next += o->steps[i].n_dependents;
        filled[i] = 0;
    }
    for (uint32_t i = 0; i < o->shown.n_steps; i++) {
        for (uint32_t k = 0; k < o->steps[i].n_after; k++) {
            uint32_t before = o->steps[i].after[k];
            size_t at = (size_t)(o->steps[before].dependents - o->numbers) + filled[before]++;

            o->numbers[at] = i;
        }
    }
}

static void ends_fill(struct builder *b)
{
    struct owner *o = b->owner;

    o->shown.roots = b->next;
    for (uint32_t i = 0; i < o->shown.n_steps; i++)
        if (o->steps[i].n_after == 0)
            *b->next++ = i;
    o->shown.n_roots = (uint32_t)(b->next - o->shown.roots);
    o->shown.sinks = b->next;
    for (uint32_t i = 0; i < o->shown.n_steps; i++)
        if (o->steps[i].n_dependents == 0)
            *b->next++ = i;
    o->shown.n_sinks = (uint32_t)(b->next - o->shown.sinks);
}

/* Return: a step that @step waits for and that never becomes ready itself. */
static uint32_t stuck_before(const struct builder *b, uint32_t step)
{
    const struct workflow_step *s = &b->owner->steps[step];
    uint32_t k = 0;

    while (b->marks[s->after[k]] == 0) {
        k++;
        assert(k < s->n_after); /* otherwise @step would have become ready */
    }
    return s->after[k];
}

static void cycle_problem(const struct builder *b)
{
    const struct workflow *w = &b->owner->shown;
    uint32_t on = 0, before;

    while (b->marks[on] == 0)
        on++;
    /* After n moves back along steps that are never ready the walk is on a cycle. */
    for (uint32_t i = 0; i < w->n_steps; i++)
        on = stuck_before(b, on);
    before = stuck_before(b, on);
    check_fail(b->problem, PATH(PATH_AT(b->where, "steps", on), "after"),
               "cycle: \"%.100s\" waits for \"%.100s\", which waits for it in turn",
               w->steps[on].name, w->steps[before].name);
}

/* Kahn's algorithm: removes steps that wait for nothing until none is left, or only cycles are. */
static int cycle_check(struct builder *b)
{
    const struct workflow *w = &b->owner->shown;
    uint32_t taken = 0, ready = 0;

    for (uint32_t i = 0; i < w->n_steps; i++) {
        b->marks[i] = w->steps[i].n_after;
        if (b->marks[i] == 0)
            b->queue[ready++] = i;
    }
    while (taken < ready) {
        const struct workflow_step *s = &w->steps[b->queue[taken++]];

        for (uint32_t k = 0; k < s->n_dependents; k++)
            if (--b->marks[s->dependents[k]] == 0)
                b->queue[ready++] = s->dependents[k];
    }
    if (ready == w->n_steps)
        return 0;
    cycle_problem(b);
    return WORKFLOW_E_INVALID;
}

static int graph_build(struct builder *b)
{
    struct owner *o = b->owner;
    size_t n = o->shown.n_steps, longest;
    int r = edges_count(b, &longest);

    if (r != 0)
        return r;
    b->marks = calloc(n, sizeof(*b->marks));
    b->queue = calloc(n, sizeof(*b->queue));
    b->links = calloc(longest + 1, sizeof(*b->links));
    /* after, take and dependents: at most one for each edge; roots and sinks: one for each step */
    o->numbers = calloc(3 * (size_t)o->shown.n_edges + 2 * n, sizeof(*o->numbers));
    if (!b->marks || !b->queue || !b->links || !o->numbers)
        return -ENOMEM;
    b->next = o->numbers;

    for (uint32_t i = 0; i < n; i++) {
        r = step_judged(b, i, step_link(b, i));
        if (r != 0)
            return r;
    }
    dependents_fill(b);
    ends_fill(b);
    return cycle_check(b);
}

/* ---- inherited values and defaults ---- */

/* Return: the first of the values that is given, that is, not 0. */
static int64_t first_ms(int64_t a, int64_t b, int64_t c, int64_t otherwise)
{
    return a ? a : b ? b : c ? c : otherwise;
}

static void forward_resolve(struct workflow_dispatch *out, const Drover__V1__Workflow *w,
                            const Drover__V1__Step *m)
{
    out->actor = m->actor;
    out->action = m->action[0] ? m->action : m->name;
    out->arguments = m->arguments;
    out->lock_ms = first_ms(m->lock_ms, w->lock_ms, 0, POLICY_LOCK_MS);
    out->wait_ms = first_ms(m->wait_ms, w->wait_ms, 0, out->lock_ms);
    out->heartbeat_ms = m->heartbeat_ms;
    policy_resolve(&out->policy, w->retry, m->retry, NULL);
}

static void revert_resolve(struct workflow_dispatch *out, const Drover__V1__Workflow *w,
                           const Drover__V1__Step *m)
{
    const Drover__V1__Revert *r = m->revert;

    if (r->actor[0])
        out->actor = r->actor;
    if (r->action[0])
        out->action = r->action;
    if (r->arguments)
        out->arguments = r->arguments;
    out->lock_ms = r->lock_ms ? r->lock_ms : out->lock_ms;
    out->wait_ms = first_ms(r->wait_ms, m->wait_ms, w->wait_ms, out->lock_ms);
    policy_resolve(&out->policy, w->retry, m->retry, r->retry);
}

static int step_resolve(struct builder *b, uint32_t i)
{
    const Drover__V1__Workflow *w = b->owner->message;
    const Drover__V1__Step *m = w->steps[i];
    struct workflow_step *s = &b->owner->steps[i];
    const struct path *where = PATH_AT(b->where, "steps", i);

    if (!step_check(m, where, b->problem))
        return WORKFLOW_E_INVALID;
    s->name = m->name;
    s->waive_revert = m->waive_revert;
    s->has_revert = m->revert != NULL;
    forward_resolve(&s->forward, w, m);
    s->revert = s->forward;
    if (m->revert)
        revert_resolve(&s->revert, w, m);
    if (m->heartbeat_ms > s->forward.lock_ms || m->heartbeat_ms > s->revert.lock_ms) {
        check_fail(b->problem, PATH(where, "heartbeat_ms"),
                   "must not be more than lock_ms, of the revert neither");
        return WORKFLOW_E_INVALID;
    }
    return 0;
}

static void head_resolve(struct owner *o)
{
    struct workflow *w = &o->shown;
    const Drover__V1__Workflow *m = o->message;

    w->message = m;
    w->name = m->name;
    w->version = m->version;
    if (m->name[0])
        snprintf(w->full_name, sizeof(w->full_name), "%s@%" PRIu32, m->name, m->version);
    w->complete_within_ms = m->complete_within_ms;
    w->on_deadline = m->on_deadline ? m->on_deadline : DROVER__V1__RECOURSE__RECOURSE_PARK;
    w->tries = m->tries ? m->tries : 1;
    w->tries_interval_ms = m->tries_interval_ms < 0 ? 0 : m->tries_interval_ms;
    if (m->tries_interval_ms == 0)
        w->tries_interval_ms = WORKFLOW_TRIES_INTERVAL_MS;
    w->tries_coefficient =
        m->tries_coefficient > 0 ? m->tries_coefficient : WORKFLOW_TRIES_COEFFICIENT;
    w->compensation_expected = m->compensation_expected;
    w->n_steps = (uint32_t)m->n_steps;
    w->steps = o->steps;
}

/* ---- canonical form, memory, making and releasing ---- */

/* The canonical form is never longer than the encoding that was decoded and checked. */
static int canonical_make(struct owner *o)
{
    int r = wire_encode(&o->message->base, false, &o->canonical);

    assert(r != WIRE_E_TOO_LARGE);
    if (r != 0)
        return r;
    o->shown.canonical = buf_bytes(&o->canonical);
    id_digest(o->shown.canonical, o->shown.digest);
    return 0;
}

/* Bytes that an allocated block takes besides its content. */
#define BLOCK ((size_t)24)

/* Bytes of a nested message, with the blocks of its texts. */
#define MEMORY_OF(message) ((message) ? sizeof(*(message)) + 2 * BLOCK : 0)

/* Texts, lists and the message of a step are in the canonical form and in blocks of their own. */
static size_t memory_of_step(const struct owner *o, const Drover__V1__Step *s)
{
    size_t memory = sizeof(*o->steps) + sizeof(*o->table) + 2 * sizeof(*o->numbers) + sizeof(s) +
                    sizeof(*s) + 5 * BLOCK;

    memory += MEMORY_OF(s->arguments) + MEMORY_OF(s->retry) + MEMORY_OF(s->revert);
    if (s->revert)
        memory += MEMORY_OF(s->revert->arguments) + MEMORY_OF(s->revert->retry);
    return memory;
}

static size_t memory_of(const struct owner *o)
{
    size_t edge = 3 * sizeof(*o->numbers) + sizeof(char *) + BLOCK;
    size_t memory = sizeof(*o) + 2 * o->canonical.len + edge * o->shown.n_edges;

    for (uint32_t i = 0; i < o->shown.n_steps; i++)
        memory += memory_of_step(o, o->message->steps[i]);
    return memory;
}

/* Checks o->message and derives all that is shown. */
static int owner_build(struct owner *o, const struct path *where, struct problem *problem)
{
    __attribute__((cleanup(builder_deinit_p))) struct builder b = {
        .owner = o,
        .where = where,
        .problem = problem,
    };
    int r;

    if (!head_check(o->message, where, problem))
        return WORKFLOW_E_INVALID;
    o->steps = calloc(o->message->n_steps, sizeof(*o->steps));
    if (!o->steps)
        return -ENOMEM;
    head_resolve(o);
    r = names_index(&b);
    for (uint32_t i = 0; r == 0 && i < o->shown.n_steps; i++)
        r = step_judged(&b, i, step_resolve(&b, i));
    if (r == 0)
        r = graph_build(&b);
    if (r == 0)
        r = canonical_make(o);
    if (r == 0)
        o->shown.memory = memory_of(o);
    return r;
}

int workflow_new(struct workflow **out, const Drover__V1__Workflow *definition, const char *field,
                 struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf encoded = {0};
    int r = wire_encode(&definition->base, false, &encoded);

    if (r == WIRE_E_TOO_LARGE) {
        problem_set(problem, field, "must be at most %zu bytes when encoded", WIRE_MESSAGE_MAX);
        return WORKFLOW_E_INVALID;
    }
    if (r != 0)
        return r;
    return workflow_new_from_bytes(out, buf_bytes(&encoded), field, problem);
}

int workflow_new_from_bytes(struct workflow **out, struct bytes encoded, const char *field,
                            struct problem *problem)
{
    ProtobufCMessage *message;
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct owner *o;
    int r = wire_unpack(&drover__v1__workflow__descriptor, encoded, field, &message, problem);

    if (r != 0)
        return r < 0 ? r : WORKFLOW_E_INVALID;
    o = calloc(1, sizeof(*o));
    if (!o) {
        protobuf_c_message_free_unpacked(message, NULL);
        return -ENOMEM;
    }
    w = &o->shown;
    o->references = 1;
    o->message = (Drover__V1__Workflow *)message;
    r = owner_build(o, PATH(NULL, field), problem);
    if (r == 0)
        *out = take(w);
    return r;
}

struct workflow *workflow_ref(struct workflow *w)
{
    container_of(w, struct owner, shown)->references++;
    return w;
}

struct workflow *workflow_unref(struct workflow *w)
{
    struct owner *o;

    if (!w)
        return NULL;
    o = container_of(w, struct owner, shown);
    assert(o->references > 0);
    if (--o->references > 0)
        return NULL;
    protobuf_c_message_free_unpacked(&o->message->base, NULL);
    buf_deinit(&o->canonical);
    free(o->steps);
    free(o->numbers);
    free(o->table);
    free(o);
    return NULL;
}

uint32_t workflow_find(const struct workflow *w, struct bytes name)
{
    uint32_t slot = *table_slot(container_of(w, struct owner, shown), name);

    return slot != 0 ? slot - 1 : WORKFLOW_NONE;
}
