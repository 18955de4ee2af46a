// SPDX-License-Identifier: Apache-2.0
/*
 * Grid: finds the boundary at which a fault strikes
 *
 * See grid.h. Called by the bus, the checker and the parts of the world.
 */
#include "world/grid.h"

#include <string.h>

#include "model/store_ops.h"
#include "model/store_schema.h"
#include "model/wire.h"
#include "world/parts.h"

#define OF_BOTH_MS 15000 /* both supervisors' messages within this time count, at pace 1 */

void grid_met(struct timeline *t, enum fault fault, uint32_t at)
{
    for (unsigned boundary = 1; boundary <= FEATURE_BOUNDARIES; boundary++)
        if (at & AT(boundary))
            timeline_note(t, FEATURE_CELL(boundary, fault));
}

/* ---- boundaries ---- */

/* A completed undo is at the boundary at which compensation finishes. */
static uint32_t of_record(const struct bytes *args, int n)
{
    return n > AT_RECORD_VALUES &&
                   ops_letter(args[AT_RECORD_VALUES + AT_REPORT_KIND]) == REPORT_DISABLED
               ? AT(13)
               : AT(8);
}

uint32_t grid_of_call(const char *function, const struct bytes *args, int n)
{
    static const struct {
        const char *function;
        uint32_t at;
    } calls[] = {
        {"submit", AT(1)},  {"drive", AT(3)},  {"lead", AT(11)},
        {"expire", AT(12)}, {"steer", AT(14)}, {"forget", AT(14)},
    };

    if (strcmp(function, "record") == 0)
        return of_record(args, n);
    for (size_t i = 0; i < array_size(calls); i++)
        if (strcmp(function, calls[i].function) == 0)
            return calls[i].at;
    return 0;
}

/* Whether the answer says that a job has settled, or that this call has dispatched steps. */
static bool advances(const struct ops_transition *transition)
{
    bool new = transition->ended_seq > 0;

    for (uint32_t i = 0; i < transition->n_requests; i++)
        new |= !transition->requests[i].sent_before;
    return transition->code == OPS_RECORDED && new;
}

uint32_t grid_of_executed(uint32_t at, const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);
    struct effects fx = {0};
    struct ops_transition transition;

    while (at & AT(8) && r.left > 0 && ops_read_transition(&r, &fx, &transition) == 0)
        if (advances(&transition))
            at |= AT(9);
    effects_deinit(&fx);
    return at;
}

/* The boundaries of a message: until it is in its queue, and from then on. */
struct way {
    uint32_t sent;
    uint32_t received;
};

static struct way of_request(const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message body = {0};

    if (wire_decode(WIRE_REQUESTS, m->body, NULL, &body, NULL))
        return (struct way){0, 0};
    if (body.requests->requests[0]->desired == DROVER__V1__STATE__STATE_DISABLED)
        return (struct way){AT(13), AT(13)};
    return (struct way){AT(4), AT(5)};
}

static struct way of_message(const struct bus_message *m)
{
    static const struct {
        const char *type;
        struct way way;
    } messages[] = {
        {"drover.v1.Submit", {AT(1), AT(1)}},      {"drover.v1.Submits", {AT(1), AT(1)}},
        {"drover.v1.Receipt", {AT(2), AT(2)}},     {"drover.v1.Receipts", {AT(2), AT(2)}},
        {"drover.v1.Replies", {AT(7), AT(8)}},     {"drover.v1.JobEvent", {AT(10), AT(10)}},
        {"drover.v1.JobEvents", {AT(10), AT(10)}},
    };
    uint32_t control = m->expires ? AT(12) : AT(14); /* of a supervisor, or of a client */

    if (!m->type || strcmp(m->exchange, "drover.dead") == 0)
        return (struct way){0, 0};
    if (strcmp(m->type, "drover.v1.Requests") == 0)
        return of_request(m);
    if (strcmp(m->type, "drover.v1.Control") == 0)
        return (struct way){control, control};
    for (size_t i = 0; i < array_size(messages); i++)
        if (strcmp(m->type, messages[i].type) == 0)
            return messages[i].way;
    return (struct way){0, 0};
}

uint32_t grid_of_message(const struct bus_message *m)
{
    return of_message(m).sent;
}

uint32_t grid_of_delivery(const struct bus_message *m)
{
    return of_message(m).received;
}

static uint32_t of_role_effect(const struct process *p, const struct effect *e)
{
    return p->role == ROLE_AGENT && e->role.what == AGENT_START ? AT(5) | AT(6) : 0;
}

static uint32_t of_effect(const struct process *p, const struct effect *e)
{
    switch (e->type) {
    case EFFECT_STORE:
        return grid_of_call(e->store.function, e->store.args, e->store.n);
    case EFFECT_PUBLISH:
        return grid_of_message(&e->publish);
    case EFFECT_REQUEUE:
        return p->role == ROLE_AGENT ? AT(5) : 0;
    case EFFECT_ROLE:
        return of_role_effect(p, e);
    default:
        return 0;
    }
}

/* The boundaries that a process has passed when it is about to perform an effect. */
static uint32_t behind(const struct process *p)
{
    uint32_t at = p->behind;

    for (size_t i = 0; i < p->next && i < p->out.n; i++)
        at |= of_effect(p, &p->out.items[i]);
    return p->role == ROLE_AGENT ? at & ~(AT(6) & ~p->behind) : at; /* a run has only begun */
}

static uint32_t before(const struct process *p)
{
    return p->next < p->out.n ? of_effect(p, &p->out.items[p->next]) : 0;
}

/* ---- processes ---- */

void grid_performs(const struct process *p)
{
    struct timeline *t = p->world->t;
    bool drains = heap_holds(&p->drained.node);
    bool stood = t->now > 0 && p->held_until == t->now;
    uint32_t at = p->behind;

    if (!drains && !stood)
        return;
    for (size_t i = 0; i < p->out.n; i++)
        at |= of_effect(p, &p->out.items[i]);
    if (drains)
        grid_met(t, FAULT_DRAIN, at);
    if (stood)
        grid_met(t, FAULT_STOOD_STILL, at);
}

void grid_dies(const struct process *p)
{
    grid_met(p->world->t, FAULT_CRASH_BEFORE, before(p));
    grid_met(p->world->t, FAULT_CRASH_AFTER, behind(p));
    grid_met(p->world->t, FAULT_KILL, before(p) | behind(p));
}

void grid_cut(const struct process *p)
{
    grid_met(p->world->t, FAULT_CUT, before(p));
}

/* ---- the store's answers ---- */

/* Whether a lease that the call has granted was over when its answer arrived. */
static bool is_too_late(int64_t took, const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);
    struct effects fx = {0};
    struct ops_transition transition;
    bool late = false;

    if (took > 0 && ops_read_transition(&r, &fx, &transition) == 0)
        for (uint32_t i = 0; i < transition.n_requests; i++)
            late |= transition.requests[i].locked_until - transition.now <= took;
    effects_deinit(&fx);
    return late;
}

static bool follows(const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);
    struct ops_leading leading;

    return ops_read_leading(&r, &leading) == 0 && !leading.leads;
}

void grid_answered(const struct process *p, uint32_t at, int64_t took,
                   const struct store_answer *answer)
{
    struct timeline *t = p->world->t;

    if (answer->result != STORE_OK)
        return;
    if (at & (AT(11) | AT(12)) && took >= SUPERVISOR_LEASE_MS)
        grid_met(t, FAULT_LATE, at);
    if (at & (AT(3) | AT(8) | AT(13)) && is_too_late(took, answer))
        grid_met(t, FAULT_LATE, AT(3)); /* a step that is locked too late */
    if (at & AT(11) && follows(answer))
        grid_met(t, FAULT_TWO_SUPERVISORS, at);
}

/* ---- messages of two supervisors ---- */

/* A Recover of a step, or a Notify of a notification. */
struct asked {
    struct asked *older;
    const char *job;
    uint64_t what; /* the number of the step or notification */
    bool notification;
    uint32_t by; /* the last supervisor */
    int64_t at;  /* when it published that */
    int64_t twice_until;
};

static struct asked *asked_find(struct world *w, const char *job, uint64_t what, bool notification)
{
    struct asked *a = w->asked;

    while (a && !(a->what == what && a->notification == notification && strcmp(a->job, job) == 0))
        a = a->older;
    if (a)
        return a;
    a = timeline_alloc(w->t, sizeof(*a));
    *a = (struct asked){.older = w->asked,
                        .job = timeline_str(w->t, job),
                        .what = what,
                        .notification = notification};
    return w->asked = a;
}

static void ask(const struct process *p, const char *job, uint64_t what, bool notification)
{
    struct world *w = p->world;
    struct asked *a = asked_find(w, job, what, notification);
    int64_t last = a->at, soon = w->plan->pace * OF_BOTH_MS;

    a->at = w->t->now;
    if (last > 0 && a->by != p->index && a->at - last < soon) {
        a->twice_until = a->at + soon;
        grid_met(w->t, FAULT_TWO_SUPERVISORS, notification ? AT(10) : AT(12));
    }
    a->by = p->index;
}

void grid_publishes(const struct process *p, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message body = {0};
    const Drover__V1__Control *control;

    if (p->role == ROLE_SCHEDULER && strcmp(m->exchange, "drover.tasks") == 0 && !m->message_id)
        timeline_note(p->world->t, FEATURE_BATCH);
    if (p->role != ROLE_SUPERVISOR || p->world->plan->supervisors == 1 ||
        wire_decode(WIRE_CONTROL, m->body, NULL, &body, NULL))
        return;
    control = body.control;
    if (control->command_case == DROVER__V1__CONTROL__COMMAND_NOTIFY)
        ask(p, control->job_id, control->notify->seq, true);
    else if (control->command_case == DROVER__V1__CONTROL__COMMAND_RECOVER)
        for (size_t i = 0; i < control->recover->n_steps; i++)
            ask(p, control->job_id, control->recover->steps[i], false);
}

void grid_runs(const struct world *w, const char *job, const char *step)
{
    for (const struct asked *a = w->asked; a; a = a->older)
        if (!a->notification && a->twice_until > w->t->now && strcmp(a->job, job) == 0 &&
            client_calls(w, job, (uint32_t)a->what, step))
            grid_met(w->t, FAULT_TWO_SUPERVISORS, AT(6));
}
