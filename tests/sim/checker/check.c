// SPDX-License-Identifier: Apache-2.0
/*
 * Checker: store calls, and what must be true when a world is at rest
 *
 * See check.h, and check_model.h for the other parts. Called by the parts of the world.
 */
#include "checker/check_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/store_schema.h"
#include "world/grid.h"

#define EVERY 32     /* a job is compared in full after so many calls that change nothing in it */
#define CROWD 50     /* from so many jobs on that applies to small ones, too */
#define DUE_MANY 100 /* JOBS_PER_SCAN of supervisor.c */
#define FORGOTTEN_MANY 20     /* FORGET_JOBS */
#define SEEN_MS 62000         /* a longer jump is noticed also by a process that was not there */
#define CLOCK_AHEAD_MS 300000 /* how far a sender's clock may be ahead of the store's */
#define OVERESTIMATED_MS 3000 /* by which a jump may be overestimated */
#define LOST_MS 2000          /* how much the store loses when it goes back */

/* ---- setup ---- */

struct checker *checker_new(struct timeline *t, struct simstore *store, const struct plan *plan)
{
    struct checker *c = timeline_alloc(t, sizeof(*c));

    c->t = t;
    c->store = store;
    c->partitions = plan->partitions;
    c->retention = plan->retention_ms;
    c->budget = simstore_budgets[plan->budget];
    c->liars = plan->faults.lie > 0;
    c->forgets = plan->forgets;
    c->backs = timeline_alloc(t, plan->partitions * sizeof(*c->backs));
    return c;
}

struct checker *checker_free(struct checker *c)
{
    struct job *job, *next;

    if (!c)
        return NULL;
    HASH_ITER(hh, c->jobs, job, next)
        for (struct version *v = job->versions; v; v = v->older)
            workflow_unref(v->w);
    HASH_CLEAR(hh, c->jobs);
    HASH_CLEAR(hh, c->tokens);
    HASH_CLEAR(hh, c->undone);
    HASH_CLEAR(hh, c->orders);
    HASH_CLEAR(hh, c->bad_messages);
    HASH_CLEAR(hh, c->survivors);
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

/* ---- the store's clock ---- */

static void set_ahead_for(struct checker *c, struct token *token, int64_t by)
{
    if (by < SEEN_MS)
        token->unseen += by;
    if (simstore_text(c->store, token->job->partition, "clock").len == 0)
        token->ends = 0; /* no supervisor had inspected the partition yet */
}

static void set_back_for(struct token *token, int64_t was, int64_t by)
{
    token->set_back = true;
    token->too_late |= token->wait_until <= was;
    if (token->back_at == 0 || token->back_at > was + by)
        token->back_at = was + by;
}

static void clock_set_for(struct checker *c, struct token *token, int64_t was, int64_t by)
{
    token->jumps += token->jumps > 0 || (by > 0 && token->ends > c->t->now + QUIET_MS);
    if (by > 0)
        set_ahead_for(c, token, by);
    else
        set_back_for(token, was, by);
}

static void step_back(struct checker *c, uint32_t partition, int64_t was)
{
    struct step_back *b = &c->backs[partition];

    b->before = b->on && b->before > was ? b->before : was;
    b->on = true;
    b->noticed = false;
    b->seen = check_clock(c, partition).seen;
}

void checker_clock_set(struct checker *c, int64_t was, int64_t by)
{
    c->ahead += by > 0 ? by : 0;
    c->set_back |= by < 0;
    for (uint32_t p = 0; by < 0 && p < c->partitions; p++)
        step_back(c, p, was);
    for (struct token *token = c->tokens; token; token = token->hh.next)
        clock_set_for(c, token, was, by);
    for (struct token *token = c->undone; token; token = token->hh.next)
        clock_set_for(c, token, was, by);
}

bool check_stepped_back(const struct checker *c, uint32_t partition)
{
    return c->backs[partition].on || (c->again && c->set_back);
}

/* After an expire or a sweep of a partition. */
static void note_clock(struct checker *c, uint32_t partition)
{
    struct step_back *b = &c->backs[partition];
    struct store_clock clock;

    if (c->again || (!b->on && c->ahead == 0))
        return;
    clock = check_clock(c, partition);
    require(c, clock.by <= c->ahead + OVERESTIMATED_MS,
            "L1 the store's clock is taken to have jumped %" PRId64 " ms, not %" PRId64, clock.by,
            c->ahead);
    b->noticed |= clock.back && clock.seen < b->seen;
    if (!b->on || (c->store_now < b->before && !(b->noticed && !clock.back)))
        return;
    b->on = false;
    b->over = c->t->now;
}

/* A step back that was over may be known no more to a store that went back. */
static void step_back_again(struct checker *c)
{
    for (uint32_t p = 0; p < c->partitions; p++) {
        struct step_back *b = &c->backs[p];

        b->noticed = false;
        b->on |= b->before > 0 && b->over + LOST_MS >= c->t->now;
    }
}

struct store_clock check_clock(struct checker *c, uint32_t partition)
{
    struct bytes text = simstore_text(c->store, partition, "clock");
    struct store_clock clock = {0};
    int back = 0, swept = 0;

    if (text.len > 0) /* a NUL follows the text */
        sscanf((const char *)text.data, "%" SCNd64 " %" SCNd64 " %d %" SCNd64 " %" SCNd64 " %d",
               &clock.seen, &clock.quiet, &back, &clock.jumped, &clock.by, &swept);
    clock.back = back > swept;
    return clock;
}

void check_version(struct checker *c, struct job *job, struct workflow *w, bool registered)
{
    struct version *version = timeline_alloc(c->t, sizeof(*version));

    version->w = job->w = w;
    version->registered = registered;
    version->older = job->versions;
    job->versions = job->version = version;
}

void checker_job(struct checker *c, const char *id, struct workflow *w, bool registered,
                 int64_t start_at, bool has_deadline)
{
    struct job *job = timeline_alloc(c->t, sizeof(*job));

    job->id = timeline_str(c->t, id);
    job->keys.job = effects_printf(&c->t->arena, "job:%s", id);
    job->keys.data = effects_printf(&c->t->arena, "data:%s", id);
    job->keys.hist = effects_printf(&c->t->arena, "hist:%s", id);
    check_version(c, job, workflow_ref(w), registered);
    job->start_at = start_at;
    job->has_deadline = has_deadline || w->complete_within_ms > 0;
    job->partition = id_partition(id, c->partitions);
    job->turn = job->since = job->epoch = 1;
    job->steps = timeline_alloc(c->t, w->n_steps * sizeof(*job->steps));
    for (uint32_t i = 0; i < w->n_steps; i++)
        job->steps[i].current = STATE_DISABLED;
    HASH_ADD_KEYPTR(hh, c->jobs, job->id, strlen(job->id), job);
}

/* ---- the model ---- */

struct job *check_job_find(struct checker *c, struct bytes id)
{
    struct job *job;

    HASH_FIND(hh, c->jobs, id.data, id.len, job);
    return job;
}

struct token_id {
    char text[WIRE_TOKEN_MAX + 1];
};

/* The id by which a history names a token. @text: the token. */
static struct token_id id_of(struct bytes text)
{
    struct effects fx = {0};
    struct token_id id;

    snprintf(id.text, sizeof(id.text), "%s", ops_token_id(&fx, effects_text(&fx, text)));
    effects_deinit(&fx);
    return id;
}

struct token *check_token_named(struct checker *c, struct bytes id)
{
    struct token *token;

    HASH_FIND(hh, c->tokens, id.data, id.len, token);
    return token;
}

struct token *check_token_find(struct checker *c, struct bytes text)
{
    const struct token_id id = id_of(text);

    return check_token_named(c, bytes_str(id.text));
}

bool check_is_token(const struct token *token, struct bytes text)
{
    return strcmp(id_of(text).text, token->id) == 0;
}

struct token *check_token_ever(struct checker *c, struct bytes text)
{
    const struct token_id id = id_of(text);
    struct token *token = check_token_named(c, bytes_str(id.text));

    if (!token)
        HASH_FIND(hh, c->undone, id.text, strlen(id.text), token);
    return token;
}

bool check_was_ending(const struct job *job, uint64_t seq)
{
    const struct ending *e = job->undone;

    while (e && e->seq != seq)
        e = e->older;
    return e != NULL;
}

struct ending *check_ending_find(struct ending *list, uint64_t seq)
{
    while (list && list->seq != seq)
        list = list->older;
    return list;
}

bool check_in_outbox(struct checker *c, const struct job *job, uint64_t seq)
{
    const char *member = effects_printf(&c->scratch, "%s %" PRIu64, job->id, seq);
    int64_t at;

    return simstore_zscore(c->store, job->partition, "owed", member, &at);
}

uint64_t check_number(struct bytes text)
{
    int64_t n = 0;

    return bytes_to_i64(text, &n) ? (uint64_t)n : 0;
}

bool check_is_limited(const struct job *job)
{
    return job->has_deadline && !job->back &&
           job->w->on_deadline != DROVER__V1__RECOURSE__RECOURSE_PARK;
}

bool check_is_there(const struct job *job, uint32_t i, bool back)
{
    return !job->steps[i].flying && job->steps[i].current == (back ? STATE_DISABLED : STATE_ACTIVE);
}

uint32_t check_missing(const struct job *job, uint32_t i, bool back)
{
    const struct workflow_step *step = &job->w->steps[i];
    const uint32_t *before = back ? step->dependents : step->after;
    uint32_t n_before = back ? step->n_dependents : step->n_after, n = 0;

    for (uint32_t k = 0; k < n_before; k++)
        n += !check_is_there(job, before[k], back);
    return n;
}

bool check_is_known(const struct job *job, struct bytes command)
{
    for (uint32_t k = 0; k < COMMANDS_KEPT && k < job->n_commands; k++)
        if (bytes_is(command, job->commands[k]))
            return true;
    return false;
}

const struct workflow_dispatch *check_terms_of(const struct job *job, uint32_t i)
{
    return job->steps[i].back ? &job->w->steps[i].revert : &job->w->steps[i].forward;
}

/* ---- a store that goes back ---- */

static void endings_undo(struct job *job, struct ending *list)
{
    for (struct ending *e = list, *older; e; e = older) {
        older = e->older;
        e->older = job->undone;
        job->undone = e;
    }
}

static void job_begin_again(struct checker *c, struct job *job)
{
    struct job was = *job;

    while (job->version->older)
        job->version = job->version->older;
    memset(&job->created, 0, offsetof(struct job, steps) - offsetof(struct job, created));
    job->w = job->version->w;
    job->steps = timeline_alloc(c->t, job->w->n_steps * sizeof(*job->steps));
    job->turn = job->since = job->epoch = 1;
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        job->steps[i].current = STATE_DISABLED;
    job->refused = was.refused;
    job->expired = was.expired; /* its client was told so */
    job->migrated = 0;
    job->changing = false;
    job->accepted = was.accepted;
    job->given_up = was.given_up;
    job->lost = was.lost || was.created;
    job->undone = was.undone;
    endings_undo(job, was.last);
    endings_undo(job, was.alerts);
    job->steps_before = was.steps;
    job->seq_before = was.seq;
}

/* The effects of handlers stay known if no record of the job is gone. */
static void job_compare(struct job *job)
{
    job->went_back |= job->seq != job->seq_before;
    for (uint32_t i = 0; i < job->w->n_steps && !job->went_back; i++)
        job->steps[i].effects_seen = job->steps_before[i].effects_seen;
}

void checker_goes_back(struct checker *c)
{
    struct token *token, *next;

    c->again = c->went_back = true;
    c->went_back_at = c->t->now;
    HASH_ITER(hh, c->tokens, token, next) {
        HASH_DEL(c->tokens, token);
        HASH_ADD_KEYPTR(hh, c->undone, token->id, strlen(token->id), token);
    }
    for (struct job *job = c->jobs; job; job = job->hh.next)
        job_begin_again(c, job);
}

void checker_went_back(struct checker *c)
{
    c->again = false;
    step_back_again(c);
    for (struct job *job = c->jobs; job; job = job->hh.next) {
        job_compare(job);
        job->lost = job->lost && !job->created;
        if (job->lost)
            timeline_note(c->t, FEATURE_JOB_LOST);
    }
}

bool checker_lost(struct checker *c, const char *id)
{
    const struct job *job = check_job_find(c, bytes_str(id));

    return job && job->lost && !job->created && !job->expired;
}

/* ---- calls ---- */

static bool now_and_then(struct job *job)
{
    return job->calls++ % EVERY == 0;
}

static void inspect(struct checker *c, struct job *job)
{
    check_read_history(c, job);
    check_compare(c, job, job->w->n_steps < BIG || job->retrying || now_and_then(job));
}

/* In a crowd, a job to which nothing has happened is compared only now and then. */
static void inspect_briefly(struct checker *c, struct job *job)
{
    if (check_read_history(c, job) || HASH_COUNT(c->jobs) < CROWD || now_and_then(job))
        inspect(c, job);
}

static bool is_recorded_now(const struct checker *c, const struct token *token)
{
    for (uint32_t k = 0; k < c->n_recorded; k++)
        if (c->recorded[k].token == token)
            return true;
    return false;
}

/* Whether a result fits is a matter of bytes; only the last variant of the store functions has
 * little room. */
static void note_too_large(struct checker *c, enum ops_code code, const struct bytes *report)
{
    if (code == OPS_DATA_FULL) {
        timeline_note(c->t, FEATURE_DATA_FULL);
        require(c, c->budget == simstore_budgets[SIMSTORE_BUDGETS - 1],
                "I1 no room for a result of %zu bytes", report[AT_REPORT_RESULT].len);
    }
    if (code == OPS_RECORDED && bytes_is(report[AT_REPORT_ERROR_CLASS], "RESULT_TOO_LARGE")) {
        timeline_note(c->t, FEATURE_RESULT_TOO_LARGE);
        require(c, ops_letter(report[AT_REPORT_KIND]) == REPORT_PERMANENT,
                "I12 a result that is too large is no failure");
    }
}

static void read_recorded(struct checker *c, const struct bytes *args, int n,
                          const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);

    for (int k = AT_RECORD_VALUES; k + AT_REPORT_VALUES <= n; k += AT_REPORT_VALUES) {
        const struct bytes *report = args + k;
        struct token *token = check_token_ever(c, report[AT_REPORT_TOKEN]);
        struct ops_transition transition;

        if (ops_read_transition(&r, &c->scratch, &transition)) {
            checker_fail(c, "an answer to record that cannot be read");
            return;
        }
        if (token)
            token->decided = true;
        note_too_large(c, transition.code, report);
        if (transition.code == OPS_STALE) {
            timeline_note(c->t, FEATURE_REPLY_STALE);
            grid_met(c->t, FAULT_LATE, token && token->back ? AT(13) : AT(8));
        }
        if (transition.code == OPS_ALREADY) {
            timeline_note(c->t, FEATURE_REPLY_ALREADY);
            require(c, token && (token->recorded || is_recorded_now(c, token)),
                    "I3 ALREADY for a token that was never recorded");
        } else if (transition.code == OPS_RECORDED) {
            require(c, token, "I3 RECORDED for a token that was never minted");
            c->recorded[c->n_recorded++] = (struct recorded){
                .token = token,
                .kind = (char)report[AT_REPORT_KIND].data[0],
                .no_effect = ops_letter(report[AT_REPORT_EFFECT]) == PROVEN_NO_EFFECT,
                .class = report[AT_REPORT_ERROR_CLASS],
                .retry_after = (int64_t)check_number(report[AT_REPORT_RETRY_AFTER])};
        }
    }
}

static void all_recorded_were_used(struct checker *c)
{
    for (uint32_t k = 0; k < c->n_recorded; k++)
        require(c, c->recorded[k].used, "I3 RECORDED for token %s, and nothing was",
                c->recorded[k].token->id);
}

static void called_record(struct checker *c, const struct bytes *args, int n,
                          const struct store_answer *answer)
{
    read_recorded(c, args, n, answer);
    for (int k = AT_RECORD_VALUES; k + AT_REPORT_VALUES <= n; k += AT_REPORT_VALUES) {
        struct job *job = check_job_find(c, args[k + AT_REPORT_JOB_ID]);

        if (job)
            inspect(c, job);
    }
    all_recorded_were_used(c);
}

static void called_settle_owed(struct checker *c, const struct bytes *args)
{
    struct job *job = check_job_find(c, args[AT_SETTLE_OWED_JOB_ID]);
    uint64_t seq = check_number(args[AT_SETTLE_OWED_SEQ]);
    struct ending *e = job ? check_ending_find(job->last, seq) : NULL;

    if (job && !e)
        e = check_ending_find(job->alerts, seq);
    if (!e || !e->in_outbox || check_in_outbox(c, job, seq))
        return;
    require(c, e->published, "I11 %s: its notification was settled, and never sent", job->id);
    e->in_outbox = false;
}

/* The token must be in flight: for another one the store keeps nothing, and renews no lease.
 * @taken: the request has left its queue. */
static void called_renew(struct checker *c, struct job *job, struct bytes text, bool taken)
{
    struct token *token = check_token_find(c, text);

    require(c, token && token->step < job->w->n_steps && job->steps[token->step].flying == token,
            "I3 %s: a lease is renewed by a token that is not in flight", job->id);
    timeline_note(c->t, taken ? FEATURE_REQUEST_TAKEN : FEATURE_LEASE_RENEWED);
    if (token) {
        token->taken |= taken;
        token->reported |= !taken;
        token->reported_at = taken ? token->reported_at : c->t->now;
    }
    inspect(c, job);
}

/* Commands that turn a job must come in the order in which they were issued, and must not act on a
 * state that their sender has not seen. A command that changes nothing counts in that order, one
 * that is refused does not. */
static void check_command(struct checker *c, struct job *job, const struct bytes *args,
                          struct bytes code)
{
    uint64_t if_seq = check_number(args[AT_STEER_IF_SEQ]);
    int64_t issued_at = (int64_t)check_number(args[AT_STEER_ISSUED_AT]);
    bool seen = if_seq == 0 || if_seq == job->seq, superseded = bytes_is(code, "SUPERSEDED");
    struct bytes name = args[AT_STEER_COMMAND_NAME];
    bool turns = bytes_is(name, "enable") || bytes_is(name, "disable") || bytes_is(name, "cancel");

    require(c, seen || !bytes_is(code, "DONE"),
            "I6 %s: carried out at seq %" PRIu64 ", not %" PRIu64, job->id, job->seq, if_seq);
    if (!turns || !seen || issued_at == 0 || bytes_is(code, "MOVED"))
        return;
    require(c, issued_at >= job->ordered || superseded,
            "I6 %s: an overtaken command is carried out", job->id);
    require(c, issued_at < job->ordered || !superseded,
            "I6 %s: refused as overtaken, but it was not", job->id);
    if (bytes_is(code, "DONE") || bytes_is(code, "UNCHANGED"))
        job->ordered =
            issued_at < c->store_now + CLOCK_AHEAD_MS ? issued_at : c->store_now + CLOCK_AHEAD_MS;
}

static void called_steer(struct checker *c, struct job *job, const struct bytes *args,
                         const struct store_answer *answer)
{
    struct bytes id = args[AT_STEER_COMMAND_ID], code = answer->items[AT_TRANSITION_CODE];

    if (!check_is_known(job, id))
        check_command(c, job, args, code);
    inspect(c, job);
    if (check_is_known(job, id))
        timeline_note(c->t, FEATURE_COMMAND_TWICE);
    if (bytes_is(code, "SUPERSEDED"))
        timeline_note(c->t, FEATURE_COMMAND_SUPERSEDED);
    if (bytes_is(code, "WRONG_STATE"))
        timeline_note(c->t, FEATURE_COMMAND_REFUSED);
    if (id.len > 0 && !bytes_is(code, "MOVED") && !check_is_known(job, id))
        job->commands[job->n_commands++ % COMMANDS_KEPT] = effects_text(&c->t->arena, id);
}

static void inspect_partition(struct checker *c, uint32_t partition)
{
    note_clock(c, partition);
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (job->partition == partition && job->created && !job->settled) {
            if (simstore_hash(c->store, partition, job->keys.job) &&
                simstore_field(c->store, "cursor").len > 0)
                job->late_until = c->store_now + CONTINUED_MS;
            inspect_briefly(c, job);
        }
}

static void inspect_forgotten(struct checker *c, uint32_t partition)
{
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (job->partition == partition && job->settled)
            check_compare(c, job, false);
}

void checker_died(struct checker *c)
{
    c->killed++;
}

static void called_submit(struct checker *c, struct job *job, const struct bytes *args,
                          struct bytes code)
{
    int64_t by = (int64_t)check_number(args[AT_SUBMIT_COMPLETE_BY]);

    if (bytes_is(code, "UNKNOWN_WORKFLOW"))
        job->refused = true;
    if (bytes_is(code, "CREATED"))
        job->digest = effects_text(&c->t->arena, args[AT_SUBMIT_DIGEST]);
    if (bytes_is(code, "ALREADY"))
        require(c, job->digest && bytes_is(args[AT_SUBMIT_DIGEST], job->digest),
                "I10 %s: another job under its id counts as the same", job->id);
    if (!bytes_is(code, "EXPIRED"))
        return;
    require(c, !job->created && by > 0 && by <= c->store_now,
            "I1 %s: refused as too late, but it is in time", job->id);
    job->refused = job->expired = true;
    timeline_note(c->t, FEATURE_SUBMIT_EXPIRED);
}

/* The cause of the tokens minted by a call that records no reply; NULL: the call mints none. */
static struct cause *cause_of(struct checker *c, struct job *job, const char *function,
                              const struct bytes *args, int n, const struct store_answer *answer)
{
    struct order *order;

    if (answer->result != STORE_OK)
        return NULL;
    if (strcmp(function, "submit") == 0)
        return &job->submitted;
    if (strcmp(function, "drive") == 0)
        return &check_drive(c, job, args, n)->led_to;
    if (strcmp(function, "steer") != 0)
        return NULL;
    order = check_order_of(c, job, args[AT_STEER_COMMAND_ID]);
    order->decided |= !bytes_is(answer->items[AT_TRANSITION_CODE], "MOVED");
    return &order->led_to;
}

/* Notes that a call found as many jobs as a supervisor takes at a time, and that there are more. */
static void note_many(struct checker *c, bool expired, const struct store_answer *answer)
{
    const struct bytes *items = answer->items;

    if (expired && bytes_is(items[AT_EXPIRED_MORE], "1") &&
        check_number(items[AT_EXPIRED_N_DUE]) >= DUE_MANY)
        timeline_note(c->t, FEATURE_MANY_DUE);
    if (!expired && bytes_is(items[AT_FORGOTTEN_MORE], "1") &&
        check_number(items[AT_FORGOTTEN_JOBS]) >= FORGOTTEN_MANY)
        timeline_note(c->t, FEATURE_MANY_FORGOTTEN);
}

void checker_called(struct checker *c, int64_t store_now, uint32_t partition, const char *function,
                    const struct bytes *args, int n, const struct store_answer *answer,
                    const char *by, const bool *heard)
{
    /* every function of one job has its id in the same place */
    struct job *job = n > 0 ? check_job_find(c, args[AT_STEER_JOB_ID]) : NULL;

    if (c->violated)
        return;
    effects_reset(&c->scratch);
    c->store_now = store_now;
    c->n_recorded = 0;
    c->heard = heard;
    c->by = by;
    c->call = job ? cause_of(c, job, function, args, n, answer) : NULL;
    if (answer->result == STORE_OK && strcmp(function, "expire") == 0)
        note_many(c, true, answer);
    if (answer->result == STORE_OK && strcmp(function, "forget") == 0)
        note_many(c, false, answer);
    if (answer->result == STORE_ERROR)
        checker_fail(c, "%s failed: %.*s", function, (int)answer->items[0].len,
                     (const char *)answer->items[0].data);
    else if (answer->result != STORE_OK)
        return;
    else if (strcmp(function, "record") == 0)
        called_record(c, args, n, answer);
    else if (strcmp(function, "renew") == 0 && bytes_is(answer->items[AT_RENEWED_CODE], "RENEWED"))
        called_renew(c, job, args[AT_RENEW_TOKEN], false);
    else if (strcmp(function, "taken") == 0 && bytes_is(answer->items[0], "TAKEN"))
        called_renew(c, job, args[AT_TAKEN_TOKEN], true);
    else if (strcmp(function, "settle_owed") == 0)
        called_settle_owed(c, args);
    else if (strcmp(function, "expire") == 0 || strcmp(function, "sweep") == 0)
        inspect_partition(c, partition);
    else if (strcmp(function, "suspect") == 0)
        check_suspect(c, partition, args, answer);
    else if (strcmp(function, "forget") == 0 && !bytes_is(answer->items[AT_FORGOTTEN_JOBS], "0"))
        inspect_forgotten(c, partition);
    else if (job && strcmp(function, "steer") == 0 && job->created)
        called_steer(c, job, args, answer);
    else if (job)
        inspect(c, job);
    if (job && strcmp(function, "submit") == 0 && answer->n > 0)
        called_submit(c, job, args, answer->items[AT_TRANSITION_CODE]);
}

/* ---- at rest ---- */

/* Whether a step may stay as it is: the job is on hold; or the step is to go forward, and a change
 * waits. */
static bool may_wait(const struct job *job, const struct ops_step_record *r)
{
    return *job->hold || (job->changing && r->asked == STATE_ACTIVE && r->turn >= job->since);
}

/* Held, or with steps parked for good, and every other step waits for those or is done. */
static bool parked_for_good(struct checker *c, const struct job *job)
{
    bool parked = *job->hold;

    if (job->flying > 0 || !simstore_hash(c->store, job->partition, job->keys.job) ||
        (simstore_field(c->store, "cursor").len > 0 && !*job->hold))
        return false;
    for (uint32_t i = 0; i < job->w->n_steps; i++) {
        struct bytes text = simstore_step(c->store, i);
        struct ops_step_record r = {.state = STEP_AT_REST};

        if (text.len > 0 && ops_read_step_record(text, &r))
            return false;
        if (r.state == STEP_PARKED && r.until == 0)
            parked = true;
        else if (r.state != STEP_AT_REST && r.state != STEP_FAILED && !may_wait(job, &r))
            return false;
    }
    return parked;
}

static bool all_received(const struct job *job)
{
    for (const struct ending *e = job->last; e; e = e->older)
        if (e->in_outbox || (!e->received && !e->excused))
            return false;
    return true;
}

/* An alert that is still in the outbox; NULL: none. */
static const struct ending *unpublished_alert(const struct job *job)
{
    const struct ending *e = job->alerts;

    while (e && !e->in_outbox)
        e = e->older;
    return e;
}

bool checker_at_rest(struct checker *c)
{
    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (!(job->expired && !job->created) &&
            (!job->created || !(job->accepted || job->expired) || !all_received(job) ||
             unpublished_alert(job) || !(job->settled || parked_for_good(c, job))))
            return false;
    return true;
}

void checker_alerted(struct checker *c)
{
    for (struct job *job = c->jobs; job; job = job->hh.next) {
        const struct ending *e = unpublished_alert(job);

        require(c, !e, "L3 %s: no alert was published at seq %" PRIu64, job->id, e->seq);
    }
}

bool checker_forgot(struct checker *c, const char *id)
{
    const struct job *job = check_job_find(c, bytes_str(id));

    return job && job->forgotten;
}

uint32_t checker_kept(const struct checker *c)
{
    uint32_t kept = 0;

    for (const struct job *job = c->jobs; job; job = job->hh.next)
        kept += job->created && !job->forgotten;
    return kept;
}

/* Keys that belong to no job. */
static bool is_lasting(struct bytes key)
{
    static const char *const lasting[] = {"workflows", "defs",        "told", "suspects", "leader",
                                          "clock",     "supervisors", "mark", "lost"};

    for (size_t k = 0; k < array_size(lasting); k++)
        if (bytes_is(key, lasting[k]))
            return true;
    return key.len > 4 && memcmp(key.data, "def:", 4) == 0; /* see check_refs() */
}

static void require_lasting(void *ctx, struct bytes key)
{
    require((struct checker *)ctx, is_lasting(key),
            "M4 all jobs are forgotten, and the key %.*s is left", (int)key.len, key.data);
}

void checker_left(struct checker *c)
{
    simstore_each(c->store, require_lasting, c);
}

void checker_parked(struct checker *c, void (*fn)(void *ctx, const char *job), void *ctx)
{
    for (struct job *job = c->jobs; job; job = job->hh.next)
        if (job->created && !job->settled)
            fn(ctx, job->id);
}

static void check_parked_step(struct checker *c, const struct job *job, uint32_t i)
{
    const struct step *step = &job->steps[i];
    const struct policy *policy = &check_terms_of(job, i)->policy;

    if (!step->parked || job->settled || *job->hold || c->violated)
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

/* Whether a change that waits in this job brings this definition: "6:change32:<digest>...". */
static bool waits_for(struct checker *c, const struct job *job, const char *digest)
{
    struct bytes text;

    if (!job->changing || !simstore_hash(c->store, job->partition, job->keys.data))
        return false;
    text = simstore_field(c->store, "change");
    return strstr(effects_text(&c->scratch, bytes_of(text.data, text.len < 64 ? text.len : 64)),
                  effects_printf(&c->scratch, "32:%s", digest)) != NULL;
}

static void check_refs(struct checker *c, const struct job *job)
{
    const char *key = effects_printf(&c->scratch, "def:%s", job->w->digest);
    uint64_t users = job->version->registered ? 1 : 0;
    int64_t at;

    for (const struct job *other = c->jobs; other; other = other->hh.next)
        if (other->created && !other->forgotten && other->partition == job->partition)
            users += (uint64_t)(strcmp(other->w->digest, job->w->digest) == 0) +
                     waits_for(c, other, job->w->digest);
    if (!simstore_hash(c->store, job->partition, key)) {
        require(c, users == 0, "I13 %s: its definition is gone", job->id);
        return;
    }
    require(c, users > 0 || !job->forgotten, "I13 %s: its definition is kept without a user",
            job->id);
    require(c, check_number(simstore_field(c->store, "refs")) == users,
            "I13 %s: definition has refs %s", job->id,
            (const char *)simstore_field(c->store, "refs").data);
    require(c, !simstore_zscore(c->store, job->partition, "defs", job->w->digest, &at),
            "I13 %s: its definition counts as unused", job->id);
}

void checker_end(struct checker *c)
{
    uint32_t in_outbox = 0;

    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job && !c->violated; job = job->hh.next) {
        check_read_history(c, job);
        check_compare(c, job, true);
        check_effect_ledger(c, job);
        for (uint32_t i = 0; i < job->w->n_steps; i++)
            check_parked_step(c, job, i);
        if (job->created)
            check_refs(c, job);
    }
    for (uint32_t p = 0; p < c->partitions; p++)
        in_outbox += simstore_zcard(c->store, p, "owed");
    require(c, in_outbox == 0, "I13 notifications in the outbox at rest");
}

void checker_describe(struct checker *c, FILE *out)
{
    effects_reset(&c->scratch);
    for (struct job *job = c->jobs; job; job = job->hh.next) {
        if (job->settled && all_received(job) && job->accepted)
            continue;
        fprintf(out, "job %s: %s%s%s%s, goes %s in turn %u, %u of %u steps in flight%s%s\n",
                job->id, job->created ? "created" : "not created",
                job->accepted ? ", accepted" : "", job->settled ? ", settled" : "",
                all_received(job) ? "" : ", not all received", job->back ? "back" : "forward",
                job->turn, job->flying, job->w->n_steps, *job->hold ? ", held: " : "", job->hold);
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
