// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: encodes the arguments of store functions and decodes their answers
 *
 * AT_… of model/store_schema.h says which argument, value or word stands where, and its other names
 * stand for letters; the build generates it from common/store/schema.txt. See model/store_ops.h.
 */
#include "model/store_ops.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/migration.h"

#define CHUNK 500 /* numbers in one piece of a list of dependents; CHUNK of head.lua */

/* ---- arguments ---- */

struct args {
    struct effects *fx;
    struct bytes *items;
    int n;
    int set; /* how many have a value */
};

static struct args args_new(struct effects *fx, int n)
{
    return (struct args){
        .fx = fx, .items = effects_alloc(fx, (size_t)n * sizeof(struct bytes)), .n = n};
}

static void set(struct args *a, int at, struct bytes b)
{
    assert(at < a->n);
    a->items[at] = b;
    a->set++;
}

static struct bytes text_of(const char *s)
{
    return bytes_str(s ? s : "");
}

static void set_str(struct args *a, int at, const char *s)
{
    set(a, at, text_of(s));
}

static void set_letter(struct args *a, int at, char letter)
{
    char *text = effects_alloc(a->fx, 1);

    *text = letter;
    set(a, at, bytes_of(text, 1));
}

static void set_int(struct args *a, int at, int64_t i)
{
    set(a, at, effects_int(a->fx, i));
}

static void set_flag(struct args *a, int at, bool flag)
{
    set_str(a, at, flag ? "1" : "0");
}

static void emit(struct args *a, uint64_t id, uint32_t partition, const char *function)
{
    struct effect *e = effects_add(a->fx, EFFECT_STORE, id);

    assert(a->set == a->n);
    e->store.partition = partition;
    e->store.function = function;
    e->store.args = a->items;
    e->store.n = a->n;
}

/* ---- define ---- */

static struct bytes numbers(struct effects *fx, const uint32_t *list, uint32_t n)
{
    char *text = effects_alloc(fx, (size_t)n * 11 + 1);
    size_t len = 0;

    for (uint32_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, 12, i ? " %" PRIu32 : "%" PRIu32, list[i]);
    return bytes_of(text, len);
}

static struct bytes classes(struct effects *fx, const struct policy *policy)
{
    const char *text = "";

    for (size_t i = 0; i < policy->n_non_retryable; i++)
        text = effects_printf(fx, "%s %s", text, policy->non_retryable[i]);
    return bytes_str(text);
}

static uint32_t first_piece(uint32_t n)
{
    return n < CHUNK ? n : CHUNK;
}

static char recourse_letter(Drover__V1__Recourse recourse)
{
    switch (recourse) {
    case DROVER__V1__RECOURSE__RECOURSE_COMPENSATE:
        return RECOURSE_COMPENSATE;
    case DROVER__V1__RECOURSE__RECOURSE_FAIL:
        return RECOURSE_FAIL;
    default:
        return RECOURSE_PARK;
    }
}

/* The text that TERMS of definitions.lua reads. */
static const char *terms(struct effects *fx, const struct workflow_dispatch *d)
{
    const struct policy *p = &d->policy;
    struct bytes non_retryable = classes(fx, p);

    return effects_printf(fx,
                          "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %.6g %" PRId64
                          " %" PRIu32 " %" PRIu32 " %.6g %" PRId64 " %c%c %" PRId64 "|%.*s",
                          d->lock_ms, d->wait_ms, d->heartbeat_ms, p->initial_interval_ms,
                          p->backoff_coefficient, p->maximum_interval_ms, p->maximum_attempts,
                          p->maximum_expiries, p->jitter, p->park_interval_ms,
                          recourse_letter(p->on_permanent), recourse_letter(p->on_exhausted),
                          p->silence_interval_ms < 0 ? 0 : p->silence_interval_ms,
                          (int)non_retryable.len, non_retryable.data);
}

/* The line that STEP_LINE of definitions.lua reads. */
static const char *step_line(struct effects *fx, const struct workflow_step *step)
{
    struct bytes take = numbers(fx, step->take, step->n_take);
    struct bytes after = numbers(fx, step->after, step->n_after);
    struct bytes dependents = numbers(fx, step->dependents, first_piece(step->n_dependents));

    return effects_printf(
        fx, "%s|%" PRIu32 " %" PRIu32 " %d%d|%.*s|%.*s|%.*s|%s|%s", terms(fx, &step->forward),
        step->n_after, step->n_dependents, step->has_revert, step->waive_revert, (int)take.len,
        take.data, (int)after.len, after.data, (int)dependents.len, dependents.data,
        step->name ? step->name : "", step->forward.actor ? step->forward.actor : "");
}

/* Pieces of a list of dependents after the first are in fields of their own: "17/1". */
static uint32_t further_pieces(uint32_t n)
{
    return n > CHUNK ? (n - 1) / CHUNK : 0;
}

/* Sets the next of the fields of a definition, or of a job's data. */
static void set_field(struct args *a, int *at, const char *name, struct bytes text)
{
    set_str(a, *at + AT_FIELD_NAME, name);
    set(a, *at + AT_FIELD_TEXT, text);
    *at += AT_FIELD_VALUES;
}

static void set_further_pieces(struct args *a, int *at, const char *step, const uint32_t *list,
                               uint32_t n)
{
    for (uint32_t piece = 1; piece <= further_pieces(n); piece++) {
        uint32_t from = piece * CHUNK;

        set_field(a, at, effects_printf(a->fx, "%s/%" PRIu32, step, piece),
                  numbers(a->fx, list + from, first_piece(n - from)));
    }
}

static void set_step(struct args *a, int *at, const char *name, const struct workflow_step *step)
{
    set_field(a, at, name, bytes_str(step_line(a->fx, step)));
    set_further_pieces(a, at, name, step->dependents, step->n_dependents);
    if (step->has_revert)
        set_field(a, at, effects_printf(a->fx, "v%s", name),
                  bytes_str(effects_printf(a->fx, "%s|%s", terms(a->fx, &step->revert),
                                           step->revert.actor)));
}

/* The terms of the job as a whole are in the field "job". */
static void set_job(struct args *a, int *at, const struct workflow *w)
{
    const char *text =
        effects_printf(a->fx, "%c %" PRIu32 " %d %" PRId64 " %.6g %" PRId64,
                       recourse_letter(w->on_deadline), w->tries, w->compensation_expected,
                       w->tries_interval_ms, w->tries_coefficient, w->complete_within_ms);

    set_field(a, at, "job", bytes_str(text));
}

/* Fields of a step, in a piece of a definition. */
static uint32_t fields_of(const struct workflow_step *step)
{
    return 1 + further_pieces(step->n_dependents) + step->has_revert;
}

bool ops_define(struct effects *fx, uint64_t id, uint32_t partition, const struct workflow *w,
                uint32_t piece, bool registered)
{
    uint32_t from = piece * OPS_BUDGET;
    uint32_t to = from + OPS_BUDGET < w->n_steps ? from + OPS_BUDGET : w->n_steps;
    const struct workflow_step before_roots = {.dependents = w->roots, .n_dependents = w->n_roots};
    uint32_t fields = piece == 0 ? 1 + fields_of(&before_roots) : 0;
    int at = AT_DEFINE_VALUES;
    struct args a;

    for (uint32_t i = from; i < to; i++)
        fields += fields_of(&w->steps[i]) + 1;
    a = args_new(fx, AT_DEFINE_VALUES + AT_FIELD_VALUES * (int)fields);
    set_str(&a, AT_DEFINE_DIGEST, w->digest);
    set_str(&a, AT_DEFINE_NAME, w->name);
    set_int(&a, AT_DEFINE_VERSION, w->version);
    set_int(&a, AT_DEFINE_TOTAL, w->n_steps);
    set(&a, AT_DEFINE_BLOB, piece == 0 ? w->canonical : BYTES_EMPTY);
    set_flag(&a, AT_DEFINE_LAST, to == w->n_steps);
    set_flag(&a, AT_DEFINE_REGISTERED, registered);
    if (piece == 0) {
        set_job(&a, &at, w);
        set_step(&a, &at, "r", &before_roots);
    }
    for (uint32_t i = from; i < to; i++) {
        set_step(&a, &at, effects_printf(fx, "%" PRIu32, i), &w->steps[i]);
        set_field(&a, &at, effects_printf(fx, "x%s", w->steps[i].name), effects_int(fx, i));
    }
    emit(&a, id, partition, "define");
    return to == w->n_steps;
}

/* ---- submit, record, drive, steer ---- */

void ops_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%zu:%s=%s", strlen(name) + 1 + strlen(value), name, value);
}

/* How the client reads events, by whether it reads JSON, and batches. */
static const char *const FORMATS[2][2] = {{"", "batches"}, {"json", "json batches"}};

static void read_format(struct bytes format, bool *json, bool *batches)
{
    *json = bytes_is(format, FORMATS[1][0]) || bytes_is(format, FORMATS[1][1]);
    *batches = bytes_is(format, FORMATS[0][1]) || bytes_is(format, FORMATS[1][1]);
}

void ops_submit(struct effects *fx, uint64_t id, uint32_t partition,
                const struct ops_submit_args *op)
{
    const struct {
        const char *name;
        struct bytes text;
    } data[] = {
        {"input", op->input},
        {"labels", op->labels},
        {"traceparent", text_of(op->traceparent)},
        {"submitter", text_of(op->submitter)},
        {"format", bytes_str(FORMATS[op->json][op->batches])},
    };
    struct args a = args_new(fx, AT_SUBMIT_VALUES + AT_FIELD_VALUES * (int)array_size(data));
    int at = AT_SUBMIT_VALUES;

    set_str(&a, AT_SUBMIT_JOB_ID, op->job);
    set_str(&a, AT_SUBMIT_DIGEST, op->digest);
    set_str(&a, AT_SUBMIT_DEFINITION, op->definition);
    set_str(&a, AT_SUBMIT_WORKFLOW, op->workflow);
    set_flag(&a, AT_SUBMIT_REDELIVERED, op->redelivered);
    set_str(&a, AT_SUBMIT_NONCE, op->nonce);
    set_str(&a, AT_SUBMIT_BY, op->scheduler);
    set_letter(&a, AT_SUBMIT_DESIRED, op->active ? STATE_ACTIVE : STATE_DISABLED);
    set_int(&a, AT_SUBMIT_START_AT, op->start_at);
    set_int(&a, AT_SUBMIT_COMPLETE_BY, op->complete_by);
    set_str(&a, AT_SUBMIT_EVENTS, op->events);
    set_int(&a, AT_SUBMIT_PRIORITY, op->priority);
    set_str(&a, AT_SUBMIT_REPLY_TO, op->reply_to);
    set_str(&a, AT_SUBMIT_CORRELATION, op->correlation);
    set(&a, AT_SUBMIT_LABELS, op->index);
    set_str(&a, AT_SUBMIT_OWNER, op->owner);
    set_int(&a, AT_SUBMIT_HORIZON, op->horizon);
    set_int(&a, AT_SUBMIT_JOBS, op->most_jobs);
    set_int(&a, AT_SUBMIT_BYTES, op->most_bytes);
    for (size_t i = 0; i < array_size(data); i++)
        set_field(&a, &at, data[i].name, data[i].text);
    emit(&a, id, partition, "submit");
}

/* The name that an agent gives itself, without spaces, so that it is one word of the history. */
static const char *one_word(struct effects *fx, const char *name)
{
    char *word = effects_text(fx, bytes_str(name));

    for (char *c = word; *c; c++)
        if ((unsigned char)*c <= ' ')
            *c = '_';
    return word;
}

void ops_record(struct effects *fx, uint64_t id, uint32_t partition, const char *scheduler,
                const struct ops_record_args *const *records, int n)
{
    struct args a = args_new(fx, AT_RECORD_VALUES + AT_REPORT_VALUES * n);

    set_str(&a, AT_RECORD_BY, scheduler);
    for (int i = 0; i < n; i++) {
        const struct ops_record_args *r = records[i];
        int at = AT_RECORD_VALUES + AT_REPORT_VALUES * i;

        set_letter(&a, at + AT_REPORT_KIND, (char)r->kind);
        set_str(&a, at + AT_REPORT_JOB_ID, r->job);
        set_str(&a, at + AT_REPORT_TOKEN, r->token);
        set_flag(&a, at + AT_REPORT_REDELIVERED, r->redelivered);
        set_str(&a, at + AT_REPORT_NONCE, r->nonce);
        set_int(&a, at + AT_REPORT_FRACTION, r->jitter);
        set(&a, at + AT_REPORT_RESULT, r->result);
        set(&a, at + AT_REPORT_ERROR, r->error);
        set_str(&a, at + AT_REPORT_ERROR_CLASS, r->class);
        set_int(&a, at + AT_REPORT_RETRY_AFTER, r->retry_after);
        if (r->no_effect)
            set_letter(&a, at + AT_REPORT_EFFECT, PROVEN_NO_EFFECT);
        else
            set_str(&a, at + AT_REPORT_EFFECT, "");
        set_str(&a, at + AT_REPORT_STEP, r->step);
        set_str(&a, at + AT_REPORT_ACTOR, r->actor);
        set_str(&a, at + AT_REPORT_AGENT, r->agent ? one_word(fx, r->agent) : "");
    }
    emit(&a, id, partition, "record");
}

void ops_drive(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *nonce, const char *scheduler, bool repeated, const uint32_t *steps,
               uint32_t n)
{
    struct args a = args_new(fx, AT_DRIVE_VALUES + (int)n);

    set_str(&a, AT_DRIVE_JOB_ID, job);
    set_str(&a, AT_DRIVE_NONCE, nonce);
    set_str(&a, AT_DRIVE_BY, scheduler);
    set_int(&a, AT_DRIVE_AGAIN, repeated);
    for (uint32_t i = 0; i < n; i++)
        set_int(&a, AT_DRIVE_STEP + (int)i, steps[i]);
    emit(&a, id, partition, "drive");
}

void ops_unsent(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                const char *nonce, const char *scheduler, const char *const *tokens, uint32_t n)
{
    struct args a = args_new(fx, AT_UNSENT_VALUES + (int)n);

    set_str(&a, AT_UNSENT_JOB_ID, job);
    set_str(&a, AT_UNSENT_NONCE, nonce);
    set_str(&a, AT_UNSENT_BY, scheduler);
    set_int(&a, AT_UNSENT_NUMBER, (int64_t)id);
    for (uint32_t i = 0; i < n; i++)
        set_str(&a, AT_UNSENT_TOKEN + (int)i, tokens[i]);
    emit(&a, id, partition, "unsent");
}

/* The steps that a command names, from argument @at on. */
static void set_steps(struct args *a, int at, const struct ops_steer_args *op)
{
    for (uint32_t i = 0; i < op->n_steps; i++) {
        char how = op->differences ? op->differences[i] : DIFFERENCE_OTHER;

        if (how == DIFFERENCE_OTHER)
            set_int(a, at + (int)i, op->steps[i]);
        else
            set_str(a, at + (int)i, effects_printf(a->fx, "%" PRIu32 "%c", op->steps[i], how));
    }
}

/* Return: the number of arguments before the steps that the command names. */
static int command_values(const struct ops_steer_args *op)
{
    if (op->state)
        return AT_RESOLVE_VALUES - 1;
    if (op->what)
        return AT_CHANGE_VALUES - 1;
    return op->to ? AT_MIGRATE_VALUES : AT_RETRY_VALUES;
}

/* Sets the arguments of the command itself, which follow those of every command. */
static void set_command(struct args *a, const struct ops_steer_args *op)
{
    int at = AT_STEER_ARGUMENT;

    if (op->state) { /* resolve */
        set_int(a, at + AT_RESOLVE_STEP, op->steps[0]);
        set_letter(a, at + AT_RESOLVE_STATE, op->state);
        set(a, at + AT_RESOLVE_RESULT, op->payload);
    } else if (op->what) { /* change */
        set_str(a, at + AT_CHANGE_DEFINITION, op->to->digest);
        set_str(a, at + AT_CHANGE_WHAT, op->what);
        set(a, at + AT_CHANGE_ARGUMENTS, op->payload);
        set_steps(a, at + AT_CHANGE_STEP, op);
    } else if (op->to) { /* migrate */
        set_str(a, at + AT_MIGRATE_DEFINITION, op->to->digest);
        set_int(a, at + AT_MIGRATE_N, op->to->n_steps);
        set_str(a, at + AT_MIGRATE_NAME, op->to->full_name);
        set_int(a, at + AT_MIGRATE_GONE, op->n_gone);
        set_steps(a, at + AT_MIGRATE_STEP, op);
    } else { /* retry; the other commands ignore these arguments */
        set(a, at + AT_RETRY_ARGUMENTS, BYTES_EMPTY);
        set_steps(a, at + AT_RETRY_STEP, op);
    }
}

void ops_steer(struct effects *fx, uint64_t id, uint32_t partition, const struct ops_steer_args *op)
{
    struct args a = args_new(fx, AT_STEER_VALUES + command_values(op) + (int)op->n_steps);

    set_str(&a, AT_STEER_JOB_ID, op->job);
    set_str(&a, AT_STEER_COMMAND_NAME, op->command);
    set_str(&a, AT_STEER_COMMAND_ID, op->command_id);
    set_int(&a, AT_STEER_ISSUED_AT, op->issued_at);
    set_int(&a, AT_STEER_IF_SEQ, (int64_t)op->if_seq);
    set_str(&a, AT_STEER_SAID, op->reason);
    set_str(&a, AT_STEER_BY, op->scheduler);
    set_str(&a, AT_STEER_NONCE, op->nonce);
    set_flag(&a, AT_STEER_REDELIVERED, op->redelivered);
    set_str(&a, AT_STEER_DEFINITION, op->definition);
    set_str(&a, AT_STEER_OWNER, op->owner);
    set_int(&a, AT_STEER_BYTES, op->most_bytes);
    set_command(&a, op);
    emit(&a, id, partition, "steer");
}

static int64_t step_number(struct bytes b)
{
    int64_t step;

    return bytes_to_i64(b, &step) ? step : -1;
}

const char *ops_report_kind_name(char kind)
{
    static const struct {
        enum report_kind kind;
        const char *name;
    } kinds[] = {
        {REPORT_ACTIVE, "ACTIVE"},         {REPORT_DISABLED, "DISABLED"},
        {REPORT_TRANSIENT, "TRANSIENT"},   {REPORT_PERMANENT, "PERMANENT"},
        {REPORT_UNSENDABLE, "UNSENDABLE"}, {REPORT_DEFERRED, "DEFERRED"},
        {REPORT_UNSTARTED, "UNSTARTED"},   {REPORT_REJECTED, "REJECTED"},
        {REPORT_UNSENT, "UNSENT"},         {REPORT_UNROUTABLE, "UNROUTABLE"},
        {REPORT_REFUSED, "REFUSED"},
    };

    for (size_t i = 0; i < array_size(kinds); i++)
        if ((char)kinds[i].kind == kind)
            return kinds[i].name;
    return NULL;
}

int64_t ops_token_step(struct bytes token)
{
    const uint8_t *dot = token.len > 0 ? memchr(token.data, '.', token.len) : NULL;

    return dot ? step_number(bytes_of(token.data, (size_t)(dot - token.data))) : -1;
}

const char *ops_token_id(struct effects *fx, const char *token)
{
    const char *dot = strchr(token, '.');
    char digest[ID_SHORT_LEN + 1];

    if (!dot)
        return token;
    id_short(bytes_str(token), digest);
    return effects_printf(fx, "%.*s%s", (int)(dot - token) + 1, token, digest);
}

static bool about_report(const struct bytes *args, int n, int i, struct ops_about *out)
{
    const struct bytes *report = args + AT_RECORD_VALUES + (size_t)i * AT_REPORT_VALUES;
    const char *name;

    if (n < AT_RECORD_VALUES + (i + 1) * AT_REPORT_VALUES)
        return false;
    name = ops_report_kind_name(ops_letter(report[AT_REPORT_KIND]));
    out->what = name ? bytes_str(name) : BYTES_EMPTY;
    out->job = report[AT_REPORT_JOB_ID];
    out->step = ops_token_step(report[AT_REPORT_TOKEN]);
    return true;
}

/* The arguments of a function that say what a call is about; NONE: there is no such argument. */
struct about_at {
    const char *function;
    int job, what, token, other;
};
#define NONE (-1)

static void about_call(const struct about_at *at, const struct bytes *args, struct ops_about *out)
{
    out->job = at->job == NONE ? BYTES_EMPTY : args[at->job];
    out->what = at->what == NONE ? BYTES_EMPTY : args[at->what];
    out->step = at->token == NONE ? -1 : ops_token_step(args[at->token]);
    out->other = at->other == NONE ? BYTES_EMPTY : args[at->other];
}

/* The first argument of inspect, args[0], is a word such as "job": what to inspect. */
static void about_inspect(const struct bytes *args, struct ops_about *out)
{
    out->what = args[0];
    if (bytes_is(args[0], "job"))
        out->job = args[AT_INSPECT_JOB_JOB_ID];
    else if (bytes_is(args[0], "notice"))
        out->job = args[AT_INSPECT_NOTICE_JOB_ID];
    else if (bytes_is(args[0], "history"))
        out->job = args[AT_INSPECT_HISTORY_JOB_ID];
}

bool ops_about(const char *function, const struct bytes *args, int n, int i, struct ops_about *out)
{
    static const struct about_at calls[] = {
        {"submit", AT_SUBMIT_JOB_ID, NONE, NONE, NONE},
        {"drive", AT_DRIVE_JOB_ID, NONE, NONE, NONE},
        {"steer", AT_STEER_JOB_ID, AT_STEER_COMMAND_NAME, NONE, NONE},
        {"renew", AT_RENEW_JOB_ID, NONE, AT_RENEW_TOKEN, NONE},
        {"taken", AT_TAKEN_JOB_ID, NONE, AT_TAKEN_TOKEN, NONE},
        {"unsent", AT_UNSENT_JOB_ID, NONE, NONE, NONE},
        {"settle_owed", AT_SETTLE_OWED_JOB_ID, NONE, NONE, NONE},
        {"defer_owed", AT_DEFER_OWED_JOB_ID, NONE, NONE, NONE},
        {"step_events", AT_STEP_EVENTS_JOB_ID, NONE, NONE, NONE},
        {"told", NONE, AT_TOLD_WHAT, NONE, AT_TOLD_CAUSE},
        {"suspect", NONE, AT_SUSPECT_WHAT, NONE, AT_SUSPECT_DIGEST},
    };

    *out = (struct ops_about){.step = -1};
    if (strcmp(function, "record") == 0)
        return about_report(args, n, i, out);
    if (i > 0)
        return false;
    if (strcmp(function, "inspect") == 0)
        about_inspect(args, out);
    for (size_t k = 0; k < array_size(calls); k++)
        if (strcmp(function, calls[k].function) == 0)
            about_call(&calls[k], args, out);
    return true;
}

/* ---- reading answers ---- */

struct ops_reader ops_reader(const struct store_answer *answer)
{
    return (struct ops_reader){.items = answer->items,
                               .left = answer->result == STORE_OK ? answer->n : 0};
}

/* The next @n values. If there are fewer the answer is bad, and they are empty. */
static const struct bytes *next_values(struct ops_reader *r, uint32_t n)
{
    static const struct bytes missing[64];
    const struct bytes *values = r->items;

    assert(n <= array_size(missing));
    if (r->left < n) {
        r->bad = true;
        return missing;
    }
    r->items += n;
    r->left -= n;
    return values;
}

static struct bytes get(struct ops_reader *r)
{
    return *next_values(r, 1);
}

/* The number in a value, or word; 0 if it is empty. The answer is bad if it is another text. */
static int64_t to_int(struct ops_reader *r, struct bytes b, int64_t most)
{
    int64_t i = 0;

    if (b.len == 0)
        return 0;
    if (!bytes_to_i64(b, &i) || i < 0 || i > most) {
        r->bad = true;
        return 0;
    }
    return i;
}

static int64_t to_ms(struct ops_reader *r, struct bytes b)
{
    return to_int(r, b, INT64_MAX);
}

static uint64_t to_u64(struct ops_reader *r, struct bytes b)
{
    return (uint64_t)to_int(r, b, INT64_MAX);
}

static uint32_t to_u32(struct ops_reader *r, struct bytes b)
{
    return (uint32_t)to_int(r, b, UINT32_MAX);
}

static bool to_flag(struct bytes b)
{
    return bytes_is(b, "1");
}

/* A number of elements of at least @width values each; bad if fewer values are left than that. */
static uint32_t to_count(struct ops_reader *r, struct bytes b, uint32_t width)
{
    uint32_t n = to_u32(r, b);

    if (n > r->left / width) {
        r->bad = true;
        return 0;
    }
    return n;
}

static int result_of(const struct ops_reader *r)
{
    return r->bad ? -EPROTO : 0;
}

static const char *const code_names[OPS_CODES_] = {
    [OPS_BAD] = "BAD",
    [OPS_CREATED] = "CREATED",
    [OPS_ALREADY] = "ALREADY",
    [OPS_CONFLICT] = "CONFLICT",
    [OPS_EXPIRED] = "EXPIRED",
    [OPS_RECORDED] = "RECORDED",
    [OPS_DRIVEN] = "DRIVEN",
    [OPS_DONE] = "DONE",
    [OPS_UNCHANGED] = "UNCHANGED",
    [OPS_STALE] = "STALE",
    [OPS_BEGUN] = "BEGUN",
    [OPS_OTHER_STEP] = "OTHER_STEP",
    [OPS_OTHER_ACTOR] = "OTHER_ACTOR",
    [OPS_NAME_TAKEN] = "NAME_TAKEN",
    [OPS_TOO_FAR] = "TOO_FAR",
    [OPS_TOO_MANY] = "TOO_MANY",
    [OPS_DATA_FULL] = "DATA_FULL",
    [OPS_SUPERSEDED] = "SUPERSEDED",
    [OPS_WRONG_STATE] = "WRONG_STATE",
    [OPS_UNSUPPORTED] = "UNSUPPORTED",
    [OPS_MOVED] = "MOVED",
    [OPS_UNKNOWN_JOB] = "UNKNOWN_JOB",
    [OPS_UNKNOWN_WORKFLOW] = "UNKNOWN_WORKFLOW",
    [OPS_UNKNOWN_DEFINITION] = "UNKNOWN_DEFINITION",
};

const char *ops_code_name(enum ops_code code)
{
    return code_names[code];
}

static enum ops_code to_code(struct ops_reader *r, struct bytes word)
{
    for (enum ops_code code = OPS_CREATED; code < OPS_CODES_; code++)
        if (bytes_is(word, code_names[code]))
            return code;
    r->bad = true;
    return OPS_BAD;
}

/* Removes the first word from a text. */
static struct bytes next_word(struct bytes *rest)
{
    struct bytes word = {.data = rest->data};

    while (word.len < rest->len && rest->data[word.len] != ' ')
        word.len++;
    *rest = word.len < rest->len ? bytes_of(rest->data + word.len + 1, rest->len - word.len - 1)
                                 : BYTES_EMPTY;
    return word;
}

/* The @n words of a value. If it has more or fewer the answer is bad, and missing ones are empty.
 */
static void split(struct ops_reader *r, struct bytes value, struct bytes *words, uint32_t n)
{
    uint32_t found = 0;

    for (; found < n && value.len > 0; found++)
        words[found] = next_word(&value);
    if (found < n || value.len > 0)
        r->bad = true;
    while (found < n)
        words[found++] = BYTES_EMPTY;
}

static void read_alert(struct ops_reader *r, struct ops_alert *out)
{
    struct bytes words[AT_ALERT_VALUES];

    split(r, get(r), words, AT_ALERT_VALUES);
    out->step = to_u32(r, words[AT_ALERT_STEP]);
    out->back = ops_letter(words[AT_ALERT_ASKED]) == STATE_DISABLED;
    out->reason = words[AT_ALERT_REASON];
    out->seq = to_u64(r, words[AT_ALERT_SEQ]);
}

static void read_alerts(struct ops_reader *r, struct effects *fx, struct ops_transition *out)
{
    out->alerts = effects_alloc(fx, out->n_alerts * sizeof(*out->alerts));
    for (uint32_t i = 0; i < out->n_alerts; i++)
        read_alert(r, &out->alerts[i]);
}

static struct ops_result *read_results(struct ops_reader *r, struct effects *fx, uint32_t n)
{
    struct ops_result *results = effects_alloc(fx, n * sizeof(*results));

    for (uint32_t i = 0; i < n; i++) {
        const struct bytes *result = next_values(r, AT_RESULT_VALUES);

        results[i].step = to_u32(r, result[AT_RESULT_STEP]);
        results[i].payload = result[AT_RESULT_PAYLOAD];
    }
    return results;
}

static void read_request(struct ops_reader *r, struct ops_request *out)
{
    struct bytes words[AT_DISPATCH_VALUES];
    char current;

    split(r, get(r), words, AT_DISPATCH_VALUES);
    out->step = to_u32(r, words[AT_DISPATCH_STEP]);
    out->active = ops_letter(words[AT_DISPATCH_ASKED]) == STATE_ACTIVE;
    current = ops_letter(words[AT_DISPATCH_CURRENT]);
    out->current = current ? current : STATE_UNKNOWN;
    out->turn = to_u32(r, words[AT_DISPATCH_TURN]);
    out->attempt = to_u32(r, words[AT_DISPATCH_ATTEMPT]);
    out->token = words[AT_DISPATCH_TOKEN];
    out->locked_until = to_ms(r, words[AT_DISPATCH_UNTIL]);
    out->wait = to_ms(r, words[AT_DISPATCH_WAIT]);
    out->failures = to_u32(r, words[AT_DISPATCH_FAILURES]);
    out->expiries = to_u32(r, words[AT_DISPATCH_EXPIRIES]);
    out->sent_before = to_flag(words[AT_DISPATCH_AGAIN]);
    out->forward_turn = to_u32(r, words[AT_DISPATCH_FORWARD]);
    out->last_error = to_flag(words[AT_DISPATCH_HAS_ERROR]) ? get(r) : BYTES_EMPTY;
    out->arguments = to_flag(words[AT_DISPATCH_HAS_ARGUMENTS]) ? get(r) : BYTES_EMPTY;
}

/* Reads the data that all requests of an answer carry. */
static void read_data(struct ops_reader *r, struct effects *fx, struct ops_transition *out)
{
    const struct bytes *data = next_values(r, AT_DATA_VALUES);
    struct bytes words[AT_TERMS_VALUES];
    bool labelled;

    out->input = data[AT_DATA_INPUT];
    split(r, data[AT_DATA_TERMS], words, AT_TERMS_VALUES);
    labelled = to_flag(words[AT_TERMS_LABELLED]);
    out->complete_by = to_ms(r, words[AT_TERMS_COMPLETE_BY]);
    out->n_results = to_count(r, words[AT_TERMS_N_RESULTS], AT_RESULT_VALUES);
    out->labels = labelled ? get(r) : BYTES_EMPTY;
    out->traceparent = labelled ? get(r) : BYTES_EMPTY;
    out->results = read_results(r, fx, out->n_results);
}

static void read_requests(struct ops_reader *r, struct effects *fx, struct ops_transition *out)
{
    if (out->n_requests == 0)
        return;
    out->requests = effects_alloc(fx, out->n_requests * sizeof(*out->requests));
    for (uint32_t i = 0; i < out->n_requests; i++)
        read_request(r, &out->requests[i]);
    read_data(r, fx, out);
}

int ops_read_transition(struct ops_reader *r, struct effects *fx, struct ops_transition *out)
{
    const struct bytes *values = next_values(r, AT_TRANSITION_VALUES);
    struct bytes words[AT_SUMMARY_VALUES];

    *out = (struct ops_transition){.code = to_code(r, values[AT_TRANSITION_CODE])};
    out->definition = values[AT_TRANSITION_DEFINITION];
    split(r, values[AT_TRANSITION_SUMMARY], words, AT_SUMMARY_VALUES);
    out->now = to_ms(r, words[AT_SUMMARY_NOW]);
    out->seq = to_u64(r, words[AT_SUMMARY_SEQ]);
    out->ended_seq = to_u64(r, words[AT_SUMMARY_SETTLED]);
    out->more = to_flag(words[AT_SUMMARY_MORE]);
    out->publish_step_events = bytes_is(words[AT_SUMMARY_STEP_EVENTS], "1");
    out->client_has_step_events = bytes_is(words[AT_SUMMARY_STEP_EVENTS], "2");
    out->open = to_u32(r, words[AT_SUMMARY_OPEN]);
    out->steps = to_u32(r, words[AT_SUMMARY_N]);
    out->watermark = to_u64(r, words[AT_SUMMARY_WATERMARK]);
    out->n_alerts = to_count(r, words[AT_SUMMARY_N_ALERTS], 1);
    out->n_requests = to_count(r, words[AT_SUMMARY_N_REQUESTS], AT_REQUEST_VALUES);
    read_alerts(r, fx, out);
    read_requests(r, fx, out);
    return result_of(r);
}

int ops_read_refusal(struct ops_reader *r, struct ops_refusal *out)
{
    const struct bytes *values = next_values(r, AT_REFUSAL_VALUES);
    struct bytes why = values[AT_REFUSAL_WHY];

    *out = (struct ops_refusal){.step = to_u32(r, values[AT_REFUSAL_STEP])};
    if (why.len >= sizeof(out->why))
        return -EPROTO;
    if (why.len > 0)
        memcpy(out->why, why.data, why.len);
    return result_of(r);
}

/* ---- inspect ---- */

/* Begins the arguments of inspect. @what: the first one, such as "job": what to inspect. The schema
 * has it in the name of the function, so it has no place of its own. */
static struct args inspect_new(struct effects *fx, const char *what, int n)
{
    struct args a = args_new(fx, n);

    set_str(&a, 0, what);
    return a;
}

void ops_inspect_definition(struct effects *fx, uint64_t id, uint32_t partition, const char *digest)
{
    struct args a = inspect_new(fx, "definition", AT_INSPECT_DEFINITION_VALUES);

    set_str(&a, AT_INSPECT_DEFINITION_DIGEST, digest);
    emit(&a, id, partition, "inspect");
}

void ops_inspect_job(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                     uint32_t from, uint32_t count, bool with_data, const char *owner)
{
    struct args a = inspect_new(fx, "job", AT_INSPECT_JOB_VALUES);

    set_str(&a, AT_INSPECT_JOB_JOB_ID, job);
    set_int(&a, AT_INSPECT_JOB_START, from);
    set_int(&a, AT_INSPECT_JOB_COUNT, count);
    set_flag(&a, AT_INSPECT_JOB_WITH_DATA, with_data);
    set_str(&a, AT_INSPECT_JOB_OWNER, owner);
    emit(&a, id, partition, "inspect");
}

void ops_inspect_notification(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                              uint64_t seq, int64_t limit, const uint32_t *steps, uint32_t n)
{
    uint32_t tried = n < OPS_BUDGET ? n : OPS_BUDGET;
    struct args a = inspect_new(fx, "notice", AT_INSPECT_NOTICE_VALUES + (int)tried);

    set_str(&a, AT_INSPECT_NOTICE_JOB_ID, job);
    set_int(&a, AT_INSPECT_NOTICE_SEQ, (int64_t)seq);
    set_int(&a, AT_INSPECT_NOTICE_LIMIT, limit);
    for (uint32_t i = 0; i < tried; i++)
        set_int(&a, AT_INSPECT_NOTICE_STEP + (int)i, steps[i]);
    emit(&a, id, partition, "inspect");
}

static void read_job_fields(struct ops_reader *r, const struct bytes *values, struct ops_job *out)
{
    out->definition = values[AT_JOB_FIELDS_DEFINITION];
    out->current = values[AT_JOB_FIELDS_CURRENT];
    out->desired = values[AT_JOB_FIELDS_DESIRED];
    out->phase = values[AT_JOB_FIELDS_PHASE];
    out->outcome = values[AT_JOB_FIELDS_OUTCOME];
    out->reason = values[AT_JOB_FIELDS_REASON];
    out->hold = values[AT_JOB_FIELDS_HOLD];
    out->turn = to_u32(r, values[AT_JOB_FIELDS_TURN]);
    out->seq = to_u64(r, values[AT_JOB_FIELDS_SEQ]);
    out->n = to_u32(r, values[AT_JOB_FIELDS_N]);
    out->open = to_u32(r, values[AT_JOB_FIELDS_OPEN]);
    out->created = to_ms(r, values[AT_JOB_FIELDS_CREATED]);
    out->updated = to_ms(r, values[AT_JOB_FIELDS_UPDATED]);
    out->start_at = to_ms(r, values[AT_JOB_FIELDS_START_AT]);
    out->complete_by = to_ms(r, values[AT_JOB_FIELDS_COMPLETE_BY]);
    out->locked_by = values[AT_JOB_FIELDS_LOCKED_BY];
    out->since = to_u32(r, values[AT_JOB_FIELDS_SINCE]);
    out->cause = values[AT_JOB_FIELDS_CAUSE];
    out->ending = values[AT_JOB_FIELDS_ENDING];
    out->failure = values[AT_JOB_FIELDS_FAILURE];
    out->attention = values[AT_JOB_FIELDS_ATTENTION];
    out->parked = to_u32(r, values[AT_JOB_FIELDS_PARKED]);
    out->next_try = to_ms(r, values[AT_JOB_FIELDS_NEXT_TRY]);
    out->failures = to_u32(r, values[AT_JOB_FIELDS_FAILURES]);
    out->waits_for = values[AT_JOB_FIELDS_WAITS_FOR];
}

/* After read_job_fields(). */
static void read_data_fields(const struct bytes *values, struct ops_job *out)
{
    out->workflow = values[AT_DATA_FIELDS_WORKFLOW];
    out->submitter = values[AT_DATA_FIELDS_SUBMITTER];
    out->labels = values[AT_DATA_FIELDS_LABELS];
    out->reply_to = values[AT_DATA_FIELDS_REPLY_TO];
    out->correlation = values[AT_DATA_FIELDS_CORRELATION];
    out->traceparent = values[AT_DATA_FIELDS_TRACEPARENT];
    read_format(values[AT_DATA_FIELDS_FORMAT], &out->json, &out->batches);
    out->held = values[AT_DATA_FIELDS_HELD];
    out->error = values[AT_DATA_FIELDS_ERROR];
    if (out->failure.len > 0 && memchr(out->failure.data, '|', out->failure.len))
        out->error = values[AT_DATA_FIELDS_ERROR_BACK]; /* of the failure on the way back */
}

/* Reads the code of an answer to inspect. Return: 0 for FOUND, 1 for UNKNOWN, otherwise -EPROTO. */
static int is_found(const struct ops_reader *r)
{
    struct bytes code = r->left > 0 ? r->items[0] : BYTES_EMPTY;

    if (bytes_is(code, "UNKNOWN"))
        return 1;
    return bytes_is(code, "FOUND") ? 0 : -EPROTO;
}

void ops_inspect_jobs(struct effects *fx, uint64_t id, uint32_t partition,
                      const struct ops_list_args *op)
{
    struct args a = inspect_new(fx, "jobs", AT_INSPECT_JOBS_VALUES + (int)op->n_labels);

    if (op->before == INT64_MAX)
        set_str(&a, AT_INSPECT_JOBS_BEFORE, "+inf");
    else
        set_int(&a, AT_INSPECT_JOBS_BEFORE, op->before);
    set_str(&a, AT_INSPECT_JOBS_BEFORE_ID, op->before_id);
    set_int(&a, AT_INSPECT_JOBS_SINCE, op->since);
    set_int(&a, AT_INSPECT_JOBS_LIMIT, op->limit);
    set_str(&a, AT_INSPECT_JOBS_PHASE, op->phase);
    set_str(&a, AT_INSPECT_JOBS_WORKFLOW, op->workflow);
    set_str(&a, AT_INSPECT_JOBS_NEEDS, op->needs);
    set_str(&a, AT_INSPECT_JOBS_ERROR_CLASS, op->class);
    set_str(&a, AT_INSPECT_JOBS_ACTOR, op->actor);
    for (size_t i = 0; i < op->n_labels; i++)
        set_str(&a, AT_INSPECT_JOBS_LABEL + (int)i,
                effects_printf(fx, "%s=%s", op->labels[i], op->values[i]));
    emit(&a, id, partition, "inspect");
}

/* A time of creation; "+inf" for any. */
static int64_t to_creation(struct ops_reader *r, struct bytes b)
{
    return bytes_is(b, "+inf") ? INT64_MAX : to_ms(r, b);
}

int ops_read_list(struct ops_reader *r, struct effects *fx, struct ops_list *out)
{
    const struct bytes *values;

    *out = (struct ops_list){0};
    if (is_found(r))
        return -EPROTO;
    values = next_values(r, AT_JOB_LIST_VALUES);
    out->now = to_ms(r, values[AT_JOB_LIST_NOW]);
    out->more = to_flag(values[AT_JOB_LIST_MORE]);
    out->last = to_creation(r, values[AT_JOB_LIST_LAST]);
    out->last_id = values[AT_JOB_LIST_LAST_ID];
    out->n = to_count(r, values[AT_JOB_LIST_N], AT_LISTED_JOB_VALUES);
    out->jobs = effects_alloc(fx, out->n * sizeof(*out->jobs));
    for (uint32_t i = 0; i < out->n; i++) {
        struct ops_listed *listed = &out->jobs[i];
        struct ops_reader fields = {0}; /* those of a corrupt job are not valid; it is listed too */

        values = next_values(r, AT_LISTED_JOB_VALUES);
        *listed = (struct ops_listed){.id = values[AT_LISTED_JOB_JOB_ID], .job.now = out->now};
        read_job_fields(&fields, values + AT_LISTED_JOB_JOB_FIELDS, &listed->job);
        read_data_fields(values + AT_LISTED_JOB_DATA_FIELDS, &listed->job);
    }
    return result_of(r);
}

void ops_inspect_history(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                         uint64_t from, uint32_t limit, const char *owner)
{
    struct args a = inspect_new(fx, "history", AT_INSPECT_HISTORY_VALUES);

    set_str(&a, AT_INSPECT_HISTORY_JOB_ID, job);
    set_int(&a, AT_INSPECT_HISTORY_START, (int64_t)from);
    set_int(&a, AT_INSPECT_HISTORY_LIMIT, limit);
    set_str(&a, AT_INSPECT_HISTORY_OWNER, owner);
    emit(&a, id, partition, "inspect");
}

int ops_read_history(struct ops_reader *r, struct effects *fx, struct ops_history *out)
{
    int found = is_found(r);
    const struct bytes *values;

    *out = (struct ops_history){0};
    if (found)
        return found;
    values = next_values(r, AT_HISTORY_VALUES);
    out->definition = values[AT_HISTORY_DEFINITION];
    out->first = to_u64(r, values[AT_HISTORY_FIRST]);
    out->more = to_flag(values[AT_HISTORY_MORE]);
    out->n = to_count(r, values[AT_HISTORY_N], 1);
    out->entries = effects_alloc(fx, out->n * sizeof(*out->entries));
    for (uint32_t i = 0; i < out->n; i++)
        out->entries[i] = get(r);
    return result_of(r);
}

void ops_inspect_workflows(struct effects *fx, uint64_t id, uint32_t partition, const char *after,
                           uint32_t limit)
{
    struct args a = inspect_new(fx, "workflows", AT_INSPECT_WORKFLOWS_VALUES);

    set_str(&a, AT_INSPECT_WORKFLOWS_AFTER, after);
    set_int(&a, AT_INSPECT_WORKFLOWS_LIMIT, limit);
    emit(&a, id, partition, "inspect");
}

int ops_read_workflows(struct ops_reader *r, struct effects *fx, struct ops_workflows *out)
{
    const struct bytes *values;

    *out = (struct ops_workflows){0};
    if (is_found(r))
        return -EPROTO;
    values = next_values(r, AT_WORKFLOWS_VALUES);
    out->more = to_flag(values[AT_WORKFLOWS_MORE]);
    out->n = to_count(r, values[AT_WORKFLOWS_N], AT_WORKFLOW_VALUES);
    out->items = effects_alloc(fx, out->n * sizeof(*out->items));
    for (uint32_t i = 0; i < out->n; i++) {
        values = next_values(r, AT_WORKFLOW_VALUES);
        out->items[i] = (struct ops_workflow){
            .name = values[AT_WORKFLOW_NAME],
            .digest = values[AT_WORKFLOW_DIGEST],
            .steps = to_u32(r, values[AT_WORKFLOW_STEPS]),
        };
    }
    return result_of(r);
}

void ops_inspect_workflow(struct effects *fx, uint64_t id, uint32_t partition, const char *name)
{
    struct args a = inspect_new(fx, "workflow", AT_INSPECT_WORKFLOW_VALUES);

    set_str(&a, AT_INSPECT_WORKFLOW_NAME, name);
    emit(&a, id, partition, "inspect");
}

int ops_read_job(struct ops_reader *r, struct effects *fx, struct ops_job *out)
{
    int found = is_found(r);
    const struct bytes *values;

    *out = (struct ops_job){0};
    if (found)
        return found;
    values = next_values(r, AT_JOB_VALUES);
    out->now = to_ms(r, values[AT_JOB_NOW]);
    read_job_fields(r, values + AT_JOB_JOB_FIELDS, out);
    read_data_fields(values + AT_JOB_DATA_FIELDS, out);
    out->input = values[AT_JOB_INPUT];
    out->n_steps = to_count(r, values[AT_JOB_N_STEPS], AT_STEP_VALUES);
    out->steps = effects_alloc(fx, out->n_steps * sizeof(*out->steps));
    for (uint32_t i = 0; i < out->n_steps; i++) {
        values = next_values(r, AT_STEP_VALUES);
        out->steps[i] = (struct ops_step){
            .step = to_u32(r, values[AT_STEP_NUMBER]),
            .record = values[AT_STEP_RECORD],
            .error = values[AT_STEP_ERROR],
            .progress = values[AT_STEP_PROGRESS],
            .result = values[AT_STEP_RESULT],
            .agent = values[AT_STEP_AGENT],
        };
    }
    return result_of(r);
}

/* The addresses of a job before its last one. */
static void read_earlier(struct ops_reader *r, struct effects *fx, struct ops_job *out)
{
    out->n_earlier = to_count(r, get(r), AT_ADDRESS_VALUES);
    out->earlier = effects_alloc(fx, out->n_earlier * sizeof(*out->earlier));
    for (uint32_t i = 0; i < out->n_earlier; i++) {
        const struct bytes *address = next_values(r, AT_ADDRESS_VALUES);

        out->earlier[i].reply_to = address[AT_ADDRESS_REPLY_TO];
        out->earlier[i].correlation = address[AT_ADDRESS_CORRELATION];
    }
}

int ops_read_notification(struct ops_reader *r, struct effects *fx, struct ops_job *out)
{
    int found = is_found(r);
    const struct bytes *values;

    *out = (struct ops_job){0};
    if (found)
        return found;
    values = next_values(r, AT_NOTICE_VALUES);
    out->definition = values[AT_NOTICE_DEFINITION];
    out->n = to_u32(r, values[AT_NOTICE_N]);
    out->workflow = values[AT_NOTICE_WORKFLOW];
    out->submitter = values[AT_NOTICE_SUBMITTER];
    out->labels = values[AT_NOTICE_LABELS];
    out->reply_to = values[AT_NOTICE_REPLY_TO];
    out->correlation = values[AT_NOTICE_CORRELATION];
    out->traceparent = values[AT_NOTICE_TRACEPARENT];
    read_format(values[AT_NOTICE_FORMAT], &out->json, &out->batches);
    out->notifications = to_u32(r, values[AT_NOTICE_TRIES]);
    out->outcome = values[AT_NOTICE_OUTCOME]; /* from here on: as it was when that turn ended */
    out->phase = values[AT_NOTICE_PHASE];
    out->turn = to_u32(r, values[AT_NOTICE_TURN]);
    out->updated = to_ms(r, values[AT_NOTICE_AT]);
    out->open = to_u32(r, values[AT_NOTICE_OPEN]);
    out->reason = values[AT_NOTICE_REASON];
    out->failed = values[AT_NOTICE_FAILED];
    out->failure = values[AT_NOTICE_FAILURE];
    out->error = values[AT_NOTICE_ERROR];
    out->n_results = to_count(r, values[AT_NOTICE_N_RESULTS], AT_RESULT_VALUES);
    out->results = read_results(r, fx, out->n_results);
    read_earlier(r, fx, out);
    return result_of(r);
}

int ops_read_definition(struct ops_reader *r, struct bytes *out)
{
    int found = is_found(r);

    if (found)
        return found;
    *out = next_values(r, AT_CONTENT_VALUES)[AT_CONTENT_BLOB];
    return result_of(r);
}

static void *alloc(void *unused, size_t size)
{
    return or_abort(malloc(size));
}

static void release(void *unused, void *p)
{
    free(p);
}

void *ops_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes encoded)
{
    static ProtobufCAllocator allocator = {.alloc = alloc, .free = release};

    if (encoded.len == 0)
        return NULL;
    return protobuf_c_message_unpack(descriptor, &allocator, encoded.len, encoded.data);
}

Drover__V1__Payload *ops_payload(struct bytes encoded)
{
    return ops_unpack(&drover__v1__payload__descriptor, encoded);
}

char ops_letter(struct bytes text)
{
    return text.len == 1 ? (char)text.data[0] : 0;
}

static bool to_letter(struct bytes word, char *out)
{
    if (word.len != 1)
        return false;
    *out = ops_letter(word);
    return true;
}

static bool to_number(struct bytes word, uint32_t *out)
{
    int64_t number;

    if (!bytes_to_i64(word, &number) || number < 0 || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool to_text(struct bytes word, char *out, size_t size)
{
    if (word.len == 0 || word.len >= size)
        return false;
    memcpy(out, word.data, word.len);
    out[word.len] = 0;
    return true;
}

int ops_read_step_record(struct bytes text, struct ops_step_record *out)
{
    struct bytes words[AT_STEP_RECORD_VALUES];
    uint32_t n = 0;

    for (; n < AT_STEP_RECORD_VALUES && (text.len > 0 || n < AT_STEP_RECORD_SINCE); n++)
        words[n] = next_word(&text);
    if (text.len > 0 || !to_letter(words[AT_STEP_RECORD_CURRENT], &out->current) ||
        !to_letter(words[AT_STEP_RECORD_ASKED], &out->asked) ||
        !to_letter(words[AT_STEP_RECORD_STATE], &out->state) ||
        !to_number(words[AT_STEP_RECORD_TURN], &out->turn) ||
        !to_number(words[AT_STEP_RECORD_ATTEMPT], &out->attempt) ||
        !to_text(words[AT_STEP_RECORD_TOKEN], out->token, sizeof(out->token)) ||
        !bytes_to_i64(words[AT_STEP_RECORD_UNTIL], &out->until) ||
        !to_number(words[AT_STEP_RECORD_FAILURES], &out->failures) ||
        !to_number(words[AT_STEP_RECORD_EXPIRIES], &out->expiries) ||
        !to_number(words[AT_STEP_RECORD_WAITING], &out->waiting) ||
        !to_number(words[AT_STEP_RECORD_UNSTARTED], &out->unstarted))
        return -EPROTO;
    out->since = 1;
    out->forward = out->turn;
    if (n == AT_STEP_RECORD_SINCE)
        return 0;
    return n == AT_STEP_RECORD_VALUES && to_number(words[AT_STEP_RECORD_SINCE], &out->since) &&
                   to_number(words[AT_STEP_RECORD_FORWARD], &out->forward)
               ? 0
               : -EPROTO;
}

/* A word that may be "-" for none. */
static struct bytes next_name(struct bytes *text)
{
    struct bytes word = next_word(text);

    return bytes_is(word, "-") ? BYTES_EMPTY : word;
}

int ops_read_attention(struct bytes text, struct ops_attention *out)
{
    out->kind = next_word(&text);
    if (!bytes_to_i64(next_word(&text), &out->since))
        return -EPROTO;
    out->step = next_name(&text);
    out->actor = next_name(&text);
    out->class = next_name(&text);
    return text.len == 0 ? 0 : -EPROTO;
}

int ops_read_failure(struct bytes text, struct ops_failure *out)
{
    const uint8_t *bar = text.len > 0 ? memchr(text.data, '|', text.len) : NULL;

    if (bar)
        text = bytes_of(bar + 1, text.len - (size_t)(bar + 1 - text.data));
    out->step = next_name(&text);
    if (!to_letter(next_word(&text), &out->asked))
        return -EPROTO;
    out->reason = next_word(&text);
    (void)next_word(&text); /* the step's number and the class: only the store uses them */
    (void)next_word(&text);
    return out->reason.len > 0 && text.len == 0 ? 0 : -EPROTO;
}

/* ---- notifications, alert causes, watermarks, suspects, Progress, step events, supervision ----
 */

void ops_settle_owed(struct effects *fx, uint64_t id, uint32_t partition,
                     const struct ops_notification_id *notification)
{
    struct args a = args_new(fx, AT_SETTLE_OWED_VALUES);

    set_str(&a, AT_SETTLE_OWED_JOB_ID, notification->job);
    set_int(&a, AT_SETTLE_OWED_SEQ, (int64_t)notification->seq);
    set_int(&a, AT_SETTLE_OWED_AT, notification->at);
    emit(&a, id, partition, "settle_owed");
}

void ops_defer_owed(struct effects *fx, uint64_t id, uint32_t partition,
                    const struct ops_notification_id *notification, uint32_t tries)
{
    struct args a = args_new(fx, AT_DEFER_OWED_VALUES);

    set_str(&a, AT_DEFER_OWED_JOB_ID, notification->job);
    set_int(&a, AT_DEFER_OWED_SEQ, (int64_t)notification->seq);
    set_int(&a, AT_DEFER_OWED_AT, notification->at);
    set_int(&a, AT_DEFER_OWED_TRIES, tries);
    emit(&a, id, partition, "defer_owed");
}

void ops_alert_cause(struct effects *fx, uint64_t id, uint32_t partition, const char *cause,
                     enum ops_cause what, const char *nonce)
{
    static const char *const words[] = {
        [OPS_CAUSE_ASK] = "ask",
        [OPS_CAUSE_PUBLISHED] = "told",
        [OPS_CAUSE_OVER] = "over",
    };
    struct args a = args_new(fx, AT_TOLD_THERE);

    set_str(&a, AT_TOLD_CAUSE, cause);
    set_str(&a, AT_TOLD_WHAT, words[what]);
    set_str(&a, AT_TOLD_NONCE, nonce);
    emit(&a, id, partition, "told");
}

void ops_dead_letters(struct effects *fx, uint64_t id, uint32_t partition, uint64_t there,
                      uint64_t own)
{
    struct args a = args_new(fx, AT_TOLD_VALUES);

    set_str(&a, AT_TOLD_CAUSE, "");
    set_str(&a, AT_TOLD_WHAT, "letters");
    set_str(&a, AT_TOLD_NONCE, "");
    set_int(&a, AT_TOLD_THERE, (int64_t)there);
    set_int(&a, AT_TOLD_OWN, (int64_t)own);
    emit(&a, id, partition, "told");
}

bool ops_read_alert_cause(struct ops_reader *r)
{
    return bytes_is(get(r), "NEWS");
}

uint64_t ops_read_dead_letters(struct ops_reader *r)
{
    bool news = ops_read_alert_cause(r);
    uint64_t count = to_u64(r, get(r));

    return news ? count : 0;
}

void ops_watermark(struct effects *fx, uint64_t id, uint32_t partition, const char *run,
                   const char *nonce, const char *const *jobs, int n)
{
    struct args a = args_new(fx, AT_MARK_VALUES + n);

    set_str(&a, AT_MARK_RUN, run);
    set_str(&a, AT_MARK_NONCE, nonce);
    for (int i = 0; i < n; i++)
        set_str(&a, AT_MARK_JOB_ID + i, jobs[i]);
    emit(&a, id, partition, "mark");
}

int ops_read_watermark(struct ops_reader *r, struct effects *fx, struct ops_watermark_answer *out)
{
    const struct bytes *values = next_values(r, AT_WATERMARK_VALUES);

    *out = (struct ops_watermark_answer){
        .now = to_ms(r, values[AT_WATERMARK_NOW]),
        .id = values[AT_WATERMARK_ID],
        .count = to_u64(r, values[AT_WATERMARK_COUNT]),
        .count_at_run_start = to_u64(r, values[AT_WATERMARK_BEGAN]),
        .n_missing_jobs = to_count(r, values[AT_WATERMARK_N_LOST], 1),
    };
    out->missing_jobs = effects_alloc(fx, out->n_missing_jobs * sizeof(*out->missing_jobs));
    for (uint32_t i = 0; i < out->n_missing_jobs; i++)
        out->missing_jobs[i] = get(r);
    return result_of(r);
}

void ops_suspect(struct effects *fx, uint64_t id, uint32_t partition, const char *digest,
                 const char *incarnation, enum ops_suspect what)
{
    static const char *const words[] = {
        [OPS_SUSPECT_BEGIN] = "begin",
        [OPS_SUSPECT_ALONE] = "alone",
        [OPS_SUSPECT_BACK] = "back",
        [OPS_SUSPECT_END] = "end",
    };
    struct args a = args_new(fx, AT_SUSPECT_VALUES);

    set_str(&a, AT_SUSPECT_DIGEST, digest);
    set_str(&a, AT_SUSPECT_INCARNATION, incarnation);
    set_str(&a, AT_SUSPECT_WHAT, words[what]);
    emit(&a, id, partition, "suspect");
}

uint32_t ops_read_suspect(struct ops_reader *r)
{
    return to_u32(r, get(r));
}

void ops_renew(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token, const struct ops_progress *progress, const char *actor)
{
    struct args a = args_new(fx, AT_RENEW_VALUES);
    const char *agent = one_word(fx, progress->agent);

    set_str(&a, AT_RENEW_JOB_ID, job);
    set_str(&a, AT_RENEW_TOKEN, token);
    set_str(&a, AT_RENEW_FRACTION, effects_printf(fx, "%.4f@%s", progress->fraction, agent));
    set_str(&a, AT_RENEW_NOTE, progress->note);
    set_int(&a, AT_RENEW_ELAPSED, progress->elapsed);
    set_str(&a, AT_RENEW_ACTOR, actor);
    emit(&a, id, partition, "renew");
}

int ops_read_renewed(struct ops_reader *r, struct ops_renewed *out)
{
    const struct bytes *values = next_values(r, AT_RENEWED_VALUES);

    out->known = bytes_is(values[AT_RENEWED_CODE], "RENEWED");
    out->other_actor = bytes_is(values[AT_RENEWED_CODE], "OTHER_ACTOR");
    out->wanted = to_flag(values[AT_RENEWED_WANTED]);
    out->locked_until = to_ms(r, values[AT_RENEWED_LOCKED_UNTIL]);
    out->now = to_ms(r, values[AT_RENEWED_NOW]);
    out->begins = r->left > 0 && to_flag(get(r));
    return result_of(r);
}

void ops_taken(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token)
{
    struct args a = args_new(fx, AT_TAKEN_VALUES);

    set_str(&a, AT_TAKEN_JOB_ID, job);
    set_str(&a, AT_TAKEN_TOKEN, token);
    emit(&a, id, partition, "taken");
}

void ops_step_events(struct effects *fx, uint64_t id, uint32_t partition, const char *job)
{
    struct args a = args_new(fx, AT_STEP_EVENTS_VALUES);

    set_str(&a, AT_STEP_EVENTS_JOB_ID, job);
    emit(&a, id, partition, "step_events");
}

static void read_step_event(struct ops_reader *r, struct ops_step_event *out)
{
    const struct bytes *values = next_values(r, AT_EVENT_VALUES);
    struct bytes words[AT_HAPPENING_VALUES], agent;

    split(r, values[AT_EVENT_HAPPENING], words, AT_HAPPENING_VALUES);
    out->seq = to_u64(r, words[AT_HAPPENING_SEQ]);
    out->at = to_ms(r, words[AT_HAPPENING_AT]);
    out->event = words[AT_HAPPENING_NAME];
    out->attempt = to_u32(r, words[AT_HAPPENING_ATTEMPT]);
    out->back = ops_letter(words[AT_HAPPENING_ASKED]) == STATE_DISABLED;
    agent = words[AT_HAPPENING_AGENT];
    out->agent = bytes_is(agent, "-") ? BYTES_EMPTY : agent;
    out->step = values[AT_EVENT_STEP];
    out->error = values[AT_EVENT_ERROR];
}

int ops_read_step_events(struct ops_reader *r, struct effects *fx, struct ops_step_events *out)
{
    const struct bytes *values;
    struct bytes words[AT_FACTS_VALUES];

    *out = (struct ops_step_events){0};
    if (r->left == 0)
        return -EPROTO;
    if (!bytes_is(r->items[AT_EVENTS_CODE], "FOUND"))
        return -ENOENT;
    values = next_values(r, AT_EVENTS_VALUES);
    split(r, values[AT_EVENTS_FACTS], words, AT_FACTS_VALUES);
    out->now = to_ms(r, words[AT_FACTS_NOW]);
    out->open = to_u32(r, words[AT_FACTS_OPEN]);
    out->steps = to_u32(r, words[AT_FACTS_N]);
    out->workflow = values[AT_EVENTS_WORKFLOW];
    out->submitter = values[AT_EVENTS_SUBMITTER];
    out->to.reply_to = values[AT_EVENTS_REPLY_TO];
    out->to.correlation = values[AT_EVENTS_CORRELATION];
    read_format(values[AT_EVENTS_FORMAT], &out->json, &(bool){false}); /* each comes alone */
    out->n = r->left / AT_EVENT_VALUES;
    out->events = effects_alloc(fx, out->n * sizeof(*out->events));
    for (uint32_t i = 0; i < out->n; i++)
        read_step_event(r, &out->events[i]);
    return result_of(r);
}

void ops_lead(struct effects *fx, uint64_t id, uint32_t partition, const char *who, int64_t lease)
{
    struct args a = args_new(fx, AT_LEAD_VALUES);

    set_str(&a, AT_LEAD_SUPERVISOR, who);
    set_int(&a, AT_LEAD_LEASE, lease);
    emit(&a, id, partition, "lead");
}

int ops_read_leading(struct ops_reader *r, struct ops_leading *out)
{
    const struct bytes *values = next_values(r, AT_LEADING_VALUES);

    out->leads = bytes_is(values[AT_LEADING_CODE], "LEADS");
    out->until = to_ms(r, values[AT_LEADING_UNTIL]);
    out->now = to_ms(r, values[AT_LEADING_NOW]);
    return result_of(r);
}

void ops_dry_run(struct effects *fx)
{
    struct effect *e = &fx->items[fx->n - 1];
    struct args a = args_new(fx, AT_LOOK_VALUES + e->store.n);

    set_str(&a, AT_LOOK_NAME, e->store.function);
    for (int i = 0; i < e->store.n; i++)
        set(&a, AT_LOOK_ARGUMENT + i, e->store.args[i]);
    fx->n--;
    emit(&a, e->id, e->store.partition, "look");
}

void ops_expire(struct effects *fx, uint64_t id, uint32_t partition, uint32_t skip, uint32_t limit,
                uint32_t lease_factor, const struct ops_clock *clock)
{
    struct args a = args_new(fx, AT_EXPIRE_VALUES);

    set_int(&a, AT_EXPIRE_SKIP, skip);
    set_int(&a, AT_EXPIRE_LIMIT, limit);
    set_int(&a, AT_EXPIRE_LEASE_FACTOR, lease_factor);
    set_int(&a, AT_EXPIRE_LATEST, clock->latest);
    set_int(&a, AT_EXPIRE_SINCE, clock->since);
    set_int(&a, AT_EXPIRE_JUMP, clock->jump);
    set_int(&a, AT_EXPIRE_AFTER, clock->after);
    set_int(&a, AT_EXPIRE_AT, clock->at);
    emit(&a, id, partition, "expire");
}

static void read_due(struct ops_reader *r, struct effects *fx, struct ops_due *out)
{
    const struct bytes *values = next_values(r, AT_DUE_VALUES);

    out->job = values[AT_DUE_JOB_ID];
    out->expired = to_u32(r, values[AT_DUE_EXPIRED]);
    out->n = to_count(r, values[AT_DUE_N_STEPS], 1);
    out->steps = effects_alloc(fx, out->n * sizeof(*out->steps));
    for (uint32_t i = 0; i < out->n; i++)
        out->steps[i] = to_u32(r, get(r));
}

static void read_notifications(struct ops_reader *r, struct effects *fx, struct ops_expired *out)
{
    out->n_notifications = to_count(r, get(r), AT_NOTIFICATION_VALUES);
    out->notifications = effects_alloc(fx, out->n_notifications * sizeof(*out->notifications));
    for (uint32_t i = 0; i < out->n_notifications; i++) {
        const struct bytes *values = next_values(r, AT_NOTIFICATION_VALUES);

        out->notifications[i].job = values[AT_NOTIFICATION_JOB_ID];
        out->notifications[i].seq = to_u64(r, values[AT_NOTIFICATION_SEQ]);
    }
}

int ops_read_expired(struct ops_reader *r, struct effects *fx, struct ops_expired *out)
{
    const struct bytes *values = next_values(r, AT_EXPIRED_VALUES);

    *out = (struct ops_expired){
        .now = to_ms(r, values[AT_EXPIRED_NOW]),
        .head = to_ms(r, values[AT_EXPIRED_HEAD]),
        .more = to_flag(values[AT_EXPIRED_MORE]),
        .back = to_flag(values[AT_EXPIRED_BACK]),
        .n_due = to_count(r, values[AT_EXPIRED_N_DUE], AT_DUE_VALUES),
    };
    out->due = effects_alloc(fx, out->n_due * sizeof(*out->due));
    for (uint32_t i = 0; i < out->n_due; i++)
        read_due(r, fx, &out->due[i]);
    read_notifications(r, fx, out);
    return result_of(r);
}

void ops_lost(struct effects *fx, uint64_t id, uint32_t partition, const char *actor, int64_t age,
              const struct ops_loss *loss)
{
    struct args a = args_new(fx, AT_LOST_VALUES);

    set_str(&a, AT_LOST_ACTOR, actor);
    set_int(&a, AT_LOST_AGE, age);
    set_int(&a, AT_LOST_AT, loss->at);
    set_str(&a, AT_LOST_CURSOR, loss->cursor);
    emit(&a, id, partition, "lost");
}

/* Copies a cursor into text of @size bytes. Return: 0 or -EPROTO. */
static int to_cursor(char *to, size_t size, struct bytes cursor)
{
    if (cursor.len >= size)
        return -EPROTO;
    if (cursor.len > 0)
        memcpy(to, cursor.data, cursor.len);
    to[cursor.len] = '\0';
    return 0;
}

int ops_read_loss(struct ops_reader *r, struct ops_loss *out)
{
    const struct bytes *values = next_values(r, AT_LOSS_VALUES);

    *out = (struct ops_loss){.at = to_ms(r, values[AT_LOSS_AT])};
    if (to_cursor(out->cursor, sizeof(out->cursor), values[AT_LOSS_CURSOR]))
        return -EPROTO;
    return result_of(r);
}

void ops_forget(struct effects *fx, uint64_t id, uint32_t partition, int64_t retention,
                uint32_t limit)
{
    struct args a = args_new(fx, AT_FORGET_VALUES);

    set_int(&a, AT_FORGET_RETENTION, retention);
    set_int(&a, AT_FORGET_LIMIT, limit);
    emit(&a, id, partition, "forget");
}

int ops_read_forgotten(struct ops_reader *r, struct ops_forgotten *out)
{
    const struct bytes *values = next_values(r, AT_FORGOTTEN_VALUES);

    out->jobs = to_u32(r, values[AT_FORGOTTEN_JOBS]);
    out->more = to_flag(values[AT_FORGOTTEN_MORE]);
    out->parked = to_u32(r, values[AT_FORGOTTEN_PARKED]);
    out->deadline = to_u32(r, values[AT_FORGOTTEN_DEADLINE]);
    out->ended = to_u32(r, values[AT_FORGOTTEN_ENDED]);
    return result_of(r);
}

void ops_sweep(struct effects *fx, uint64_t id, uint32_t partition, const char *cursor)
{
    struct args a = args_new(fx, AT_SWEEP_VALUES);

    set_str(&a, AT_SWEEP_CURSOR, cursor);
    emit(&a, id, partition, "sweep");
}

int ops_read_swept(struct ops_reader *r, struct ops_swept *out)
{
    const struct bytes *values = next_values(r, AT_SWEPT_VALUES);
    struct bytes cursor = values[AT_SWEPT_CURSOR];

    *out =
        (struct ops_swept){.job = values[AT_SWEPT_JOB_ID], .mended = r->items, .n_mended = r->left};
    if (to_cursor(out->cursor, sizeof(out->cursor), cursor))
        return -EPROTO;
    return result_of(r);
}

struct store_answer *ops_answer_copy(const struct ops_reader *rest)
{
    const struct store_answer answer = {STORE_OK, rest->items, rest->left};

    return store_answer_copy(&answer);
}
