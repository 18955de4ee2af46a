// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: encodes the arguments of store functions and decodes their answers
 *
 * The order of arguments and answers is that of the functions in common/store/drover.lua. See
 * model/store_ops.h.
 */
#include "model/store_ops.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/migration.h"

#define CHUNK 500 /* numbers in one piece of a list of dependents; CHUNK of drover.lua */

/* ---- arguments ---- */

struct args {
    struct effects *fx;
    struct bytes *items;
    int n;
    int size;
};

static struct args args_new(struct effects *fx, int size)
{
    return (struct args){
        .fx = fx, .items = effects_alloc(fx, (size_t)size * sizeof(struct bytes)), .size = size};
}

static void put(struct args *a, struct bytes b)
{
    assert(a->n < a->size);
    a->items[a->n++] = b;
}

static void put_str(struct args *a, const char *s)
{
    put(a, bytes_str(s ? s : ""));
}

static void put_int(struct args *a, int64_t i)
{
    put(a, effects_int(a->fx, i));
}

static void put_flag(struct args *a, bool flag)
{
    put_str(a, flag ? "1" : "0");
}

static void emit(struct args *a, uint64_t id, uint32_t partition, const char *function)
{
    struct effect *e = effects_add(a->fx, EFFECT_STORE, id);

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
        return 'C';
    case DROVER__V1__RECOURSE__RECOURSE_FAIL:
        return 'F';
    default:
        return 'P';
    }
}

/* The text that TERMS of drover.lua reads. */
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

/* The line that STEP_LINE of drover.lua reads. */
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

static void put_further_pieces(struct args *a, const char *step, const uint32_t *list, uint32_t n)
{
    for (uint32_t piece = 1; piece <= further_pieces(n); piece++) {
        uint32_t from = piece * CHUNK;

        put_str(a, effects_printf(a->fx, "%s/%" PRIu32, step, piece));
        put(a, numbers(a->fx, list + from, first_piece(n - from)));
    }
}

static void put_step(struct args *a, const char *field, const struct workflow_step *step)
{
    put_str(a, field);
    put_str(a, step_line(a->fx, step));
    put_further_pieces(a, field, step->dependents, step->n_dependents);
    if (step->has_revert) {
        put_str(a, effects_printf(a->fx, "v%s", field));
        put_str(a, effects_printf(a->fx, "%s|%s", terms(a->fx, &step->revert), step->revert.actor));
    }
}

/* The terms of the job as a whole are in the field "job". */
static void put_job(struct args *a, const struct workflow *w)
{
    put_str(a, "job");
    put_str(a, effects_printf(a->fx, "%c %" PRIu32 " %d %" PRId64 " %.6g %" PRId64,
                              recourse_letter(w->on_deadline), w->tries, w->compensation_expected,
                              w->tries_interval_ms, w->tries_coefficient, w->complete_within_ms));
}

bool ops_define(struct effects *fx, uint64_t id, uint32_t partition, const struct workflow *w,
                uint32_t piece, bool registered)
{
    uint32_t from = piece * OPS_BUDGET;
    uint32_t to = from + OPS_BUDGET < w->n_steps ? from + OPS_BUDGET : w->n_steps;
    const struct workflow_step before_roots = {.dependents = w->roots, .n_dependents = w->n_roots};
    uint32_t pieces = further_pieces(w->n_roots);
    struct args a;

    for (uint32_t i = from; i < to; i++)
        pieces += further_pieces(w->steps[i].n_dependents);
    a = args_new(fx, 7 + 2 * (int)(3 * (to - from) + 2 + pieces));
    put_str(&a, w->digest);
    put_str(&a, w->name);
    put_int(&a, w->version);
    put_int(&a, w->n_steps);
    put(&a, piece == 0 ? w->canonical : BYTES_EMPTY);
    put_flag(&a, to == w->n_steps);
    put_flag(&a, registered);
    if (piece == 0) {
        put_job(&a, w);
        put_step(&a, "r", &before_roots);
    }
    for (uint32_t i = from; i < to; i++) {
        put_step(&a, effects_printf(fx, "%" PRIu32, i), &w->steps[i]);
        put_str(&a, effects_printf(fx, "x%s", w->steps[i].name));
        put_int(&a, i);
    }
    emit(&a, id, partition, "define");
    return to == w->n_steps;
}

/* ---- submit, record, drive, steer ---- */

/* The user whose job it must be; otherwise the store answers as if there were no such job. */
static void put_owner(struct args *a, const char *owner)
{
    put_str(a, owner ? owner : "");
}

void ops_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%zu:%s=%s", strlen(name) + 1 + strlen(value), name, value);
}

void ops_submit(struct effects *fx, uint64_t id, uint32_t partition, const struct op_submit *op)
{
    struct args a = args_new(fx, 29);

    put_str(&a, op->job);
    put_str(&a, op->digest);
    put_str(&a, op->definition);
    put_str(&a, op->workflow);
    put_flag(&a, op->redelivered);
    put_str(&a, op->nonce);
    put_str(&a, op->by);
    put_str(&a, op->active ? "A" : "D");
    put_int(&a, op->start_at);
    put_int(&a, op->complete_by);
    put_str(&a, op->events);
    put_int(&a, op->priority);
    put_str(&a, op->reply_to);
    put_str(&a, op->correlation);
    put(&a, op->index);
    put_owner(&a, op->owner);
    put_int(&a, op->horizon);
    put_int(&a, op->most_jobs);
    put_int(&a, op->most_bytes);
    put_str(&a, "input");
    put(&a, op->input);
    put_str(&a, "labels");
    put(&a, op->labels);
    put_str(&a, "traceparent");
    put_str(&a, op->traceparent);
    put_str(&a, "submitter");
    put_str(&a, op->submitter);
    put_str(&a, "format");
    put_str(&a, op->json ? "json" : "");
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

#define RECORD_ARGS 14 /* arguments of each report */

void ops_record(struct effects *fx, uint64_t id, uint32_t partition, const char *by,
                const struct op_record *const *records, int n)
{
    struct args a = args_new(fx, 1 + RECORD_ARGS * n);

    put_str(&a, by);
    for (int i = 0; i < n; i++) {
        const struct op_record *r = records[i];

        put_str(&a, effects_printf(fx, "%c", r->kind));
        put_str(&a, r->job);
        put_str(&a, r->token);
        put_flag(&a, r->redelivered);
        put_str(&a, r->nonce);
        put_int(&a, r->jitter);
        put(&a, r->result);
        put(&a, r->error);
        put_str(&a, r->class);
        put_int(&a, r->retry_after);
        put_str(&a, r->no_effect ? "N" : "");
        put_str(&a, r->step ? r->step : "");
        put_str(&a, r->actor ? r->actor : "");
        put_str(&a, r->agent ? one_word(fx, r->agent) : "");
    }
    emit(&a, id, partition, "record");
}

void ops_drive(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *nonce, const char *by, bool again, const uint32_t *steps, uint32_t n)
{
    struct args a = args_new(fx, 4 + (int)n);

    put_str(&a, job);
    put_str(&a, nonce);
    put_str(&a, by);
    put_int(&a, again);
    for (uint32_t i = 0; i < n; i++)
        put_int(&a, steps[i]);
    emit(&a, id, partition, "drive");
}

void ops_unsent(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                const char *nonce, const char *by, const char *const *tokens, uint32_t n)
{
    struct args a = args_new(fx, 4 + (int)n);

    put_str(&a, job);
    put_str(&a, nonce);
    put_str(&a, by);
    put_int(&a, (int64_t)id);
    for (uint32_t i = 0; i < n; i++)
        put_str(&a, tokens[i]);
    emit(&a, id, partition, "unsent");
}

static void put_steps(struct args *a, struct effects *fx, const struct op_steer *op)
{
    for (uint32_t i = 0; i < op->n_steps; i++) {
        char how = op->hows ? op->hows[i] : MIGRATION_OTHER;

        if (how == MIGRATION_OTHER)
            put_int(a, op->steps[i]);
        else
            put_str(a, effects_printf(fx, "%" PRIu32 "%c", op->steps[i], how));
    }
}

void ops_steer(struct effects *fx, uint64_t id, uint32_t partition, const struct op_steer *op)
{
    struct args a = args_new(fx, 17 + (int)op->n_steps);

    put_str(&a, op->job);
    put_str(&a, op->command);
    put_str(&a, op->command_id);
    put_int(&a, op->issued_at);
    put_int(&a, (int64_t)op->if_seq);
    put_str(&a, op->reason);
    put_str(&a, op->by);
    put_str(&a, op->nonce);
    put_flag(&a, op->redelivered);
    put_str(&a, op->definition);
    put_owner(&a, op->owner);
    put_int(&a, op->most_bytes);
    if (op->state) { /* resolve */
        put_int(&a, op->steps[0]);
        put_str(&a, effects_printf(fx, "%c", op->state));
        put(&a, op->payload);
    } else if (op->what) { /* change */
        put_str(&a, op->to->digest);
        put_str(&a, op->what);
        put(&a, op->payload);
        put_steps(&a, fx, op);
    } else if (op->to) { /* migrate */
        put_str(&a, op->to->digest);
        put_int(&a, op->to->n_steps);
        put_str(&a, op->to->full_name);
        put_int(&a, op->n_gone);
        put_steps(&a, fx, op);
    } else { /* retry; the other commands ignore these arguments */
        put(&a, BYTES_EMPTY);
        put_steps(&a, fx, op);
    }
    emit(&a, id, partition, "steer");
}

static int64_t step_number(struct bytes b)
{
    int64_t step;

    return bytes_to_i64(b, &step) ? step : -1;
}

const char *op_kind_name(char kind)
{
    static const struct {
        enum op_kind kind;
        const char *name;
    } kinds[] = {
        {OP_ACTIVE, "ACTIVE"},         {OP_DISABLED, "DISABLED"},     {OP_TRANSIENT, "TRANSIENT"},
        {OP_PERMANENT, "PERMANENT"},   {OP_UNSENDABLE, "UNSENDABLE"}, {OP_DEFERRED, "DEFERRED"},
        {OP_UNSTARTED, "UNSTARTED"},   {OP_REJECTED, "REJECTED"},     {OP_UNSENT, "UNSENT"},
        {OP_UNROUTABLE, "UNROUTABLE"}, {OP_REFUSED, "REFUSED"},
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

static bool about_record(const struct bytes *args, int n, int i, struct ops_about *out)
{
    const struct bytes *record = args + 1 + (size_t)i * RECORD_ARGS;
    const char *name;

    if (n < 1 + (i + 1) * RECORD_ARGS)
        return false;
    name = record[0].len == 1 ? op_kind_name((char)record[0].data[0]) : NULL;
    out->what = name ? bytes_str(name) : BYTES_EMPTY;
    out->job = record[1];
    out->step = ops_token_step(record[2]);
    return true;
}

bool ops_about(const char *function, const struct bytes *args, int n, int i, struct ops_about *out)
{
    static const char *const of_jobs[] = {"submit", "drive",  "steer",      "renew",
                                          "taken",  "unsent", "step_events"};
    static const char *const of_others[] = {"told", "suspect"};

    *out = (struct ops_about){.step = -1};
    if (strcmp(function, "record") == 0)
        return about_record(args, n, i, out);
    if (strcmp(function, "settle_owed") == 0 && 2 * i < n) {
        out->job = args[2 * (size_t)i];
        return true;
    }
    if (i > 0)
        return false;
    if (strcmp(function, "inspect") == 0) {
        out->what = args[0];
        if (bytes_is(args[0], "job") || bytes_is(args[0], "notice") || bytes_is(args[0], "history"))
            out->job = args[1];
    }
    for (size_t k = 0; k < array_size(of_jobs); k++)
        if (strcmp(function, of_jobs[k]) == 0)
            out->job = args[0];
    for (size_t k = 0; k < array_size(of_others); k++)
        if (strcmp(function, of_others[k]) == 0)
            out->other = args[0];
    if (strcmp(function, "steer") == 0 || strcmp(function, "told") == 0)
        out->what = args[1];
    if (strcmp(function, "suspect") == 0)
        out->what = args[2];
    if (strcmp(function, "renew") == 0 || strcmp(function, "taken") == 0)
        out->step = ops_token_step(args[1]);
    return true;
}

/* ---- reading answers ---- */

struct ops_reader ops_reader(const struct store_answer *answer)
{
    return (struct ops_reader){.items = answer->items,
                               .left = answer->result == STORE_OK ? answer->n : 0};
}

static struct bytes get(struct ops_reader *r)
{
    if (r->left == 0) {
        r->bad = true;
        return BYTES_EMPTY;
    }
    r->left--;
    return *r->items++;
}

static int64_t get_int(struct ops_reader *r, int64_t most)
{
    struct bytes b = get(r);
    int64_t i = 0;

    if (b.len == 0)
        return 0;
    if (!bytes_to_i64(b, &i) || i < 0 || i > most) {
        r->bad = true;
        return 0;
    }
    return i;
}

static int64_t get_ms(struct ops_reader *r)
{
    return get_int(r, INT64_MAX);
}

static uint32_t get_u32(struct ops_reader *r)
{
    return (uint32_t)get_int(r, UINT32_MAX);
}

static bool get_flag(struct ops_reader *r)
{
    return bytes_is(get(r), "1");
}

/* A count of elements of at least @width items each; bad if the answer has fewer items than that.
 */
static uint32_t get_count(struct ops_reader *r, uint32_t width)
{
    uint32_t n = get_u32(r);

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

static enum ops_code get_code(struct ops_reader *r)
{
    struct bytes word = get(r);

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

/* Opens an item of @n words, which are then read like items; close_words() reports to the reader of
 * the item whether they were valid. */
static struct ops_reader open_words(struct ops_reader *r, struct bytes *words, uint32_t n)
{
    struct ops_reader w = {.items = words};
    struct bytes text = get(r);

    while (w.left < n && text.len > 0)
        words[w.left++] = next_word(&text);
    w.bad = w.left < n || text.len > 0;
    return w;
}

static void close_words(struct ops_reader *r, const struct ops_reader *words)
{
    r->bad |= words->bad;
}

static void read_alert(struct ops_reader *r, struct ops_alert *out)
{
    struct bytes words[4];
    struct ops_reader w = open_words(r, words, array_size(words));

    out->step = get_u32(&w);
    out->back = bytes_is(get(&w), "D");
    out->reason = get(&w);
    out->seq = (uint64_t)get_ms(&w);
    close_words(r, &w);
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
        results[i].step = get_u32(r);
        results[i].payload = get(r);
    }
    return results;
}

static void read_request(struct ops_reader *r, struct ops_request *out)
{
    struct bytes words[14];
    struct ops_reader w = open_words(r, words, array_size(words));
    struct bytes current;

    out->step = get_u32(&w);
    out->active = bytes_is(get(&w), "A");
    current = get(&w);
    out->current = current.len == 1 ? (char)current.data[0] : 'U';
    out->turn = get_u32(&w);
    out->attempt = get_u32(&w);
    out->token = get(&w);
    out->locked_until = get_ms(&w);
    out->wait = get_ms(&w);
    out->failures = get_u32(&w);
    out->expiries = get_u32(&w);
    out->again = get_flag(&w);
    out->forward_turn = get_u32(&w);
    out->last_error = get_flag(&w) ? get(r) : BYTES_EMPTY;
    out->arguments = get_flag(&w) ? get(r) : BYTES_EMPTY;
    close_words(r, &w);
}

/* Reads the data that all requests of an answer carry. */
static void read_data(struct ops_reader *r, struct effects *fx, struct ops_transition *out)
{
    struct bytes words[3];
    struct ops_reader w;
    bool labelled;

    out->input = get(r);
    w = open_words(r, words, array_size(words));
    labelled = get_flag(&w);
    out->complete_by = get_ms(&w);
    out->n_results = (uint32_t)get_int(&w, r->left / 2);
    close_words(r, &w);
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
    struct bytes words[10], steps;
    struct ops_reader w;

    *out = (struct ops_transition){.code = get_code(r)};
    out->definition = get(r);
    w = open_words(r, words, array_size(words));
    out->now = get_ms(&w);
    out->seq = (uint64_t)get_ms(&w);
    out->settled = (uint64_t)get_ms(&w);
    out->more = get_flag(&w);
    steps = get(&w);
    out->step_events = bytes_is(steps, "1");
    out->steps_heard = bytes_is(steps, "2");
    out->open = get_u32(&w);
    out->steps = get_u32(&w);
    out->watermark = (uint64_t)get_ms(&w);
    out->n_alerts = (uint32_t)get_int(&w, r->left);
    out->n_requests = (uint32_t)get_int(&w, r->left);
    close_words(r, &w);
    read_alerts(r, fx, out);
    read_requests(r, fx, out);
    return result_of(r);
}

int ops_read_refusal(struct ops_reader *r, struct ops_refusal *out)
{
    struct bytes why = get(r);

    *out = (struct ops_refusal){.step = get_u32(r)};
    if (why.len >= sizeof(out->why))
        return -EPROTO;
    if (why.len > 0)
        memcpy(out->why, why.data, why.len);
    return result_of(r);
}

/* ---- inspect ---- */

void ops_inspect_definition(struct effects *fx, uint64_t id, uint32_t partition, const char *digest)
{
    struct args a = args_new(fx, 2);

    put_str(&a, "definition");
    put_str(&a, digest);
    emit(&a, id, partition, "inspect");
}

void ops_inspect_job(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                     uint32_t from, uint32_t count, bool with_data, const char *owner)
{
    struct args a = args_new(fx, 6);

    put_str(&a, "job");
    put_str(&a, job);
    put_int(&a, from);
    put_int(&a, count);
    put_flag(&a, with_data);
    put_owner(&a, owner);
    emit(&a, id, partition, "inspect");
}

void ops_inspect_notification(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                              uint64_t seq, int64_t limit, const uint32_t *steps, uint32_t n)
{
    uint32_t tried = n < OPS_BUDGET ? n : OPS_BUDGET;
    struct args a = args_new(fx, 4 + (int)tried);

    put_str(&a, "notice");
    put_str(&a, job);
    put_int(&a, (int64_t)seq);
    put_int(&a, limit);
    for (uint32_t i = 0; i < tried; i++)
        put_int(&a, steps[i]);
    emit(&a, id, partition, "inspect");
}

/* Reads the data of a job that an event of it needs: labels, addresses, trace header, format. */
static void read_told_by(struct ops_reader *r, struct ops_job *out)
{
    out->labels = get(r);
    out->reply_to = get(r);
    out->correlation = get(r);
    out->traceparent = get(r);
    out->json = bytes_is(get(r), "json");
}

/* The number of JOB_FIELDS and DATA_FIELDS of drover.lua. */
#define JOB_FIELDS 35
static void read_job_fields(struct ops_reader *r, struct ops_job *out)
{
    struct bytes back; /* the error of the failure on the way back, if there is one */

    out->definition = get(r);
    out->current = get(r);
    out->desired = get(r);
    out->phase = get(r);
    out->outcome = get(r);
    out->reason = get(r);
    out->hold = get(r);
    out->turn = get_u32(r);
    out->seq = (uint64_t)get_ms(r);
    out->n = get_u32(r);
    out->open = get_u32(r);
    out->created = get_ms(r);
    out->updated = get_ms(r);
    out->start_at = get_ms(r);
    out->complete_by = get_ms(r);
    out->locked_by = get(r);
    out->since = get_u32(r);
    out->cause = get(r);
    out->ending = get(r);
    out->failure = get(r);
    out->attention = get(r);
    out->parked = get_u32(r);
    out->next_try = get_ms(r);
    out->failures = get_u32(r);
    out->waits_for = get(r);
    out->workflow = get(r);
    out->submitter = get(r);
    read_told_by(r, out);
    out->held = get(r);
    out->error = get(r);
    back = get(r);
    if (out->failure.len > 0 && memchr(out->failure.data, '|', out->failure.len))
        out->error = back;
}

/* Return: 0 for FOUND, 1 for UNKNOWN, otherwise -EPROTO. */
static int read_found(struct ops_reader *r)
{
    struct bytes word = get(r);

    if (bytes_is(word, "UNKNOWN"))
        return 1;
    return bytes_is(word, "FOUND") ? 0 : -EPROTO;
}

void ops_inspect_jobs(struct effects *fx, uint64_t id, uint32_t partition, const struct op_list *op)
{
    struct args a = args_new(fx, 10 + (int)op->n_labels);

    put_str(&a, "jobs");
    if (op->before == INT64_MAX)
        put_str(&a, "+inf");
    else
        put_int(&a, op->before);
    put_str(&a, op->before_id);
    put_int(&a, op->since);
    put_int(&a, op->limit);
    put_str(&a, op->phase);
    put_str(&a, op->workflow);
    put_str(&a, op->needs);
    put_str(&a, op->class);
    put_str(&a, op->actor);
    for (size_t i = 0; i < op->n_labels; i++)
        put_str(&a, effects_printf(fx, "%s=%s", op->labels[i], op->values[i]));
    emit(&a, id, partition, "inspect");
}

/* A time of creation; "+inf" for any. */
static int64_t get_place(struct ops_reader *r)
{
    if (r->left == 0 || !bytes_is(*r->items, "+inf"))
        return get_ms(r);
    get(r);
    return INT64_MAX;
}

int ops_read_list(struct ops_reader *r, struct effects *fx, struct ops_list *out)
{
    *out = (struct ops_list){0};
    if (read_found(r))
        return -EPROTO;
    out->now = get_ms(r);
    out->more = get_flag(r);
    out->last = get_place(r);
    out->last_id = get(r);
    out->n = get_count(r, 1 + JOB_FIELDS);
    out->jobs = effects_alloc(fx, out->n * sizeof(*out->jobs));
    for (uint32_t i = 0; i < out->n; i++) {
        out->jobs[i] = (struct ops_listed){.id = get(r)};
        read_job_fields(r, &out->jobs[i].job);
        out->jobs[i].job.now = out->now;
    }
    return result_of(r);
}

void ops_inspect_history(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                         uint64_t from, uint32_t limit, const char *owner)
{
    struct args a = args_new(fx, 5);

    put_str(&a, "history");
    put_str(&a, job);
    put_int(&a, (int64_t)from);
    put_int(&a, limit);
    put_owner(&a, owner);
    emit(&a, id, partition, "inspect");
}

int ops_read_history(struct ops_reader *r, struct effects *fx, struct ops_history *out)
{
    int found = read_found(r);

    *out = (struct ops_history){0};
    if (found)
        return found;
    out->definition = get(r);
    out->first = (uint64_t)get_ms(r);
    out->more = get_flag(r);
    out->n = get_count(r, 1);
    out->entries = effects_alloc(fx, out->n * sizeof(*out->entries));
    for (uint32_t i = 0; i < out->n; i++)
        out->entries[i] = get(r);
    return result_of(r);
}

void ops_inspect_workflows(struct effects *fx, uint64_t id, uint32_t partition, const char *after,
                           uint32_t limit)
{
    struct args a = args_new(fx, 3);

    put_str(&a, "workflows");
    put_str(&a, after);
    put_int(&a, limit);
    emit(&a, id, partition, "inspect");
}

int ops_read_workflows(struct ops_reader *r, struct effects *fx, struct ops_workflows *out)
{
    *out = (struct ops_workflows){0};
    if (read_found(r))
        return -EPROTO;
    out->more = get_flag(r);
    out->n = get_count(r, 3);
    out->items = effects_alloc(fx, out->n * sizeof(*out->items));
    for (uint32_t i = 0; i < out->n; i++) {
        struct bytes name = get(r), digest = get(r);

        out->items[i] = (struct ops_workflow){.name = name, .digest = digest, .steps = get_u32(r)};
    }
    return result_of(r);
}

void ops_inspect_workflow(struct effects *fx, uint64_t id, uint32_t partition, const char *name)
{
    struct args a = args_new(fx, 2);

    put_str(&a, "workflow");
    put_str(&a, name);
    emit(&a, id, partition, "inspect");
}

int ops_read_job(struct ops_reader *r, struct effects *fx, struct ops_job *out)
{
    int found = read_found(r);

    *out = (struct ops_job){0};
    if (found)
        return found;
    out->now = get_ms(r);
    read_job_fields(r, out);
    out->input = get(r);
    out->n_steps = get_count(r, 6);
    out->steps = effects_alloc(fx, out->n_steps * sizeof(*out->steps));
    for (uint32_t i = 0; i < out->n_steps; i++) {
        struct ops_step *step = &out->steps[i];

        step->step = get_u32(r);
        step->record = get(r);
        step->error = get(r);
        step->progress = get(r);
        step->result = get(r);
        step->agent = get(r);
    }
    return result_of(r);
}

int ops_read_notification(struct ops_reader *r, struct effects *fx, struct ops_job *out)
{
    int found = read_found(r);

    *out = (struct ops_job){0};
    if (found)
        return found;
    out->definition = get(r);
    out->n = get_u32(r);
    out->workflow = get(r);
    out->submitter = get(r);
    read_told_by(r, out);
    out->notifications = get_u32(r);
    out->outcome = get(r); /* from here on: as it was when that turn ended */
    out->phase = get(r);
    out->turn = get_u32(r);
    out->updated = get_ms(r);
    out->open = get_u32(r);
    out->reason = get(r);
    out->failed = get(r);
    out->failure = get(r);
    out->error = get(r);
    out->n_results = get_count(r, 2);
    out->results = read_results(r, fx, out->n_results);
    out->n_earlier = get_count(r, 2);
    out->earlier = effects_alloc(fx, out->n_earlier * sizeof(*out->earlier));
    for (uint32_t i = 0; i < out->n_earlier; i++) {
        out->earlier[i].reply_to = get(r);
        out->earlier[i].correlation = get(r);
    }
    return result_of(r);
}

int ops_read_definition(struct ops_reader *r, struct bytes *out)
{
    int found = read_found(r);

    if (found)
        return found;
    *out = get(r);
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

static bool next_letter(struct bytes *rest, char *out)
{
    struct bytes word = next_word(rest);

    if (word.len != 1)
        return false;
    *out = (char)word.data[0];
    return true;
}

static bool next_u32(struct bytes *rest, uint32_t *out)
{
    int64_t number;

    if (!bytes_to_i64(next_word(rest), &number) || number < 0 || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool next_token(struct bytes *rest, char *out, size_t size)
{
    struct bytes word = next_word(rest);

    if (word.len == 0 || word.len >= size)
        return false;
    memcpy(out, word.data, word.len);
    out[word.len] = 0;
    return true;
}

int ops_read_step_record(struct bytes text, struct ops_step_record *out)
{
    if (!next_letter(&text, &out->current) || !next_letter(&text, &out->asked) ||
        !next_letter(&text, &out->state) || !next_u32(&text, &out->turn) ||
        !next_u32(&text, &out->attempt) || !next_token(&text, out->token, sizeof(out->token)) ||
        !bytes_to_i64(next_word(&text), &out->till) || !next_u32(&text, &out->failures) ||
        !next_u32(&text, &out->expiries) || !next_u32(&text, &out->waiting) ||
        !next_u32(&text, &out->unstarted))
        return -EPROTO;
    out->since = 1;
    out->forward = out->turn;
    if (text.len > 0 && (!next_u32(&text, &out->since) || !next_u32(&text, &out->forward)))
        return -EPROTO;
    return text.len == 0 ? 0 : -EPROTO;
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
    if (!next_letter(&text, &out->asked))
        return -EPROTO;
    out->reason = next_word(&text);
    (void)next_word(&text); /* the step's number and the class: only the store uses them */
    (void)next_word(&text);
    return out->reason.len > 0 && text.len == 0 ? 0 : -EPROTO;
}

/* ---- notifications, alert causes, watermarks, suspects, Progress, step events, supervision ----
 */

void ops_settle_owed(struct effects *fx, uint64_t id, uint32_t partition,
                     const struct op_notification *notifications, int n)
{
    struct args a = args_new(fx, 2 * n);

    for (int i = 0; i < n; i++) {
        put_str(&a, notifications[i].job);
        put_int(&a, (int64_t)notifications[i].seq);
    }
    emit(&a, id, partition, "settle_owed");
}

void ops_told(struct effects *fx, uint64_t id, uint32_t partition, const char *cause,
              enum ops_cause what, const char *nonce)
{
    static const char *const words[] = {
        [OPS_CAUSE_ASK] = "ask",
        [OPS_CAUSE_TOLD] = "told",
        [OPS_CAUSE_OVER] = "over",
    };
    struct args a = args_new(fx, 3);

    put_str(&a, cause);
    put_str(&a, words[what]);
    put_str(&a, nonce);
    emit(&a, id, partition, "told");
}

void ops_letters(struct effects *fx, uint64_t id, uint32_t partition, uint64_t there, uint64_t own)
{
    struct args a = args_new(fx, 5);

    put_str(&a, "");
    put_str(&a, "letters");
    put_str(&a, "");
    put_int(&a, (int64_t)there);
    put_int(&a, (int64_t)own);
    emit(&a, id, partition, "told");
}

void ops_watermark(struct effects *fx, uint64_t id, uint32_t partition, const char *run,
                   const char *nonce, const char *const *jobs, int n)
{
    struct args a = args_new(fx, 2 + n);

    put_str(&a, run);
    put_str(&a, nonce);
    for (int i = 0; i < n; i++)
        put_str(&a, jobs[i]);
    emit(&a, id, partition, "mark");
}

int ops_read_watermark(struct ops_reader *r, struct effects *fx, struct ops_watermark_answer *out)
{
    *out = (struct ops_watermark_answer){.now = get_ms(r)};
    out->id = get(r);
    out->count = (uint64_t)get_ms(r);
    out->began = (uint64_t)get_ms(r);
    out->n_gone = get_count(r, 1);
    out->gone = effects_alloc(fx, out->n_gone * sizeof(*out->gone));
    for (uint32_t i = 0; i < out->n_gone; i++)
        out->gone[i] = get(r);
    return result_of(r);
}

void ops_suspect(struct effects *fx, uint64_t id, uint32_t partition, const char *digest,
                 const char *incarnation, enum ops_suspect what)
{
    static const char *const words[] = {
        [OPS_SUSPECT_BEGIN] = "begin",
        [OPS_SUSPECT_BACK] = "back",
        [OPS_SUSPECT_END] = "end",
    };
    struct args a = args_new(fx, 3);

    put_str(&a, digest);
    put_str(&a, incarnation);
    put_str(&a, words[what]);
    emit(&a, id, partition, "suspect");
}

uint32_t ops_read_suspect(struct ops_reader *r)
{
    return get_u32(r);
}

void ops_renew(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token, double fraction, const char *agent, const char *note,
               int64_t elapsed, const char *actor)
{
    struct args a = args_new(fx, 6);

    put_str(&a, job);
    put_str(&a, token);
    put_str(&a, effects_printf(fx, "%.4f@%s", fraction, one_word(fx, agent)));
    put_str(&a, note);
    put_int(&a, elapsed);
    put_str(&a, actor);
    emit(&a, id, partition, "renew");
}

void ops_taken(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token)
{
    struct args a = args_new(fx, 2);

    put_str(&a, job);
    put_str(&a, token);
    emit(&a, id, partition, "taken");
}

bool ops_read_told(struct ops_reader *r)
{
    return bytes_is(get(r), "NEWS");
}

uint64_t ops_read_letters(struct ops_reader *r)
{
    bool news = bytes_is(get(r), "NEWS");
    int64_t count = get_ms(r);

    return news && count > 0 ? (uint64_t)count : 0;
}

int ops_read_renewed(struct ops_reader *r, struct ops_renewed *out)
{
    struct bytes code = get(r);

    out->known = bytes_is(code, "RENEWED");
    out->other_actor = bytes_is(code, "OTHER_ACTOR");
    out->wanted = get_flag(r);
    out->locked_until = get_ms(r);
    out->now = get_ms(r);
    out->begins = r->left > 0 && get_flag(r);
    return result_of(r);
}

void ops_step_events(struct effects *fx, uint64_t id, uint32_t partition, const char *job)
{
    struct args a = args_new(fx, 1);

    put_str(&a, job);
    emit(&a, id, partition, "step_events");
}

#define STEP_EVENT_ITEMS 3

static void read_step_event(struct ops_reader *r, struct ops_step_event *out)
{
    struct bytes words[6];
    struct ops_reader w = open_words(r, words, array_size(words));

    out->seq = (uint64_t)get_ms(&w);
    out->at = get_ms(&w);
    out->event = get(&w);
    out->attempt = get_u32(&w);
    out->back = bytes_is(get(&w), "D");
    out->agent = get(&w);
    if (bytes_is(out->agent, "-"))
        out->agent = BYTES_EMPTY;
    close_words(r, &w);
    out->step = get(r);
    out->error = get(r);
}

int ops_read_step_events(struct ops_reader *r, struct effects *fx, struct ops_step_events *out)
{
    struct bytes words[3];
    struct ops_reader w;

    *out = (struct ops_step_events){0};
    if (!bytes_is(get(r), "FOUND"))
        return r->bad ? -EPROTO : -ENOENT;
    w = open_words(r, words, array_size(words));
    out->now = get_ms(&w);
    out->open = get_u32(&w);
    out->steps = get_u32(&w);
    close_words(r, &w);
    out->workflow = get(r);
    out->submitter = get(r);
    out->to.reply_to = get(r);
    out->to.correlation = get(r);
    out->json = bytes_is(get(r), "json");
    out->n = r->left / STEP_EVENT_ITEMS;
    out->events = effects_alloc(fx, out->n * sizeof(*out->events));
    for (uint32_t i = 0; i < out->n; i++)
        read_step_event(r, &out->events[i]);
    return result_of(r);
}

void ops_lead(struct effects *fx, uint64_t id, uint32_t partition, const char *who, int64_t lease)
{
    struct args a = args_new(fx, 2);

    put_str(&a, who);
    put_int(&a, lease);
    emit(&a, id, partition, "lead");
}

int ops_read_leading(struct ops_reader *r, struct ops_leading *out)
{
    out->leads = bytes_is(get(r), "LEADS");
    out->until = get_ms(r);
    out->now = get_ms(r);
    return result_of(r);
}

void ops_look(struct effects *fx)
{
    struct effect *e = &fx->items[fx->n - 1];
    struct args a = args_new(fx, e->store.n + 1);

    put_str(&a, e->store.function);
    for (int i = 0; i < e->store.n; i++)
        put(&a, e->store.args[i]);
    fx->n--;
    emit(&a, e->id, e->store.partition, "look");
}

void ops_expire(struct effects *fx, uint64_t id, uint32_t partition, uint32_t skip, uint32_t limit,
                uint32_t hold, const struct op_clock *clock)
{
    struct args a = args_new(fx, 8);

    put_int(&a, skip);
    put_int(&a, limit);
    put_int(&a, hold);
    put_int(&a, clock->latest);
    put_int(&a, clock->since);
    put_int(&a, clock->jump);
    put_int(&a, clock->after);
    put_int(&a, clock->at);
    emit(&a, id, partition, "expire");
}

static void read_due(struct ops_reader *r, struct effects *fx, struct ops_due *out)
{
    out->job = get(r);
    out->expired = get_u32(r);
    out->n = get_count(r, 1);
    out->steps = effects_alloc(fx, out->n * sizeof(*out->steps));
    for (uint32_t i = 0; i < out->n; i++)
        out->steps[i] = get_u32(r);
}

int ops_read_expired(struct ops_reader *r, struct effects *fx, struct ops_expired *out)
{
    *out = (struct ops_expired){.now = get_ms(r)};
    out->head = get_ms(r);
    out->more = get_flag(r);
    out->back = get_flag(r);
    out->n_due = get_count(r, 3);
    out->due = effects_alloc(fx, out->n_due * sizeof(*out->due));
    for (uint32_t i = 0; i < out->n_due; i++)
        read_due(r, fx, &out->due[i]);
    out->n_owed = get_count(r, 2);
    out->owed = effects_alloc(fx, out->n_owed * sizeof(*out->owed));
    for (uint32_t i = 0; i < out->n_owed; i++) {
        out->owed[i].job = get(r);
        out->owed[i].seq = (uint64_t)get_ms(r);
    }
    return result_of(r);
}

void ops_forget(struct effects *fx, uint64_t id, uint32_t partition, int64_t retention,
                uint32_t limit)
{
    struct args a = args_new(fx, 2);

    put_int(&a, retention);
    put_int(&a, limit);
    emit(&a, id, partition, "forget");
}

int ops_read_forgotten(struct ops_reader *r, struct ops_forgotten *out)
{
    out->jobs = get_u32(r);
    out->more = get_flag(r);
    out->parked = get_u32(r);
    out->deadline = get_u32(r);
    out->ended = get_u32(r);
    return result_of(r);
}

void ops_sweep(struct effects *fx, uint64_t id, uint32_t partition, const char *cursor)
{
    struct args a = args_new(fx, 1);

    put_str(&a, cursor);
    emit(&a, id, partition, "sweep");
}

int ops_read_swept(struct ops_reader *r, struct ops_swept *out)
{
    struct bytes cursor = get(r);

    *out = (struct ops_swept){.job = get(r), .mended = r->items, .n_mended = r->left};
    if (cursor.len >= sizeof(out->cursor))
        return -EPROTO;
    if (cursor.len > 0)
        memcpy(out->cursor, cursor.data, cursor.len);
    return result_of(r);
}

struct store_answer *ops_answer_copy(const struct ops_reader *rest)
{
    const struct store_answer answer = {STORE_OK, rest->items, rest->left};

    return store_answer_copy(&answer);
}
