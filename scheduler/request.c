// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: builds StepRequests from a transition answer
 *
 * Called by transition.c; dispatch.c publishes them.
 */
#include "scheduler/request.h"

#include <stdlib.h>

#include "model/status.h"
#include "scheduler/dispatch.h"
#include "scheduler/state.h"

/* What the requests of one answer have in common, decoded once. */
struct common {
    Drover__V1__Payload *input;
    Drover__V1__Submit *labels;
    Drover__V1__Payload **results; /* by index in transition->results */
    char *traceparent;
};

static void common_init(struct scheduler *s, struct common *c,
                        const struct ops_transition *transition)
{
    c->input = ops_payload(transition->input);
    c->labels = status_labels(transition->labels);
    c->results = effects_alloc(s->out, transition->n_results * sizeof(Drover__V1__Payload *));
    for (uint32_t i = 0; i < transition->n_results; i++)
        c->results[i] = ops_payload(transition->results[i].payload);
    c->traceparent = effects_text(s->out, transition->traceparent);
}

static void common_deinit(struct common *c, const struct ops_transition *transition)
{
    if (c->input)
        drover__v1__payload__free_unpacked(c->input, NULL);
    if (c->labels)
        drover__v1__submit__free_unpacked(c->labels, NULL);
    for (uint32_t i = 0; i < transition->n_results; i++)
        if (c->results[i])
            drover__v1__payload__free_unpacked(c->results[i], NULL);
}

static Drover__V1__State state_of(char letter)
{
    switch (letter) {
    case STATE_ACTIVE:
        return DROVER__V1__STATE__STATE_ACTIVE;
    case STATE_DISABLED:
        return DROVER__V1__STATE__STATE_DISABLED;
    default:
        return DROVER__V1__STATE__STATE_UNKNOWN;
    }
}

static int find_result(const struct ops_transition *transition, uint32_t step)
{
    for (uint32_t i = 0; i < transition->n_results; i++)
        if (transition->results[i].step == step)
            return (int)i;
    return -1;
}

static void set_results(struct scheduler *s, Drover__V1__StepRequest *m,
                        const struct ops_transition *transition, const struct common *c,
                        const struct workflow *w, const struct workflow_step *step)
{
    Drover__V1__Result *results = effects_alloc(s->out, step->n_take * sizeof(*results));

    m->results = effects_alloc(s->out, step->n_take * sizeof(*m->results));
    for (uint32_t i = 0; i < step->n_take; i++) {
        int found = find_result(transition, step->take[i]);

        if (found < 0 || !c->results[found])
            continue;
        drover__v1__result__init(&results[m->n_results]);
        results[m->n_results].step = (char *)w->steps[step->take[i]].name;
        results[m->n_results].payload = c->results[found];
        m->results[m->n_results] = &results[m->n_results];
        m->n_results++;
    }
}

static char *key_of(struct scheduler *s, const struct op *op, const struct workflow_step *step,
                    uint32_t turn)
{
    return (char *)effects_printf(s->out, "%s/%s/%u", op->job, step->name, (unsigned)turn);
}

static void set_identity(struct scheduler *s, Drover__V1__StepRequest *m, const struct op *op,
                         const struct ops_request *r, const struct workflow *w)
{
    const struct workflow_step *step = &w->steps[r->step];
    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;

    m->job_id = op->job;
    m->workflow = (char *)w->full_name;
    m->step = (char *)step->name;
    m->actor = (char *)d->actor;
    m->action = (char *)d->action;
    m->lock_ms = d->lock_ms;
    m->heartbeat_ms = d->heartbeat_ms;
    m->desired = state_of(r->active ? STATE_ACTIVE : STATE_DISABLED);
    m->current = state_of(r->current);
    m->token = effects_text(s->out, r->token);
    m->turn = r->turn;
    m->idempotency_key = key_of(s, op, step, r->turn);
    if (!r->active && r->forward_turn > 0) /* 0: a person says that it was done */
        m->forward_key = key_of(s, op, step, r->forward_turn);
}

/* The lease of a request. If the deadline takes the job back, or ends it, forward work gets no
 * lease beyond the deadline: agents know only their lease. */
static int64_t bounded(const struct ops_transition *transition, const struct workflow *w,
                       const struct ops_request *r, int64_t ms)
{
    int64_t left = transition->complete_by - transition->now;
    bool bounds = r->active && w->on_deadline != DROVER__V1__RECOURSE__RECOURSE_PARK;

    return bounds && left > 0 && left < ms ? left : ms;
}

static void set_counts(Drover__V1__StepRequest *m, const struct ops_request *r,
                       const struct ops_transition *transition)
{
    m->attempt = r->attempt;
    m->failures = r->failures;
    m->expiries = r->expiries;
    m->sent_at = transition->now;
    m->locked_until = r->locked_until;
    m->complete_by = transition->complete_by;
}

/* An undo gets the result of the forward action. A forward action may have a result of an
 * earlier turn, which it does not get. */
static void set_forward_result(Drover__V1__StepRequest *m, const struct ops_transition *transition,
                               const struct common *c, const struct ops_request *r)
{
    int found = r->active ? -1 : find_result(transition, r->step);

    if (found >= 0)
        m->forward_result = c->results[found];
}

/* Only a first attempt may be sent in a batch. A request that is lost with its batch counts an
 * expiry, so it is sent alone if the policy allows only one expiry. */
static enum dispatch_how how_to_send(const struct workflow_dispatch *d, const struct ops_request *r)
{
    bool doubled = r->wait > d->wait_ms; /* it follows one without evidence */

    if (r->sent_before)
        return DISPATCH_AGAIN;
    if (r->expiries > 0 || doubled)
        return DISPATCH_WATCHED;
    return r->attempt == 1 && d->policy.maximum_expiries > 1 ? DISPATCH_FIRST : DISPATCH_ALONE;
}

static void publish(struct scheduler *s, struct transition_op *t,
                    const struct ops_transition *transition, const struct common *c,
                    const struct workflow *w, const struct ops_request *r)
{
    const struct workflow_step *step = &w->steps[r->step];
    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;
    Drover__V1__StepRequest m = DROVER__V1__STEP_REQUEST__INIT;
    Drover__V1__Payload *edited = ops_payload(r->arguments);
    Drover__V1__Error *last = ops_unpack(&drover__v1__error__descriptor, r->last_error);
    size_t size;

    set_identity(s, &m, &t->op, r, w);
    m.lock_ms = bounded(transition, w, r, m.lock_ms);
    set_counts(&m, r, transition);
    set_results(s, &m, transition, c, w, step);
    set_forward_result(&m, transition, c, r);
    /* the arguments that a person gave a step also go to its undo, unless the undo has its own */
    m.arguments = edited && d->arguments == step->forward.arguments
                      ? edited
                      : (Drover__V1__Payload *)d->arguments;
    m.last_error = last;
    m.input = c->input;
    m.traceparent = c->traceparent;
    if (c->labels) {
        m.n_labels = c->labels->n_labels;
        m.labels = c->labels->labels;
    }
    size = drover__v1__step_request__get_packed_size(&m);
    if (size > WIRE_MESSAGE_MAX - 64)
        s->dispatcher.reports->not_delivered(
            s, t->op.item, REPORT_UNSENDABLE, t->op.job, m.token, "INPUT_TOO_LARGE",
            "arguments, input and results together exceed the message limit");
    else
        dispatch_request(s, &t->op, &m,
                         &(struct dispatch_terms){.how = how_to_send(d, r),
                                                  .size = size,
                                                  .not_after = t->answered_at + r->wait,
                                                  .rechecked = t->rechecked});
    if (last)
        drover__v1__error__free_unpacked(last, NULL);
    if (edited)
        drover__v1__payload__free_unpacked(edited, NULL);
}

void request_publish(struct scheduler *s, struct transition_op *t,
                     const struct ops_transition *transition, const struct workflow *w)
{
    struct common c;

    if (t->requested == transition->n_requests || !publish_has_capacity(s))
        return;
    common_init(s, &c, transition);
    while (t->requested < transition->n_requests && publish_has_capacity(s)) {
        const struct ops_request *r = &transition->requests[t->requested++];

        if (r->step < w->n_steps)
            publish(s, t, transition, &c, w, r);
    }
    common_deinit(&c, transition);
}
