// SPDX-License-Identifier: Apache-2.0
/*
 * Moves the model of a job along its history, and checks that each entry is an allowed move
 *
 * Called by check.c; see check_model.h.
 */
#include "checker/check_model.h"

#include <inttypes.h>

#define WORDS 8
#define JUMP_MS 2000 /* by which leases may expire early if the store's clock jumps */

struct entry {
    struct bytes words[WORDS];
    int n;
};

static struct bytes word(const struct entry *e, int i)
{
    return i < e->n ? e->words[i] : BYTES_EMPTY;
}

static struct entry split(struct bytes text)
{
    struct entry e = {0};
    size_t from = 0;

    for (size_t i = 0; i <= text.len && e.n < WORDS; i++) {
        if (i == text.len || text.data[i] == ' ') {
            e.words[e.n++] = bytes_of(text.data + from, i - from);
            from = i + 1;
        }
    }
    return e;
}

static void land(struct job *job, struct step *step)
{
    step->flying = NULL;
    job->flying--;
}

/* Another try of the work of the last dispatch, under the same key. */
static bool another_try(const struct job *job, const struct step *step, bool back)
{
    return (step->attempt > 0 || step->replaced) && step->back == back &&
           (step->turn == job->turn ||
            (step->current == STATE_UNKNOWN && (back || step->turn >= job->since)));
}

/* The directions that a step may take depend on what is known of it, not on what the job wants. */
static void check_direction(struct checker *c, const struct job *job, uint32_t i, bool back)
{
    const struct step *step = &job->steps[i];
    bool old = step->turn < job->since;

    require(c, check_missing(job, i, back) == 0 || (back && step->replaced),
            "%s %s: step %u before its neighbours", back ? "I5" : "I8", job->id, i);
    if (!back) {
        require(c, !job->back, "I5 %s: step %u goes forward after the turn", job->id, i);
        require(c,
                step->current == STATE_DISABLED ||
                    (step->current == STATE_UNKNOWN && !step->back && !old),
                "I2 %s: step %u is done though it is %c", job->id, i, step->current);
    } else {
        require(c, job->w->steps[i].has_revert, "I5 %s: nothing takes step %u back", job->id, i);
        require(c, step->current != STATE_DISABLED, "I5 %s: step %u is undone twice", job->id, i);
        require(c, job->back || (step->current == STATE_UNKNOWN && (step->back || old)),
                "I5 %s: step %u is undone on the way forward", job->id, i);
    }
}

/* A token that the store has forgotten keeps its properties: a call that is reported or made again
 * mints the same token. */
static struct token *mint(struct checker *c, struct bytes text)
{
    struct token *token = timeline_alloc(c->t, sizeof(*token)), *was;

    HASH_FIND(hh, c->undone, text.data, text.len, was);
    if (was) {
        token->published = was->published;
        token->routed = was->routed;
        token->copied = was->copied;
        token->went_back = true;
        token->begun = was->begun;
        token->delivered = was->delivered;
        token->run_ends = was->run_ends;
        token->run_at = was->run_at;
        token->given_ends = was->given_ends;
        token->effect = was->effect;
        token->lied = was->lied;
        token->decided = was->decided;
        token->ends = was->ends;
        token->until = was->until;
        token->jumps = was->jumps;
        token->set_back = was->set_back;
        token->back_at = was->back_at;
        token->unseen = was->unseen;
        token->longer = was->longer;
        token->wait_ends = was->wait_ends;
        token->too_late = was->too_late;
        token->given_up = was->given_up;
        token->heard = was->heard;
        token->by = was->by;
        token->at = was->at;
        HASH_DEL(c->undone, was);
    }
    return token;
}

/* Whether step @i has used up its tries, and no dispatch is in flight. */
static bool tries_used_up(const struct job *job, uint32_t i)
{
    const struct step *step = &job->steps[i];
    const struct policy *policy = &check_terms_of(job, i)->policy;

    return !step->flying && (step->failures >= policy->maximum_attempts ||
                             step->expiries >= policy->maximum_expiries);
}

/* Whether some tries are used up; only the store knows if the step backs off or its timer was
 * cancelled. */
static bool has_counted(const struct step *step)
{
    return !step->flying && step->failures + step->expiries > 0;
}

/* A job that has begun goes on, also if the clock steps back to before its start time. */
static void require_begun(struct checker *c, struct job *job)
{
    job->begun |= c->store_now >= job->start_at;
    require(c, job->begun, "I6 %s: begun before its time", job->id);
}

/* The step was parked by expiries, and is tried once after its silence interval. */
static bool ends_silence(const struct job *job, uint32_t i)
{
    const struct step *step = &job->steps[i];

    return step->round || (step->parked && strcmp(step->parked_for, "DEATHS") == 0 &&
                           check_terms_of(job, i)->policy.silence_interval_ms > 0);
}

/* The time until the deadline for forward work, as the store has it; 0: unlimited. */
static int64_t time_left(struct checker *c, const struct job *job, bool back)
{
    int64_t by;
    bool late;

    if (back || !job->has_deadline || job->w->on_deadline == DROVER__V1__RECOURSE__RECOURSE_PARK ||
        !simstore_hash(c->store, job->partition, job->keys.job))
        return 0;
    by = (int64_t)check_number(simstore_field(c->store, "complete_by"));
    late = simstore_field(c->store, "late").len > 0;
    simstore_list(c->store, job->partition, job->keys.hist); /* the list that is being read */
    require(c, late || by > c->store_now, "I6 %s: forward work sent past the deadline", job->id);
    return late ? 0 : by - c->store_now;
}

/* A dispatch: the step is in flight with this token. */
static void depart(struct checker *c, struct job *job, uint32_t i, struct bytes text)
{
    struct step *step = &job->steps[i];
    struct token *token = mint(c, text);

    snprintf(token->id, sizeof(token->id), "%.*s", (int)text.len, text.data);
    token->job = job;
    token->step = i;
    token->w = job->w;
    token->back = step->back;
    token->turn = step->turn;
    token->forward = step->forward;
    token->attempt = step->attempt;
    token->minted = token->granted = c->store_now;
    token->left = token->most_left = time_left(c, job, step->back);
    token->set_back |= check_stepped_back(c, job->partition);
    if (!c->again) {
        token->heard = c->heard;
        token->by = c->by;
        token->at = c->t->now;
    }
    if (c->cause) {
        token->older = c->cause->minted;
        c->cause->minted = token;
    }
    HASH_ADD_KEYPTR(hh, c->tokens, token->id, text.len, token);
    step->flying = step->last = token;
    job->flying++;
}

static void on_dispatched(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct step *step = &job->steps[i];
    struct bytes text = word(e, 5);
    bool back = ops_letter(word(e, 6)) == STATE_DISABLED;

    if (back && !job->back)
        timeline_note(c->t, FEATURE_UNDO_ON_THE_WAY_FORWARD);
    require(c, !job->settled && !job->ending, "I6 %s: dispatched after it ended", job->id);
    require(c, back || !job->changing, "I12 %s: step %u goes forward before a change", job->id, i);
    require(c, !*job->hold, "I6 %s: dispatched while it was held", job->id);
    require_begun(c, job);
    require(c, !step->flying, "I2 %s: step %u dispatched while in flight", job->id, i);
    require(c, !step->failed || job->retrying, "I6 %s: step %u dispatched after it failed", job->id,
            i);
    check_direction(c, job, i, back);
    require(c, check_number(word(e, 4)) == step->attempt + 1, "I9 %s: step %u attempt", job->id, i);
    require(c, !check_token_named(c, text) && text.len < sizeof(((struct token *)0)->id),
            "I3 %s: token used twice", job->id);
    if (c->violated)
        return;
    if (another_try(job, step, back) && step->renewed) {
        step->failures = step->expiries = 0;
    } else if (another_try(job, step, back)) {
        require(c,
                step->anew || job->retrying || step->turn != job->turn ||
                    step->current != STATE_UNKNOWN || ends_silence(job, i) ||
                    step->expiries < check_terms_of(job, i)->policy.maximum_expiries,
                "I9 %s: step %u dispatched after %u expiries", job->id, i, step->expiries);
    } else {
        step->turn = back && !job->back ? job->since - 1 : job->turn;
        step->failures = step->expiries = 0;
        step->forgiven.failures = step->forgiven.expiries = 0;
    }
    step->attempt++;
    step->round = ends_silence(job, i);
    step->anew =
        job->retrying && (step->anew || step->parked || step->failed || tries_used_up(job, i));
    step->restarted |= job->retrying && step->parked;
    step->parked = step->renewed = false;
    step->failed = 0;
    step->back = back;
    require(c, step->turn != (back ? step->forward : step->undo),
            "I2 %s: step %u is done and undone under one key", job->id, i);
    if (back) {
        step->undo = step->turn;
    } else {
        step->forward = step->turn;
        step->replaced = false;
    }
    depart(c, job, i, text);
}

/* A dispatch has ended by a reply that was accepted in this call. */
/* The kinds of reports that on_reply() allows. */
#define KINDS(...) ((const char[]){__VA_ARGS__, '\0'})

static struct recorded *on_reply(struct checker *c, struct job *job, uint32_t i,
                                 const struct entry *e, const char *kinds)
{
    struct step *step = &job->steps[i];
    struct token *token = check_token_named(c, word(e, 5));

    require(c, token && step->flying == token, "I3 %s: step %u has another token in flight",
            job->id, i);
    require(c, !job->settled, "I6 %s: step %u recorded after the end", job->id, i);
    for (uint32_t k = 0; k < c->n_recorded; k++) {
        struct recorded *r = &c->recorded[k];

        if (r->token != token || r->used || c->violated)
            continue;
        r->used = true;
        require(c, strchr(kinds, r->kind), "I10 %s: step %u recorded as something else", job->id,
                i);
        token->recorded = true;
        if (token->lied)
            timeline_note(c->t, FEATURE_LIE_BELIEVED);
        step->lied |= token->lied;
        land(job, step);
        token->ended_by = r->kind;
        c->cause = &token->led_to;
        return r;
    }
    checker_fail(c, "I3 %s: step %u recorded with a token that no reply carried", job->id, i);
    return NULL;
}

/* @back: undone. */
static void on_done(struct checker *c, struct job *job, uint32_t i, const struct entry *e,
                    bool back)
{
    struct recorded *r =
        on_reply(c, job, i, e, back ? KINDS(REPORT_DISABLED) : KINDS(REPORT_ACTIVE));
    struct step *step = &job->steps[i];

    if (!r)
        return;
    require(c, r->token->back == back, "I2 %s: step %u did the opposite", job->id, i);
    require(c, step->current != (back ? STATE_DISABLED : STATE_ACTIVE),
            "I2 %s: step %u is done twice", job->id, i);
    require(c, r->token->effect || r->token->lied, "I10 %s: step %u is done, and no handler did it",
            job->id, i);
    step->current = back ? STATE_DISABLED : STATE_ACTIVE;
    step->by_hand = step->alerted = step->restarted = false;
}

static void on_skipped(struct checker *c, struct job *job, uint32_t i)
{
    struct step *step = &job->steps[i];

    require(c, !job->w->steps[i].has_revert && !step->flying && step->current != STATE_DISABLED,
            "I5 %s: step %u skipped", job->id, i);
    require(c, check_missing(job, i, true) == 0, "I5 %s: step %u skipped before its dependents",
            job->id, i);
    require(
        c, job->back || (step->current == STATE_UNKNOWN && (step->back || step->turn < job->since)),
        "I5 %s: step %u skipped on the way forward", job->id, i);
    step->current = STATE_DISABLED;
    step->by_hand = false;
}

/* Whether the store knows the one jump of its clock that happened during a lease, and that the
 * lease was granted before it. It remembers only the last jump, and forgets it when the clock steps
 * back. */
static bool is_known_to_jump(struct checker *c, const struct token *token)
{
    struct store_clock clock = check_clock(c, token->job->partition);

    return token->jumps == 1 && !token->set_back && clock.by > 0 && token->granted < clock.jumped;
}

/* The deadline has ended the lease: that is no expiry, whatever its agent does. */
static bool is_cut_short(struct checker *c, const struct job *job, const struct token *token)
{
    bool late;

    if (token->left == 0 || !simstore_hash(c->store, job->partition, job->keys.job))
        return false;
    late = simstore_field(c->store, "late").len > 0;         /* also if the clock steps back */
    simstore_list(c->store, job->partition, job->keys.hist); /* the list that is being read */
    return late || c->store_now >= token->granted + token->left;
}

/* When the broker has lost messages of a step's actor last, as the store knows; 0: never. */
static int64_t last_loss(struct checker *c, const struct job *job, uint32_t i)
{
    int64_t all = 0, own = 0;

    if (simstore_hash(c->store, job->partition, "lost")) {
        all = (int64_t)check_number(simstore_field(c->store, WIRE_ALL_ACTORS));
        own = (int64_t)check_number(simstore_field(c->store, check_terms_of(job, i)->actor));
    }
    simstore_list(c->store, job->partition, job->keys.hist); /* the list that is being read */
    return all > own ? all : own;
}

/* Whether the store knows that the broker has lost this dispatch, and has not had it sent again. */
static bool is_still_lost(struct checker *c, const struct job *job, uint32_t i,
                          const struct token *token)
{
    int64_t at;

    if (c->again || is_cut_short(c, job, token))
        return false;
    at = last_loss(c, job, i);
    return token->granted < at || (at > 0 && token->granted == at && !token->resent_by);
}

/* A lease has ended. @silent: there is no evidence that an agent has begun it, and no expiry
 * counts. */
static void on_expired(struct checker *c, struct job *job, uint32_t i, const struct entry *e,
                       bool silent)
{
    struct step *step = &job->steps[i];
    const struct token *token = step->flying;

    require(c, step->flying && step->flying == check_token_named(c, word(e, 5)),
            "I9 %s: step %u expired, not in flight", job->id, i);
    if (c->violated)
        return;
    require(c,
            c->again || c->t->now + step->flying->unseen + JUMP_MS >= step->flying->ends ||
                (step->flying->jumps > 0 && !is_known_to_jump(c, step->flying)),
            "I7 %s: step %u expired %" PRId64 " ms early", job->id, i,
            step->flying->ends - c->t->now);
    /* An agent that reports one copy of a request may end the wait for the run of another one. */
    require(c,
            c->again || check_terms_of(job, i)->heartbeat_ms > 0 ||
                (token->copied && token->reported && token->reported_at < token->run_at) ||
                c->t->now + token->unseen + JUMP_MS >= token->run_ends ||
                c->t->now + token->unseen + JUMP_MS >= token->given_ends || token->jumps > 0,
            "I7 %s: step %u expired %" PRId64 " ms before the lease of its agent", job->id, i,
            token->run_ends - c->t->now);
    require(c, silent || token->begun || token->lied || (token->taken && token->delivered),
            "I14 %s: an expiry of step %u counts, and no agent has begun it", job->id, i);
    require(c, !silent || !(token->reported || token->taken) || is_cut_short(c, job, token),
            "I14 %s: an expiry of step %u does not count, and an agent has begun it", job->id, i);
    require(c, !is_still_lost(c, job, i, token),
            "I7 %s: step %u expired, and the broker had lost its dispatch", job->id, i);
    step->expiries += !silent;
    step->round = false;
    step->current = STATE_UNKNOWN;
    land(job, step);
    step->anew |= job->retrying;
}

/* The request is sent once more, under its token, because the broker may have lost it. Its times
 * begin anew, and what an agent has said of it is no evidence any more. */
static void on_resent(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct token *token = job->steps[i].flying;

    require(c, token && token == check_token_named(c, word(e, 5)),
            "I7 %s: step %u is sent again, not in flight", job->id, i);
    if (c->violated)
        return;
    require(c, token->granted <= last_loss(c, job, i) || token->set_back,
            "I7 %s: step %u is sent again, and the broker has not lost it", job->id, i);
    token->copied = true;
    token->resent_by = c->cause;
    token->resent = false;
    token->reported = token->taken = false;
    token->granted = c->store_now;
    token->left = time_left(c, job, token->back);
    token->wait_ends = token->ends = token->given_ends = token->until = 0;
    token->unseen = token->longer = token->back_at = 0;
    token->jumps = 0;
    token->too_late = false;
}

static void ending_new(struct checker *c, struct job *job, struct ending **list,
                       struct bytes outcome, uint32_t step)
{
    struct ending *ending = timeline_alloc(c->t, sizeof(*ending));

    for (const struct ending *was = job->undone; was; was = was->older) {
        if (was->seq == job->seq && was->step == step && bytes_is(outcome, was->outcome)) {
            ending->published |= was->published;
            ending->received |= was->received;
            ending->excused |= was->excused;
        }
    }
    ending->older = *list;
    ending->seq = job->seq;
    ending->step = step;
    ending->in_outbox = true;
    snprintf(ending->outcome, sizeof(ending->outcome), "%.*s", (int)outcome.len,
             (const char *)outcome.data);
    *list = ending;
}

static void alert_from_outbox(struct checker *c, struct job *job, uint32_t step)
{
    job->acknowledged = false; /* the person has to know again */
    ending_new(c, job, &job->alerts, bytes_str("ALERT"), step);
}

/* Whether the step is tried again by itself, or stands until a person acts. */
static bool has_next_try(const struct policy *policy, struct bytes reason)
{
    return (bytes_is(reason, "EXHAUSTED") && policy->park_interval_ms > 0) ||
           (bytes_is(reason, "DEATHS") && policy->silence_interval_ms > 0);
}

static void on_parked(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct bytes reason = word(e, 4);
    bool alerted = check_in_outbox(c, job, job->seq);
    struct step *step = &job->steps[i];
    bool news = !step->alerted || !has_next_try(&check_terms_of(job, i)->policy, reason);

    timeline_note(c->t, bytes_is(reason, "DEATHS")      ? FEATURE_PARKED_DEATHS
                        : bytes_is(reason, "EXHAUSTED") ? FEATURE_PARKED_EXHAUSTED
                                                        : FEATURE_PARKED_PERMANENT);
    require(c, alerted || !news || job->retrying || step->restarted,
            "L3 %s: step %u is parked for %.*s, without an alert", job->id, i, (int)reason.len,
            (const char *)reason.data);
    require(c, !alerted || news || job->retrying || step->restarted || job->w->n_steps >= BIG,
            "L3 %s: step %u is parked as before, with another alert", job->id, i);
    if (alerted)
        alert_from_outbox(c, job, i);
    step->parked = step->alerted = true;
    step->restarted = false;
    snprintf(step->parked_for, sizeof(step->parked_for), "%.*s", (int)reason.len,
             (const char *)reason.data);
}

static bool all_there(const struct job *job, bool back)
{
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (!check_is_there(job, i, back))
            return false;
    return true;
}

static bool any_failed(const struct job *job, bool back)
{
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (job->steps[i].failed && job->steps[i].back == back)
            return true;
    return false;
}

/* Whether a turn may end so; a step that can still move keeps a job from ending badly. */
static bool outcome_fits(const struct job *job, struct bytes outcome)
{
    if (bytes_is(outcome, "SUCCEEDED"))
        return !job->back && all_there(job, false);
    if (bytes_is(outcome, "COMPENSATED"))
        return (job->back || job->turn == 1) &&
               all_there(job, true) && /* or no step was ever wanted */
               strcmp(job->cause, "CANCELLED") != 0;
    if (bytes_is(outcome, "CANCELLED"))
        return job->back && all_there(job, true) && strcmp(job->cause, "CANCELLED") == 0;
    if (bytes_is(outcome, "FAILED"))
        return job->ending || (any_failed(job, false) && !*job->hold);
    if (bytes_is(outcome, "COMPENSATION_FAILED"))
        return any_failed(job, true) && !job->ending && !*job->hold;
    return bytes_is(outcome, "KILLED") && strcmp(job->hold, "killed") == 0;
}

/* An end that no command asked for, and that its workflow does not declare as expected. */
static bool is_trouble(const struct job *job, struct bytes outcome)
{
    if (bytes_is(outcome, "COMPENSATED"))
        return strcmp(job->cause, "FAILURE") == 0 && !job->w->compensation_expected;
    return bytes_is(outcome, "FAILED") || bytes_is(outcome, "COMPENSATION_FAILED");
}

/* The first failure in each direction decides. */
static void decide(struct job *job, uint32_t i, bool back)
{
    if (job->decided[back])
        return;
    job->decided[back] = true;
    job->decider[back] = i;
}

/* The step whose failure is the earliest of those that still stand; WORKFLOW_NONE: none. */
static uint32_t first_failed(const struct job *job)
{
    uint32_t first = WORKFLOW_NONE;

    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (job->steps[i].failed &&
            (first == WORKFLOW_NONE || job->steps[i].failed < job->steps[first].failed))
            first = i;
    return first;
}

/* If a person has had a step tried again, the earliest of the other failures decides. */
static uint32_t decider(struct job *job)
{
    bool undo = strcmp(job->trouble, "COMPENSATION_FAILED") == 0;

    if (undo || strcmp(job->trouble, "FAILED") == 0)
        decide(job, first_failed(job), undo);
    return job->decider[job->decided[true]];
}

/* The job is about to end as no command asked for: there must be an alert. */
static void on_attention(struct checker *c, struct job *job, const struct entry *e)
{
    struct bytes outcome = word(e, 3);

    require(c, is_trouble(job, outcome), "L3 %s: an alert about an ordinary %.*s", job->id,
            (int)outcome.len, (const char *)outcome.data);
    snprintf(job->trouble, sizeof(job->trouble), "%.*s", (int)outcome.len,
             (const char *)outcome.data);
    job->attention = job->seq;
    alert_from_outbox(c, job, decider(job));
}

static void on_settled(struct checker *c, struct job *job, const struct entry *e)
{
    struct bytes outcome = word(e, 3);

    static const struct {
        const char *outcome;
        enum feature feature;
    } outcomes[] = {
        {"SUCCEEDED", FEATURE_SUCCEEDED},
        {"COMPENSATED", FEATURE_COMPENSATED},
        {"CANCELLED", FEATURE_ENDS_CANCELLED},
        {"FAILED", FEATURE_FAILED},
        {"COMPENSATION_FAILED", FEATURE_COMPENSATION_FAILED},
        {"KILLED", FEATURE_ENDS_KILLED},
    };

    for (size_t k = 0; k < array_size(outcomes); k++)
        if (bytes_is(outcome, outcomes[k].outcome))
            timeline_note(c->t, outcomes[k].feature);
    require(c, !job->settled, "I6 %s: settled twice", job->id);
    require(c, job->flying == 0 || bytes_is(outcome, "KILLED"),
            "I6 %s: settled with steps in flight", job->id);
    require(c, outcome_fits(job, outcome), "I6 %s: settled %.*s", job->id, (int)outcome.len,
            (const char *)outcome.data);
    job->troubled = job->attention > 0 && job->attention + 1 == job->seq;
    require(c, job->troubled == is_trouble(job, outcome),
            "L3 %s: has ended as %.*s, and its alert does not fit", job->id, (int)outcome.len,
            (const char *)outcome.data);
    require(c, !job->troubled || bytes_is(outcome, job->trouble),
            "L3 %s: its alert names another outcome", job->id);
    check_effect_ledger(c, job);
    ending_new(c, job, &job->last, outcome, WORKFLOW_NONE);
    job->settled = true;
    if (strcmp(job->hold, "killed") != 0)
        *job->hold = 0;
    job->settled_at = c->store_now;
    tell(c->t, "job", "%s settled %s", job->id, job->last->outcome);
}

/* The job waits to go forward again, and a command prevents that: it ends as one that was taken
 * back on request. */
static void stay_back(struct job *job, struct bytes command)
{
    if (!job->back || job->settled || !all_there(job, true))
        return;
    if (bytes_is(command, "cancel"))
        snprintf(job->cause, sizeof(job->cause), "CANCELLED");
    else if (bytes_is(command, "disable"))
        snprintf(job->cause, sizeof(job->cause), "REQUESTED");
}

static void on_command(struct checker *c, struct job *job, const struct entry *e)
{
    struct bytes id = word(e, 4);

    job->acknowledged |= bytes_is(word(e, 3), "acknowledge");
    stay_back(job, word(e, 3));
    require(c, !check_is_known(job, id), "I6 %s: %.*s carried out twice", job->id, (int)id.len,
            (const char *)id.data);
}

static void note_turn(struct checker *c, const struct job *job, const struct entry *e)
{
    bool back = ops_letter(word(e, 3)) == STATE_DISABLED;

    if (bytes_is(word(e, 4), "REQUESTED"))
        timeline_note(c->t, back ? FEATURE_TAKEN_BACK : FEATURE_BROUGHT_FORWARD_AGAIN);
    if (job->flying > 0)
        timeline_note(c->t,
                      back ? FEATURE_TAKEN_BACK_IN_FLIGHT : FEATURE_BROUGHT_FORWARD_IN_FLIGHT);
    if (job->settled && back)
        timeline_note(c->t, FEATURE_TAKEN_BACK_AFTER_ITS_END);
    if (bytes_is(word(e, 4), "CANCELLED"))
        timeline_note(c->t, FEATURE_CANCELLED);
    if (bytes_is(word(e, 4), "TRY"))
        timeline_note(c->t, FEATURE_TRIED_AGAIN);
    if (bytes_is(word(e, 4), "FAILURE"))
        timeline_note(c->t, bytes_is(word(e, 5), "DEADLINE") ? FEATURE_DEADLINE_TURNS
                                                             : FEATURE_FAILURE_TURNS);
    if (job->turn >= 5)
        timeline_note(c->t, FEATURE_FIVE_TURNS);
}

/* A dispatch in flight belongs to the turn before. */
static void turn_step(struct job *job, uint32_t i)
{
    struct step *step = &job->steps[i];

    if (!step->flying)
        step->renewed |= tries_used_up(job, i);
    step->failed = 0;
    step->parked = step->alerted = step->restarted = false;
}

static void on_turned(struct checker *c, struct job *job, const struct entry *e)
{
    struct bytes cause = word(e, 4);

    note_turn(c, job, e);
    if (!bytes_is(cause, "FAILURE"))
        job->decided[false] = job->decided[true] = false;
    else if (bytes_is(word(e, 5), "DEADLINE"))
        decide(job, WORKFLOW_NONE, false);
    else
        decide(job, (uint32_t)check_number(word(e, 6)), false);
    require(c, job->turn == 1 || job->back != (ops_letter(word(e, 3)) == STATE_DISABLED),
            "I6 %s: turned to its present direction", job->id);
    /* a step that was in flight forward when an undo failed may be taken back all the same */
    require(c,
            ops_letter(word(e, 3)) == STATE_DISABLED || !job->settled || !job->last ||
                strcmp(job->last->outcome, "COMPENSATION_FAILED") != 0,
            "I6 %s: goes forward after its undo has failed", job->id);
    job->turn++;
    job->since = job->epoch = job->turn;
    job->back = ops_letter(word(e, 3)) == STATE_DISABLED;
    snprintf(job->cause, sizeof(job->cause), "%.*s", (int)cause.len, (const char *)cause.data);
    if (strcmp(job->cause, "TRY") == 0)
        job->tried++;
    else if (strcmp(job->cause, "FAILURE") != 0)
        job->tried = 0;
    require(c, job->tried < job->w->tries, "I6 %s: tried %u times more, of %u in all", job->id,
            job->tried, job->w->tries);
    job->settled = job->ending = job->late = false;
    if (strcmp(job->hold, "deadline") == 0)
        *job->hold = 0;
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        turn_step(job, i);
}

static void on_ending(struct job *job, const struct entry *e)
{
    job->ending = true;
    if (bytes_is(word(e, 3), "DEADLINE"))
        decide(job, WORKFLOW_NONE, false);
}

/* Requests in flight that were not sent yet are left to their leases: a job on hold sends nothing.
 * */
static void hold(struct checker *c, struct job *job, struct bytes hold)
{
    require(c,
            !*job->hold || bytes_is(hold, "killed") ||
                (strcmp(job->hold, "deadline") == 0 && bytes_is(hold, "paused")),
            "I6 %s: held twice", job->id);
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (job->steps[i].flying)
            job->steps[i].flying->published = true;
    snprintf(job->hold, sizeof(job->hold), "%.*s", (int)hold.len, (const char *)hold.data);
}

/* A person's hold stays when the deadline passes; there must be an alert all the same. */
static void on_held(struct checker *c, struct job *job, const struct entry *e)
{
    bool overdue = bytes_is(word(e, 2), "overdue");

    if (!overdue)
        hold(c, job, word(e, 3));
    if (overdue || bytes_is(word(e, 3), "deadline")) {
        job->late = true;
        alert_from_outbox(c, job, WORKFLOW_NONE);
    }
}

/* A Retry or Resolve of a step, or of all (@i past the last one), begins it anew. */
static void on_anew(struct job *job, uint32_t i)
{
    job->settled = job->ending = job->late = job->decided[true] = false;
    job->decided[false] &= job->back;
    for (uint32_t k = 0; k < job->w->n_steps; k++) {
        struct step *step = &job->steps[k];

        if (k != i && i < job->w->n_steps)
            continue;
        if (k != i && !step->parked && !step->failed) {
            step->anew = has_counted(step);
            step->alerted &= !step->stored_at_rest && !tries_used_up(job, k);
            continue;
        }
        step->failed = 0;
        step->parked = step->alerted = step->restarted = step->renewed = false;
        step->not_before = step->not_after = 0;
        step->forgiven.since = job->since;
        step->forgiven.failures = k == i ? 0 : step->failures;
        step->forgiven.expiries = k == i ? 0 : step->expiries;
        step->failures = step->expiries = 0;
    }
}

static void on_resumed(struct checker *c, struct job *job)
{
    require(c, *job->hold, "I6 %s: resumed, and nothing held it", job->id);
    *job->hold = 0;
    job->late = false;
}

static void on_retried_all(struct job *job)
{
    job->retrying = true;
    on_anew(job, UINT32_MAX);
}

static void on_resolved(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    require(c, !check_is_there(job, i, job->back) && check_missing(job, i, job->back) == 0,
            "I2 %s: step %u resolved though there, or before its neighbours", job->id, i);
    job->turn++;
    job->steps[i].current = ops_letter(word(e, 4)) == STATE_ACTIVE ? STATE_ACTIVE : STATE_DISABLED;
    check_by_hand(c, &job->steps[i], job->steps[i].current == STATE_DISABLED);
    on_anew(job, i);
}

/* ---- recourses ---- */

static const char *recourse_text(struct checker *c, const struct job *job, uint32_t i,
                                 Drover__V1__Recourse recourse, const char *reason)
{
    if (recourse == DROVER__V1__RECOURSE__RECOURSE_PARK)
        return effects_printf(&c->scratch, "parked %u %s", i, reason);
    if (recourse == DROVER__V1__RECOURSE__RECOURSE_FAIL || job->steps[i].back)
        return effects_printf(&c->scratch, "given_up %u %s", i, reason);
    return effects_printf(&c->scratch, "turned D FAILURE %s %u", reason, i);
}

static bool never_retried(const struct policy *policy, const struct recorded *r)
{
    for (size_t k = 0; k < policy->n_non_retryable; k++)
        if (bytes_is(r->class, policy->non_retryable[k]))
            return true;
    return r->kind == REPORT_PERMANENT;
}

/* Whether this was its last try; "?" if a Retry of all may have been forgotten. */
static const char *exhausted(const struct job *job, const struct step *step,
                             const struct policy *policy)
{
    uint32_t more = step->forgiven.since != job->since ? step->forgiven.failures : 0;
    bool is = step->failures >= policy->maximum_attempts;

    if (step->anew || is != (step->failures + more >= policy->maximum_attempts))
        return "?";
    return is ? "EXHAUSTED" : "";
}

/* A step that the job still wants, and that further tries cannot complete, takes its recourse. */
static void expect_recourse(struct checker *c, struct job *job, uint32_t i,
                            const struct recorded *r)
{
    const struct policy *policy = &check_terms_of(job, i)->policy;
    const struct step *step = &job->steps[i];
    const char *reason = exhausted(job, step, policy), *text = reason;

    if (job->ending || (!step->back && (job->back || step->turn < job->since)))
        return;
    if (never_retried(policy, r))
        text = recourse_text(c, job, i, policy->on_permanent, "PERMANENT");
    else if (strcmp(reason, "EXHAUSTED") == 0)
        text = recourse_text(c, job, i, policy->on_exhausted, reason);
    snprintf(job->due, sizeof(job->due), "%s", text);
}

static bool takes_recourse(const struct entry *e)
{
    struct bytes event = word(e, 2);

    return bytes_is(event, "parked") || bytes_is(event, "given_up") ||
           (bytes_is(event, "turned") && bytes_is(word(e, 4), "FAILURE") &&
            !bytes_is(word(e, 5), "DEADLINE"));
}

static void check_expiries(struct checker *c, const struct job *job, const struct entry *e,
                           struct bytes tells)
{
    uint32_t i = (uint32_t)check_number(word(e, bytes_is(word(e, 2), "turned") ? 6 : 3));
    const struct policy *policy;
    const struct step *step;

    require(c, i < job->w->n_steps, "history of %s names step %u", job->id, i);
    if (c->violated)
        return;
    policy = &check_terms_of(job, i)->policy;
    step = &job->steps[i];
    require(c, bytes_is(tells, recourse_text(c, job, i, policy->on_exhausted, "DEATHS")),
            "I12 %s: '%.*s' is not what its policy says", job->id, (int)tells.len, tells.data);
    require(c, step->anew || step->expiries + step->forgiven.expiries >= policy->maximum_expiries,
            "I9 %s: step %u given up after %u expiries", job->id, i, step->expiries);
}

/* complete_by has passed. */
static void check_deadline(struct checker *c, const struct job *job, const struct entry *e)
{
    struct bytes event = word(e, 2);
    Drover__V1__Recourse recourse =
        bytes_is(event, "held") || bytes_is(event, "overdue") ? DROVER__V1__RECOURSE__RECOURSE_PARK
        : bytes_is(event, "ending")                           ? DROVER__V1__RECOURSE__RECOURSE_FAIL
                                    : DROVER__V1__RECOURSE__RECOURSE_COMPENSATE;

    require(c, !job->back, "I6 %s: the deadline strikes on the way back", job->id);
    require(c, recourse == job->w->on_deadline, "I12 %s: on its deadline it is %.*s", job->id,
            (int)event.len, event.data);
}

static bool is_deadline(const struct entry *e)
{
    struct bytes event = word(e, 2);

    return (bytes_is(event, "held") && bytes_is(word(e, 3), "deadline")) ||
           bytes_is(event, "overdue") ||
           (bytes_is(event, "ending") && bytes_is(word(e, 3), "DEADLINE")) ||
           (bytes_is(event, "turned") && bytes_is(word(e, 5), "DEADLINE"));
}

/* A step that had used up its tries when its job ended stays parked when the job goes on. */
static bool parks_again(const struct job *job, const struct entry *e)
{
    uint32_t i = (uint32_t)check_number(word(e, 3));
    const struct step *step = &job->steps[i];
    const struct policy *policy;

    if (!bytes_is(word(e, 2), "parked") || i >= job->w->n_steps || *job->due || step->flying ||
        !(step->stored_at_rest || job->w->n_steps >= BIG))
        return false;
    policy = &check_terms_of(job, i)->policy;
    return step->anew || step->failures + step->forgiven.failures >= policy->maximum_attempts ||
           step->expiries + step->forgiven.expiries >= policy->maximum_expiries;
}

/* @tells: the entry from its event on. */
static void check_recourse(struct checker *c, struct job *job, const struct entry *e,
                           struct bytes tells)
{
    bool taken = takes_recourse(e) && !parks_again(job, e);

    if (is_deadline(e))
        check_deadline(c, job, e);
    if (*job->due && strcmp(job->due, "?") != 0)
        require(c, bytes_is(tells, job->due), "I12 %s: '%.*s', not '%s'", job->id, (int)tells.len,
                tells.data, job->due);
    else if (taken && memmem(tells.data, tells.len, "DEATHS", strlen("DEATHS")))
        check_expiries(c, job, e, tells);
    else
        require(c, !taken || *job->due, "I12 %s: '%.*s' though it may be tried again", job->id,
                (int)tells.len, tells.data);
    *job->due = 0;
}

static void set_wait(const struct checker *c, struct step *step, double wait, double jitter,
                     int64_t least)
{
    int64_t most = (int64_t)(wait * (1 + jitter));

    step->not_before = c->store_now + ((int64_t)wait > least ? (int64_t)wait : least);
    step->not_after = c->store_now + (most > least ? most : least);
}

#define AT_ONCE_MS 10 /* a deferral of a first attempt that asks for less is sent again at once */

/* A failure may have had an effect, and the n-th waits at least initial * coefficient^(n-1). */
static void on_failed(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(
        c, job, i, e, KINDS(REPORT_TRANSIENT, REPORT_PERMANENT, REPORT_DISABLED, REPORT_ACTIVE));
    const struct policy *policy = &check_terms_of(job, i)->policy;
    struct step *step = &job->steps[i];
    double wait = (double)policy->initial_interval_ms;

    if (!r)
        return;
    for (uint32_t n = 0; n < step->failures && wait < (double)policy->maximum_interval_ms; n++)
        wait *= policy->backoff_coefficient;
    if (wait > (double)policy->maximum_interval_ms)
        wait = (double)policy->maximum_interval_ms;
    step->failures++;
    if (step->expiries >= policy->maximum_expiries)
        step->expiries = 0; /* the silence is over */
    step->current = r->no_effect && !step->back && job->w->steps[i].waive_revert ? STATE_DISABLED
                                                                                 : STATE_UNKNOWN;
    set_wait(c, step, wait, policy->jitter, r->retry_after);
    if (step->forgiven.failures > 0 || step->anew)
        step->not_after = 0;
    expect_recourse(c, job, i, r);
    step->anew |= job->retrying;
}

static void on_deferred(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(c, job, i, e, KINDS(REPORT_DEFERRED));
    const struct policy *policy = &check_terms_of(job, i)->policy;
    struct step *step = &job->steps[i];

    if (!r)
        return;
    if (step->expiries >= policy->maximum_expiries)
        step->expiries = 0; /* the silence is over */
    step->current = r->no_effect && !step->back && job->w->steps[i].waive_revert ? STATE_DISABLED
                                                                                 : STATE_UNKNOWN;
    set_wait(c, step, (double)(r->retry_after > 0 ? r->retry_after : policy->initial_interval_ms),
             policy->jitter, 0);
    if (r->token->attempt == 1 && r->retry_after > 0 && r->retry_after < AT_ONCE_MS)
        step->not_before = 0; /* the call that records it sends it again, if the job goes on */
}

/* A request came back; an agent may have had it and died with it. */
static void on_unstarted(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    /* UNROUTABLE: the request was sent once more */
    const struct recorded *r = on_reply(
        c, job, i, e, KINDS(REPORT_UNSTARTED, REPORT_UNSENT, REPORT_REFUSED, REPORT_UNROUTABLE));

    if (r)
        job->steps[i].current = STATE_UNKNOWN;
    job->steps[i].came_back++;
    job->steps[i].not_before = job->steps[i].not_after = 0;
}

static void on_unroutable(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(c, job, i, e, KINDS(REPORT_UNROUTABLE));

    if (r)
        require(c, !r->token->routed || r->token->went_back,
                "I5 %s: no queue took step %u, and some copy of it is in one", job->id, i);
    job->steps[i].came_back++;
    job->steps[i].not_before = job->steps[i].not_after = 0;
}

/* A request that waits in its queue, of a step that a migration is about to change. */
static void on_withdrawn(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct step *step = &job->steps[i];

    require(c,
            step->flying && step->flying == check_token_named(c, word(e, 5)) && step->came_back > 0,
            "I3 %s: step %u withdrawn, not in flight, or it may have been begun", job->id, i);
    if (c->violated)
        return;
    step->came_back++;
    step->current = STATE_UNKNOWN;
    land(job, step);
}

/* A request that has waited in its scheduler and is not wanted any more. */
static void on_unsent(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct step *step = &job->steps[i];
    struct token *token = step->flying;

    require(c, token && token == check_token_named(c, word(e, 5)),
            "I3 %s: step %u withdrawn, not in flight", job->id, i);
    if (c->violated)
        return;
    require(c, !token->routed || token->went_back,
            "I5 %s: step %u is withdrawn as unsent, and some copy of it is in a queue", job->id, i);
    step->came_back++;
    step->not_before = step->not_after = 0;
    land(job, step);
    token->ended_by = REPORT_UNSENT;
    c->cause = &token->led_to;
}

static bool step_same(const struct workflow *a, const struct workflow *b, uint32_t i)
{
    const struct workflow_step *x = &a->steps[i], *y = &b->steps[i];

    if (strcmp(x->name, y->name) != 0 || strcmp(x->forward.actor, y->forward.actor) != 0 ||
        strcmp(x->revert.actor, y->revert.actor) != 0 || x->n_after != y->n_after)
        return false;
    for (uint32_t k = 0; k < x->n_after; k++)
        if (x->after[k] != y->after[k])
            return false;
    return true;
}

/* The definition that the job has in the store now. */
static struct workflow *stored_version(struct checker *c, const struct job *job)
{
    struct workflow *w = NULL;
    const char *key;

    if (!simstore_hash(c->store, job->partition, job->keys.job))
        return NULL;
    key = effects_printf(&c->scratch, "def:%s",
                         effects_text(&c->scratch, simstore_field(c->store, "def")));
    if (!simstore_hash(c->store, job->partition, key) ||
        workflow_new_from_bytes(&w, simstore_field(c->store, "blob"), "", NULL))
        return NULL;
    return w;
}

/* The definition of a job after a change of one step. */
static void take_version(struct checker *c, struct job *job)
{
    struct workflow *w = stored_version(c, job);

    require(c, w, "I12 %s: changed to what is not there", job->id);
    if (w && strcmp(w->digest, job->w->digest) != 0) {
        require(c, w->n_steps == job->w->n_steps, "I12 %s: a change of one step", job->id);
        check_version(c, job, w, false);
        w = NULL;
    }
    workflow_unref(w);
    simstore_list(c->store, job->partition, job->keys.hist); /* the list that is being read */
}

/* The step has other work or other terms now; it must not be in flight. */
static void on_changed(struct checker *c, struct job *job, uint32_t i, bool other_work)
{
    const struct step *step = &job->steps[i];

    require(c, !step->flying, "I2 %s: step %u is changed while in flight", job->id, i);
    require(c, !other_work || step->current == STATE_DISABLED,
            "I12 %s: step %u is other work now, and the present one may be done", job->id, i);
    take_version(c, job);
    if (other_work)
        job->turn++;
    job->changing = false;
    on_anew(job, i);
}

/* A step that may have taken effect is undone by its old definition, and the change waits. */
static void on_changing(struct checker *c, struct job *job, uint32_t i)
{
    struct step *step = &job->steps[i];

    require(c, !step->flying && step->current == STATE_UNKNOWN && !job->back,
            "I12 %s: step %u is undone for a change", job->id, i);
    on_anew(job, i);
    job->turn += 2;
    job->changing = true;
    if (!step->back)
        step->turn = job->turn - 1;
    step->back = true;
}

/* A person has said that the step begins anew although it may have taken effect. */
static void on_let_be(struct checker *c, struct job *job, uint32_t i)
{
    struct step *step = &job->steps[i];

    require(c, !step->flying && step->current == STATE_UNKNOWN && !job->w->steps[i].has_revert,
            "I12 %s: step %u begins anew, and can be undone", job->id, i);
    step->current = STATE_DISABLED;
    step->by_hand = true;
}

/* The numbers of steps stay: a step that has begun is the same as before. A step that differs
 * begins as a new one, but what may have taken effect is undone first. */
static void on_migrated(struct checker *c, struct job *job)
{
    struct workflow *old = job->w, *w = stored_version(c, job);
    struct step *steps;

    require(c, w, "I12 %s: migrated to what is not there", job->id);
    require(c, !job->back && !job->settled && !job->ending, "I6 %s: migrated", job->id);
    if (!w)
        return;
    check_version(c, job, w,
                  simstore_hash(c->store, job->partition, "workflows") &&
                      bytes_is(simstore_field(c->store, w->full_name), w->digest));
    steps = timeline_alloc(c->t, w->n_steps * sizeof(*steps));
    for (uint32_t i = 0; i < old->n_steps || i < w->n_steps; i++) {
        struct step *step = i < w->n_steps ? &steps[i] : NULL;
        bool same = i < old->n_steps && i < w->n_steps && step_same(old, w, i);

        require(c,
                same || i >= old->n_steps || job->steps[i].attempt == job->steps[i].came_back ||
                    (!job->steps[i].flying && job->steps[i].current == STATE_DISABLED),
                "I12 %s: step %u may be done, and is another one now", job->id, i);
        require(c, same || i >= old->n_steps || job->steps[i].current != STATE_ACTIVE,
                "I12 %s: a person has resolved step %u as done, and it is another one now", job->id,
                i);
        if (step && i < old->n_steps)
            *step = job->steps[i];
        if (step && !same) {
            require(c,
                    step->current != STATE_UNKNOWN ||
                        strcmp(old->steps[i].name, w->steps[i].name) == 0,
                    "I12 %s: step %u may have begun, and does not exist any more", job->id, i);
            step->attempt = step->came_back = step->failures = step->expiries = 0;
            step->not_before = step->not_after = 0;
            step->parked = step->alerted = step->restarted = false;
            if (step->current == STATE_UNKNOWN) {
                step->back = step->replaced = true;
                step->turn = job->turn + 1;
            } else {
                step->current = STATE_DISABLED;
                step->effects_seen = NULL;
                step->by_hand = false;
            }
        }
    }
    job->steps = steps;
    job->turn += 2;
    job->epoch = job->turn;
    job->changing = false;
    job->migrated = job->seq;
    simstore_list(c->store, job->partition, job->keys.hist); /* the list that is being read */
}

/* Notes what the event alone shows. */
static void note_event(struct checker *c, struct bytes event, const struct entry *e)
{
    static const struct {
        const char *event;
        const char *detail; /* NULL: any; else the word at @at */
        int at;
        enum feature feature;
    } events[] = {
        {"started", NULL, 0, FEATURE_BEGINS_LATER},
        {"held", "paused", 3, FEATURE_PAUSED},
        {"held", "deadline", 3, FEATURE_DEADLINE_HOLDS},
        {"ending", "DEADLINE", 3, FEATURE_DEADLINE_ENDS},
        {"resumed", NULL, 0, FEATURE_RESUMED},
        {"migrated", NULL, 0, FEATURE_MIGRATED},
        {"killed", NULL, 0, FEATURE_KILLED},
        {"retried", NULL, 0, FEATURE_RETRIED},
        {"retried", "all", 3, FEATURE_RETRIED_ALL},
        {"edited", NULL, 0, FEATURE_EDITED},
        {"changed", NULL, 0, FEATURE_CHANGED},
        {"changing", NULL, 0, FEATURE_CHANGING},
        {"anew", NULL, 0, FEATURE_ANEW},
        {"unchanged", NULL, 0, FEATURE_UNCHANGED},
        {"resolved", "A", 4, FEATURE_RESOLVED_DONE},
        {"resolved", "D", 4, FEATURE_RESOLVED_UNDONE},
        {"failed", NULL, 0, FEATURE_STEP_FAILED},
        {"deferred", NULL, 0, FEATURE_STEP_DEFERRED},
        {"expired", NULL, 0, FEATURE_STEP_EXPIRED},
        {"silent", NULL, 0, FEATURE_STEP_SILENT},
        {"resent", NULL, 0, FEATURE_RESENT},
        {"unsent", NULL, 0, FEATURE_STEP_UNSENT},
        {"unstarted", NULL, 0, FEATURE_STEP_UNSTARTED},
        {"unroutable", NULL, 0, FEATURE_STEP_UNROUTABLE},
        {"undone", NULL, 0, FEATURE_STEP_UNDONE},
        {"skipped", NULL, 0, FEATURE_STEP_SKIPPED},
        {"given_up", NULL, 0, FEATURE_STEP_GIVEN_UP},
    };

    for (size_t k = 0; k < array_size(events); k++)
        if (bytes_is(event, events[k].event) &&
            (!events[k].detail || bytes_is(word(e, events[k].at), events[k].detail)))
            timeline_note(c->t, events[k].feature);
}

static void on_step_event(struct checker *c, struct job *job, struct bytes event,
                          const struct entry *e)
{
    uint32_t i = (uint32_t)check_number(word(e, 3));

    if (i >= job->w->n_steps) {
        checker_fail(c, "history of %s names step %u", job->id, i);
    } else if (bytes_is(event, "dispatched")) {
        on_dispatched(c, job, i, e);
    } else if (bytes_is(event, "done") || bytes_is(event, "undone")) {
        on_done(c, job, i, e, bytes_is(event, "undone"));
    } else if (bytes_is(event, "skipped")) {
        on_skipped(c, job, i);
    } else if (bytes_is(event, "failed")) {
        on_failed(c, job, i, e);
    } else if (bytes_is(event, "given_up")) {
        job->steps[i].failed = job->seq;
        decide(job, i, job->steps[i].back);
    } else if (bytes_is(event, "retried")) {
        on_anew(job, i);
    } else if (bytes_is(event, "edited") || bytes_is(event, "changed")) {
        on_changed(c, job, i, bytes_is(event, "edited"));
    } else if (bytes_is(event, "changing")) {
        on_changing(c, job, i);
    } else if (bytes_is(event, "anew")) {
        on_let_be(c, job, i);
    } else if (bytes_is(event, "resolved")) {
        on_resolved(c, job, i, e);
    } else if (bytes_is(event, "deferred")) {
        on_deferred(c, job, i, e);
    } else if (bytes_is(event, "unstarted")) {
        on_unstarted(c, job, i, e);
    } else if (bytes_is(event, "unroutable")) {
        on_unroutable(c, job, i, e);
    } else if (bytes_is(event, "unsent")) {
        on_unsent(c, job, i, e);
    } else if (bytes_is(event, "withdrawn")) {
        on_withdrawn(c, job, i, e);
    } else if (bytes_is(event, "expired")) {
        on_expired(c, job, i, e, false);
    } else if (bytes_is(event, "silent")) {
        on_expired(c, job, i, e, true);
    } else if (bytes_is(event, "resent")) {
        on_resent(c, job, i, e);
    } else if (bytes_is(event, "parked")) {
        on_parked(c, job, i, e);
    } else if (bytes_is(event, "began")) {
        require(c, job->steps[i].flying == check_token_named(c, word(e, 5)),
                "I14 %s: step %u has begun, and is not in flight", job->id, i);
    } else {
        checker_fail(c, "history of %s tells of '%.*s'", job->id, (int)event.len,
                     (const char *)event.data);
    }
}

/* A sweep mends what a clock that stepped back has made wrong: when a job is due, and a step that
 * was not sent because its deadline, which is to come once more, had passed. */
static void on_mended(struct checker *c, const struct job *job, struct bytes what,
                      struct bytes text)
{
    require(c,
            check_stepped_back(c, job->partition) &&
                (bytes_is(what, "due") || (what.len > 0 && what.data[0] >= '0' &&
                                           what.data[0] <= '9' && check_is_limited(job))),
            "I13 %s: a sweep found '%.*s'", job->id, (int)text.len, (const char *)text.data);
}

static void on_entry(struct checker *c, struct job *job, struct bytes text)
{
    struct entry e = split(text);
    struct bytes event = word(&e, 2);

    require(c, check_number(word(&e, 0)) == job->seq + 1,
            "I13 %s: gap in the history after %" PRIu64, job->id, job->seq);
    job->seq++;
    check_recourse(c, job, &e, bytes_of(event.data, (size_t)(text.data + text.len - event.data)));
    note_event(c, event, &e);
    if (bytes_is(event, "created"))
        job->created = true;
    else if (bytes_is(event, "settled"))
        on_settled(c, job, &e);
    else if (bytes_is(event, "attention"))
        on_attention(c, job, &e);
    else if (bytes_is(event, "command"))
        on_command(c, job, &e);
    else if (bytes_is(event, "turned"))
        on_turned(c, job, &e);
    else if (bytes_is(event, "migrated"))
        on_migrated(c, job);
    else if (bytes_is(event, "unchanged"))
        job->changing = false;
    else if (bytes_is(event, "ending"))
        on_ending(job, &e);
    else if (bytes_is(event, "held") || bytes_is(event, "overdue"))
        on_held(c, job, &e);
    else if (bytes_is(event, "killed"))
        hold(c, job, event);
    else if (bytes_is(event, "resumed"))
        on_resumed(c, job);
    else if (bytes_is(event, "retried") && bytes_is(word(&e, 3), "all"))
        on_retried_all(job);
    else if (bytes_is(event, "mended"))
        on_mended(c, job, word(&e, 3), text);
    else if (bytes_is(event, "started"))
        require_begun(c, job);
    else
        on_step_event(c, job, event, &e);
}

/* See common/store/walks.lua. */
static bool retry_under_way(struct checker *c, const struct job *job)
{
    struct bytes cursor;

    if (!simstore_hash(c->store, job->partition, job->keys.job))
        return false;
    cursor = simstore_field(c->store, "cursor");
    return cursor.len > 0 && memchr(cursor.data, WALK_RETRY, cursor.len);
}

bool check_read_history(struct checker *c, struct job *job)
{
    uint64_t seq = job->seq;
    uint32_t length = simstore_list(c->store, job->partition, job->keys.hist);
    struct entry last;

    c->cause = c->call;
    if (length == 0)
        return false;
    if (job->forgotten) {
        checker_fail(c, "I13 %s: there again after it was forgotten", job->id);
        return false;
    }
    last = split(simstore_entry(c->store, 0));
    for (uint64_t back = check_number(word(&last, 0)) - seq; back > 0 && !c->violated; back--)
        on_entry(c, job, simstore_entry(c->store, (uint32_t)back - 1));
    job->retrying = job->retrying && retry_under_way(c, job);
    return job->seq != seq;
}
