// SPDX-License-Identifier: Apache-2.0
/*
 * ON Replies: records each reply, and each Progress (store function `renew`)
 *
 * The store decides whether a reply counts, by its token, step, actor and size. If one reply of a
 * message is invalid the others are recorded, and the whole message becomes a dead letter. Called
 * by on_delivery.c.
 */
#include "scheduler/on_replies.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/alert.h"
#include "scheduler/allowance.h"
#include "scheduler/dead_letter.h"
#include "scheduler/record.h"
#include "scheduler/state.h"
#include "scheduler/step_events.h"

/* Bytes of the shortest Replies that say something about a step; a report of lost requests alone
 * has fewer, and is always read. */
#define SAYS_SOMETHING 8

static enum report_kind kind_of(const Drover__V1__StepReply *m)
{
    if (m->error) {
        switch (m->error->verdict) {
        case DROVER__V1__VERDICT__VERDICT_PERMANENT:
            return REPORT_PERMANENT;
        case DROVER__V1__VERDICT__VERDICT_DEFER:
            return REPORT_DEFERRED;
        default:
            return REPORT_TRANSIENT;
        }
    }
    switch (m->achieved) {
    case DROVER__V1__STATE__STATE_ACTIVE:
        return REPORT_ACTIVE;
    case DROVER__V1__STATE__STATE_DISABLED:
        return REPORT_DISABLED;
    default:
        return REPORT_TRANSIENT;
    }
}

/* Encodes an error for the store, cut to its limits. */
static void error_keep(struct scheduler *s, struct buf *out, const Drover__V1__Error *from)
{
    Drover__V1__Error error = *from;
    size_t message = utf8_fit(from->message, WIRE_ERROR_MESSAGE_MAX);
    size_t details = utf8_fit(from->details, WIRE_ERROR_DETAILS_MAX);

    error.message = effects_text(s->out, bytes_of(from->message, message));
    error.details = effects_text(s->out, bytes_of(from->details, details));
    (void)wire_encode(&error.base, false, out);
}

static void set_outcome(struct scheduler *s, struct record_op *r, const Drover__V1__StepReply *m)
{
    if (!wire_reply_result_fits(m)) {
        record_fail(r, REPORT_PERMANENT, "RESULT_TOO_LARGE", "the result exceeds the limit");
        return;
    }
    wire_append_payload(&r->result, m->result);
    r->record.result = buf_or_abort(&r->result);
    if (!m->error) {
        /* used only if the dispatch had asked for the other state; the store then records a
         * failure */
        record_fail(r, kind_of(m), "NOT_ACHIEVED", "the agent reports another state, and no error");
        return;
    }
    r->record.kind = kind_of(m);
    r->record.class = m->error->class_;
    r->record.retry_after = m->error->retry_after_ms < POLICY_DURATION_MAX_MS
                                ? m->error->retry_after_ms
                                : POLICY_DURATION_MAX_MS;
    r->record.no_effect = m->error->effect == DROVER__V1__EFFECT__EFFECT_NONE;
    error_keep(s, &r->error, m->error);
    r->record.error = buf_or_abort(&r->error);
}

static void reply(struct scheduler *s, struct item *item, const Drover__V1__StepReply *m)
{
    struct record_op *r = record_new(s, item, m->job_id);

    r->reply = m;
    r->record.job = r->transition.op.job;
    r->record.token = m->token;
    r->record.step = m->step;
    r->record.actor = item->actor;
    r->record.agent = m->agent;
    r->record.redelivered = item->redelivered;
    r->alone = item->redelivered; /* the requests that follow may use up the budget of a call */
    set_outcome(s, r, m);
    record_add(s, r);
    op_unref(s, &r->transition.op);
}

/* ---- Progress ---- */

/* Renews the lease of one dispatch. */
struct renew_op {
    struct op op;
    const Drover__V1__Progress *progress; /* a part of the item's message */
};

static const Drover__V1__Progress *progress_of(struct op *op)
{
    return container_of(op, struct renew_op, op)->progress;
}

static void renew_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__Progress *m = progress_of(op);
    const struct ops_progress progress = {
        .fraction = m->fraction, .note = m->note, .agent = m->agent, .elapsed = m->elapsed_ms};

    ops_renew(s->out, op_call_id(s, op), op->partition, m->job_id, m->token, &progress,
              op->item->actor);
}

static void renew_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    Drover__V1__ProgressAnswers body = DROVER__V1__PROGRESS_ANSWERS__INIT;
    Drover__V1__ProgressAnswer answer = DROVER__V1__PROGRESS_ANSWER__INIT;
    Drover__V1__ProgressAnswer *list[] = {&answer};
    const Drover__V1__Progress *m = progress_of(op);
    struct ops_renewed renewed;

    if (ops_read_renewed(r, &renewed))
        return;
    if (renewed.other_actor)
        log_often(LOG_WARN, "progress_of_another_actor", LOG_S("job", op->job),
                  LOG_S("step", m->step), LOG_S("agent_of", op->item->actor));
    answer.job_id = m->job_id;
    answer.step = m->step;
    answer.token = m->token;
    answer.wanted = renewed.known && renewed.wanted;
    answer.locked_until = renewed.locked_until;
    answer.now = renewed.now;
    body.answers = list;
    body.n_answers = 1;
    publish_reply(s, op, &body.base);
    if (renewed.begins)
        step_events_to_client(s, op->job);
}

static void renew(struct scheduler *s, struct item *item, const Drover__V1__Progress *m)
{
    struct renew_op *renew = op_new(s, item, m->job_id, sizeof(*renew), NULL);

    renew->progress = m;
    op_call(s, &renew->op, renew_call, renew_answered);
    op_unref(s, &renew->op);
}

static size_t read_count(size_t n)
{
    return n < WIRE_REPLIES_MAX ? n : WIRE_REPLIES_MAX;
}

/* Whether this message is to be ignored, because agents of its actor recently sent too many replies
 * that no step was waiting for. Good replies in it are lost; their steps go on when their leases
 * end. */
bool on_replies_ignored(struct scheduler *s, const struct item *item)
{
    if (item->body.len < SAYS_SOMETHING || allowance_takes_replies(s, item->actor, 0))
        return false;
    s->stats.ignored++;
    log_often(LOG_WARN, "replies_ignored", LOG_S("actor", item->actor),
              LOG_I("bytes", (int64_t)item->body.len));
    if (allowance_alert_due(s, item->actor))
        alert_ignored(s, item->actor);
    return true;
}

/* A token, and the index of its last Progress in a message. */
struct last_progress {
    UT_hash_handle hh;
    size_t last;
    const char *token;
};

/* Finds the last Progress of each token: the others would cost the store calls and change
 * nothing. Return: for each Progress whether it is the last one of its token; the caller frees
 * it. */
static bool *last_of_each(const Drover__V1__Replies *m)
{
    size_t n = read_count(m->n_progress);
    bool *last = or_abort(calloc(n + 1, sizeof(*last)));
    struct last_progress *all = or_abort(calloc(n + 1, sizeof(*all))), *tokens = NULL, *known;

    for (size_t i = 0; i < n; i++) {
        HASH_FIND_STR(tokens, m->progress[i]->token, known);
        if (known) {
            known->last = i;
            continue;
        }
        all[i] = (struct last_progress){.last = i, .token = m->progress[i]->token};
        HASH_ADD_KEYPTR(hh, tokens, all[i].token, strlen(all[i].token), &all[i]);
    }
    for (known = tokens; known; known = known->hh.next)
        last[known->last] = true;
    HASH_CLEAR(hh, tokens);
    free(all);
    return last;
}

/* The steps go on as if the Progress had been lost on its way. */
static void progress_left_out(struct scheduler *s, const struct item *item, size_t n)
{
    s->stats.progress_ignored += n;
    allowance_extra_progress(s, item->actor, n);
    log_often(LOG_WARN, "progress_ignored", LOG_S("actor", item->actor),
              LOG_I("count", (int64_t)n));
}

void on_replies(struct scheduler *s, struct item *item)
{
    const Drover__V1__Replies *m = item->message.replies;
    struct problem problem = {0}, first = {0};
    CLEANUP(free) bool *last = last_of_each(m);
    size_t bad = 0, extra = 0;

    allowance_takes_replies(s, item->actor, read_count(m->n_replies));
    if (m->n_replies > WIRE_REPLIES_MAX || m->n_progress > WIRE_REPLIES_MAX) {
        problem_set(&first, m->n_replies > WIRE_REPLIES_MAX ? "replies" : "progress",
                    "has more than %d: the rest was not read", WIRE_REPLIES_MAX);
        bad++;
    }
    for (size_t i = 0; i < read_count(m->n_replies); i++) {
        if (wire_check_reply(m, i, &problem)) {
            if (bad++ == 0)
                first = problem;
        } else {
            reply(s, item, m->replies[i]);
        }
    }
    for (size_t i = 0; i < read_count(m->n_progress); i++) {
        if (wire_check_progress(m, i, &problem)) {
            if (bad++ == 0)
                first = problem;
        } else if (last[i] && allowance_takes_progress(s, item->actor)) {
            renew(s, item, m->progress[i]);
        } else if (last[i]) {
            extra++;
        }
    }
    if (m->requests_lost && !*item->actor && bad++ == 0)
        problem_set(&first, "requests_lost", "must come by the exchange drover.reply.<actor>");
    else if (m->requests_lost)
        loss_reported(s, item);
    if (extra > 0)
        progress_left_out(s, item, extra);
    if (bad > 0)
        dead_letter_send(s, item,
                         effects_printf(s->out, "INVALID %s %s", first.field, first.reason));
}
