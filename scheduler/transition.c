// SPDX-License-Identifier: Apache-2.0
/*
 * Transitions: reads the answer of a store call that has changed a job, and carries it out
 *
 * Requests beyond the capacity for unconfirmed publishes wait here. Called by the files that make
 * such calls, by scheduler.c when a publish has its outcome, and by dispatch.c through struct
 * dispatch_reports.
 */
#include "scheduler/transition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/alert_cause.h"
#include "scheduler/definition.h"
#include "scheduler/dispatch.h"
#include "scheduler/notification.h"
#include "scheduler/publish.h"
#include "scheduler/request.h"
#include "scheduler/rollback.h"
#include "scheduler/state.h"
#include "scheduler/step_events.h"

struct transition_op *transition_of(struct op *op)
{
    return container_of(op, struct transition_op, op);
}

/* ---- reading an answer ---- */

static bool needs_definition(const struct ops_transition *transition)
{
    return transition->n_requests > 0 || transition->n_alerts > 0 ||
           transition->publish_step_events || transition->code == OPS_CREATED ||
           transition->code == OPS_ALREADY;
}

/* Keeps the rest of an answer until there is capacity for its requests. Its delivery is not
 * acknowledged meanwhile, so the broker does not deliver what would follow: this is the
 * back-pressure. */
static void stall(struct scheduler *s, struct op *op, const struct ops_reader *answer,
                  struct workflow *w)
{
    struct store_answer *rest = or_abort(ops_answer_copy(answer));

    free(op->definition.rest);
    op->definition.rest = rest;
    workflow_ref(w); /* for a Migrate this field held the target definition */
    workflow_unref(op->definition.workflow);
    op->definition.workflow = w;
    op->refs++;
    list_append(&s->stalled, &op->link);
}

/* Called again when the definition is loaded. */
static void read_answer(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct transition_op *t = transition_of(op);
    struct ops_reader from = *r;
    struct ops_transition transition;
    struct workflow *w = NULL;

    if (ops_read_transition(r, s->out, &transition)) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return;
    }
    if (t->watermark_pending)
        rollback_observe(s, op, transition.watermark);
    t->watermark_pending = false;
    if (transition.definition.len == ID_DIGEST_LEN) {
        memcpy(op->definition.digest, transition.definition.data, ID_DIGEST_LEN);
        w = definition_find(s, op->definition.digest);
        if (!w && needs_definition(&transition)) {
            from.left -= r->left;
            definition_load(s, op, &from, read_answer);
            return;
        }
    }
    t->apply(s, t, &transition, w);
    if (t->requested < transition.n_requests) {
        from.left -= r->left;
        stall(s, op, &from, w);
    }
}

void transition_answered(struct scheduler *s, struct op *op, struct ops_reader *r,
                         transition_fn *apply)
{
    struct transition_op *t = transition_of(op);

    t->apply = apply;
    t->requested = 0;
    /* the watermark must be compared now, in the order of the answers, before a definition is
     * loaded */
    t->watermark_pending = true;
    t->answered_at = s->now;
    read_answer(s, op, r);
}

/* ---- driving ---- */

static void drive_call(struct scheduler *s, struct op *op)
{
    /* New for each call: a repeated call may make new tokens in place of those that expire has
     * withdrawn in between. */
    nonces_next(&s->nonces, op->nonce);
    ops_drive(s->out, op_call_id(s, op), op->partition, op->job, op->nonce, s->name,
              op->call_repeated, NULL, 0);
    op->call_repeated = false;
}

static void drive_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_answered(s, op, r, transition_publish);
}

/* Called when the requests of the last piece are confirmed: this is what paces a wide fan-out. */
static void drive_more(struct scheduler *s, struct op *op)
{
    op_call(s, op, drive_call, drive_answered);
}

static void raise_alerts(struct scheduler *s, struct transition_op *t,
                         const struct ops_transition *transition, struct workflow *w)
{
    for (uint32_t i = 0; i < transition->n_alerts; i++) {
        const struct ops_alert *alert = &transition->alerts[i];

        /* alerts about jobs are in the outbox; they are read from there by the same code as those
         * left by a dead scheduler */
        if (notification_is_alert(alert->reason))
            notification_new(s, t->op.item, t->op.job, alert->seq, t->op.definition.digest);
        else
            alert_cause_raise(s, &t->op, alert, transition->now, w);
    }
}

void transition_publish(struct scheduler *s, struct transition_op *t,
                        const struct ops_transition *transition, struct workflow *w)
{
    struct op *op = &t->op;

    if (transition->now > 0)
        s->store_time = transition->now;
    if (w) {
        request_publish(s, t, transition, w);
        raise_alerts(s, t, transition, w);
        step_events_publish(s, op, transition, w);
    }
    if (transition->client_has_step_events)
        step_events_to_client(s, op->job);
    if (transition->ended_seq) {
        s->stats.settled++;
        notification_new(s, op->item, op->job, transition->ended_seq, op->definition.digest);
    }
    if (transition->more)
        op->then = drive_more;
}

/* ---- requests that have waited in this process ---- */

/* Asks whether requests are still wanted. */
struct recheck_op {
    struct transition_op transition;
    uint32_t n;
    char (*tokens)[WIRE_TOKEN_MAX + 1]; /* owned */
};

static struct recheck_op *recheck_of(struct op *op)
{
    return container_of(op, struct recheck_op, transition.op);
}

static void recheck_free(struct op *op)
{
    free(recheck_of(op)->tokens);
}

static void recheck_call(struct scheduler *s, struct op *op)
{
    const struct recheck_op *recheck = recheck_of(op);
    const char **tokens = effects_alloc(s->out, recheck->n * sizeof(*tokens));

    for (uint32_t i = 0; i < recheck->n; i++)
        tokens[i] = recheck->tokens[i];
    nonces_next(&s->nonces, op->nonce);
    ops_unsent(s->out, op_call_id(s, op), op->partition, op->job, op->nonce, s->name, tokens,
               recheck->n);
}

/* @room: the most tokens that recheck_add() adds. */
static struct recheck_op *recheck_new(struct scheduler *s, struct item *item, const char *job,
                                      uint32_t room)
{
    struct recheck_op *recheck = op_new(s, item, job, sizeof(*recheck), recheck_free);

    recheck->transition.rechecked = true;
    recheck->tokens = or_abort(calloc(room, sizeof(*recheck->tokens)));
    return recheck;
}

static void recheck_add(struct recheck_op *recheck, struct bytes token)
{
    snprintf(recheck->tokens[recheck->n++], sizeof(*recheck->tokens), "%.*s", (int)token.len,
             (const char *)token.data);
}

/* After recheck_add(): a recheck has at least one token. */
static void recheck_begin(struct scheduler *s, struct recheck_op *recheck)
{
    struct op *op = &recheck->transition.op;

    op_call(s, op, recheck_call, drive_answered);
    op_unref(s, op);
}

void transition_recheck(struct scheduler *s, struct item *item, const char *job, const char *token)
{
    struct recheck_op *recheck = recheck_new(s, item, job, 1);

    recheck_add(recheck, bytes_str(token));
    recheck_begin(s, recheck);
}

/* An answer may have more requests than one call may name: those of its steps, and those that
 * followed. */
static void recheck_rest(struct scheduler *s, struct transition_op *t,
                         const struct ops_transition *transition)
{
    while (t->requested < transition->n_requests) {
        uint32_t left = transition->n_requests - t->requested;
        uint32_t end = t->requested + (left < OPS_BUDGET ? left : OPS_BUDGET);
        struct recheck_op *recheck = recheck_new(s, t->op.item, t->op.job, end - t->requested);

        for (; t->requested < end; t->requested++)
            recheck_add(recheck, transition->requests[t->requested].token);
        recheck_begin(s, recheck);
    }
}

void transition_resume_stalled(struct scheduler *s)
{
    while (publish_has_capacity(s) && !list_empty(&s->stalled)) {
        struct op *op = list_entry(s->stalled.next, struct op, link);
        struct transition_op *t = transition_of(op);
        struct ops_reader r = ops_reader(op->definition.rest);
        struct ops_transition transition;

        if (ops_read_transition(&r, s->out, &transition)) /* unreachable: it was read before */
            abort();
        if (s->now < t->answered_at + DISPATCH_RECHECK_MS)
            request_publish(s, t, &transition, op->definition.workflow);
        else
            recheck_rest(s, t, &transition);
        if (t->requested < transition.n_requests)
            return;
        list_remove(&op->link);
        op_unref(s, op);
    }
}
