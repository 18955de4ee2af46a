// SPDX-License-Identifier: Apache-2.0
/*
 * The effect ledger: the effects of handlers, by idempotency key, compared with the records
 *
 * Handlers keep the contract of PROTOCOL: after a revert of a key an action with that key does
 * nothing. A handler that reports no effect makes sure that nothing of this attempt ever takes
 * effect.
 */
#include "checker/check_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- effects ---- */

/* The effects of the runs under one key. */
struct handler_effect {
    struct handler_effect *older;
    uint32_t turn;
    uint32_t closed; /* attempts up to this one take effect no more */
    bool done;       /* and not taken back */
    bool taken_back;
};

static struct handler_effect *handler_effect_find(const struct step *step, uint32_t turn)
{
    struct handler_effect *effect = step->effects_seen;

    while (effect && effect->turn != turn)
        effect = effect->older;
    return effect;
}

static struct handler_effect *handler_effect_get(struct checker *c, struct step *step,
                                                 uint32_t turn)
{
    struct handler_effect *effect = handler_effect_find(step, turn);

    if (effect)
        return effect;
    effect = timeline_alloc(c->t, sizeof(*effect));
    effect->turn = turn;
    effect->older = step->effects_seen;
    step->effects_seen = effect;
    return effect;
}

static uint32_t handler_effects_done(const struct step *step)
{
    uint32_t n = 0;

    for (const struct handler_effect *effect = step->effects_seen; effect; effect = effect->older)
        n += effect->done;
    return n;
}

void check_by_hand(struct checker *c, struct step *step, bool back)
{
    if (step->attempt > 0) /* a person's word also covers a run that is still unknown */
        handler_effect_get(c, step, step->forward);
    for (struct handler_effect *effect = step->effects_seen; effect; effect = effect->older) {
        effect->taken_back = true;
        effect->done = false;
    }
    step->by_hand = !back;
}

/* ---- runs ---- */

static void run_key(char out[static WIRE_KEY_MAX + 1], const Drover__V1__StepRequest *request,
                    uint32_t turn)
{
    snprintf(out, WIRE_KEY_MAX + 1, "%s/%s/%u", request->job_id, request->step, (unsigned)turn);
}

/* Every request must carry the data that the Submit gave. */
static void check_passed_on(struct checker *c, const Drover__V1__StepRequest *request)
{
    require(
        c,
        request->input &&
            bytes_is(bytes_of(request->input->data.data, request->input->data.len), CHECKER_INPUT),
        "I12 %s: a request without the job's input", request->job_id);
    require(c,
            request->n_labels == 1 && strcmp(request->labels[0]->name, CHECKER_LABEL) == 0 &&
                strcmp(request->labels[0]->value, request->job_id) == 0,
            "I12 %s: a request without the job's label", request->job_id);
    require(c,
            strcmp(request->traceparent,
                   effects_printf(&c->scratch, CHECKER_TRACE, request->job_id)) == 0,
            "I12 %s: a request with the traceparent '%s'", request->job_id, request->traceparent);
}

void checker_begun(struct checker *c, const char *text)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (token)
        token->begun = true;
}

void checker_says_begun(struct checker *c, const char *text, uint64_t agent)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (token)
        token->reported_by = agent;
}

void checker_handed_in(struct checker *c, const char *text, uint64_t agent, bool acknowledged)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (!token || token->reported_by != agent)
        return;
    if (acknowledged)
        token->reported_by = 0; /* the agent will answer it; it may give back another copy */
    else
        require(c, token->copied || token->run_ends > 0,
                "I14 %s: its agent gives back what it says it has begun, and has not", text);
}

void checker_handed_in_nothing(struct checker *c, uint64_t agent)
{
    for (struct token *token = c->tokens; token; token = token->hh.next)
        if (token->reported_by == agent)
            token->reported_by = 0;
}

/* Forward work gets no longer than the time until its deadline, and the less the later it is sent.
 * */
static bool lease_fits(const struct token *token, const struct workflow_dispatch *d,
                       const Drover__V1__StepRequest *request)
{
    if (token->left == 0)
        return request->lock_ms == d->lock_ms;
    return request->lock_ms <= d->lock_ms && request->lock_ms <= token->most_left &&
           request->sent_at + request->lock_ms <= request->complete_by;
}

void checker_run(struct checker *c, const Drover__V1__StepRequest *request, int64_t lease_left)
{
    struct token *token = check_token_ever(c, bytes_str(request->token));
    const struct workflow_dispatch *d;
    const struct workflow_step *step;
    char key[WIRE_KEY_MAX + 1];

    if (!token) {
        checker_fail(c, "I10 %s: a run of a request that was never made", request->job_id);
        return;
    }
    step = &token->w->steps[token->step];
    d = token->back ? &step->revert : &step->forward;
    run_key(key, request, token->turn);
    if (token->run_ends == 0) {
        token->run_ends = c->t->now + lease_left;
        token->run_at = c->t->now;
    }
    require(c, lease_left > 0, "I4 %s: step %s begins after its lease", request->job_id,
            request->step);
    require(c, token->back == (request->desired == DROVER__V1__STATE__STATE_DISABLED),
            "I2 %s: the token asks for the opposite", request->job_id);
    require(c, strcmp(step->name, request->step) == 0, "I3 %s: the token is of another step",
            request->job_id);
    require(c, strcmp(d->actor, request->actor) == 0 && lease_fits(token, d, request),
            "I12 %s: step %s goes to %s for %" PRId64 " ms", request->job_id, request->step,
            request->actor, request->lock_ms);
    require(c, strcmp(key, request->idempotency_key) == 0, "I2 %s: another key", request->job_id);
    require(c, token->back || request->n_results == step->n_take,
            "I8 %s: step %s begins with %zu of %u results", request->job_id, request->step,
            request->n_results, step->n_take);
    check_passed_on(c, request);
    require(c, request->attempt == token->attempt && request->turn == token->turn,
            "I9 %s: step %s begins with attempt %u of turn %u, not %u of %u", request->job_id,
            request->step, request->attempt, request->turn, token->attempt, token->turn);
    require(c, strcmp(d->action, request->action) == 0, "I12 %s: step %s is to do %s, not %s",
            request->job_id, request->step, d->action, request->action);
    run_key(key, request, token->forward);
    if (token->forward == 0) /* only a person has done it */
        *key = 0;
    require(c, !token->back || strcmp(key, request->forward_key) == 0,
            "I5 %s: step %s is to undo '%s', not '%s'", request->job_id, request->step, key,
            request->forward_key);
}

/* Neighbours that must come first must have taken effect. Steps that cannot be taken back, or that
 * a person has resolved, are not compared. */
static void check_order(struct checker *c, const struct job *job, uint32_t i, bool back)
{
    const struct workflow_step *step = &job->w->steps[i];
    const uint32_t *before = back ? step->dependents : step->after;
    uint32_t n = back ? step->n_dependents : step->n_after;

    if (job->steps[i].lied)
        return;
    for (uint32_t k = 0; k < n; k++) {
        const struct step *other = &job->steps[before[k]];

        if (!job->w->steps[before[k]].has_revert || other->by_hand || other->lied)
            continue;
        require(c, (handler_effects_done(other) == 0) == back,
                "%s %s: step %u takes effect %s step %u %s", back ? "I5" : "I8", job->id, i,
                back ? "while" : "before", before[k], back ? "is still done" : "is done");
    }
}

static bool act_forward(struct checker *c, struct token *token)
{
    struct step *step = &token->job->steps[token->step];
    struct handler_effect *effect = handler_effect_get(c, step, token->turn);

    if (effect->taken_back || token->attempt <= effect->closed) {
        timeline_note(c->t, FEATURE_RUN_REFUSED);
        return false;
    }
    /* a step without an undo may still take effect when the job has long gone back past it */
    if (!effect->done && (step->flying == token || token->job->w->steps[token->step].has_revert))
        check_order(c, token->job, token->step, false);
    effect->done = true;
    return true;
}

static void act_back(struct checker *c, const struct token *token)
{
    struct step *step = &token->job->steps[token->step];
    struct handler_effect *effect = handler_effect_get(c, step, token->forward);

    if (!effect->taken_back)
        check_order(c, token->job, token->step, true);
    effect->taken_back = true;
    effect->done = false;
}

/* A migration may have put another step in the place of one that had not begun, as far as the
 * checker can tell. */
static bool is_still_there(const struct token *token)
{
    const struct workflow *w = token->job->w;

    return w == token->w ||
           (token->step < w->n_steps &&
            strcmp(w->steps[token->step].name, token->w->steps[token->step].name) == 0);
}

void checker_lied(struct checker *c, const char *text)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (token)
        token->lied = true;
}

bool checker_act(struct checker *c, const char *text)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (!token)
        return false;
    if (!is_still_there(token) ||
        token->job->went_back) /* its record is gone, so it is done again */
        return token->effect = true;
    if (token->back)
        act_back(c, token);
    else if (!act_forward(c, token))
        return false;
    token->effect = true;
    return true;
}

bool checker_did_nothing(struct checker *c, const char *text)
{
    const struct token *token = check_token_ever(c, bytes_str(text));
    struct handler_effect *effect;

    if (!token || token->back || !is_still_there(token) || token->job->went_back)
        return false;
    effect = handler_effect_get(c, &token->job->steps[token->step], token->turn);
    if (effect->done)
        return false;
    if (effect->closed < token->attempt)
        effect->closed = token->attempt;
    return true;
}

/* ---- the effect ledger ---- */

static void check_step_effects(struct checker *c, const struct job *job, uint32_t i)
{
    const struct step *step = &job->steps[i];
    const struct handler_effect *effect = handler_effect_find(step, step->forward);
    bool has_revert = job->w->steps[i].has_revert;

    if (step->flying || step->by_hand || step->lied)
        return;
    if (step->current == STATE_ACTIVE) {
        require(c, effect && effect->done, "I5 %s: step %u counts as done, and is not", job->id, i);
        require(c, !has_revert || handler_effects_done(step) == 1,
                "I5 %s: step %u is done %u times", job->id, i, handler_effects_done(step));
    } else if (step->current == STATE_DISABLED && has_revert) {
        require(c, handler_effects_done(step) == 0, "I5 %s: step %u is still done", job->id, i);
    }
}

void check_effect_ledger(struct checker *c, const struct job *job)
{
    for (uint32_t i = 0; i < job->w->n_steps && !c->violated && !c->again && !job->went_back; i++)
        check_step_effects(c, job, i);
}
