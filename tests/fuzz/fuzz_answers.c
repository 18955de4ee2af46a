// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: possible answers of store functions, read as the answer of each function
 *
 * An input is the strings of an answer, a NUL after each. The first is a letter for the function
 * that reads them. The checks: what is read lies within the answer, and what a client gets of it
 * can be encoded. A trace also reads the call: its function and the number of its arguments come
 * first, then the arguments. The cursor of a list (c) comes from a client; if it is accepted it is
 * written the same.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "model/history.h"
#include "model/json.h"
#include "model/listing.h"
#include "model/status.h"
#include "model/store_ops.h"
#include "model/store_schema.h"
#include "model/trace.h"
#include "model/wire.h"

#define ITEMS_MAX 256
#define DEFINITION                                                                                 \
    "{\"name\":\"w\",\"version\":1,\"steps\":[{\"name\":\"a\",\"actor\":\"x\",\"revert\":{}},"     \
    "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"]},"                                          \
    "{\"name\":\"c\",\"actor\":\"y\",\"after\":[\"a\",\"b\"]}]}"

/* The items end at the end of an allocation, so that a sanitizer finds a read beyond them. */
static struct bytes *split(struct bytes input, uint32_t *n)
{
    struct bytes found[ITEMS_MAX], *items;

    for (*n = 0; input.len > 0 && *n < ITEMS_MAX; ++*n)
        found[*n] = fuzz_until(&input, '\0');
    items = or_abort(malloc(*n * sizeof(*items) + (*n == 0)));
    memcpy(items, found, *n * sizeof(*items));
    return items;
}

static struct workflow *definition(void)
{
    static struct workflow *w;
    ProtobufCMessage *message = NULL;
    struct problem problem;

    if (w)
        return w;
    assert(json_to_message(bytes_str(DEFINITION), &drover__v1__workflow__descriptor, NULL, &message,
                           &problem) == 0);
    assert(workflow_new(&w, (Drover__V1__Workflow *)message, "definition", &problem) == 0);
    protobuf_c_message_free_unpacked(message, NULL);
    return w;
}

static void encode_check(const ProtobufCMessage *message)
{
    CLEANUP(buf_deinit) struct buf binary = {0}, json = {0};
    ProtobufCMessage *again = NULL;
    struct problem problem;
    int r = wire_encode(message, false, &binary);

    assert(r == 0 || r == WIRE_E_TOO_LARGE);
    r = wire_encode(message, true, &json);
    assert(r == 0 || r == WIRE_E_TOO_LARGE);
    if (r)
        return;
    r = json_to_message(buf_bytes(&json), message->descriptor, NULL, &again, &problem);
    assert(r == 0 || r == JSON_E_TOO_LARGE);
    if (again)
        protobuf_c_message_free_unpacked(again, NULL);
}

static void answer_check(Drover__V1__Answer *m)
{
    encode_check(&m->base);
}

/* ---- readers ---- */

static void read_transition(struct ops_reader *r, struct effects *fx)
{
    struct ops_transition transition;
    struct ops_refusal refusal;

    if (ops_read_transition(r, fx, &transition))
        return;
    assert(transition.code < OPS_CODES_ && *ops_code_name(transition.code));
    assert(transition.n_requests <= ITEMS_MAX && transition.n_results <= ITEMS_MAX);
    for (uint32_t i = 0; i < transition.n_results; i++)
        assert(transition.results[i].payload.data);
    if (ops_read_refusal(r, &refusal) == 0)
        assert(strlen(refusal.why) < sizeof(refusal.why));
}

/* The arguments of the first call of a list that goes on at @after. Return: as listing_new(). */
static int begin_at(const char *after, struct buf *place)
{
    Drover__V1__ListJobs query = DROVER__V1__LIST_JOBS__INIT;
    CLEANUP(listing_free) struct listing *l = NULL;
    struct effects fx = {0};
    const struct bytes *args;
    int r;

    query.after = (char *)after;
    r = listing_new(&l, &query, NULL);
    assert(r == 0 || r == 1);
    if (r)
        return r;
    listing_call(l, &fx, 1, 0);
    args = fx.items[0].store.args;
    buf_append(place, args[AT_INSPECT_JOBS_BEFORE].data, args[AT_INSPECT_JOBS_BEFORE].len);
    buf_putc(place, '.');
    buf_append(place, args[AT_INSPECT_JOBS_BEFORE_ID].data, args[AT_INSPECT_JOBS_BEFORE_ID].len);
    effects_deinit(&fx);
    return 0;
}

/* An empty cursor means none. */
static void check_cursor(const char *cursor)
{
    CLEANUP(buf_deinit) struct buf place = {0};

    if (*cursor && begin_at(cursor, &place) == 0)
        assert(strcmp(buf_str(&place), cursor) == 0);
}

static void read_cursor(struct ops_reader *r, struct effects *fx)
{
    if (r->left == 1)
        check_cursor(effects_text(fx, *r->items));
}

static void read_list(struct ops_reader *r, struct effects *fx)
{
    Drover__V1__ListJobs query = DROVER__V1__LIST_JOBS__INIT;
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    CLEANUP(listing_free) struct listing *l = NULL;
    int more;

    query.limit = 3;
    assert(listing_new(&l, &query, NULL) == 0);
    do
        more = listing_take(l, fx, r);
    while (more > 0);
    if (more < 0)
        return;
    listing_page(l, fx, &m);
    assert(m.n_jobs <= query.limit);
    listing_next(l, fx, &m);
    check_cursor(m.next);
    answer_check(&m);
    listing_free_page(l, &m);
}

static void read_workflows(struct ops_reader *r, struct effects *fx)
{
    struct ops_workflows found;

    if (ops_read_workflows(r, fx, &found))
        return;
    for (uint32_t i = 0; i < found.n; i++)
        assert(found.items[i].name.data && found.items[i].digest.data);
}

static void read_job(struct ops_reader *r, struct effects *fx)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    struct ops_job job;

    if (ops_read_job(r, fx, &job))
        return;
    status_job(fx, &status, bytes_str("job-1"), &job);
    status_steps(fx, &status, &job, definition());
    assert(status.n_steps <= job.n_steps);
    m.status = &status;
    answer_check(&m);
    status_steps_free(&status);
}

static void read_notice(struct ops_reader *r, struct effects *fx)
{
    struct ops_job job;

    if (ops_read_notification(r, fx, &job))
        return;
    for (uint32_t i = 0; i < job.n_results; i++) {
        Drover__V1__Payload *payload = ops_payload(job.results[i].payload);

        if (payload)
            drover__v1__payload__free_unpacked(payload, NULL);
    }
}

static void read_definition(struct ops_reader *r, struct effects *fx)
{
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct bytes blob;

    if (ops_read_definition(r, &blob) == 0)
        workflow_new_from_bytes(&w, blob, "", NULL);
}

static void read_history(struct ops_reader *r, struct effects *fx)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    struct ops_history found;

    if (ops_read_history(r, fx, &found))
        return;
    history_entries(fx, &m, &found, definition());
    assert(m.n_history == found.n);
    answer_check(&m);
}

static void read_expired(struct ops_reader *r, struct effects *fx)
{
    struct ops_expired expired;

    if (ops_read_expired(r, fx, &expired))
        return;
    for (uint32_t i = 0; i < expired.n_due; i++)
        assert(expired.due[i].job.data && expired.due[i].n <= ITEMS_MAX);
    for (uint32_t i = 0; i < expired.n_notifications; i++)
        assert(expired.notifications[i].job.data);
}

/* The functions with short answers. */
static void read_rest(struct ops_reader *r, struct effects *fx)
{
    struct ops_reader first = *r, at = *r;
    struct ops_watermark_answer watermark;
    struct ops_renewed renewed;
    struct ops_leading leading;
    struct ops_forgotten forgotten;
    struct ops_swept swept;
    struct ops_step_record record;

    if (ops_read_watermark(&at, fx, &watermark) == 0)
        for (uint32_t i = 0; i < watermark.n_missing_jobs; i++)
            assert(watermark.missing_jobs[i].data);
    at = first, ops_read_renewed(&at, &renewed);
    at = first, ops_read_leading(&at, &leading);
    at = first, ops_read_forgotten(&at, &forgotten);
    at = first, ops_read_alert_cause(&at);
    at = first, ops_read_suspect(&at);
    at = first;
    if (ops_read_swept(&at, &swept) == 0)
        assert(strlen(swept.cursor) < sizeof(swept.cursor));
    if (r->left > 0 && ops_read_step_record(*r->items, &record) == 0)
        assert(strlen(record.token) < sizeof(record.token));
}

/* ---- traces ---- */

/* A traced field must be short, and safe on a terminal. */
static void check_event(void *ctx, const char *event, const struct log_field *fields, int n)
{
    CLEANUP(buf_deinit) struct buf line = {0};
    const char *text;

    assert(strcmp(event, "store") == 0 && n > 0 && strcmp(fields[0].s, ctx) == 0);
    for (int i = 0; i < n; i++)
        assert(fields[i].type != LOG_FIELD_STR || !fields[i].s ||
               strlen(fields[i].s) <= ID_NAME_MAX || strcmp(fields[i].name, "due") == 0);
    trace_print(&line, event, fields, n);
    text = buf_str(&line);
    for (size_t i = 0; i < line.len;) {
        size_t len = utf8_length(text + i, line.len - i);

        assert(!utf8_is_harmful(text + i, len));
        i += len;
    }
}

static const char *function_of(struct bytes name)
{
    static const char *const functions[] = {"define",      "drive",  "expire",  "inspect",
                                            "record",      "renew",  "suspect", "steer",
                                            "settle_owed", "submit", "sweep",   "told"};

    for (size_t i = 0; i < array_size(functions); i++)
        if (bytes_is(name, functions[i]))
            return functions[i];
    return NULL;
}

/* Every call that is traced by an argument has at least three arguments. */
static void read_call(struct ops_reader *r, struct effects *fx)
{
    const char *function = r->left > 1 ? function_of(r->items[0]) : NULL;
    struct store_answer answer = {STORE_OK};
    int64_t n;

    if (!function || !bytes_to_i64(r->items[1], &n) || n < 3 || n > r->left - 2)
        return;
    answer.items = r->items + 2 + n;
    answer.n = r->left - 2 - (uint32_t)n;
    trace_call(function, r->items + 2, (int)n, NULL, check_event, (char *)function);
    trace_call(function, r->items + 2, (int)n, &answer, check_event, (char *)function);
    answer = (struct store_answer){.result = STORE_UNKNOWN};
    trace_call(function, r->items + 2, (int)n, &answer, check_event, (char *)function);
}

static const struct {
    char letter;
    void (*read)(struct ops_reader *r, struct effects *fx);
} readers[] = {
    {'d', read_transition}, {'l', read_list},       {'w', read_workflows}, {'j', read_job},
    {'n', read_notice},     {'b', read_definition}, {'h', read_history},   {'e', read_expired},
    {'r', read_rest},       {'c', read_cursor},     {'t', read_call},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size), letter = fuzz_until(&input, '\0');
    struct store_answer answer = {STORE_OK};
    CLEANUP(free) struct bytes *items = split(input, &answer.n);
    struct effects fx = {0};
    struct ops_reader r;

    answer.items = items;
    r = ops_reader(&answer);
    for (size_t i = 0; i < array_size(readers); i++)
        if (letter.len == 1 && letter.data[0] == (uint8_t)readers[i].letter)
            readers[i].read(&r, &fx);
    effects_deinit(&fx);
    return 0;
}
