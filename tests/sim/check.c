// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "model/store_ops.h"
#include "model/wire.h"
#include "scheduler/scheduler.h"

#define CONTINUED_MS 1000   /* a cursor is looked after within, see drover.lua */
#define NAMED_AGAIN_MS 5000 /* what was not dealt with is named again after, see drover.lua */
#define BIG 200 /* steps from which on not every call is followed by a full comparison */
#define BIG_EVERY 32
#define WAIT_CAP_MS (3600 * INT64_C(1000))
#define RESENT_MOST 500 /* follow-ups of one trigger that are sent again */

/* One dispatch. */
struct token {
    char text[WIRE_TOKEN_MAX + 1];
    struct job *job;
    uint32_t step;
    bool back;                   /* it asks for DISABLED */
    uint32_t turn;               /* of its key */
    int64_t minted;              /* store time */
    int64_t wait_until;          /* store time: nobody may take the request later */
    const struct token *trigger; /* whose completion caused it; NULL: something else */
    bool by_submit;              /* the submission caused it */
    bool published;              /* the broker has told what became of the request */
    bool effect;                 /* a handler ended well */
    bool recorded;               /* a reply to it was */
    bool decided;                /* the store has been asked to record something of it */
    UT_hash_handle hh;
};

struct step {
    struct token *flying; /* NULL: not in flight */
    char current;         /* what was known of it when it was last at rest: A, D or U */
    bool back;            /* what the last dispatch asked for, and ... */
    uint32_t turn;        /* ... the turn of its key */
    uint32_t forward;     /* the same of the last dispatch that asked for ACTIVE */
    uint32_t attempt;
    uint32_t failures, expiries;
    int64_t not_before; /* store time of the next try at the earliest, after a failure */
    bool parked;
    bool failed; /* for good */
    char parked_for[16];
};

/* How a turn has ended; everybody is to hear of it. */
struct ending {
    struct ending *older;
    uint64_t seq;
    char outcome[24];
    bool owed;
    bool told;    /* it reached the broker */
    bool heard;   /* ... and the client */
    bool excused; /* the broker lost it, or nobody listened */
};

/* A command, by its id. */
struct carried_out {
    struct carried_out *older;
    const char *id;
};

struct job {
    const char *id;
    struct {
        const char *job, *data, *hist;
    } keys; /* in the store */
    struct workflow *w;
    uint32_t partition;
    bool registered;
    bool created;
    bool refused;  /* once: its workflow was not registered yet, or the store was full */
    bool accepted; /* the client knows */
    bool back;     /* where it goes */
    uint32_t turn;
    uint32_t since; /* the turn in which it was last turned round */
    char cause[16]; /* why it goes back */
    uint32_t tried; /* forward runs since a person's word, after the first */
    char hold[16];
    bool ending; /* as it is */
    bool settled;
    int64_t settled_at; /* store time */
    struct ending *last;
    struct carried_out *commands;
    bool forgotten;
    uint64_t seq;
    int64_t late_until; /* a cursor had expire raise the bound so far, whatever the leases */
    uint32_t flying;
    uint32_t calls;
    struct step *steps;
    UT_hash_handle hh;
};

/* What one op of a record call was about. */
struct recorded {
    struct token *token;
    char kind;
    bool no_effect;
    bool used;
};

struct checker {
    struct timeline *t;
    struct simstore *store;
    uint32_t partitions;
    int64_t retention;
    uint32_t budget; /* steps that one call touches */
    struct job *jobs;
    struct token *tokens;
    struct effects scratch;
    int64_t store_now;
    bool deaf;
    bool clock_set;
    bool violated;
    char violation[512];
    /* the call under way */
    bool submitting;
    const struct token *trigger;
    struct recorded recorded[64];
    uint32_t n_recorded;
};

/* ---- life ---- */

struct checker *checker_new(struct timeline *t, struct simstore *store, const struct plan *plan)
{
    struct checker *c = timeline_alloc(t, sizeof(*c));

    c->t = t;
    c->store = store;
    c->partitions = plan->partitions;
    c->retention = plan->retention_ms;
    c->budget = simstore_budgets[plan->budget];
    return c;
}

struct checker *checker_free(struct checker *c)
{
    struct job *job, *next;

    if (!c)
        return NULL;
    HASH_ITER(hh, c->jobs, job, next)
        workflow_unref(job->w);
    HASH_CLEAR(hh, c->jobs);
    HASH_CLEAR(hh, c->tokens);
    effects_deinit(&c->scratch);
    return NULL;
}

const char *checker_violation(const struct checker *c)
{
    return c->violated ? c->violation : NULL;
}

void checker_fail(struct checker *c, const char *format, ...)
{
    va_list args;

    if (c->violated)
        return;
    c->violated = true;
    va_start(args, format);
    vsnprintf(c->violation, sizeof(c->violation), format, args);
    va_end(args);
    tell(c->t, "checker", "VIOLATION %s", c->violation);
}

#define require(c, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            checker_fail(c, __VA_ARGS__);                                                          \
    } while (0)

void checker_deaf(struct checker *c)
{
    c->deaf = true;
    for (struct job *job = c->jobs; job; job = job->hh.next)
        for (struct ending *e = job->last; e; e = e->older)
            e->excused = e->excused || (e->told && !e->heard); /* it went with the queue */
}

void checker_clock_set(struct checker *c)
{
    c->clock_set = true;
}

void checker_job(struct checker *c, const char *id, struct workflow *w, bool registered)
{
    struct job *job = timeline_alloc(c->t, sizeof(*job));

    job->id = timeline_str(c->t, id);
    job->keys.job = effects_printf(&c->t->arena, "job:%s", id);
    job->keys.data = effects_printf(&c->t->arena, "data:%s", id);
    job->keys.hist = effects_printf(&c->t->arena, "hist:%s", id);
    job->w = workflow_ref(w);
    job->registered = registered;
    job->partition = id_partition(id, c->partitions);
    job->turn = job->since = 1;
    job->steps = timeline_alloc(c->t, w->n_steps * sizeof(*job->steps));
    for (uint32_t i = 0; i < w->n_steps; i++)
        job->steps[i].current = 'D';
    HASH_ADD_KEYPTR(hh, c->jobs, job->id, strlen(job->id), job);
}

static struct job *job_find(struct checker *c, struct bytes id)
{
    struct job *job;

    HASH_FIND(hh, c->jobs, id.data, id.len, job);
    return job;
}

static struct token *token_find(struct checker *c, struct bytes text)
{
    struct token *token;

    HASH_FIND(hh, c->tokens, text.data, text.len, token);
    return token;
}

/* ---- history ---- */

#define WORDS 8

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

static uint64_t number(struct bytes text)
{
    int64_t n = 0;

    return bytes_to_i64(text, &n) ? (uint64_t)n : 0;
}

static void land(struct job *job, struct step *step)
{
    step->flying = NULL;
    job->flying--;
}

/* At rest, and where a job that goes this way wants it. */
static bool is_there(const struct job *job, uint32_t i, bool back)
{
    return !job->steps[i].flying && job->steps[i].current == (back ? 'D' : 'A');
}

/* How many neighbours must come before a step, on this way, and are not there. */
static uint32_t missing(const struct job *job, uint32_t i, bool back)
{
    const struct workflow_step *step = &job->w->steps[i];
    const uint32_t *before = back ? step->dependents : step->after;
    uint32_t n_before = back ? step->n_dependents : step->n_after, n = 0;

    for (uint32_t k = 0; k < n_before; k++)
        n += !is_there(job, before[k], back);
    return n;
}

/* Another try of what the last dispatch was for, under the same key. */
static bool another_try(const struct job *job, const struct step *step, bool back)
{
    return step->attempt > 0 && step->back == back &&
           (step->turn == job->turn ||
            (step->current == 'U' && (back || step->turn >= job->since)));
}

/* Which way a step may go is a matter of what is known of it, not of what the job would like. */
static void check_direction(struct checker *c, const struct job *job, uint32_t i, bool back)
{
    const struct step *step = &job->steps[i];
    bool old = step->turn < job->since;

    require(c, missing(job, i, back) == 0, "%s %s: step %u before its neighbours",
            back ? "I5" : "I8", job->id, i);
    if (!back) {
        require(c, !job->back, "I5 %s: step %u goes forward after the turn", job->id, i);
        require(c, step->current == 'D' || (step->current == 'U' && !step->back && !old),
                "I2 %s: step %u is done though it is %c", job->id, i, step->current);
    } else {
        require(c, job->w->steps[i].has_revert, "I5 %s: nothing takes step %u back", job->id, i);
        require(c, step->current != 'D', "I5 %s: step %u is undone twice", job->id, i);
        require(c, job->back || (step->current == 'U' && (step->back || old)),
                "I5 %s: step %u is undone on the way forward", job->id, i);
    }
}

static void on_dispatched(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct step *step = &job->steps[i];
    struct bytes text = word(e, 5);
    bool back = bytes_is(word(e, 6), "D");
    struct token *token;

    require(c, !job->settled && !job->ending, "I6 %s: dispatched after it ended", job->id);
    require(c, !*job->hold, "I6 %s: dispatched while it was held", job->id);
    require(c, !step->flying, "I2 %s: step %u dispatched while in flight", job->id, i);
    require(c, !step->failed, "I6 %s: step %u dispatched after it failed", job->id, i);
    check_direction(c, job, i, back);
    require(c, number(word(e, 4)) == step->attempt + 1, "I9 %s: step %u attempt", job->id, i);
    require(c, !token_find(c, text) && text.len <= WIRE_TOKEN_MAX, "I3 %s: token used twice",
            job->id);
    if (c->violated)
        return;
    if (!another_try(job, step, back)) {
        step->turn = back && !job->back ? job->since - 1 : job->turn;
        step->failures = step->expiries = 0;
    }
    step->attempt++;
    step->parked = false;
    step->back = back;
    if (!back)
        step->forward = step->turn;
    token = timeline_alloc(c->t, sizeof(*token));
    snprintf(token->text, sizeof(token->text), "%.*s", (int)text.len, text.data);
    token->job = job;
    token->step = i;
    token->back = back;
    token->turn = step->turn;
    token->minted = c->store_now;
    token->trigger = c->trigger;
    token->by_submit = c->submitting;
    HASH_ADD_KEYPTR(hh, c->tokens, token->text, text.len, token);
    step->flying = token;
    job->flying++;
}

/* A flight has ended by a reply that was accepted in this call. */
static struct recorded *on_reply(struct checker *c, struct job *job, uint32_t i,
                                 const struct entry *e, const char *kinds)
{
    struct step *step = &job->steps[i];
    struct token *token = token_find(c, word(e, 5));

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
        land(job, step);
        c->trigger = token;
        return r;
    }
    checker_fail(c, "I3 %s: step %u recorded with a token that no reply carried", job->id, i);
    return NULL;
}

/* @back: undone. */
static void on_done(struct checker *c, struct job *job, uint32_t i, const struct entry *e,
                    bool back)
{
    struct recorded *r = on_reply(c, job, i, e, back ? "D" : "A");
    struct step *step = &job->steps[i];

    if (!r)
        return;
    require(c, r->token->back == back, "I2 %s: step %u did the opposite", job->id, i);
    require(c, step->current != (back ? 'D' : 'A'), "I2 %s: step %u there twice", job->id, i);
    require(c, r->token->effect, "I10 %s: step %u there, and no handler did it", job->id, i);
    step->current = back ? 'D' : 'A';
}

static void on_skipped(struct checker *c, struct job *job, uint32_t i)
{
    struct step *step = &job->steps[i];

    require(c, !job->w->steps[i].has_revert && !step->flying && step->current != 'D',
            "I5 %s: step %u skipped", job->id, i);
    require(c, missing(job, i, true) == 0, "I5 %s: step %u skipped before its dependents", job->id,
            i);
    require(c, job->back || (step->current == 'U' && step->turn < job->since),
            "I5 %s: step %u skipped on the way forward", job->id, i);
    step->current = 'D';
}

static void on_expired(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    struct step *step = &job->steps[i];

    require(c, step->flying && step->flying == token_find(c, word(e, 5)),
            "I9 %s: step %u expired, not in flight", job->id, i);
    if (c->violated)
        return;
    step->expiries++;
    step->current = 'U';
    land(job, step);
}

static void on_parked(struct job *job, uint32_t i, const struct entry *e)
{
    struct bytes reason = word(e, 4);

    job->steps[i].parked = true;
    snprintf(job->steps[i].parked_for, sizeof(job->steps[i].parked_for), "%.*s", (int)reason.len,
             (const char *)reason.data);
}

static bool all_there(const struct job *job, bool back)
{
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (!is_there(job, i, back))
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
        return (job->back || job->turn == 1) && all_there(job, true) && /* or never wanted */
               strcmp(job->cause, "CANCELLED") != 0;
    if (bytes_is(outcome, "CANCELLED"))
        return job->back && all_there(job, true) && strcmp(job->cause, "CANCELLED") == 0;
    if (bytes_is(outcome, "FAILED"))
        return job->ending || (any_failed(job, false) && !*job->hold);
    if (bytes_is(outcome, "COMPENSATION_FAILED"))
        return any_failed(job, true) && !job->ending && !*job->hold;
    return bytes_is(outcome, "KILLED") && strcmp(job->hold, "killed") == 0;
}

static void on_settled(struct checker *c, struct job *job, const struct entry *e)
{
    struct ending *ending = timeline_alloc(c->t, sizeof(*ending));
    struct bytes outcome = word(e, 3);

    require(c, !job->settled, "I6 %s: settled twice", job->id);
    require(c, job->flying == 0 || bytes_is(outcome, "KILLED"),
            "I6 %s: settled with steps in flight", job->id);
    require(c, outcome_fits(job, outcome), "I6 %s: settled %.*s", job->id, (int)outcome.len,
            (const char *)outcome.data);
    ending->older = job->last;
    ending->seq = job->seq;
    ending->owed = true;
    snprintf(ending->outcome, sizeof(ending->outcome), "%.*s", (int)outcome.len,
             (const char *)outcome.data);
    job->last = ending;
    job->settled = true;
    if (strcmp(job->hold, "killed") != 0)
        *job->hold = 0;
    job->settled_at = c->store_now;
    tell(c->t, "job", "%s settled %s", job->id, ending->outcome);
}

static void on_command(struct checker *c, struct job *job, struct bytes id)
{
    struct carried_out *command = job->commands;

    while (command && !bytes_is(id, command->id))
        command = command->older;
    require(c, !command, "I6 %s: %s carried out twice", job->id, command->id);
    command = timeline_alloc(c->t, sizeof(*command));
    command->id = effects_text(&c->t->arena, id);
    command->older = job->commands;
    job->commands = command;
}

static void on_turned(struct checker *c, struct job *job, const struct entry *e)
{
    struct bytes cause = word(e, 4);

    job->turn++;
    job->since = job->turn;
    job->back = bytes_is(word(e, 3), "D");
    snprintf(job->cause, sizeof(job->cause), "%.*s", (int)cause.len, (const char *)cause.data);
    if (strcmp(job->cause, "TRY") == 0)
        job->tried++;
    else if (strcmp(job->cause, "FAILURE") != 0)
        job->tried = 0;
    require(c, job->tried < job->w->tries, "I6 %s: tried %u times more, of %u in all", job->id,
            job->tried, job->w->tries);
    job->settled = job->ending = false;
    if (strcmp(job->hold, "deadline") == 0)
        *job->hold = 0;
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        job->steps[i].failed = job->steps[i].parked = false;
}

static void on_held(struct job *job, struct bytes hold)
{
    snprintf(job->hold, sizeof(job->hold), "%.*s", (int)hold.len, (const char *)hold.data);
}

/* What a person says of a step, or of all (@i past the last one), begins it anew. */
static void on_anew(struct job *job, uint32_t i)
{
    job->settled = job->ending = false;
    for (uint32_t k = 0; k < job->w->n_steps; k++) {
        struct step *step = &job->steps[k];

        if (k != i && (i < job->w->n_steps || (!step->parked && !step->failed)))
            continue;
        step->parked = step->failed = false;
        step->failures = step->expiries = 0;
        step->not_before = 0;
    }
}

static void on_resolved(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    require(c, !is_there(job, i, job->back) && missing(job, i, job->back) == 0,
            "I2 %s: step %u resolved though there, or before its neighbours", job->id, i);
    job->turn++;
    job->steps[i].current = bytes_is(word(e, 4), "A") ? 'A' : 'D';
    on_anew(job, i);
}

static const struct workflow_dispatch *terms_of(const struct job *job, uint32_t i)
{
    return job->steps[i].back ? &job->w->steps[i].revert : &job->w->steps[i].forward;
}

/* A failure may have had an effect, and the n-th waits initial × coefficient^(n-1) at least. */
static void on_failed(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(c, job, i, e, "TPDA");
    const struct policy *policy = &terms_of(job, i)->policy;
    struct step *step = &job->steps[i];
    double wait = (double)policy->initial_interval_ms;
    bool proven = r && r->no_effect && !step->back && job->w->steps[i].waive_revert;

    for (uint32_t n = 0; n < step->failures && wait < (double)policy->maximum_interval_ms; n++)
        wait *= policy->backoff_coefficient;
    if (wait > (double)policy->maximum_interval_ms)
        wait = (double)policy->maximum_interval_ms;
    step->failures++;
    step->current = proven ? 'D' : 'U';
    step->not_before = c->store_now + (int64_t)wait;
}

static void on_deferred(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(c, job, i, e, "F");
    struct step *step = &job->steps[i];

    step->current = r && r->no_effect && !step->back && job->w->steps[i].waive_revert ? 'D' : 'U';
    step->not_before = 0;
}

/* Whether an agent has had the request that came back, and died with it, nobody can tell. */
static void on_unstarted(struct checker *c, struct job *job, uint32_t i, const struct entry *e)
{
    const struct recorded *r = on_reply(c, job, i, e, "NS");

    if (r && r->kind == 'N')
        job->steps[i].current = 'U';
    job->steps[i].not_before = 0;
}

static void on_step_event(struct checker *c, struct job *job, struct bytes event,
                          const struct entry *e)
{
    uint32_t i = (uint32_t)number(word(e, 3));

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
        job->steps[i].failed = true;
    } else if (bytes_is(event, "retried")) {
        on_anew(job, i);
    } else if (bytes_is(event, "edited")) {
        job->turn++;
        on_anew(job, i);
    } else if (bytes_is(event, "resolved")) {
        on_resolved(c, job, i, e);
    } else if (bytes_is(event, "deferred")) {
        on_deferred(c, job, i, e);
    } else if (bytes_is(event, "unstarted")) {
        on_unstarted(c, job, i, e);
    } else if (bytes_is(event, "unroutable")) {
        on_reply(c, job, i, e, "X");
        job->steps[i].not_before = 0;
    } else if (bytes_is(event, "expired")) {
        on_expired(c, job, i, e);
    } else if (bytes_is(event, "parked")) {
        on_parked(job, i, e);
    } else {
        checker_fail(c, "history of %s tells of '%.*s'", job->id, (int)event.len,
                     (const char *)event.data);
    }
}

static void on_entry(struct checker *c, struct job *job, struct bytes text)
{
    struct entry e = split(text);
    struct bytes event = word(&e, 2);

    require(c, number(word(&e, 0)) == job->seq + 1, "I13 %s: gap in the history after %" PRIu64,
            job->id, job->seq);
    job->seq++;
    if (bytes_is(event, "created"))
        job->created = true;
    else if (bytes_is(event, "settled"))
        on_settled(c, job, &e);
    else if (bytes_is(event, "command"))
        on_command(c, job, word(&e, 4));
    else if (bytes_is(event, "turned"))
        on_turned(c, job, &e);
    else if (bytes_is(event, "ending"))
        job->ending = true;
    else if (bytes_is(event, "held"))
        on_held(job, word(&e, 3));
    else if (bytes_is(event, "killed"))
        on_held(job, event);
    else if (bytes_is(event, "resumed"))
        *job->hold = 0;
    else if (bytes_is(event, "retried") && bytes_is(word(&e, 3), "all"))
        on_anew(job, UINT32_MAX);
    else if (bytes_is(event, "mended"))
        require(c, c->clock_set, "I13 %s: a sweep found '%.*s'", job->id, (int)text.len,
                (const char *)text.data);
    else if (!bytes_is(event, "started"))
        on_step_event(c, job, event, &e);
}

/* Catches up with what was recorded. Return: false where nothing was. */
static bool read_history(struct checker *c, struct job *job)
{
    uint64_t seq = job->seq;
    uint32_t length = simstore_list(c->store, job->partition, job->keys.hist);
    struct entry last;

    c->trigger = NULL;
    if (length == 0)
        return false;
    if (job->forgotten) {
        checker_fail(c, "I13 %s: there again after it was forgotten", job->id);
        return false;
    }
    last = split(simstore_entry(c->store, 0));
    for (uint64_t back = number(word(&last, 0)) - seq; back > 0 && !c->violated; back--)
        on_entry(c, job, simstore_entry(c->store, (uint32_t)back - 1));
    return job->seq != seq;
}

/* ---- records ---- */

/* What the job's own fields say, while its steps are compared. */
struct facts {
    bool pending;
    bool cursor;
    bool going; /* and no work is left over: every step that nothing keeps has been dispatched */
    int64_t due;
    uint64_t open;
    uint64_t busy; /* what the job says, and ... */
    uint64_t busy_steps;
};

static void compare_waiting(struct checker *c, const struct job *job, uint32_t i,
                            const struct ops_step_record *r)
{
    const struct workflow_step *step = &job->w->steps[i];
    uint32_t n = missing(job, i, job->back);
    uint32_t waiting = r->waiting;

    if (r->since != job->since) /* not touched since */
        waiting = job->back ? step->n_dependents : step->n_after;
    require(c, waiting == n, "I13 %s: step %u waits for %u, not %u", job->id, i, n, waiting);
    require(c, n > 0 || r->state != 'W', "L1 %s: step %u is ready and nobody sent it", job->id, i);
}

static void compare_moment(struct checker *c, const struct job *job, uint32_t i,
                           const struct ops_step_record *r, const struct facts *f)
{
    /* a lease that is past while expiry waits is looked at again after a while */
    int64_t latest =
        r->state == 'R' && r->till <= c->store_now ? c->store_now + NAMED_AGAIN_MS : r->till;

    if (latest < job->late_until)
        latest = job->late_until;
    if (r->state == 'R' || r->state == 'B' || r->state == 'M' || (r->state == 'P' && r->till > 0))
        require(c, f->due <= latest,
                "I13 %s: due at %" PRId64 " though step %u has its moment at %" PRId64, job->id,
                f->due, i, r->till);
}

/* A lease is what its dispatch gave, with the wait doubled each time that nobody took the request;
 * heartbeats make it shorter, never longer. */
static void compare_lease(struct checker *c, const struct job *job, uint32_t i,
                          const struct ops_step_record *r)
{
    const struct workflow_dispatch *d = terms_of(job, i);
    int64_t wait = d->wait_ms, till;

    for (uint32_t n = 0; n < r->unstarted && wait < WAIT_CAP_MS; n++)
        wait *= 2;
    if (wait > WAIT_CAP_MS)
        wait = d->wait_ms > WAIT_CAP_MS ? d->wait_ms : WAIT_CAP_MS;
    till = job->steps[i].flying->minted + wait + d->lock_ms;
    require(c, r->till == till || (d->heartbeat_ms > 0 && r->till < till),
            "I9 %s: the lease of step %u ends at %" PRId64 ", not %" PRId64, job->id, i, r->till,
            till);
}

static void compare_state(struct checker *c, const struct job *job, uint32_t i,
                          const struct ops_step_record *r)
{
    const struct step *step = &job->steps[i];

    require(c, (r->state == 'R') == (step->flying != NULL), "I13 %s: step %u is in state %c",
            job->id, i, r->state);
    require(c, !step->flying || strcmp(step->flying->text, r->token) == 0,
            "I13 %s: step %u has another token", job->id, i);
    require(c, r->current == step->current, "I9 %s: step %u is taken for %c, not %c", job->id, i,
            r->current, step->current);
    require(c, r->attempt == step->attempt, "I9 %s: step %u attempt", job->id, i);
    require(c, r->attempt == 0 || (r->turn == step->turn && r->forward == step->forward),
            "I2 %s: step %u has turns %u and %u, not %u and %u", job->id, i, r->turn, r->forward,
            step->turn, step->forward);
}

static void compare_counts(struct checker *c, const struct job *job, uint32_t i,
                           const struct ops_step_record *r)
{
    const struct step *step = &job->steps[i];

    require(c, r->failures == step->failures && r->expiries == step->expiries,
            "I9 %s: step %u counts %u failures, %u expiries; there were %u and %u", job->id, i,
            r->failures, r->expiries, step->failures, step->expiries);
    /* the park interval may be over, and the step marked to be tried again */
    require(c, job->ending || !step->parked || r->state == 'P' || r->state == 'M',
            "I13 %s: step %u parked or not", job->id, i);
    require(c, r->state != 'P' || step->parked || r->since != job->since,
            "I13 %s: step %u parked or not", job->id, i);
    require(c, r->state != 'F' || step->failed || r->since != job->since,
            "I13 %s: step %u failed or not", job->id, i);
    require(c, r->state != 'B' || c->clock_set || r->till >= step->not_before,
            "I9 %s: step %u is tried again too early", job->id, i);
}

static void compare_step(struct checker *c, const struct job *job, uint32_t i, struct bytes text,
                         struct facts *f)
{
    const struct workflow_step *step = &job->w->steps[i];
    struct ops_step_record r = {
        .current = 'D', .asked = 'A', .state = 'W', .waiting = step->n_after, .since = 1};

    if (text.len > 0 && ops_read_step_record(text, &r)) {
        checker_fail(c, "I13 %s: step %u has the record '%.*s'", job->id, i, (int)text.len,
                     (const char *)text.data);
        return;
    }
    compare_state(c, job, i, &r);
    if (!f->cursor)
        compare_counts(c, job, i, &r);
    if (r.state == 'R' && !c->clock_set && !c->violated)
        compare_lease(c, job, i, &r);
    f->busy_steps += strchr("RBMP", r.state) != NULL;
    if (f->going && !is_there(job, i, job->back))
        compare_waiting(c, job, i, &r);
    if (!job->settled && !*job->hold && !job->ending && !c->clock_set && !f->cursor &&
        (r.state == 'R' || r.since == job->since))
        compare_moment(c, job, i, &r, f);
    if (r.state == 'R')
        job->steps[i].flying->wait_until = r.till - terms_of(job, i)->lock_ms;
}

static void compare_indexes(struct checker *c, const struct job *job, int64_t due)
{
    int64_t score = 0, at = 0;
    uint32_t p = job->partition;
    bool is_due = simstore_zscore(c->store, p, "due", job->id, &score);
    require(c, is_due == !job->settled, "I13 %s: %s due", job->id, is_due ? "is" : "is not");
    require(c, !is_due || score == due,
            "I13 %s: due %" PRId64 " in the index, %" PRId64 " in the job", job->id, score, due);
    require(c, simstore_zscore(c->store, p, "open", job->id, &at) == !job->settled,
            "I13 %s: open or not", job->id);
    require(c, simstore_zscore(c->store, p, "settled", job->id, &at) == job->settled,
            "I13 %s: settled or not", job->id);
    for (const struct ending *e = job->last; e; e = e->older)
        require(c,
                simstore_zscore(c->store, p, "owed",
                                effects_printf(&c->scratch, "%s %" PRIu64, job->id, e->seq),
                                &at) == e->owed,
                "I13 %s: owed or not", job->id);
}

static void compare_counters(struct checker *c, const struct job *job, const struct facts *f)
{
    uint64_t open = 0;

    for (uint32_t i = 0; i < job->w->n_steps; i++)
        open += !is_there(job, i, job->back);
    require(c, job->settled || f->pending || f->open == open || (f->cursor && job->turn > 1),
            "I13 %s: %" PRIu64 " steps open, not %" PRIu64, job->id, open, f->open);
    require(c, f->busy == f->busy_steps, "I13 %s: %" PRIu64 " steps busy, not %" PRIu64, job->id,
            f->busy_steps, f->busy);
}

/* A job is deleted when its retention is over, whole and not earlier. */
static void compare_forgotten(struct checker *c, struct job *job)
{
    int64_t at;

    if (!job->created)
        return;
    require(c, job->settled && (c->clock_set || c->store_now >= job->settled_at + c->retention),
            "I1 %s: lost", job->id);
    require(c,
            !simstore_hash(c->store, job->partition, job->keys.data) &&
                simstore_list(c->store, job->partition, job->keys.hist) == 0 &&
                !simstore_zscore(c->store, job->partition, "settled", job->id, &at),
            "I13 %s: deleted in part", job->id);
    job->forgotten = true;
    for (struct ending *e = job->last; e; e = e->older) {
        e->excused = e->excused || e->owed; /* a retention shorter than the tries of a notice */
        e->owed = false;
    }
}

/* Holds what is stored of a job against the model. */
static void compare(struct checker *c, struct job *job, bool whole)
{
    struct facts f = {0};
    bool finished;

    if (c->violated)
        return;
    if (!simstore_hash(c->store, job->partition, job->keys.job)) {
        compare_forgotten(c, job);
        return;
    }
    f.due = (int64_t)number(simstore_field(c->store, "due"));
    f.pending = bytes_is(simstore_field(c->store, "phase"), "PENDING");
    finished = bytes_is(simstore_field(c->store, "phase"), "PROCESSED") ||
               bytes_is(simstore_field(c->store, "phase"), "ERROR");
    f.cursor = simstore_field(c->store, "cursor").len > 0;
    f.open = number(simstore_field(c->store, "open"));
    f.busy = number(simstore_field(c->store, "busy"));
    f.going = !f.cursor && !f.pending && !job->settled && !job->ending && !*job->hold;
    require(c, finished == job->settled, "I13 %s: finished or not", job->id);
    require(c, number(simstore_field(c->store, "seq")) == job->seq, "I13 %s: seq", job->id);
    require(c,
            bytes_is(simstore_field(c->store, "outcome"), job->settled ? job->last->outcome : ""),
            "I6 %s: outcome", job->id);
    require(c,
            !f.cursor || job->settled || *job->hold || job->ending || c->clock_set ||
                f.due <= c->store_now + CONTINUED_MS,
            "I13 %s: nobody goes on with the cursor", job->id);
    for (uint32_t i = 0; whole && i < job->w->n_steps && !c->violated; i++)
        compare_step(c, job, i, simstore_step(c->store, i), &f);
    if (whole)
        compare_counters(c, job, &f);
    compare_indexes(c, job, f.due);
}

static void look_at(struct checker *c, struct job *job)
{
    bool whole = job->w->n_steps < BIG || job->calls++ % BIG_EVERY == 0;

    read_history(c, job);
    compare(c, job, whole);
}

/* ---- calls ---- */

static bool is_recorded_now(const struct checker *c, const struct token *token)
{
    for (uint32_t k = 0; k < c->n_recorded; k++)
        if (c->recorded[k].token == token)
            return true;
    return false;
}

static void read_recorded(struct checker *c, const struct bytes *args, int n,
                          const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);

    for (int k = 1; k + 10 < n; k += 11) {
        struct token *token = token_find(c, args[k + 2]);
        struct ops_driven driven;

        if (ops_read_driven(&r, &c->scratch, &driven)) {
            checker_fail(c, "an answer to record that cannot be read");
            return;
        }
        if (token)
            token->decided = true;
        if (driven.code == OPS_ALREADY) {
            require(c, token && (token->recorded || is_recorded_now(c, token)),
                    "I3 ALREADY for a token that was never recorded");
        } else if (driven.code == OPS_RECORDED) {
            require(c, token, "I3 RECORDED for a token that was never minted");
            c->recorded[c->n_recorded++] =
                (struct recorded){.token = token,
                                  .kind = (char)args[k].data[0],
                                  .no_effect = bytes_is(args[k + 10], "N")};
        }
    }
}

static void all_recorded_were_used(struct checker *c)
{
    for (uint32_t k = 0; k < c->n_recorded; k++)
        require(c, c->recorded[k].used, "I3 RECORDED for token %s, and nothing was",
                c->recorded[k].token->text);
}

static void called_record(struct checker *c, const struct bytes *args, int n,
                          const struct store_answer *answer)
{
    read_recorded(c, args, n, answer);
    for (int k = 1; k + 10 < n; k += 11) {
        struct job *job = job_find(c, args[k + 1]);

        if (job)
            look_at(c, job);
    }
    all_recorded_were_used(c);
}

static struct ending *ending_find(struct job *job, uint64_t seq)
{
    struct ending *e = job->last;

    while (e && e->seq != seq)
        e = e->older;
    return e;
}

static void called_settle_owed(struct checker *c, const struct bytes *args, int n)
{
    for (int k = 0; k + 1 < n; k += 2) {
        struct job *job = job_find(c, args[k]);
        struct ending *e = job ? ending_find(job, number(args[k + 1])) : NULL;

        if (!e || !e->owed)
            continue;
        require(c, e->told || c->deaf, "I11 %s: its notice was dropped, and never sent", job->id);
        e->owed = false;
    }
}

static void look_at_partition(struct checker *c, uint32_t partition)
{
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (job->partition == partition && job->created && !job->settled) {
            if (simstore_hash(c->store, partition, job->keys.job) &&
                simstore_field(c->store, "cursor").len > 0)
                job->late_until = c->store_now + CONTINUED_MS;
            look_at(c, job);
        }
}

static void look_for_forgotten(struct checker *c, uint32_t partition)
{
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (job->partition == partition && job->settled)
            compare(c, job, false);
}

void checker_called(struct checker *c, int64_t store_now, uint32_t partition, const char *function,
                    const struct bytes *args, int n, const struct store_answer *answer)
{
    struct job *job = n > 0 ? job_find(c, args[0]) : NULL;

    if (c->violated)
        return;
    effects_reset(&c->scratch);
    c->store_now = store_now;
    c->n_recorded = 0;
    c->submitting = strcmp(function, "submit") == 0;
    if (answer->result == STORE_ERROR)
        checker_fail(c, "%s failed: %.*s", function, (int)answer->items[0].len,
                     (const char *)answer->items[0].data);
    else if (answer->result != STORE_OK)
        return;
    else if (strcmp(function, "record") == 0)
        called_record(c, args, n, answer);
    else if (strcmp(function, "settle_owed") == 0)
        called_settle_owed(c, args, n);
    else if (strcmp(function, "expire") == 0 || strcmp(function, "sweep") == 0)
        look_at_partition(c, partition);
    else if (strcmp(function, "forget") == 0 && !bytes_is(answer->items[0], "0"))
        look_for_forgotten(c, partition);
    else if (job)
        look_at(c, job);
    if (job && c->submitting && answer->n > 0 && bytes_is(answer->items[0], "UNKNOWN_WORKFLOW"))
        job->refused = true;
}

/* ---- the bus ---- */

static void published_requests(struct checker *c, const struct bus_message *m)
{
    struct token *token = token_find(c, bytes_str(m->message_id));

    if (!token)
        checker_fail(c, "I10 a request with a token that was never minted");
    else
        token->published = true;
}

static void published_event(struct checker *c, const struct bus_message *m,
                            enum bus_outcome outcome, bool lost)
{
    struct job *job = job_find(c, bytes_str(m->job));
    CLEANUP(wire_free) struct wire_message event = {0};
    struct ending *e;

    if (!job || *m->exchange || wire_decode(WIRE_EVENT, m->body, NULL, &event, NULL))
        return;
    e = ending_find(job, event.event->seq);
    if (!e)
        return;
    if (outcome == BUS_CONFIRMED)
        e->told = true;
    if (lost || outcome != BUS_CONFIRMED)
        e->excused = true;
}

/* A Submit that the store had no room for may be acknowledged once the client was told. */
static void published_receipt(struct checker *c, const struct bus_message *m)
{
    struct wire_message receipt = {0};

    if (wire_decode(WIRE_RECEIPT, m->body, NULL, &receipt, NULL) == 0 &&
        receipt.receipt->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER) {
        struct job *job = job_find(c, bytes_str(receipt.receipt->job_id));

        if (job)
            job->refused = true;
    }
    wire_free(&receipt);
}

void checker_published(struct checker *c, const struct bus_message *m, enum bus_outcome outcome,
                       bool lost)
{
    if (c->violated || !m->type)
        return;
    if (strcmp(m->exchange, "drover.dead") == 0)
        checker_fail(c, "dead letter: %s", m->reason ? m->reason : "");
    else if (strcmp(m->type, "drover.v1.Requests") == 0)
        published_requests(c, m);
    else if (strcmp(m->type, "drover.v1.JobEvent") == 0)
        published_event(c, m, outcome, lost);
    else if (strcmp(m->type, "drover.v1.Receipt") == 0)
        published_receipt(c, m);
}

/* ---- acks ---- */

struct acked {
    const struct simlink *link;
    const struct bus_delivery *delivery;
};

/* What a trigger caused has been published, or is past the time in which it would help. */
static void require_followed(struct checker *c, const struct acked *a, const struct job *job,
                             const uint32_t *steps, uint32_t n, const struct token *trigger)
{
    for (uint32_t k = 0; job->turn == 1 && !job->ending && !*job->hold && k < n && k < c->budget;
         k++) {
        const struct token *token = job->steps[steps[k]].flying;

        if (!token || (trigger ? token->trigger != trigger : !token->by_submit))
            continue;
        if (token->published || token->wait_until <= c->store_now || c->clock_set)
            continue;
        require(
            c, simlink_other_copy(a->link, a->delivery->handle, trigger ? trigger->text : job->id),
            "I1 %s: acknowledged, and the request for step %u was never sent", job->id, steps[k]);
    }
}

static void acked_submit(struct checker *c, const struct acked *a, const Drover__V1__Submit *m)
{
    struct job *job = job_find(c, bytes_str(m->job_id));

    if (!job)
        return;
    require(c, job->created || job->refused, "I1 %s: acknowledged before it was recorded", job->id);
    require_followed(c, a, job, job->w->roots, job->w->n_roots, NULL);
}

static void acked_reply(struct checker *c, const struct acked *a, const Drover__V1__StepReply *m)
{
    const struct token *token = token_find(c, bytes_str(m->token));
    const struct workflow_step *step;

    if (!token)
        return;
    step = &token->job->w->steps[token->step];
    require(c, token->decided, "I1 %s: a reply was acknowledged before it was recorded",
            token->job->id);
    require_followed(c, a, token->job, step->dependents, step->n_dependents, token);
}

static void acked_expired(struct checker *c, const Drover__V1__StepRequest *m)
{
    const struct token *token = token_find(c, bytes_str(m->token));

    require(c, !token || token->decided,
            "I1 %s: an expired request was acknowledged before it was recorded", m->job_id);
}

void checker_acked(struct checker *c, int64_t store_now, const struct simlink *link,
                   const struct bus_delivery *d)
{
    static const enum wire_type types[] = {
        [SCHEDULER_SUBMIT] = WIRE_SUBMIT,
        [SCHEDULER_REPLIES] = WIRE_REPLIES,
        [SCHEDULER_CONTROL] = WIRE_CONTROL,
        [SCHEDULER_EXPIRED] = WIRE_REQUESTS,
    };
    const struct acked a = {link, d};
    CLEANUP(wire_free) struct wire_message m = {0};

    if (c->violated || wire_decode(types[d->source], d->body, NULL, &m, NULL))
        return;
    c->store_now = store_now;
    if (m.type == WIRE_SUBMIT)
        acked_submit(c, &a, m.submit);
    for (size_t i = 0; m.type == WIRE_REPLIES && i < m.replies->n_replies; i++)
        acked_reply(c, &a, m.replies->replies[i]);
    for (size_t i = 0; m.type == WIRE_REQUESTS && i < m.requests->n_requests; i++)
        if (!d->resent)
            acked_expired(c, m.requests->requests[i]);
}

/* ---- handlers and clients ---- */

void checker_run(struct checker *c, const Drover__V1__StepRequest *request)
{
    const struct token *token = token_find(c, bytes_str(request->token));
    char key[WIRE_KEY_MAX + 1];

    if (!token) {
        checker_fail(c, "I10 %s: a run of a request that was never made", request->job_id);
        return;
    }
    snprintf(key, sizeof(key), "%s/%s/%u", request->job_id, request->step, (unsigned)token->turn);
    require(c, token->back == (request->desired == DROVER__V1__STATE__STATE_DISABLED),
            "I2 %s: the token asks for the opposite", request->job_id);
    require(c, strcmp(token->job->w->steps[token->step].name, request->step) == 0,
            "I3 %s: the token is of another step", request->job_id);
    require(c, strcmp(key, request->idempotency_key) == 0, "I2 %s: another key", request->job_id);
    require(c, token->back || request->n_results == token->job->w->steps[token->step].n_take,
            "I8 %s: step %s begins with %zu of %u results", request->job_id, request->step,
            request->n_results, token->job->w->steps[token->step].n_take);
}

void checker_effect(struct checker *c, const char *text)
{
    struct token *token = token_find(c, bytes_str(text));

    if (token)
        token->effect = true;
}

void checker_receipt(struct checker *c, const Drover__V1__Receipt *m)
{
    struct job *job = job_find(c, bytes_str(m->job_id));

    if (!job) {
        checker_fail(c, "I10 a receipt for %s", m->job_id);
        return;
    }
    switch (m->code) {
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED:
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY:
        require(c, job->created, "I1 %s: a receipt, and no record", job->id);
        job->accepted = true;
        break;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER:
        break;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED:
        /* a scheduler may still be about to register it */
        require(c, job->registered && strcmp(m->field, "workflow") == 0, "%s: rejected, %s: %s",
                m->job_id, m->field, m->reason);
        break;
    default:
        checker_fail(c, "%s: refused, code %d %s: %s", m->job_id, (int)m->code, m->field,
                     m->reason);
    }
}

static const char *outcome_name(Drover__V1__Outcome outcome)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&drover__v1__outcome__descriptor, (int)outcome);

    return value ? value->name + strlen("OUTCOME_") : "";
}

void checker_event(struct checker *c, const Drover__V1__JobEvent *m)
{
    struct job *job = job_find(c, bytes_str(m->job_id));
    struct ending *e;
    uint32_t named;

    if (m->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED)
        return;
    if (!job) {
        checker_fail(c, "I10 an event of %s", m->job_id);
        return;
    }
    /* more results than one call reads are not in a notice */
    named = job->w->n_sinks < c->budget ? job->w->n_sinks : c->budget;
    e = ending_find(job, m->seq);
    if (!e) {
        checker_fail(c, "I11 %s: told of seq %" PRIu64, job->id, m->seq);
        return;
    }
    require(c, strcmp(outcome_name(m->outcome), e->outcome) == 0, "I11 %s: told %s, is %s", job->id,
            outcome_name(m->outcome), e->outcome);
    require(c,
            m->outcome != DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED || e != job->last ||
                !job->settled || /* it has turned since, and what was done may be undone */
                m->n_results + m->n_results_left_out >= named,
            "I11 %s: told of %zu results of %u", job->id, m->n_results, job->w->n_sinks);
    e->heard = true;
}

void checker_status(struct checker *c, const Drover__V1__JobStatus *m)
{
    struct job *job = job_find(c, bytes_str(m->job_id));

    require(c, job && job->created, "I10 status of %s", m->job_id);
    if (job && job->created)
        require(c, m->steps_total == job->w->n_steps && m->seq <= job->seq, "status of %s",
                job->id);
}

/* ---- at rest ---- */

/* Held, or parked for good, and everything else waits for that or is done. */
static bool parked_for_good(struct checker *c, const struct job *job)
{
    bool parked = *job->hold;

    if (job->flying > 0 || !simstore_hash(c->store, job->partition, job->keys.job) ||
        (simstore_field(c->store, "cursor").len > 0 && !*job->hold))
        return false;
    for (uint32_t i = 0; i < job->w->n_steps; i++) {
        struct bytes text = simstore_step(c->store, i);
        struct ops_step_record r = {.state = 'W'};

        if (text.len > 0 && ops_read_step_record(text, &r))
            return false;
        if (r.state == 'P' && r.till == 0)
            parked = true;
        else if (r.state != 'W' && r.state != 'F' && !*job->hold)
            return false;
    }
    return parked;
}

static bool all_heard(const struct job *job)
{
    for (const struct ending *e = job->last; e; e = e->older)
        if (e->owed || (!e->heard && !e->excused))
            return false;
    return true;
}

bool checker_at_rest(struct checker *c)
{
    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (!job->created || !job->accepted || !all_heard(job) ||
            !(job->settled || parked_for_good(c, job)))
            return false;
    return true;
}

bool checker_forgotten(const struct checker *c)
{
    for (const struct job *job = c->jobs; job; job = job->hh.next)
        if (!job->forgotten)
            return false;
    return true;
}

void checker_parked(struct checker *c, void (*fn)(void *ctx, const char *job), void *ctx)
{
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (!job->settled)
            fn(ctx, job->id);
}

static void check_parked_step(struct checker *c, const struct job *job, uint32_t i)
{
    const struct step *step = &job->steps[i];
    const struct policy *policy = &terms_of(job, i)->policy;

    if (!step->parked || job->settled || c->violated)
        return;
    if (strcmp(step->parked_for, "DEATHS") == 0)
        require(c, step->expiries >= policy->maximum_expiries, "L1 %s: step %u parked early",
                job->id, i);
    else if (strcmp(step->parked_for, "EXHAUSTED") == 0)
        require(c, step->failures >= policy->maximum_attempts && policy->park_interval_ms < 0,
                "L1 %s: step %u parked early", job->id, i);
    else
        require(c, strcmp(step->parked_for, "PERMANENT") == 0 && step->failures > 0,
                "L1 %s: step %u parked for no reason", job->id, i);
}

static void check_refs(struct checker *c, const struct job *job)
{
    const char *key = effects_printf(&c->scratch, "def:%s", job->w->digest);
    uint64_t users = job->registered ? 1 : 0;
    int64_t at;

    for (const struct job *other = c->jobs; other; other = other->hh.next)
        users += other->created && !other->forgotten && other->partition == job->partition &&
                 strcmp(other->w->digest, job->w->digest) == 0;
    if (!simstore_hash(c->store, job->partition, key)) {
        require(c, users == 0, "I13 %s: its definition is gone", job->id);
        return;
    }
    require(c, users > 0 || !job->forgotten, "I13 %s: nobody uses its definition any more",
            job->id);
    require(c, number(simstore_field(c->store, "refs")) == users, "I13 %s: definition has refs %s",
            job->id, (const char *)simstore_field(c->store, "refs").data);
    require(c, !simstore_zscore(c->store, job->partition, "defs", job->w->digest, &at),
            "I13 %s: its definition counts as unused", job->id);
}

void checker_end(struct checker *c)
{
    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job && !c->violated; job = job->hh.next) {
        read_history(c, job);
        compare(c, job, true);
        for (uint32_t i = 0; i < job->w->n_steps; i++)
            check_parked_step(c, job, i);
        if (job->created)
            check_refs(c, job);
    }
    for (uint32_t p = 0; p < c->partitions; p++)
        require(c, simstore_zcard(c->store, p, "owed") == 0, "I13 notices owed at rest");
}

void checker_describe(struct checker *c, FILE *out)
{
    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job; job = job->hh.next) {
        if (job->settled && all_heard(job) && job->accepted)
            continue;
        fprintf(out, "job %s: %s%s%s%s, goes %s in turn %u, %u of %u steps in flight%s%s\n",
                job->id, job->created ? "created" : "not created",
                job->accepted ? ", accepted" : "", job->settled ? ", settled" : "",
                all_heard(job) ? "" : ", not all heard", job->back ? "back" : "forward", job->turn,
                job->flying, job->w->n_steps, *job->hold ? ", held: " : "", job->hold);
        if (!simstore_hash(c->store, job->partition, job->keys.job))
            continue;
        fprintf(out, "  due %s cursor %s\n", (const char *)simstore_field(c->store, "due").data,
                (const char *)simstore_field(c->store, "cursor").data);
        for (uint32_t i = 0; i < job->w->n_steps && i < 20; i++) {
            struct bytes text = simstore_step(c->store, i);

            if (text.len > 0)
                fprintf(out, "  %u: %.*s\n", i, (int)text.len, (const char *)text.data);
        }
    }
}
