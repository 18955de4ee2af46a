// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding of bodies: the rules of every field, every kind of bad body, and the memory they take
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "memory/memory.h"
#include "model/json.h"
#include "model/reply_to.h"
#include "model/wire.h"
#include "model/wire_unpack.h"

#define JOB "\"jobId\":\"a\""
#define ORDER JOB ",\"workflow\":\"order\""
#define REPLY "\"jobId\":\"a\",\"step\":\"s\",\"token\":\"0123456789abcdef\""
#define REQUEST                                                                                    \
    REPLY ",\"actor\":\"x\",\"action\":\"go\",\"desired\":\"ACTIVE\",\"lockMs\":1000,"             \
          "\"idempotencyKey\":\"a/s/1\""

static const ProtobufCMessageDescriptor *const SUBMIT = &drover__v1__submit__descriptor;

static int decode(enum wire_type type, struct bytes body, struct problem *problem)
{
    CLEANUP(wire_free) struct wire_message m;
    int r = wire_decode(type, body, NULL, &m, problem);

    assert_true((m.base != NULL) == (r == 0 || r == WIRE_E_INVALID));
    return r;
}

/* The same message as JSON and as protobuf: the rules apply to both. */
static void expect(enum wire_type type, const char *text, int result, const char *field)
{
    CLEANUP(wire_free) struct wire_message m;
    CLEANUP(buf_deinit) struct buf body = {0};
    struct problem problem = {0};
    int r = wire_decode(type, bytes_str(text), NULL, &m, &problem);

    if (r != result || strcmp(problem.field, field) != 0)
        fail_msg("%s: %d %s: %s", text, r, problem.field, problem.reason);
    assert_true(m.json);
    assert_int_equal(wire_encode(m.base, false, &body), 0);
    if (strcmp(field, "reply_to") == 0)
        return; /* the result is empty */
    problem = (struct problem){0};
    assert_int_equal(decode(type, buf_bytes(&body), &problem), result);
    assert_string_equal(problem.field, field);
}

static void expect_good(enum wire_type type, const char *text)
{
    expect(type, text, 0, "");
}

static void expect_invalid(enum wire_type type, const char *text, const char *field)
{
    expect(type, text, WIRE_E_INVALID, field);
}

/* ---- Submit ---- */

static void test_submit(void **state)
{
    expect_good(WIRE_SUBMIT, "{" ORDER "}");
    expect_good(WIRE_SUBMIT, "{" JOB ",\"workflow\":\"order@4294967295\"}");
    expect_good(WIRE_SUBMIT, "{" JOB ",\"definition\":{}}"); /* workflow_new() checks it */
    expect_good(WIRE_SUBMIT, "{" ORDER ",\"desired\":\"DISABLED\",\"startAt\":5,\"completeBy\":6,"
                             "\"priority\":9,\"events\":\"STEP\",\"traceparent\":\"00-a-b-01\","
                             "\"replyTo\":\"answers\",\"labels\":[{\"name\":\"a\"}]}");
    expect_invalid(WIRE_SUBMIT, "{\"workflow\":\"order\"}", "job_id");
    expect_invalid(WIRE_SUBMIT, "{\"jobId\":\"a b\",\"workflow\":\"order\"}", "job_id");
    expect_invalid(WIRE_SUBMIT, "{" JOB "}", "workflow");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"definition\":{}}", "workflow");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"desired\":\"UNKNOWN\"}", "desired");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"desired\":9}", "desired");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"priority\":10}", "priority");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"startAt\":-1}", "start_at");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"completeBy\":-1}", "complete_by");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"startAt\":5,\"completeBy\":5}", "complete_by");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"events\":4}", "events");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"traceparent\":\"a\\nb\"}", "traceparent");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"input\":{\"contentType\":\"\\u0001\"}}",
                   "input.content_type");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"labels\":[{\"value\":\"b\"}]}", "labels[0].name");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"labels\":[{\"name\":\"a\",\"value\":\"\\n\"}]}",
                   "labels[0].value");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"labels\":[{\"name\":\"a=b\",\"value\":\"c\"}]}",
                   "labels[0].name");
    expect_good(WIRE_SUBMIT, "{" ORDER ",\"labels\":[{\"name\":\"a\",\"value\":\"b=c\"}]}");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"labels\":[{\"name\":\"a\"},{\"name\":\"a\"}]}",
                   "labels[1].name");
    expect_invalid(WIRE_SUBMIT, "{" ORDER ",\"replyTo\":\"drover.submit\"}", "reply_to");
}

static void test_submit_sizes(void **state)
{
    static const struct {
        const char *head, *tail, *field;
        size_t fits;
    } CASES[] = {
        {"{\"workflow\":\"order\",\"jobId\":\"", "\"}", "job_id", ID_NAME_MAX},
        {"{" JOB ",\"workflow\":\"", "\"}", "workflow", ID_NAME_MAX},
        {"{" ORDER ",\"input\":{\"contentType\":\"t\",\"text\":\"", "\"}}", "input",
         WIRE_INPUT_MAX - 1},
        {"{" ORDER ",\"input\":{\"contentType\":\"", "\"}}", "input.content_type",
         WIRE_CONTENT_TYPE_MAX},
        {"{" ORDER ",\"labels\":[{\"name\":\"", "\"}]}", "labels[0].name", WIRE_LABEL_NAME_MAX},
        {"{" ORDER ",\"labels\":[{\"name\":\"a\",\"value\":\"", "\"}]}", "labels[0].value",
         WIRE_LABEL_VALUE_MAX},
        {"{" ORDER ",\"traceparent\":\"", "\"}", "traceparent", WIRE_TRACEPARENT_MAX},
        {"{" ORDER ",\"replyTo\":\"", "\"}", "reply_to", WIRE_REPLY_TO_MAX},
    };

    for (size_t i = 0; i < array_size(CASES); i++) {
        for (int over = 0; over <= 1; over++) {
            CLEANUP(buf_deinit) struct buf text = {0};

            buf_puts(&text, CASES[i].head);
            for (size_t k = 0; k < CASES[i].fits + (size_t)over; k++)
                buf_putc(&text, 'a');
            buf_puts(&text, CASES[i].tail);
            expect(WIRE_SUBMIT, buf_str(&text), over ? WIRE_E_INVALID : 0,
                   over ? CASES[i].field : "");
        }
    }
}

static void test_submit_label_count(void **state)
{
    for (int n = WIRE_LABELS_MAX; n <= WIRE_LABELS_MAX + 1; n++) {
        CLEANUP(buf_deinit) struct buf text = {0};

        buf_puts(&text, "{" ORDER ",\"labels\":[");
        for (int i = 0; i < n; i++)
            buf_printf(&text, "%s{\"name\":\"n%d\"}", i ? "," : "", i);
        buf_puts(&text, "]}");
        expect(WIRE_SUBMIT, buf_str(&text), n > WIRE_LABELS_MAX ? WIRE_E_INVALID : 0,
               n > WIRE_LABELS_MAX ? "labels" : "");
    }
}

static void test_workflow_ref(void **state)
{
    static const char *const BAD[] = {
        "",     "@",    "@1",    "a@",           "a@0",
        "a@-1", "a@01", "a@1@2", "a@4294967296", "a@99999999999999999999",
        "a@1x", "a b",  "a@ 1",
    };
    struct bytes name;
    uint32_t version;

    assert_true(wire_workflow_ref("a.b-c_D@17", &name, &version));
    assert_true(bytes_is(name, "a.b-c_D"));
    assert_int_equal(version, 17);
    assert_true(wire_workflow_ref("a", &name, &version));
    assert_int_equal(version, 0);
    for (size_t i = 0; i < array_size(BAD); i++)
        assert_false(wire_workflow_ref(BAD[i], &name, &version));
}

/* Process ids in the external term format: of RabbitMQ 3.10 and 4.0, and of older Erlang versions.
 * */
#define PROCESS "g1h3D3JlcGx5QDEyNzA5NTk5MAAAAAMAAAAAZmVkYw=="
#define DIRECT "amq.rabbitmq.reply-to"
#define KEY_64 "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5"

static void test_reply_to(void **state)
{
    uint8_t nodes[3][WIRE_REPLY_TO_MAX];
    size_t len;
    static const char *const queues[] = {"amq.gen-XyZ", "droverino", "my queue \xc3\xa4"};
    static const char *const direct[] = {
        DIRECT "." PROCESS ".a2V5",
        DIRECT "." PROCESS ".a2V5Zm9yeW91Lg==",
        DIRECT ".g2dkAANhQGIAAAABAAAAAAA=.k-_y",
        DIRECT ".g2dzA2FAYgAAAAEAAAAAAA==.a2V5",
        DIRECT "." PROCESS "." KEY_64 KEY_64,
    };
    static const char *const none[] = {
        "",
        "drover.",
        "drover.replies",
        "amq.rabbitmq.trace",
        "a\nb",
        "\xff",
        DIRECT,
        DIRECT "x",
        DIRECT ".",
        DIRECT ".!!!!.key",
        DIRECT ".AAAA.key",
        DIRECT ".AAAA",
        DIRECT "." PROCESS,
        DIRECT "." PROCESS ".",
        DIRECT "." PROCESS ".a.b",
        DIRECT ".g2QABGV2aWw=.a2V5",             /* an atom */
        DIRECT ".g2drAANhQGIAAAABAAAAAAA=.a2V5", /* a process whose node name is no atom */
        DIRECT ".g2dkAANhYmMAAAABAAAAAAA=.a2V5", /* a process without a node name */
        DIRECT ".g2dkAANhQGIAAAABAAAAAAAA.a2V5", /* one byte too many */
        DIRECT ".g2dkAANhQGIAAAABAAA=.a2V5",     /* cut off */
        DIRECT ".g2dk//9hQGIAAAABAAAAAAA=.a2V5", /* the name is longer than the rest */
        DIRECT ".g2dkAAAAAAABAAAAAAA=.a2V5",     /* an empty name */
        DIRECT ".g2c=.a2V5",
        DIRECT ".gw==.a2V5",
        DIRECT "." PROCESS "." KEY_64 KEY_64 KEY_64, /* longer than any address */
    };

    assert_int_equal(reply_to_node("x", nodes[0]), 0);
    assert_int_equal(reply_to_node(DIRECT ".!!!!.key", nodes[0]), 0);
    len = reply_to_node(direct[0], nodes[0]);
    assert_true(len > 0);
    assert_int_equal(reply_to_node(direct[1], nodes[1]), len);
    assert_memory_equal(nodes[0], nodes[1], len);
    assert_true(reply_to_node(direct[2], nodes[2]) != len || memcmp(nodes[0], nodes[2], len) != 0);
    for (size_t i = 0; i < array_size(queues); i++) {
        assert_true(reply_to_field_valid(queues[i]));
        assert_true(reply_to_property_valid(queues[i]));
    }
    for (size_t i = 0; i < array_size(direct); i++) {
        assert_false(reply_to_field_valid(direct[i]));
        assert_true(reply_to_property_valid(direct[i]));
    }
    for (size_t i = 0; i < array_size(none); i++) {
        assert_false(reply_to_field_valid(none[i]));
        assert_false(reply_to_property_valid(none[i]));
    }
}

/* A rejection must never go to an address that replies may not go to, whatever else is wrong. */
static void test_bad_reply_to_is_emptied(void **state)
{
    static const char *const BODIES[] = {
        "{" ORDER ",\"replyTo\":\"drover.control\"}",
        "{\"replyTo\":\"drover.control\"}",
        "{\"replyTo\":\"drover.control\",\"nonsense\":1}",
    };

    for (size_t i = 0; i < array_size(BODIES); i++) {
        CLEANUP(wire_free) struct wire_message m;

        assert_int_equal(wire_decode(WIRE_SUBMIT, bytes_str(BODIES[i]), NULL, &m, NULL),
                         WIRE_E_INVALID);
        assert_string_equal(m.submit->reply_to, "");
    }
}

static void test_properties_replace_fields(void **state)
{
    const struct wire_properties p = {.message_id = "id", .reply_to = "q", .traceparent = "00"};
    const struct wire_properties bad = {
        .message_id = "a b", .reply_to = "drover.x", .traceparent = "\x01"};
    struct wire_message m;
    struct problem problem;

    assert_int_equal(wire_decode(WIRE_SUBMIT, bytes_str("{\"workflow\":\"w\"}"), &p, &m, NULL), 0);
    assert_string_equal(m.submit->job_id, "id");
    assert_string_equal(m.submit->reply_to, "q");
    assert_string_equal(m.submit->traceparent, "00");
    wire_free(&m);

    assert_int_equal(
        wire_decode(WIRE_SUBMIT, bytes_str("{" ORDER ",\"replyTo\":\"mine\"}"), &p, &m, NULL), 0);
    assert_string_equal(m.submit->job_id, "a");
    assert_string_equal(m.submit->reply_to, "mine");
    wire_free(&m);

    assert_int_equal(wire_decode(WIRE_CONTROL, bytes_str("{" JOB ",\"cancel\":{}}"), &p, &m, NULL),
                     0);
    assert_string_equal(m.control->command_id, "id");
    assert_string_equal(m.control->reply_to, "q");
    wire_free(&m);

    assert_int_equal(wire_decode(WIRE_SUBMIT, bytes_str("{" ORDER "}"), &bad, &m, &problem),
                     WIRE_E_INVALID);
    assert_string_equal(problem.field, "reply_to");
    assert_string_equal(m.submit->reply_to, "");
    assert_string_equal(m.submit->traceparent, "");
    wire_free(&m);
    wire_free(&m);
}

/* ---- Control and the rest ---- */

/* A change has no fields that other steps depend on, and none of the undo; and it has some field.
 */
static void test_changes(void **state)
{
    static const struct {
        const char *change, *field;
    } BAD[] = {
        {"\"name\":\"b\"", "retry.change"},
        {"\"after\":[\"b\"]", "retry.change"},
        {"\"take\":[\"b\"]", "retry.change"},
        {"\"takeNone\":true", "retry.change"},
        {"\"waiveRevert\":true", "retry.change"},
        {"\"arguments\":{}", "retry.change.arguments"},
        {"\"revert\":{\"action\":\"b\"}", "retry.change.revert"},
        {"\"revert\":{\"actor\":\"b\"}", "retry.change.revert"},
        {"\"revert\":{\"arguments\":{}}", "retry.change.revert"},
        {"\"actor\":\"a b\"", "retry.change.actor"},
        {"\"action\":\"a b\"", "retry.change.action"},
        {"", "retry.change"},
        {"\"lockMs\":0,\"actor\":\"\",\"retry\":{},\"revert\":{\"waitMs\":0}", "retry.change"},
    };
    char text[256];

    for (size_t i = 0; i < array_size(BAD); i++) {
        snprintf(text, sizeof(text),
                 "{" JOB ",\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"],\"change\":{%s}}}",
                 BAD[i].change);
        expect_invalid(WIRE_CONTROL, text, BAD[i].field);
    }
}

static void test_control(void **state)
{
    static const char *const GOOD[] = {
        "\"query\":{}",
        "\"recover\":{\"steps\":[0,9999]}",
        "\"notify\":{\"seq\":1}",
        "\"commandId\":\"c\",\"setDesired\":{\"desired\":\"ACTIVE\"}",
        "\"commandId\":\"c\",\"cancel\":{},\"issuedAt\":1,\"reason\":\"typed wrong\"",
        "\"commandId\":\"c\",\"kill\":{}",
        "\"commandId\":\"c\",\"retry\":{}",
        "\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"],\"arguments\":{\"json\":1}}",
        ("\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"],\"arguments\":{\"json\":1},"
         "\"beginAnew\":true}"),
        ("\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"],\"beginAnew\":true,\"change\":"
         "{\"actor\":\"b\",\"lockMs\":1,\"retry\":{\"jitter\":1},\"revert\":{\"waitMs\":2}}}"),
        "\"commandId\":\"c\",\"resolve\":{\"step\":\"a\",\"state\":\"DISABLED\"}",
        "\"listJobs\":{\"workflow\":\"w\",\"since\":1,\"before\":2,\"labels\":[{\"name\":\"l\"}]}",
        "\"listWorkflows\":{\"workflow\":\"w@1\",\"after\":\"w\"}",
        "\"commandId\":\"c\",\"migrate\":{\"workflow\":\"w@2\"}",
        "\"reason\":\"a command that this build does not know\"",
    };
    static const struct {
        const char *members, *field;
    } BAD[] = {
        {"\"cancel\":{}", "command_id"},
        {"\"commandId\":\"a b\",\"query\":{}", "command_id"},
        {"\"issuedAt\":-1,\"query\":{}", "issued_at"},
        {"\"reason\":\"a\\nb\",\"query\":{}", "reason"},
        {"\"by\":\"\\t\",\"query\":{}", "by"},
        {"\"commandId\":\"c\",\"setDesired\":{}", "set_desired.desired"},
        {"\"commandId\":\"c\",\"setDesired\":{\"desired\":\"UNKNOWN\"}", "set_desired.desired"},
        {"\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\",\"\"]}", "retry.steps[1]"},
        {"\"commandId\":\"c\",\"retry\":{\"arguments\":{}}", "retry.arguments"},
        {"\"commandId\":\"c\",\"retry\":{\"change\":{}}", "retry.change"},
        {"\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"],\"beginAnew\":true}",
         "retry.begin_anew"},
        {"\"commandId\":\"c\",\"resolve\":{\"state\":\"ACTIVE\"}", "resolve.step"},
        {"\"commandId\":\"c\",\"resolve\":{\"step\":\"a\"}", "resolve.state"},
        {"\"commandId\":\"c\",\"resolve\":{\"step\":\"a\",\"state\":\"ACTIVE\","
         "\"result\":{\"contentType\":\"\\n\"}}",
         "resolve.result.content_type"},
        {"\"commandId\":\"c\",\"migrate\":{}", "migrate.workflow"},
        {"\"commandId\":\"c\",\"migrate\":{\"workflow\":\"w@9999999999999999999\"}",
         "migrate.workflow"},
        {"\"listJobs\":{\"workflow\":\"w@0\"}", "list_jobs.workflow"},
        {"\"listJobs\":{\"since\":-1}", "list_jobs.since"},
        {"\"listJobs\":{\"before\":-1}", "list_jobs.before"},
        {"\"listJobs\":{\"labels\":[{}]}", "list_jobs.labels[0].name"},
        {"\"listJobs\":{\"needs\":9}", "list_jobs.needs"},
        {"\"listJobs\":{\"errorClass\":\"a b\"}", "list_jobs.error_class"},
        {"\"listJobs\":{\"actor\":\"a b\"}", "list_jobs.actor"},
        {"\"listJobs\":{\"after\":\"\\n\"}", "list_jobs.after"},
        {"\"listWorkflows\":{\"workflow\":\"a b\"}", "list_workflows.workflow"},
        {"\"listWorkflows\":{\"after\":\"\\n\"}", "list_workflows.after"},
        {"\"recover\":{\"steps\":[10000]}", "recover.steps[0]"},
        {"\"query\":{},\"replyTo\":\"drover.x\"", "reply_to"},
    };
    char text[256];

    expect_invalid(WIRE_CONTROL, "{\"query\":{}}", "job_id");
    for (size_t i = 0; i < array_size(GOOD); i++) {
        snprintf(text, sizeof(text), "{" JOB ",%s}", GOOD[i]);
        expect_good(WIRE_CONTROL, text);
    }
    for (size_t i = 0; i < array_size(BAD); i++) {
        snprintf(text, sizeof(text), "{" JOB ",%s}", BAD[i].members);
        expect_invalid(WIRE_CONTROL, text, BAD[i].field);
    }
}

/* A job cannot have more steps. */
static void test_control_of_many_steps(void **state)
{
    CLEANUP(buf_deinit) struct buf retry = {0}, recover = {0};

    buf_puts(&retry, "{" JOB ",\"commandId\":\"c\",\"retry\":{\"steps\":[\"a\"");
    buf_puts(&recover, "{" JOB ",\"recover\":{\"steps\":[0");
    for (int i = 1; i < WIRE_STEPS_MAX; i++) {
        buf_puts(&retry, ",\"a\"");
        buf_puts(&recover, ",0");
    }
    for (int more = 0; more < 2; more++) {
        CLEANUP(buf_deinit) struct buf one = {0}, other = {0};

        buf_printf(&one, "%s%s]}}", buf_str(&retry), more ? ",\"a\"" : "");
        buf_printf(&other, "%s%s]}}", buf_str(&recover), more ? ",0" : "");
        if (more) {
            expect_invalid(WIRE_CONTROL, buf_str(&one), "retry.steps");
            expect_invalid(WIRE_CONTROL, buf_str(&other), "recover.steps");
        } else {
            expect_good(WIRE_CONTROL, buf_str(&one));
            expect_good(WIRE_CONTROL, buf_str(&other));
        }
    }
}

static void test_messages_to_clients(void **state)
{
    expect_good(WIRE_RECEIPT, "{\"code\":\"CREATED\"}");
    expect_good(WIRE_RECEIPT, "{\"code\":99}");
    expect_invalid(WIRE_RECEIPT, "{}", "code");
    expect_good(WIRE_ANSWER, "{\"code\":\"DONE\",\"status\":{\"steps\":[{}]}}");
    expect_invalid(WIRE_ANSWER, "{}", "code");
    expect_good(WIRE_EVENT, "{\"kind\":\"ALERT\"}");
    expect_invalid(WIRE_EVENT, "{}", "kind");
    expect_invalid(WIRE_REQUESTS, "{}", "requests");
    expect_invalid(WIRE_REPLIES, "{}", "replies");
    expect_invalid(WIRE_PROGRESS_ANSWERS, "{}", "answers");
}

/* ---- items ---- */

static void expect_item(enum wire_type type, const char *list, const char *members,
                        const char *field)
{
    CLEANUP(wire_free) struct wire_message m;
    CLEANUP(buf_deinit) struct buf text = {0};
    struct problem problem = {0};
    bool progress = strcmp(list, "progress") == 0;
    int r;

    buf_printf(&text, "{\"%s\":[{},{%s}]}", list, members);
    assert_int_equal(wire_decode(type, buf_bytes(&text), NULL, &m, &problem), 0);
    r = type == WIRE_REQUESTS  ? wire_check_request(m.requests, 1, &problem)
        : type != WIRE_REPLIES ? wire_check_progress_answer(m.progress_answers, 1, &problem)
        : progress             ? wire_check_progress(m.replies, 1, &problem)
                               : wire_check_reply(m.replies, 1, &problem);
    if (strcmp(problem.field, field) != 0)
        fail_msg("%s: %s: %s", members, problem.field, problem.reason);
    assert_int_equal(r, field[0] ? WIRE_E_INVALID : 0);
}

static void test_reply_items(void **state)
{
    static const struct {
        const char *members, *field;
    } CASES[] = {
        {REPLY ",\"achieved\":\"ACTIVE\",\"result\":{\"json\":1},\"durationMs\":5", ""},
        {REPLY ",\"error\":{\"class\":\"x\",\"message\":\"two\\nlines\",\"verdict\":\"DEFER\"}",
         ""},
        {"\"step\":\"s\",\"token\":\"t\"", "replies[1].job_id"},
        {"\"jobId\":\"a\",\"token\":\"t\"", "replies[1].step"},
        {"\"jobId\":\"a\",\"step\":\"s\"", "replies[1].token"},
        {REPLY ",\"achieved\":9", "replies[1].achieved"},
        {REPLY ",\"durationMs\":-1", "replies[1].duration_ms"},
        {REPLY ",\"agent\":\"\\t\"", "replies[1].agent"},
        {REPLY ",\"result\":{\"contentType\":\"\\t\"}", "replies[1].result.content_type"},
        {REPLY ",\"error\":{\"class\":\"\\t\"}", "replies[1].error.class"},
        {REPLY ",\"error\":{\"verdict\":4}", "replies[1].error.verdict"},
        {REPLY ",\"error\":{\"effect\":-1}", "replies[1].error.effect"},
        {REPLY ",\"error\":{\"retryAfterMs\":-1}", "replies[1].error.retry_after_ms"},
    };

    for (size_t i = 0; i < array_size(CASES); i++)
        expect_item(WIRE_REPLIES, "replies", CASES[i].members, CASES[i].field);
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"fraction\":1,\"note\":\"half\"", "");
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"fraction\":-1", "");
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"fraction\":1.1", "progress[1].fraction");
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"elapsedMs\":-1", "progress[1].elapsed_ms");
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"note\":\"\\n\"", "progress[1].note");
    expect_item(WIRE_REPLIES, "progress", REPLY ",\"agent\":\"\\n\"", "progress[1].agent");
    expect_item(WIRE_REPLIES, "progress", "\"jobId\":\"a\",\"step\":\"s\"", "progress[1].token");
    expect_item(WIRE_PROGRESS_ANSWERS, "answers", REPLY ",\"wanted\":true", "");
    expect_item(WIRE_PROGRESS_ANSWERS, "answers", "\"wanted\":true", "answers[1].job_id");
}

static void test_request_items(void **state)
{
    static const struct {
        const char *members, *field;
    } CASES[] = {
        {REQUEST ",\"results\":[{\"step\":\"b\",\"payload\":{\"json\":1}}],\"current\":\"UNKNOWN\"",
         ""},
        {REPLY, "requests[1].lock_ms"},
        {REPLY ",\"lockMs\":9999999999999", "requests[1].lock_ms"},
        {REPLY ",\"lockMs\":1", "requests[1].actor"},
        {REPLY ",\"lockMs\":1,\"actor\":\"x\"", "requests[1].action"},
        {REPLY ",\"lockMs\":1,\"actor\":\"x\",\"action\":\"y\"", "requests[1].desired"},
        {REPLY ",\"lockMs\":1,\"actor\":\"x\",\"action\":\"y\",\"desired\":1",
         "requests[1].idempotency_key"},
        {REQUEST ",\"current\":9", "requests[1].current"},
        {REQUEST ",\"forwardKey\":\"\\n\"", "requests[1].forward_key"},
        {REQUEST ",\"heartbeatMs\":-1", "requests[1].heartbeat_ms"},
        {REQUEST ",\"arguments\":{\"contentType\":\"\\n\"}", "requests[1].arguments.content_type"},
        {REQUEST ",\"input\":{\"contentType\":\"\\n\"}", "requests[1].input.content_type"},
        {REQUEST ",\"forwardResult\":{\"contentType\":\"\\n\"}",
         "requests[1].forward_result.content_type"},
        {REQUEST ",\"results\":[{}]", "requests[1].results[0].step"},
        {REQUEST ",\"results\":[{\"step\":\"b\",\"payload\":{\"contentType\":\"\\n\"}}]",
         "requests[1].results[0].payload.content_type"},
    };

    for (size_t i = 0; i < array_size(CASES); i++)
        expect_item(WIRE_REQUESTS, "requests", CASES[i].members, CASES[i].field);
}

static void test_result_size(void **state)
{
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    Drover__V1__StepReply reply = DROVER__V1__STEP_REPLY__INIT;

    assert_true(wire_reply_result_fits(&reply));
    reply.result = &payload;
    payload.data.len = WIRE_RESULT_MAX;
    assert_true(wire_reply_result_fits(&reply));
    payload.data.len++;
    assert_false(wire_reply_result_fits(&reply));
}

/* A reply whose text is not UTF-8 is bad; the other reply in the message is good. */
static void test_bad_text_in_one_item(void **state)
{
    char latin1[] = "caf\xe9";
    CLEANUP(buf_deinit) struct buf body = {0};
    CLEANUP(wire_free) struct wire_message m, sent;
    struct problem problem;
    char *note;

    assert_int_equal(wire_decode(WIRE_REPLIES,
                                 bytes_str("{\"replies\":[{" REPLY "},{" REPLY ",\"error\":{}}]}"),
                                 NULL, &sent, NULL),
                     0);
    note = sent.replies->replies[1]->error->details;
    sent.replies->replies[1]->error->details = latin1;
    assert_int_equal(wire_encode(sent.base, false, &body), 0);
    sent.replies->replies[1]->error->details = note;

    assert_int_equal(wire_decode(WIRE_REPLIES, buf_bytes(&body), NULL, &m, &problem), 0);
    assert_int_equal(wire_check_reply(m.replies, 0, &problem), 0);
    assert_int_equal(wire_check_reply(m.replies, 1, &problem), WIRE_E_INVALID);
    assert_string_equal(problem.field, "replies[1].error.details");
}

/* ---- bodies ---- */

static void test_text_and_numbers_of_protobuf(void **state)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    Drover__V1__Submit submit = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Workflow definition = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Policy policy = DROVER__V1__POLICY__INIT;
    char surrogate[] = "\xed\xa0\x80";
    struct problem problem;

    submit.definition = &definition;
    definition.retry = &policy;
    policy.jitter = (double)NAN;
    assert_int_equal(wire_encode(&submit.base, false, &body), 0);
    assert_int_equal(decode(WIRE_SUBMIT, buf_bytes(&body), &problem), WIRE_E_MALFORMED);
    assert_string_equal(problem.field, "definition.retry.jitter");

    policy.jitter = 0;
    definition.name = surrogate;
    buf_clear(&body);
    assert_int_equal(wire_encode(&submit.base, false, &body), 0);
    assert_int_equal(decode(WIRE_SUBMIT, buf_bytes(&body), &problem), WIRE_E_MALFORMED);
    assert_string_equal(problem.field, "definition.name");
}

static void sample(struct buf *body)
{
    CLEANUP(wire_free) struct wire_message m;

    assert_int_equal(
        wire_decode(WIRE_SUBMIT,
                    bytes_str("{" JOB ",\"definition\":{\"steps\":[{\"name\":\"a\",\"actor\":\"x\","
                              "\"after\":[\"b\"],\"arguments\":{\"json\":[1,2]}}]},\"labels\":"
                              "[{\"name\":\"l\",\"value\":\"v\"}],\"input\":{\"text\":\"t\"}}"),
                    NULL, &m, NULL),
        0);
    assert_int_equal(wire_encode(m.base, false, body), 0);
}

/* A body that was cut off or has a flipped bit gives a status, never a crash. */
static void test_cut_and_flipped(void **state)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    struct rng rng;

    sample(&body);
    assert_int_equal(decode(WIRE_SUBMIT, buf_bytes(&body), NULL), 0);
    for (size_t len = 0; len < body.len; len++)
        decode(WIRE_SUBMIT, bytes_of(body.data, len), NULL);
    for (size_t i = 0; i < 8 * body.len; i++) {
        body.data[i / 8] ^= (uint8_t)(1 << i % 8);
        decode(WIRE_SUBMIT, buf_bytes(&body), NULL);
        body.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    rng_seed(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        uint8_t noise[48];
        size_t len = rng_below(&rng, sizeof(noise) + 1);

        for (size_t k = 0; k < len; k++)
            noise[k] = (uint8_t)rng_next(&rng);
        for (int type = 0; type < WIRE_TYPES; type++)
            decode((enum wire_type)type, bytes_of(noise, len), NULL);
    }
}

static void test_invalid_bodies(void **state)
{
    static const uint8_t CUT[] = {0x0a, 0x05, 'a'};
    static const uint8_t GROUP[] = {0x0b, 0x0c};
    static const uint8_t ENDLESS[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    for (int i = 0; i < WIRE_TYPES; i++) {
        enum wire_type type = (enum wire_type)i;

        assert_int_equal(decode(type, BYTES_EMPTY, NULL), WIRE_E_INVALID);
        assert_int_equal(decode(type, bytes_of(CUT, sizeof(CUT)), NULL), WIRE_E_MALFORMED);
        assert_int_equal(decode(type, bytes_of(GROUP, sizeof(GROUP)), NULL), WIRE_E_MALFORMED);
        assert_int_equal(decode(type, bytes_of(ENDLESS, sizeof(ENDLESS)), NULL), WIRE_E_MALFORMED);
        assert_int_equal(decode(type, bytes_str("{"), NULL), WIRE_E_MALFORMED);
        assert_int_equal(decode(type, bytes_str("[]"), NULL), WIRE_E_MALFORMED);
        assert_int_equal(decode(type, bytes_str("{\"no\":1}"), NULL), WIRE_E_INVALID);
    }
}

/* Memory that was allocated before the error was found is freed. */
static void test_invalid_base64(void **state)
{
    struct problem problem;

    assert_int_equal(
        decode(WIRE_SUBMIT, bytes_str("{" ORDER ",\"input\":{\"data\":\"YQ=a\"}}"), &problem),
        WIRE_E_INVALID);
    assert_string_equal(problem.field, "input.data");
}

/* To protobuf two concatenated bodies are one message: the rules apply to the result. */
static void test_concatenated_bodies(void **state)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    struct problem problem;

    sample(&body);
    sample(&body);
    assert_int_equal(decode(WIRE_SUBMIT, buf_bytes(&body), &problem), WIRE_E_INVALID);
    assert_string_equal(problem.field, "labels[1].name");
}

static void test_too_large(void **state)
{
    struct effects fx = {0};
    CLEANUP(buf_deinit) struct buf body = {0};
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    ProtobufCMessage *message;

    memset(buf_reserve(&body, WIRE_MESSAGE_MAX + 1), 0, WIRE_MESSAGE_MAX + 1);
    body.len = WIRE_MESSAGE_MAX + 1;
    assert_int_equal(decode(WIRE_SUBMIT, buf_bytes(&body), NULL), WIRE_E_TOO_LARGE);
    assert_int_equal(wire_unpack(SUBMIT, buf_bytes(&body), "", &message, NULL), WIRE_E_TOO_LARGE);
    assert_null(message);

    payload.data = (ProtobufCBinaryData){.data = body.data, .len = WIRE_MESSAGE_MAX};
    CLEANUP(buf_deinit) struct buf out = {0};
    assert_int_equal(wire_encode(&payload.base, false, &out), WIRE_E_TOO_LARGE);
    assert_int_equal(wire_encode(&payload.base, true, &out), WIRE_E_TOO_LARGE);
    assert_int_equal(out.len, 0);
    assert_int_equal(wire_pack(&fx, &payload.base, false).len, 0);
    assert_int_equal(wire_pack(&fx, &payload.base, true).len, 0);
    effects_deinit(&fx);
    assert_string_equal(wire_reason(WIRE_E_TOO_LARGE), "TOO_LARGE");
    payload.data.len = WIRE_MESSAGE_MAX - 8;
    assert_int_equal(wire_encode(&payload.base, false, &out), 0);
    assert_int_equal(out.len, WIRE_MESSAGE_MAX - 8 + 5);
}

/* Two bytes on the wire can require more than a hundred bytes of memory; such bodies are refused.
 * */
static void test_memory_is_bounded(void **state)
{
    static const struct {
        enum wire_type type;
        const char *part;
    } CASES[] = {
        {WIRE_SUBMIT, "\x42\x00"},   /* labels */
        {WIRE_REPLIES, "\x0a\x00"},  /* replies */
        {WIRE_REPLIES, "\x12\x00"},  /* progress */
        {WIRE_REQUESTS, "\x0a\x00"}, /* requests */
        {WIRE_SUBMIT, "\x7a\x00"},   /* an unknown field */
    };

    for (size_t i = 0; i < array_size(CASES); i++) {
        CLEANUP(buf_deinit) struct buf body = {0};
        CLEANUP(wire_free) struct wire_message m;
        int r;

        for (size_t k = 0; k < WIRE_MIB; k++)
            buf_append(&body, CASES[i].part, 2);
        memory_measure();
        r = wire_decode(CASES[i].type, buf_bytes(&body), NULL, &m, NULL);
        assert_int_equal(r, WIRE_E_TOO_LARGE);
        assert_true(memory_peak() <= WIRE_MEMORY_MAX);
    }
}

static void test_json_memory_is_bounded(void **state)
{
    static const char *const PARTS[] = {",{}", ",[]", ",1", ",\"\"", ",null"};

    for (size_t i = 0; i < array_size(PARTS); i++) {
        for (size_t n = 1000; n < WIRE_MIB; n *= 2) {
            CLEANUP(buf_deinit) struct buf body = {0};
            CLEANUP(wire_free) struct wire_message m;

            buf_puts(&body, "{" ORDER ",\"labels\":[{}");
            for (size_t k = 0; k < n; k++)
                buf_puts(&body, PARTS[i]);
            buf_puts(&body, "]}");
            memory_measure();
            assert_true(wire_decode(WIRE_SUBMIT, buf_bytes(&body), NULL, &m, NULL) > 0);
            assert_true(memory_peak() <= WIRE_MEMORY_MAX);
        }
    }
}

static void test_encoding_in_both_formats(void **state)
{
    Drover__V1__Receipt receipt = DROVER__V1__RECEIPT__INIT;
    CLEANUP(buf_deinit) struct buf body = {0};
    char id[] = "a";

    receipt.job_id = id;
    receipt.code = DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED;
    assert_int_equal(wire_encode(&receipt.base, true, &body), 0);
    assert_string_equal(buf_str(&body), "{\"jobId\":\"a\",\"code\":\"RECEIPT_CODE_CREATED\"}");
    assert_string_equal(wire_content_type(true), "application/json");
    assert_string_equal(wire_content_type(false), "application/protobuf");
}

static void test_text_fit(void **state)
{
    assert_int_equal(utf8_fit("abc", 3), 3);
    assert_int_equal(utf8_fit("abc", 2), 2);
    assert_int_equal(utf8_fit("a\xe2\x82\xac", 4), 4);
    assert_int_equal(utf8_fit("a\xe2\x82\xac", 3), 1);
    assert_int_equal(utf8_fit("a\xe2\x82\xac", 2), 1);
    assert_int_equal(utf8_fit("a\xe2\x82\xac"
                              "b",
                              4),
                     4);
    assert_int_equal(utf8_fit("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_submit_sizes),
        cmocka_unit_test(test_submit_label_count),
        cmocka_unit_test(test_workflow_ref),
        cmocka_unit_test(test_reply_to),
        cmocka_unit_test(test_bad_reply_to_is_emptied),
        cmocka_unit_test(test_properties_replace_fields),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_control_of_many_steps),
        cmocka_unit_test(test_messages_to_clients),
        cmocka_unit_test(test_reply_items),
        cmocka_unit_test(test_request_items),
        cmocka_unit_test(test_result_size),
        cmocka_unit_test(test_bad_text_in_one_item),
        cmocka_unit_test(test_text_and_numbers_of_protobuf),
        cmocka_unit_test(test_cut_and_flipped),
        cmocka_unit_test(test_invalid_bodies),
        cmocka_unit_test(test_invalid_base64),
        cmocka_unit_test(test_concatenated_bodies),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_json_memory_is_bounded),
        cmocka_unit_test(test_encoding_in_both_formats),
        cmocka_unit_test(test_text_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
