// SPDX-License-Identifier: Apache-2.0
/*
 * Failure loops over the pure layers: the n-th allocation fails, n = 1, 2, ... until an operation
 * needs fewer
 *
 * Each failure has to return -ENOMEM, or what else the header says, leave nothing allocated, and
 * have no lasting effect: the same operation gives its usual result afterwards. Functions that make
 * effects end the process by abort() instead. tests/sim/test_failures.c does the same with the
 * steps of the machines.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "agent/agent.h"
#include "agent/template.h"
#include "base/heap.h"
#include "memory/memory.h"
#include "model/change.h"
#include "model/history.h"
#include "model/json.h"
#include "model/listing.h"
#include "model/migration.h"
#include "model/status.h"
#include "model/store_ops.h"
#include "model/store_schema.h"
#include "model/trace.h"
#include "model/wire.h"
#include "model/wire_unpack.h"
#include "model/workflow.h"
#include "scheduler/scheduler.h"
#include "supervisor/supervisor.h"

#define RESULT_MAX 65536

/* The result of an operation, kept without an allocation. */
struct result {
    size_t len;
    uint8_t data[RESULT_MAX];
};

/* Carries the operation out, keeps its result in @out and frees the rest. Return: as the operation.
 * */
typedef int operation(const void *input, struct result *out);

static void keep(struct result *out, const void *data, size_t len)
{
    assert_true(out->len + len <= RESULT_MAX);
    if (len > 0)
        memcpy(out->data + out->len, data, len);
    out->len += len;
}

static void keep_message(struct result *out, const ProtobufCMessage *m)
{
    assert_true(out->len + protobuf_c_message_get_packed_size(m) <= RESULT_MAX);
    out->len += protobuf_c_message_pack(m, out->data + out->len);
}

/* ---- loops ---- */

static int do_undisturbed(operation *fn, const void *input, struct result *out)
{
    int r;

    out->len = 0;
    memory_measure();
    r = fn(input, out);
    assert_int_equal(memory_held(), 0);
    return r;
}

static void expect_failures(const char *name, operation *fn, const void *input)
{
    static struct result undisturbed, out;
    int r = do_undisturbed(fn, input, &undisturbed), failed;

    if (r)
        fail_msg("%s: gives %d undisturbed", name, r);
    for (unsigned n = 1;; n++) {
        out.len = 0;
        memory_measure();
        memory_fail_at(n);
        r = fn(input, &out);
        failed = memory_failed();
        memory_fail_at(0);
        if (!failed) {
            assert_true(n > 1);
            return;
        }
        if (r != -ENOMEM || out.len > 0 || memory_held() != 0)
            fail_msg("%s: allocation %u: gives %d and %zu bytes, leaves %ld", name, n, r, out.len,
                     memory_held());
        assert_int_equal(do_undisturbed(fn, input, &out), 0);
        if (!bytes_equal(bytes_of(out.data, out.len), bytes_of(undisturbed.data, undisturbed.len)))
            fail_msg("%s: allocation %u: gives something else the next time", name, n);
    }
}

enum {
    ABORTED = 1,
    FAILED = 2
};

/* NOLINTBEGIN(bugprone-reserved-identifier): the names that --wrap of the linker gives */
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);

/* Not called by assertions, which call abort() within libc. */
void __wrap_abort(void)
{
    if (memory_failed())
        memory_exit(ABORTED);
    __real_abort();
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Runs the operation in a process of its own with the n-th allocation failing. Return: how it
 * ended. */
static int do_apart(operation *fn, const void *input, unsigned n)
{
    static struct result out;
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        memory_fail_at(n);
        (void)fn(input, &out);
        memory_exit(memory_failed() ? FAILED : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_aborts(const char *name, operation *fn, const void *input)
{
    static struct result out;
    unsigned n = 1;
    int end;

    if (do_undisturbed(fn, input, &out))
        fail_msg("%s: fails undisturbed", name);
    while ((end = do_apart(fn, input, n)) == ABORTED)
        n++;
    if (end != 0 || n == 1)
        fail_msg("%s: allocation %u: ends with %d", name, n, end);
}

/* ---- base ---- */

static int do_buf(const void *input, struct result *out)
{
    CLEANUP(buf_deinit) struct buf b = {0};

    for (int i = 0; i < 100; i++) {
        buf_puts(&b, "text");
        buf_printf(&b, "%d", i);
        buf_json(&b, "a\"\xff", 3);
    }
    if (strlen(buf_str(&b)) != b.len && !b.failed)
        return -EPROTO;
    if (b.failed)
        return -ENOMEM;
    keep(out, b.data, b.len);
    return 0;
}

/* A buf that failed can be used again after it was emptied. */
static int do_buf_again(const void *input, struct result *out)
{
    CLEANUP(buf_deinit) struct buf b = {0};
    bool failed;

    buf_append(&b, input, 100);
    failed = b.failed;
    buf_clear(&b);
    buf_puts(&b, "again");
    if (strcmp(buf_str(&b), "again") != 0)
        return -EPROTO;
    if (failed)
        return -ENOMEM;
    keep(out, b.data, b.len);
    return 0;
}

static int do_dup(const void *input, struct result *out)
{
    char *copy = bytes_dup(bytes_str(input));

    if (!copy)
        return -ENOMEM;
    keep(out, copy, strlen(copy) + 1);
    free(copy);
    return 0;
}

#define NODES 40 /* more than a heap first has room for */

/* A node that was refused is not in the heap, and the other nodes stay. */
static int do_heap(const void *input, struct result *out)
{
    struct heap h = {0};
    struct heap_node nodes[NODES] = {0};
    int64_t order[NODES];
    int r = 0, n = 0;

    for (int i = 0; i < NODES && !r; i++)
        r = heap_set(&h, &nodes[i], (i * 7) % NODES);
    for (struct heap_node *first; (first = heap_first(&h)); n++) {
        order[n] = first->when;
        if (n > 0 && order[n] < order[n - 1])
            r = -EPROTO;
        heap_remove(&h, first);
    }
    heap_deinit(&h);
    if (!r)
        keep(out, order, sizeof(order));
    return r;
}

static int do_answer_copy(const void *input, struct result *out)
{
    const struct bytes items[] = {bytes_str("a"), BYTES_EMPTY, bytes_str("bc")};
    struct store_answer *copy =
        store_answer_copy(&(struct store_answer){STORE_OK, items, array_size(items)});

    if (!copy)
        return -ENOMEM;
    for (uint32_t i = 0; i < copy->n; i++)
        keep(out, copy->items[i].data, copy->items[i].len);
    free(copy);
    return 0;
}

static void test_base(void **state)
{
    static const char text[100] = "text";

    expect_failures("buf", do_buf, NULL);
    expect_failures("buf again", do_buf_again, text);
    expect_failures("bytes_dup", do_dup, text);
    expect_failures("heap", do_heap, NULL);
    expect_failures("store_answer_copy", do_answer_copy, NULL);
}

/* ---- messages ---- */

#define PAYLOAD "{\"json\":{\"a\":[1,2.5,\"x\\u00e4\",null,true],\"b\":{}}}"
#define BINARY "{\"contentType\":\"image/png\",\"data\":\"/wE=\"}"
#define ERROR                                                                                      \
    "{\"class\":\"io.Timeout\",\"message\":\"none\",\"details\":\"why\",\"retryAfterMs\":\"5\"}"
#define LABELS "[{\"name\":\"a\",\"value\":\"b\"},{\"name\":\"c\"}]"
#define WORKFLOW(steps)                                                                            \
    "{\"name\":\"w\",\"version\":1,\"retry\":{\"nonRetryable\":[\"no\"]},\"steps\":[" steps "]}"
#define STEPS                                                                                      \
    "{\"name\":\"a\",\"actor\":\"x\",\"arguments\":{\"text\":\"x\"},\"revert\":{\"action\":"       \
    "\"u\"}},"                                                                                     \
    "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"],\"take\":[\"a\"]},"                         \
    "{\"name\":\"c\",\"actor\":\"y\",\"after\":[\"b\",\"a\"]}"
#define OTHER_STEPS                                                                                \
    "{\"name\":\"c\",\"actor\":\"y\",\"after\":[\"n\"]},{\"name\":\"n\",\"actor\":\"x\"},"         \
    "{\"name\":\"a\",\"actor\":\"z\"}"
#define CHANGE                                                                                     \
    "{\"actor\":\"z\",\"retry\":{\"nonRetryable\":[\"other\"]},\"revert\":{\"lockMs\":\"7000\"}}"
#define STATUS                                                                                     \
    "{\"jobId\":\"j\",\"workflow\":\"w@1\",\"labels\":" LABELS                                     \
    ",\"steps\":[{\"name\":\"a\",\"after\":[\"b\"],\"lastError\":" ERROR ",\"result\":" PAYLOAD    \
    "}],\"input\":" PAYLOAD "}"

/* One of each type, with a value in each field that takes memory. */
static const char *const messages[WIRE_TYPES] = {
    [WIRE_SUBMIT] = "{\"jobId\":\"j\",\"definition\":" WORKFLOW(
        STEPS) ",\"input\":" PAYLOAD ",\"labels\":" LABELS ",\"replyTo\":\"q\"}",
    [WIRE_RECEIPT] = "{\"jobId\":\"j\",\"code\":\"REJECTED\",\"field\":\"input\","
                     "\"reason\":\"why\"}",
    [WIRE_REQUESTS] =
        "{\"requests\":[{\"jobId\":\"j\",\"step\":\"s\",\"actor\":\"x\","
        "\"desired\":\"ACTIVE\",\"token\":\"1.2\",\"lockMs\":\"5\",\"attempt\":1,"
        "\"lastError\":" ERROR ",\"arguments\":" PAYLOAD
        ",\"results\":[{\"step\":\"r\",\"payload\":" PAYLOAD "}],\"labels\":" LABELS "},{}]}",
    [WIRE_REPLIES] =
        "{\"replies\":[{\"jobId\":\"j\",\"token\":\"1.2\",\"error\":" ERROR
        "},{\"jobId\":\"j\",\"result\":" PAYLOAD "},{\"jobId\":\"j\",\"result\":" BINARY
        "}],\"progress\":[{\"jobId\":\"j\",\"note\":\"half\"}]}",
    [WIRE_CONTROL] = "{\"jobId\":\"j\",\"commandId\":\"c\",\"replyTo\":\"q\",\"reason\":\"so\","
                     "\"retry\":{\"steps\":[\"a\"],\"arguments\":" PAYLOAD "}}",
    [WIRE_ANSWER] =
        "{\"jobId\":\"j\",\"code\":\"DONE\",\"status\":" STATUS ",\"jobs\":[" STATUS "]}",
    [WIRE_EVENT] = "{\"jobId\":\"j\",\"kind\":1,\"seq\":\"5\",\"labels\":" LABELS
                   ",\"results\":[{\"step\":\"r\",\"payload\":" PAYLOAD "}]}",
    [WIRE_PROGRESS_ANSWERS] = "{\"answers\":[{\"jobId\":\"j\",\"token\":\"1.2\"},{}]}",
};

struct body {
    enum wire_type type;
    struct bytes bytes;
    const ProtobufCMessage *message; /* the decoded text */
    bool json;
};

static int do_decode(const void *input, struct result *out)
{
    static const struct wire_properties properties = {
        .message_id = "id", .reply_to = "q", .traceparent = "00"};
    const struct body *b = input;
    CLEANUP(wire_free) struct wire_message m;
    struct problem problem = {0};
    int r = wire_decode(b->type, b->bytes, &properties, &m, &problem);

    if (!r)
        keep_message(out, m.base);
    else if (r > 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    return r;
}

static int do_encode(const void *input, struct result *out)
{
    const struct body *b = input;
    CLEANUP(buf_deinit) struct buf text = {0};
    int r = wire_encode(b->message, b->json, &text);

    if (!r)
        keep(out, text.data, text.len);
    return r;
}

static int do_unpack(const void *input, struct result *out)
{
    const struct body *b = input;
    ProtobufCMessage *m;
    int r = wire_unpack(b->message->descriptor, b->bytes, "", &m, NULL);

    if (r)
        return m ? -EPROTO : r;
    keep_message(out, m);
    protobuf_c_message_free_unpacked(m, NULL);
    return 0;
}

static int do_json_in(const void *input, struct result *out)
{
    const struct body *b = input;
    ProtobufCMessage *m;
    int r = json_to_message(b->bytes, b->message->descriptor, NULL, &m, NULL);

    if (r)
        return m ? -EPROTO : r;
    keep_message(out, m);
    protobuf_c_message_free_unpacked(m, NULL);
    return 0;
}

static int do_json_out(const void *input, struct result *out)
{
    const struct body *b = input;
    CLEANUP(buf_deinit) struct buf text = {0};

    json_from_message(b->message, &text);
    if (text.failed)
        return -ENOMEM;
    keep(out, text.data, text.len);
    return 0;
}

static void test_messages(void **state)
{
    for (enum wire_type type = 0; type < WIRE_TYPES; type++) {
        CLEANUP(wire_free) struct wire_message m;
        CLEANUP(buf_deinit) struct buf packed = {0};
        struct body text = {.type = type, .bytes = bytes_str(messages[type]), .json = true};
        struct body binary = {.type = type};
        struct problem problem = {0};

        if (wire_decode(type, text.bytes, NULL, &m, &problem))
            fail_msg("%s: %s %s", messages[type], problem.field, problem.reason);
        assert_int_equal(wire_encode(m.base, false, &packed), 0);
        text.message = binary.message = m.base;
        binary.bytes = buf_bytes(&packed);
        expect_failures("decode JSON", do_decode, &text);
        expect_failures("decode", do_decode, &binary);
        expect_failures("encode JSON", do_encode, &text);
        expect_failures("encode", do_encode, &binary);
        expect_failures("unpack", do_unpack, &binary);
        expect_failures("json_to_message", do_json_in, &text);
        expect_failures("json_from_message", do_json_out, &text);
    }
}

static int do_payload_out(const void *input, struct result *out)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    json_from_payload(input, &text);
    if (text.failed)
        return -ENOMEM;
    keep(out, text.data, text.len);
    return 0;
}

static int do_payload_value(const void *input, struct result *out)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    json_t *value;
    int r = json_of_payload(input, &value);

    if (r)
        return r;
    json_from_value(value, &text);
    json_decref(value);
    if (text.failed)
        return -ENOMEM;
    keep(out, text.data, text.len);
    return 0;
}

static void test_payloads(void **state)
{
    static char json[] = "{\"a\":[1,\"x\"],\"b\":\"\\u00e4\"}", binary[] = "\xff\x01";
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;

    payload.content_type = (char *)"application/json";
    payload.data = (ProtobufCBinaryData){strlen(json), (uint8_t *)json};
    expect_failures("json_from_payload", do_payload_out, &payload);
    expect_failures("json_of_payload", do_payload_value, &payload);
    payload.content_type = (char *)"image/png";
    payload.data = (ProtobufCBinaryData){strlen(binary), (uint8_t *)binary};
    expect_failures("json_from_payload", do_payload_out, &payload);
}

/* ---- workflows ---- */

static int keep_workflow(struct result *out, struct workflow *w)
{
    keep(out, w->digest, ID_DIGEST_LEN);
    keep(out, w->canonical.data, w->canonical.len);
    for (uint32_t i = 0; i < w->n_steps; i++) {
        keep(out, w->steps[i].after, w->steps[i].n_after * sizeof(uint32_t));
        keep(out, w->steps[i].dependents, w->steps[i].n_dependents * sizeof(uint32_t));
        keep(out, w->steps[i].take, w->steps[i].n_take * sizeof(uint32_t));
    }
    workflow_unref(w);
    return 0;
}

static int do_workflow(const void *input, struct result *out)
{
    struct workflow *w = NULL;
    int r = workflow_new(&w, input, "", NULL);

    if (r)
        return w ? -EPROTO : r;
    return keep_workflow(out, w);
}

static int do_workflow_bytes(const void *input, struct result *out)
{
    const struct bytes *encoded = input;
    struct workflow *w = NULL;
    int r = workflow_new_from_bytes(&w, *encoded, "", NULL);

    if (r)
        return w ? -EPROTO : r;
    return keep_workflow(out, w);
}

static int do_migration(const void *input, struct result *out)
{
    struct workflow *const *versions = input;
    struct migration m;
    int r = migration_plan(&m, versions[0], versions[1], NULL);

    if (r)
        return r;
    keep(out, m.arranged->canonical.data, m.arranged->canonical.len);
    keep(out, m.differing, m.n_differing * sizeof(*m.differing));
    migration_deinit(&m);
    return 0;
}

struct changing {
    const struct workflow *from;
    const Drover__V1__Step *change;
};

static int do_change(const void *input, struct result *out)
{
    const struct changing *c = input;
    struct workflow *to = NULL;
    int r = change_apply(&to, c->from, 0, c->change, NULL);

    if (r)
        return to ? -EPROTO : r;
    return keep_workflow(out, to);
}

static Drover__V1__Workflow *definition(const char *json)
{
    ProtobufCMessage *m;

    assert_int_equal(
        json_to_message(bytes_str(json), &drover__v1__workflow__descriptor, NULL, &m, NULL), 0);
    return (Drover__V1__Workflow *)m;
}

static void test_workflows(void **state)
{
    Drover__V1__Workflow *from = definition(WORKFLOW(STEPS)),
                         *to = definition(WORKFLOW(OTHER_STEPS)),
                         *changes = definition(WORKFLOW(CHANGE));
    struct changing changing = {.change = changes->steps[0]};
    struct workflow *versions[2];

    assert_int_equal(workflow_new(&versions[0], from, "", NULL), 0);
    changing.from = versions[0];
    assert_int_equal(workflow_new(&versions[1], to, "", NULL), 0);
    expect_failures("workflow_new", do_workflow, from);
    expect_failures("workflow_new_from_bytes", do_workflow_bytes, &versions[0]->canonical);
    expect_failures("migration_plan", do_migration, versions);
    expect_failures("change_apply", do_change, &changing);
    workflow_unref(versions[0]);
    workflow_unref(versions[1]);
    drover__v1__workflow__free_unpacked(from, NULL);
    drover__v1__workflow__free_unpacked(to, NULL);
    drover__v1__workflow__free_unpacked(changes, NULL);
}

/* ---- machines ---- */

static int do_scheduler(const void *input, struct result *out)
{
    const struct rng seed = {{1}};
    const struct nonces nonces = {{1}, 0};
    struct scheduler *s = NULL;
    int r = scheduler_new(
        &s, &(struct scheduler_config){.name = "s", .most_unconfirmed = 10, .nonces = &nonces},
        &seed);

    if (r)
        return s ? -EPROTO : r;
    r = scheduler_register(s, (struct workflow *)input);
    scheduler_free(s);
    return r;
}

static int do_agent(const void *input, struct result *out)
{
    static const struct agent_actor actors[] = {{.name = "x"}, {.name = "y"}};
    const struct agent_config config = {
        .name = "a", .concurrency = 1, .actors = actors, .n_actors = array_size(actors)};
    const struct rng seed = {{1}};
    struct agent *a = NULL;
    int r = agent_new(&a, &config, &seed);

    if (r)
        return a ? -EPROTO : r;
    agent_free(a);
    return 0;
}

static int do_supervisor(const void *input, struct result *out)
{
    const struct supervisor_config config = {.name = "s", .period_ms = 1000, .lease_ms = 5000};
    const struct rng seed = {{1}};
    struct supervisor *s = NULL;
    int r = supervisor_new(&s, &config, &seed);

    if (r)
        return s ? -EPROTO : r;
    supervisor_free(s);
    return 0;
}

static void test_machines(void **state)
{
    Drover__V1__Workflow *d = definition(WORKFLOW(STEPS));
    struct workflow *w;

    assert_int_equal(workflow_new(&w, d, "", NULL), 0);
    expect_failures("scheduler", do_scheduler, w);
    expect_failures("agent", do_agent, NULL);
    expect_failures("supervisor", do_supervisor, NULL);
    workflow_unref(w);
    drover__v1__workflow__free_unpacked(d, NULL);
}

/* ---- effects, and what makes them ---- */

static int do_effects(const void *input, struct result *out)
{
    struct effects fx = {0};

    for (uint64_t i = 0; i < 100; i++) {
        effects_add(&fx, EFFECT_ACK, i);
        effects_alloc(&fx, 10000);
    }
    effects_printf(&fx, "%s", "text");
    effects_deinit(&fx);
    return 0;
}

static int do_calls(const void *input, struct result *out)
{
    const struct ops_record_args record = {
        .kind = REPORT_ACTIVE, .job = "j", .token = "1.2", .class = ""};
    const struct ops_record_args *const records[] = {&record};
    struct ops_submit_args submit = {.job = "j", .digest = "", .definition = "", .workflow = "w"};
    struct effects fx = {0};
    struct buf index = {0};
    struct bytes job_id;

    ops_label(&index, "a", "b");
    submit.nonce = submit.scheduler = submit.reply_to = submit.correlation = "";
    submit.traceparent = submit.submitter = "";
    submit.index = buf_or_abort(&index);
    ops_submit(&fx, 1, 0, &submit);
    ops_record(&fx, 2, 0, "s", records, 1);
    ops_define(&fx, 3, 0, input, 0, true);
    job_id = fx.items[0].store.args[AT_SUBMIT_JOB_ID];
    keep(out, job_id.data, job_id.len);
    buf_deinit(&index);
    effects_deinit(&fx);
    return 0;
}

/* The other effects, each so often and with so much of a block of effects used that the block ends
 * in the middle. */
#define CALLS 10
#define TAKEN 62000

static void call_drive(struct effects *fx, uint64_t id, const struct workflow *w)
{
    ops_drive(fx, id, 0, "j", "f", "s", true, (const uint32_t[]){0, 2}, 2);
}

static void call_steer(struct effects *fx, uint64_t id, const struct workflow *w)
{
    ops_steer(fx, id, 0,
              &(struct ops_steer_args){.job = "j",
                                       .command = "migrate",
                                       .command_id = "c",
                                       .reason = "me",
                                       .scheduler = "s",
                                       .nonce = "f",
                                       .definition = w->digest,
                                       .steps = (const uint32_t[]){1},
                                       .n_steps = 1,
                                       .to = w});
}

static void call_inspect(struct effects *fx, uint64_t id, const struct workflow *w)
{
    ops_inspect_definition(fx, id, 0, w->digest);
    ops_inspect_workflow(fx, id, 0, "w");
    ops_inspect_workflows(fx, id, 0, "w@1", 5);
    ops_inspect_job(fx, id, 0, "j", 0, 5, true, NULL);
    ops_inspect_history(fx, id, 0, "j", 1, 5, NULL);
    ops_inspect_notification(fx, id, 0, "j", 7, 1000, (const uint32_t[]){0, 1}, 2);
    ops_inspect_jobs(fx, id, 0,
                     &(struct ops_list_args){.before = INT64_MAX,
                                             .before_id = "",
                                             .phase = "",
                                             .workflow = "w",
                                             .needs = "any",
                                             .class = "BAD",
                                             .actor = "x",
                                             .labels = (const char *const[]){"a"},
                                             .values = (const char *const[]){"b"},
                                             .n_labels = 1});
}

static void call_alerts(struct effects *fx, uint64_t id, const struct workflow *w)
{
    ops_settle_owed(fx, id, 0, &(const struct ops_notification_id){"j", 7, 8});
    ops_alert_cause(fx, id, 0, "NO_AGENT x", OPS_CAUSE_ASK, "f");
    ops_suspect(fx, id, 0, "digest", "incarnation", OPS_SUSPECT_BEGIN);
    ops_watermark(fx, id, 0, "run", "f", (const char *const[]){"j", "k"}, 2);
}

static void call_supervise(struct effects *fx, uint64_t id, const struct workflow *w)
{
    ops_renew(fx, id, 0, "j", "1.2", &(struct ops_progress){0.5, "half way", "me", 0}, "");
    ops_lead(fx, id, 0, "s", 5000);
    ops_expire(fx, id, 0, 0, 10, 0, &(struct ops_clock){.latest = 5});
    ops_dry_run(fx);
    ops_forget(fx, id, 0, 1000, 10);
    ops_dry_run(fx);
    ops_sweep(fx, id, 0, "cursor");
    ops_dry_run(fx);
}

struct calls {
    const char *name;
    void (*call)(struct effects *fx, uint64_t id, const struct workflow *w);
    const struct workflow *w;
};

static int do_more_calls(const void *input, struct result *out)
{
    const struct calls *calls = input;
    struct effects fx = {0};
    const struct effect *last;

    effects_alloc(&fx, TAKEN);
    for (uint64_t i = 0; i < CALLS; i++)
        calls->call(&fx, i, calls->w);
    last = &fx.items[fx.n - 1];
    for (int i = 0; i < last->store.n; i++)
        keep(out, last->store.args[i].data, last->store.args[i].len);
    effects_deinit(&fx);
    return 0;
}

/* ---- answers of the store ---- */

#define ITEMS_MAX 128
#define JOB                                                                                        \
    "0f|D|A|PROCESSING|||pause|1|12|3|2|1700000000000|1700000001000|0|0|sched-1|0|||"              \
    "a A PERMANENT 0 BAD|parked 1700000001000 a x BAD|1|1700000009000|2||w@1|me|"                  \
    "R\006\n\001a\022\001b|q|c||json|1700000001500 me@here too slow|\n\003BAD\022\002no||"
#define STORED "\n\020application/json\022\002{}"

struct reading {
    const char *name;
    int (*read)(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                struct result *out);
    const char *answer; /* its strings, a | behind each */
    const struct workflow *w;
};

static uint32_t split(const char *text, struct bytes items[])
{
    uint32_t n = 0;

    for (const char *end; (end = strchr(text, '|')); text = end + 1, n++) {
        assert_true(n < ITEMS_MAX);
        items[n] = bytes_of(text, (size_t)(end - text));
    }
    return n;
}

static int read_transition(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                           struct result *out)
{
    struct ops_transition transition;
    int e = ops_read_transition(r, fx, &transition);

    if (!e)
        keep(out, transition.requests[0].token.data, transition.requests[0].token.len);
    return e;
}

static int read_job(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                    struct result *out)
{
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    struct ops_job job;
    int e = ops_read_job(r, fx, &job);

    if (e)
        return e;
    status_job(fx, &status, bytes_str("j"), &job);
    status_steps(fx, &status, &job, w);
    keep_message(out, &status.base);
    status_steps_free(&status);
    return 0;
}

static int read_history(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                        struct result *out)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    struct ops_history found;
    int e = ops_read_history(r, fx, &found);

    if (e)
        return e;
    history_entries(fx, &m, &found, w);
    keep_message(out, &m.base);
    return 0;
}

/* The beginning of a list has a failure loop of its own. */
static struct listing *begin_list(const Drover__V1__ListJobs *query)
{
    struct listing *l = NULL;
    unsigned n = memory_left();

    memory_fail_at(0);
    assert_int_equal(listing_new(&l, query, NULL), 0);
    memory_fail_at(n);
    return l;
}

static int read_list(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                     struct result *out)
{
    Drover__V1__ListJobs query = DROVER__V1__LIST_JOBS__INIT;
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    struct listing *l;
    int e;

    query.limit = 2;
    l = begin_list(&query);
    listing_call(l, fx, 1, 0);
    while ((e = listing_take(l, fx, r)) > 0)
        listing_call(l, fx, 1, 0);
    if (!e) {
        listing_page(l, fx, &m);
        listing_next(l, fx, &m);
        keep_message(out, &m.base);
        listing_free_page(l, &m);
    }
    listing_free(l);
    return e;
}

static int read_notification(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                             struct result *out)
{
    Drover__V1__Payload *payload;
    struct ops_job job;
    int e = ops_read_notification(r, fx, &job);

    if (e)
        return e;
    payload = ops_payload(job.results[0].payload);
    keep_message(out, &payload->base);
    drover__v1__payload__free_unpacked(payload, NULL);
    return 0;
}

static int read_workflows(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                          struct result *out)
{
    struct ops_workflows found;
    int e = ops_read_workflows(r, fx, &found);

    if (!e)
        keep(out, found.items[0].name.data, found.items[0].name.len);
    return e;
}

static int read_watermark(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                          struct result *out)
{
    struct ops_watermark_answer watermark;
    int e = ops_read_watermark(r, fx, &watermark);

    if (!e)
        keep(out, watermark.missing_jobs[1].data, watermark.missing_jobs[1].len);
    return e;
}

static int read_expired(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                        struct result *out)
{
    struct ops_expired expired;
    int e = ops_read_expired(r, fx, &expired);

    if (!e)
        keep(out, expired.due[0].steps, expired.due[0].n * sizeof(*expired.due[0].steps));
    return e;
}

static void tell(void *ctx, const char *event, const struct log_field *fields, int n)
{
    keep(ctx, event, strlen(event));
    for (int i = 0; i < n; i++)
        if (fields[i].type == LOG_FIELD_STR && fields[i].s)
            keep(ctx, fields[i].s, strlen(fields[i].s));
}

static int trace_expired(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                         struct result *out)
{
    struct store_answer answer = {.items = r->items, .n = r->left};

    trace_call("expire", NULL, 0, &answer, tell, out);
    return 0;
}

static int trace_recorded(struct ops_reader *r, struct effects *fx, const struct workflow *w,
                          struct result *out)
{
    struct store_answer answer = {.items = r->items, .n = r->left};
    struct bytes args[AT_RECORD_VALUES + AT_REPORT_VALUES] = {[AT_RECORD_BY] = bytes_str("s")};
    struct bytes *report = args + AT_RECORD_VALUES;

    report[AT_REPORT_KIND] = bytes_str("A");
    report[AT_REPORT_JOB_ID] = bytes_str("j");
    report[AT_REPORT_TOKEN] = bytes_str("1.2");
    trace_call("record", args, array_size(args), &answer, tell, out);
    return 0;
}

/* Reads many answers into the same effects; the last one is kept. */
static int do_read(const void *input, struct result *out)
{
    const struct reading *reading = input;
    struct bytes items[ITEMS_MAX];
    struct store_answer answer = {.items = items, .n = split(reading->answer, items)};
    struct effects fx = {0};
    int e = 0;

    effects_alloc(&fx, TAKEN);
    for (int i = 0; i < CALLS && !e; i++) {
        struct ops_reader r = ops_reader(&answer);

        out->len = 0;
        e = reading->read(&r, &fx, reading->w, out);
    }
    effects_deinit(&fx);
    return e;
}

#define DRIVEN                                                                                     \
    "RECORDED|0f|1700000000000 12 0 0 1 2 3 0 1 1|2 D EXPIRED 12|"                                 \
    "0 A D 1 1 1.abc 1700000060000 1000 0 0 0 0 1 1|" STORED "|" STORED "|" STORED                 \
    "|1 0 1|labels|trace|1|" STORED "|-||"
#define EXPIRED "1700000002000|1700000003000|1|0|1|j|1|2|0|2|1|k|7|"

static void expect_read(const struct workflow *w)
{
    const struct reading readings[] = {
        {"driven", read_transition, DRIVEN},
        {"job", read_job,
         "FOUND|1700000002000|" JOB STORED "|2|0|A A W 1 1 1.abc 0 0 0 0 0|||" STORED
         "|a-1|1|D A R 1 2 2.def 1700000060000 1 0 0 0 1 1|\n\003BAD\022\002no|2.def 1700000090000 "
         "0.5@a-2 "
         "half way|||"},
        {"history", read_history,
         "FOUND|0f|1|0|3|1 1700000000000 created me|2 1700000000100 dispatched 0 1 1.abc|3 "
         "1700000000300 turned D FAILURE PERMANENT 0|"},
        {"list", read_list,
         "FOUND|1700000002000|1|1700000000000|j|1|j|" JOB
         "FOUND|1700000002000|1|1600000000000|h|2|i|" JOB "h|" JOB},
        {"notification", read_notification,
         "FOUND|0f|3|w@1|ann||me|c||json|4|SUCCEEDED|PROCESSED|1|1700000002000|0||0 2|a A "
         "PERMANENT 0 BAD|\n\003BAD|1|2|" STORED "|2|you|d|them||"},
        {"workflows", read_workflows, "FOUND|0|2|w@1|0f|3|v@7|0f|10000|"},
        {"watermark", read_watermark, "1700000002000|id|5|4|2|j|k|"},
        {"expired", read_expired, EXPIRED},
        {"trace of expired", trace_expired, EXPIRED},
        {"trace of recorded", trace_recorded, DRIVEN},
    };

    for (size_t i = 0; i < array_size(readings); i++) {
        struct reading reading = readings[i];

        reading.w = w;
        expect_aborts(reading.name, do_read, &reading);
    }
}

static void expect_calls(const struct workflow *w)
{
    static const struct calls all[] = {
        {"drive", call_drive},   {"steer", call_steer},         {"inspect", call_inspect},
        {"alerts", call_alerts}, {"supervise", call_supervise},
    };

    for (size_t i = 0; i < array_size(all); i++) {
        struct calls calls = all[i];

        calls.w = w;
        expect_aborts(calls.name, do_more_calls, &calls);
    }
}

static int do_stored(const void *input, struct result *out)
{
    const struct bytes *encoded = input;
    Drover__V1__Submit *labels = status_labels(*encoded);

    keep_message(out, &labels->base);
    drover__v1__submit__free_unpacked(labels, NULL);
    return 0;
}

static int do_pack(const void *input, struct result *out)
{
    struct effects fx = {0};
    struct bytes text = wire_pack(&fx, input, true);

    keep(out, text.data, text.len);
    effects_deinit(&fx);
    return 0;
}

static void test_effects(void **state)
{
    Drover__V1__Workflow *d = definition(WORKFLOW(STEPS));
    CLEANUP(wire_free) struct wire_message m;
    CLEANUP(buf_deinit) struct buf packed = {0};
    struct bytes encoded;
    struct workflow *w;

    assert_int_equal(workflow_new(&w, d, "", NULL), 0);
    assert_int_equal(wire_decode(WIRE_SUBMIT, bytes_str(messages[WIRE_SUBMIT]), NULL, &m, NULL), 0);
    assert_int_equal(wire_encode(m.base, false, &packed), 0);
    encoded = buf_bytes(&packed);
    expect_aborts("effects", do_effects, NULL);
    expect_aborts("store calls", do_calls, w);
    expect_aborts("ops_unpack", do_stored, &encoded);
    expect_aborts("wire_pack", do_pack, m.base);
    expect_calls(w);
    expect_read(w);
    workflow_unref(w);
    drover__v1__workflow__free_unpacked(d, NULL);
}

/* @input has room for everything: only the operation in between can fail. */
static int do_template(const void *input, struct result *out)
{
    Drover__V1__StepRequest request = DROVER__V1__STEP_REQUEST__INIT;
    Drover__V1__Payload arguments = DROVER__V1__PAYLOAD__INIT;
    CLEANUP(template_values_deinit) struct template_values values = {.request = &request};
    struct buf *text = *(struct buf *const *)input;
    int r;

    arguments.data.data = (uint8_t *)"{\"id\":\"a b\",\"n\":7}";
    arguments.data.len = strlen((const char *)arguments.data.data);
    request.arguments = &arguments;
    buf_clear(text);
    r = template_expand("/orders/${arguments.id}/${arguments.n}", &values, text, NULL);
    if (!r)
        keep(out, text->data, text->len);
    return strcmp(buf_str(text), "/orders/a%20b/7") == 0 ? r : -EPROTO;
}

static void test_templates(void **state)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    struct buf *input = &text;

    assert_non_null(buf_reserve(&text, 100));
    expect_aborts("template", do_template, &input);
}

static int do_listing(const void *input, struct result *out)
{
    struct listing *l = NULL;
    int r = listing_new(&l, input, NULL);

    if (r)
        return l ? -EPROTO : r;
    listing_free(l);
    return 0;
}

static void test_listing(void **state)
{
    Drover__V1__ListJobs query = DROVER__V1__LIST_JOBS__INIT;

    expect_failures("listing", do_listing, &query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),     cmocka_unit_test(test_messages),
        cmocka_unit_test(test_payloads), cmocka_unit_test(test_workflows),
        cmocka_unit_test(test_listing),  cmocka_unit_test(test_machines),
        cmocka_unit_test(test_effects),  cmocka_unit_test(test_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
