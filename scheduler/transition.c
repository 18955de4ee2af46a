// SPDX-License-Identifier: Apache-2.0
/*
 * Transitions: reads the answer of a store call that has changed a job, and carries it out
 *
 * Publishes the requests (dispatch.c), raises the alerts (alert.c), publishes notifications and
 * step events, and drives the job on if the call has used up its budget. Requests beyond the
 * capacity for unconfirmed publishes wait here. Called by the files that make such calls, and by
 * scheduler.c when a publish has its outcome.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

void payload_append(struct buf *out, const Drover__V1__Payload *payload)
{
    if (payload)
        (void)wire_encode(&payload->base, false, out);
}

/* ---- reading an answer ---- */

static bool needs_definition(const struct ops_transition *transition)
{
    return transition->n_requests > 0 || transition->n_alerts > 0 || transition->step_events ||
           transition->code == OPS_CREATED || transition->code == OPS_ALREADY;
}

/* Keeps the rest of an answer until there is capacity for its requests. Its delivery is not
 * acknowledged meanwhile, so the broker holds back what would follow: this is the back-pressure. */
static void stall(struct scheduler *s, struct op *op, const struct ops_reader *answer,
                  struct workflow *w)
{
    struct store_answer *held = or_abort(ops_answer_copy(answer));

    free(op->held);
    op->held = held;
    workflow_ref(w); /* a migration has the other definition here, which the job was to get */
    workflow_unref(op->workflow);
    op->workflow = w;
    op->open++;
    list_append(&s->stalled, &op->link);
}

static void transition_take(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_transition transition;
    struct workflow *w = NULL;

    if (ops_read_transition(r, s->out, &transition)) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return;
    }
    if (op->watermark_pending)
        rollback_observe(s, op, transition.watermark);
    op->watermark_pending = false;
    if (transition.definition.len == ID_DIGEST_LEN) {
        memcpy(op->digest, transition.definition.data, ID_DIGEST_LEN);
        w = definition_find(s, op->digest);
        if (!w && needs_definition(&transition)) {
            from.left -= r->left;
            definition_load(s, op, &from, transition_take);
            return;
        }
    }
    op->on_transition(s, op, &transition, w);
    if (op->requested < transition.n_requests) {
        from.left -= r->left;
        stall(s, op, &from, w);
    }
}

void transition_read(struct scheduler *s, struct op *op, struct ops_reader *r, transition_fn *fn)
{
    op->on_transition = fn;
    op->requested = 0;
    op->watermark_pending =
        true; /* in the order of answers: a definition may have to be loaded first */
    op->answered_at = s->now;
    transition_take(s, op, r);
}

/* ---- requests ---- */

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
    case 'A':
        return DROVER__V1__STATE__STATE_ACTIVE;
    case 'D':
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
    m->desired = state_of(r->active ? 'A' : 'D');
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
 * expiry; so it is sent alone if one expiry is the last. */
static enum dispatch_how how_to_send(const struct workflow_dispatch *d, const struct ops_request *r)
{
    bool doubled = r->wait > d->wait_ms; /* it follows one without evidence */

    if (r->again)
        return DISPATCH_AGAIN;
    if (r->expiries > 0 || doubled)
        return DISPATCH_WATCHED;
    return r->attempt == 1 && d->policy.maximum_expiries > 1 ? DISPATCH_FIRST : DISPATCH_ALONE;
}

static void request(struct scheduler *s, struct op *op, const struct ops_transition *transition,
                    const struct common *c, const struct workflow *w, const struct ops_request *r)
{
    const struct workflow_step *step = &w->steps[r->step];
    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;
    Drover__V1__StepRequest m = DROVER__V1__STEP_REQUEST__INIT;
    Drover__V1__Payload *edited = ops_payload(r->arguments);
    Drover__V1__Error *last = ops_unpack(&drover__v1__error__descriptor, r->last_error);
    size_t size;

    set_identity(s, &m, op, r, w);
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
        record_new(s, op->item, OP_UNSENDABLE, op->job, m.token, "INPUT_TOO_LARGE",
                   "arguments, input and results together exceed the message limit");
    else
        dispatch(s, op, &m, size, op->answered_at + r->wait, how_to_send(d, r));
    if (last)
        drover__v1__error__free_unpacked(last, NULL);
    if (edited)
        drover__v1__payload__free_unpacked(edited, NULL);
}

static bool has_capacity(const struct scheduler *s)
{
    return HASH_COUNT(s->publishes) < s->most_unconfirmed &&
           s->unconfirmed_bytes < MACHINE_UNCONFIRMED_BYTES;
}

static void requests(struct scheduler *s, struct op *op, const struct ops_transition *transition,
                     const struct workflow *w)
{
    struct common c;

    if (op->requested == transition->n_requests || !has_capacity(s))
        return;
    common_init(s, &c, transition);
    while (op->requested < transition->n_requests && has_capacity(s)) {
        const struct ops_request *r = &transition->requests[op->requested++];

        if (r->step < w->n_steps)
            request(s, op, transition, &c, w, r);
    }
    common_deinit(&c, transition);
}

/* ---- requests that have waited in this process ---- */

static void unsent_call(struct scheduler *s, struct op *op)
{
    const char **tokens = effects_alloc(s->out, op->n_steps * sizeof(*tokens));

    for (uint32_t i = 0; i < op->n_steps; i++)
        tokens[i] = op->tokens[i];
    nonces_next(&s->nonces, op->nonce);
    ops_unsent(s->out, op_call_id(s, op), op->partition, op->job, op->nonce, s->name, tokens,
               op->n_steps);
}

static void drive_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

static struct op *asking_new(struct scheduler *s, struct item *item, const char *job, uint32_t n)
{
    struct op *op = op_new(s, item, job);

    op->tokens = or_abort(calloc(n, sizeof(*op->tokens)));
    return op;
}

static void asking_add(struct op *op, struct bytes token)
{
    snprintf(op->tokens[op->n_steps++], sizeof(*op->tokens), "%.*s", (int)token.len,
             (const char *)token.data);
}

static void asking_begin(struct scheduler *s, struct op *op)
{
    if (op->n_steps > 0)
        op_call(s, op, unsent_call, drive_answered);
    op_unref(s, op);
}

void request_recheck(struct scheduler *s, struct item *item, const char *job, const char *token)
{
    struct op *op = asking_new(s, item, job, 1);

    asking_add(op, bytes_str(token));
    asking_begin(s, op);
}

/* An answer may have more requests than one call may name: those of its steps, and those that
 * followed. */
static void ask_for_rest(struct scheduler *s, struct op *op,
                         const struct ops_transition *transition)
{
    while (op->requested < transition->n_requests) {
        uint32_t left = transition->n_requests - op->requested;
        uint32_t end = op->requested + (left < OPS_BUDGET ? left : OPS_BUDGET);
        struct op *asking = asking_new(s, op->item, op->job, end - op->requested);

        for (; op->requested < end; op->requested++)
            asking_add(asking, transition->requests[op->requested].token);
        asking_begin(s, asking);
    }
}

void transition_resume_stalled(struct scheduler *s)
{
    while (has_capacity(s) && !list_empty(&s->stalled)) {
        struct op *op = list_entry(s->stalled.next, struct op, link);
        struct ops_reader r = ops_reader(op->held);
        struct ops_transition transition;

        if (ops_read_transition(&r, s->out, &transition))
            abort(); /* it was read before */
        if (s->now < op->answered_at + MACHINE_RECHECK_MS)
            requests(s, op, &transition, op->workflow);
        else
            ask_for_rest(s, op, &transition);
        if (op->requested < transition.n_requests)
            return;
        list_remove(&op->link);
        op_unref(s, op);
    }
}

/* ---- driving ---- */

static void drive_call(struct scheduler *s, struct op *op)
{
    /* New for each call: a repeated call may make new tokens in place of those that expire has
     * withdrawn in between. */
    nonces_next(&s->nonces, op->nonce);
    ops_drive(s->out, op_call_id(s, op), op->partition, op->job, op->nonce, s->name, op->again,
              op->steps, op->n_steps);
    op->again = false;
}

static void drive_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_read(s, op, r, transition_apply);
}

void drive(struct scheduler *s, struct op *op)
{
    op_call(s, op, drive_call, drive_answered);
}

/* Called when the requests of the last piece are confirmed: this is what paces a wide fan-out. */
static void drive_more(struct scheduler *s, struct op *op)
{
    op->n_steps = 0;
    drive(s, op);
}

void transition_apply(struct scheduler *s, struct op *op, const struct ops_transition *transition,
                      struct workflow *w)
{
    if (transition->now > 0)
        s->checked_at = transition->now;
    if (w) {
        requests(s, op, transition, w);
        alerts_raise(s, op, transition, w);
        step_events_publish(s, op, transition, w);
    }
    if (transition->steps_heard)
        step_events_to_client(s, op->job);
    if (transition->settled) {
        s->stats.settled++;
        notification_new(s, op->item, op->job, transition->settled, op->digest);
    }
    if (transition->more)
        op->then = drive_more;
}
