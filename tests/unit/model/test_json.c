// SPDX-License-Identifier: Apache-2.0
/*
 * proto3 JSON, both ways
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
#include <jansson.h>

#include "drover/v1/control.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "drover/v1/task.pb-c.h"
#include "memory/memory.h"
#include "model/json.h"
#include "model/wire.h"

static const ProtobufCMessageDescriptor *const SUBMIT = &drover__v1__submit__descriptor;
static const ProtobufCMessageDescriptor *const CONTROL = &drover__v1__control__descriptor;
static const ProtobufCMessageDescriptor *const REPLIES = &drover__v1__replies__descriptor;
static const ProtobufCMessageDescriptor *const PAYLOAD = &drover__v1__payload__descriptor;

static void *read_good(const ProtobufCMessageDescriptor *type, const char *text)
{
    ProtobufCMessage *message;
    struct problem problem = {0};
    int r = json_to_message(bytes_str(text), type, NULL, &message, &problem);

    if (r != 0)
        fail_msg("%s: %d %s: %s", text, r, problem.field, problem.reason);
    return message;
}

static void expect_flaw(const ProtobufCMessageDescriptor *type, const char *text, const char *field)
{
    ProtobufCMessage *message;
    struct problem problem = {0};

    assert_int_equal(json_to_message(bytes_str(text), type, NULL, &message, &problem),
                     JSON_E_FIELD);
    assert_string_equal(problem.field, field);
    assert_non_null(message);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void expect_syntax(const char *text)
{
    ProtobufCMessage *message;
    struct problem problem = {0};

    assert_int_equal(json_to_message(bytes_str(text), SUBMIT, NULL, &message, &problem),
                     JSON_E_SYNTAX);
    assert_null(message);
    assert_true(problem.reason[0] != '\0');
}

/* Reads @in and writes @out. */
static void expect_written(const ProtobufCMessageDescriptor *type, const char *in, const char *out)
{
    ProtobufCMessage *message = read_good(type, in);
    CLEANUP(buf_deinit) struct buf text = {0};

    json_from_message(message, &text);
    assert_string_equal(buf_str(&text), out);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void expect_same(const ProtobufCMessageDescriptor *type, const char *text)
{
    expect_written(type, text, text);
}

static char *repeat(const char *head, const char *part, size_t n, const char *tail)
{
    struct buf text = {0};

    buf_puts(&text, head);
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, part);
    buf_puts(&text, tail);
    buf_str(&text);
    return (char *)text.data;
}

static void test_names_and_defaults(void **state)
{
    expect_same(SUBMIT, "{}");
    expect_written(SUBMIT, "{\"job_id\":\"a\",\"start_at\":\"5\"}",
                   "{\"jobId\":\"a\",\"startAt\":\"5\"}");
    expect_written(SUBMIT, " {\"labels\" : [ ], \"priority\":0, \"jobId\":null} ", "{}");
    expect_same(SUBMIT,
                "{\"jobId\":\"\xc3\xa4\\\"\\n\",\"desired\":\"STATE_ACTIVE\","
                "\"labels\":[{\"name\":\"a\",\"value\":\"b\"},{}],\"priority\":4294967295}");
    expect_written(SUBMIT, "{\"priority\":7,\"jobId\":\"z\"}", "{\"jobId\":\"z\",\"priority\":7}");
}

static void test_integers_are_exact(void **state)
{
    expect_same(SUBMIT, "{\"startAt\":\"9223372036854775807\"}");
    expect_written(SUBMIT, "{\"startAt\":9223372036854775807}",
                   "{\"startAt\":\"9223372036854775807\"}");
    expect_same(SUBMIT, "{\"startAt\":\"-9223372036854775808\"}");
    expect_same(CONTROL, "{\"ifSeq\":\"18446744073709551615\"}");
    expect_written(SUBMIT, "{\"startAt\":1.5e3}", "{\"startAt\":\"1500\"}");
    expect_flaw(SUBMIT, "{\"startAt\":1.5}", "start_at");
    expect_flaw(SUBMIT, "{\"startAt\":1e300}", "start_at");
    expect_flaw(SUBMIT, "{\"startAt\":-1e300}", "start_at");
    expect_flaw(SUBMIT, "{\"startAt\":\"9223372036854775808\"}", "start_at");
    expect_flaw(SUBMIT, "{\"startAt\":\"\"}", "start_at");
    expect_flaw(SUBMIT, "{\"startAt\":true}", "start_at");
    expect_flaw(SUBMIT, "{\"priority\":-1}", "priority");
    expect_flaw(SUBMIT, "{\"priority\":4294967296}", "priority");
    expect_flaw(SUBMIT, "{\"priority\":\"4294967296\"}", "priority");
    expect_flaw(SUBMIT, "{\"priority\":\"1x\"}", "priority");
    expect_flaw(SUBMIT, "{\"priority\":true}", "priority");
    expect_flaw(CONTROL, "{\"ifSeq\":\"18446744073709551616\"}", "if_seq");
    expect_flaw(CONTROL, "{\"ifSeq\":\"-1\"}", "if_seq");
    expect_flaw(CONTROL, "{\"recover\":{\"steps\":[1,-1,\"x\"]}}", "recover.steps[1]");
    expect_written(CONTROL, "{\"recover\":{\"steps\":[1,\"2\"]}}",
                   "{\"recover\":{\"steps\":[1,2]}}");
}

static void test_other_scalars(void **state)
{
    expect_same(REPLIES, "{\"progress\":[{\"fraction\":0.1},{\"fraction\":-1.0},"
                         "{\"fraction\":1e-09},{\"fraction\":0.30000000000000004}]}");
    expect_flaw(REPLIES, "{\"progress\":[{\"fraction\":\"0.1\"}]}", "progress[0].fraction");
    expect_same(CONTROL, "{\"query\":{\"withData\":true}}");
    expect_flaw(CONTROL, "{\"query\":{\"withData\":1}}", "query.with_data");
    expect_flaw(SUBMIT, "{\"jobId\":5}", "job_id");
    expect_flaw(SUBMIT, "{\"labels\":{}}", "labels");
    expect_flaw(SUBMIT, "{\"labels\":[{},null]}", "labels[1]");
    expect_flaw(SUBMIT, "{\"input\":[]}", "input");
}

static void test_enums(void **state)
{
    expect_written(SUBMIT, "{\"desired\":\"ACTIVE\"}", "{\"desired\":\"STATE_ACTIVE\"}");
    expect_written(SUBMIT, "{\"desired\":1}", "{\"desired\":\"STATE_DISABLED\"}");
    expect_written(SUBMIT, "{\"desired\":\"UNSPECIFIED\"}", "{}");
    expect_same(SUBMIT, "{\"desired\":77}");
    expect_flaw(SUBMIT, "{\"desired\":\"active\"}", "desired");
    expect_flaw(SUBMIT, "{\"desired\":\"\"}", "desired");
    expect_flaw(SUBMIT, "{\"desired\":true}", "desired");
}

/* Types that no message of Drover has so far. */
struct narrow {
    ProtobufCMessage base;
    float ratio;
    int32_t small;
};

static void narrow_init(ProtobufCMessage *m);

static const ProtobufCFieldDescriptor NARROW_FIELDS[] = {
    {.name = "ratio",
     .id = 1,
     .type = PROTOBUF_C_TYPE_FLOAT,
     .offset = offsetof(struct narrow, ratio)},
    {.name = "small",
     .id = 2,
     .type = PROTOBUF_C_TYPE_SINT32,
     .offset = offsetof(struct narrow, small)},
};

static const ProtobufCMessageDescriptor NARROW = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "narrow",
    .sizeof_message = sizeof(struct narrow),
    .n_fields = 2,
    .fields = NARROW_FIELDS,
    .fields_sorted_by_name = (const unsigned[]){0, 1},
    .n_field_ranges = 1,
    .field_ranges = (const ProtobufCIntRange[]){{1, 0}, {0, 2}},
    .message_init = narrow_init,
};

static void narrow_init(ProtobufCMessage *m)
{
    *(struct narrow *)m = (struct narrow){.base = {.descriptor = &NARROW}};
}

static void test_narrow_numbers(void **state)
{
    expect_same(&NARROW, "{\"ratio\":0.25,\"small\":-2147483648}");
    expect_same(&NARROW, "{\"small\":2147483647}");
    expect_written(&NARROW, "{\"small\":\"-1\"}", "{\"small\":-1}");
    expect_flaw(&NARROW, "{\"small\":2147483648}", "small");
    expect_flaw(&NARROW, "{\"small\":-2147483649}", "small");
    expect_flaw(&NARROW, "{\"ratio\":\"1\"}", "ratio");
}

static void test_bytes(void **state)
{
    expect_same(PAYLOAD, "{\"contentType\":\"x\",\"data\":\"AP/+\"}");
    expect_written(PAYLOAD, "{\"data\":\"AP_-\"}", "{\"data\":\"AP/+\"}");
    expect_written(PAYLOAD, "{\"data\":\"YQ\"}", "{\"data\":\"YQ==\"}");
    expect_same(PAYLOAD, "{\"data\":\"YWI=\"}");
    expect_same(PAYLOAD, "{\"data\":\"YWJj\"}");
    expect_same(PAYLOAD, "{\"data\":\"0149\"}");
    expect_written(PAYLOAD, "{\"data\":\"\"}", "{}");
    expect_flaw(PAYLOAD, "{\"data\":\"Y\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":\"Y===\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":\"YQ=\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":\"====\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":\"YW Jj\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":\"YW{j\"}", "data");
    expect_flaw(PAYLOAD, "{\"data\":1}", "data");
}

static void test_payload_for_people(void **state)
{
    Drover__V1__Payload *p =
        read_good(PAYLOAD, "{\"json\": {\"b\": [1, 19.99, null], \"a\": 1e2}}");
    const char *written = "{\"b\":[1,19.99,null],\"a\":100.0}";

    assert_string_equal(p->content_type, "application/json");
    assert_int_equal(p->data.len, strlen(written));
    assert_memory_equal(p->data.data, written, p->data.len);
    protobuf_c_message_free_unpacked(&p->base, NULL);

    expect_same(PAYLOAD, "{\"contentType\":\"application/json\",\"json\":null}");
    expect_same(PAYLOAD, "{\"contentType\":\"application/json\",\"json\":\"a\"}");
    expect_same(PAYLOAD, "{\"contentType\":\"application/json\",\"json\":[{\"\":[]},true,false]}");
    expect_same(PAYLOAD,
                "{\"contentType\":\"text/plain; charset=utf-8\",\"text\":\"\xe2\x82\xac\"}");
    expect_written(PAYLOAD, "{\"text\":\"a\"}",
                   "{\"contentType\":\"text/plain; charset=utf-8\",\"text\":\"a\"}");
    expect_written(PAYLOAD, "{\"text\":\"a\",\"contentType\":\"x\"}",
                   "{\"contentType\":\"x\",\"data\":\"YQ==\"}");
    expect_written(PAYLOAD, "{\"contentType\":\"\",\"text\":\"a\"}",
                   "{\"contentType\":\"text/plain; charset=utf-8\",\"text\":\"a\"}");
    expect_written(PAYLOAD, "{\"text\":\"\"}", "{\"contentType\":\"text/plain; charset=utf-8\"}");
    expect_flaw(PAYLOAD, "{\"text\":5}", "text");
    expect_flaw(PAYLOAD, "{\"text\":null}", "text");
    expect_flaw(PAYLOAD, "{\"text\":\"a\",\"json\":1}", "data");
    expect_flaw(PAYLOAD, "{\"text\":\"a\",\"data\":\"\"}", "data");
    expect_flaw(SUBMIT, "{\"text\":\"a\"}", "");
}

/* Data that does not match its content type is written as base64, and read back unchanged. */
static void test_payload_of_wrong_type(void **state)
{
    expect_same(PAYLOAD, "{\"contentType\":\"application/json\",\"data\":\"ew==\"}");
    expect_same(PAYLOAD, "{\"contentType\":\"application/json\"}");
    expect_same(PAYLOAD, "{\"contentType\":\"text/plain\",\"data\":\"/w==\"}");
    expect_same(PAYLOAD, "{\"contentType\":\"text/plain\",\"data\":\"AA==\"}");
    expect_same(PAYLOAD, "{\"contentType\":\"text/plain; charset=latin1\",\"data\":\"YQ==\"}");
    /* {"a":1,"a":2} */
    expect_same(PAYLOAD,
                "{\"contentType\":\"application/json\",\"data\":\"eyJhIjoxLCJhIjoyfQ==\"}");
}

static void test_types_of_json(void **state)
{
    static const char *const yes[] = {
        "application/json",          "APPLICATION/Json",
        "application/json;q=1",      "application/json; charset=utf-8",
        "application/problem+json",  "application/vnd.a.b+JSON; v=2",
        "application/json ;charset", "application/x+xml+json",
    };
    static const char *const no[] = {
        "",
        "json",
        "text/json",
        "application/jso",
        "application/jsox",
        "application/json5",
        "application/jsonx; charset=utf-8",
        "application/+json",
        "application/json+xml",
        "text/plain; note=application/json",
        "text/x+json",
        "application/octet-stream; a=+json",
        " application/json",
    };

    for (size_t i = 0; i < array_size(yes); i++)
        if (!json_is_type(yes[i]))
            fail_msg("%s", yes[i]);
    for (size_t i = 0; i < array_size(no); i++)
        if (json_is_type(no[i]))
            fail_msg("%s", no[i]);
}

/* Parameters and suffixes of a type make no difference, in neither direction. */
static void test_payload_of_json_like_types(void **state)
{
    expect_same(PAYLOAD, "{\"contentType\":\"application/json; charset=utf-8\",\"json\":[1]}");
    expect_same(PAYLOAD, "{\"contentType\":\"application/problem+json\",\"json\":{\"a\":1}}");
    expect_same(PAYLOAD, "{\"contentType\":\"application/problem+json\",\"data\":\"ew==\"}");
}

static void expect_alone(const char *type, const void *data, size_t len, const char *expected)
{
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    CLEANUP(buf_deinit) struct buf text = {0};

    payload.content_type = (char *)type;
    payload.data.data = (uint8_t *)data;
    payload.data.len = len;
    buf_putc(&text, '>');
    json_from_payload(&payload, &text);
    assert_string_equal(buf_str(&text) + 1, expected);
}

static void test_payload_alone(void **state)
{
    static const struct {
        const char *type, *data, *expected;
    } cases[] = {
        {"application/json", " {\"b\": [1, 2.0],\n\"a\": null} ", "{\"b\":[1,2.0],\"a\":null}"},
        {"application/json", "null", "null"},
        {"application/json", "\"\\u0000\"", "\"\\u0000\""},
        {"application/json", "{\"a\":1,\"a\":2}",
         "{\"contentType\":\"application/json\",\"data\":\"eyJhIjoxLCJhIjoyfQ==\"}"},
        {"application/problem+json", "true", "true"},
        {"", "5", "5"},
        {"", "{", "\"{\""},
        {"", "\xff", "{\"contentType\":\"\",\"data\":\"/w==\"}"},
        {"text/plain", "5", "\"5\""},
        {"TEXT/csv; header=present", "a,\"b\"\r\n", "\"a,\\\"b\\\"\\r\\n\""},
        {"text/plain", "\xc3\xa4", "\"\xc3\xa4\""},
        {"text/plain", "\xc3", "{\"contentType\":\"text/plain\",\"data\":\"ww==\"}"},
        {"text/plain", "", "\"\""},
        {"", "", "null"},
        {"textual", "a", "{\"contentType\":\"textual\",\"data\":\"YQ==\"}"},
        {"a/\"b\"", "a", "{\"contentType\":\"a/\\\"b\\\"\",\"data\":\"YQ==\"}"},
        {"image/png", "", "{\"contentType\":\"image/png\",\"data\":\"\"}"},
        {"application/json", "", "{\"contentType\":\"application/json\",\"data\":\"\"}"},
    };
    CLEANUP(buf_deinit) struct buf text = {0};

    for (size_t i = 0; i < array_size(cases); i++)
        expect_alone(cases[i].type, cases[i].data, strlen(cases[i].data), cases[i].expected);
    expect_alone("text/plain", "a\0b", 3, "{\"contentType\":\"text/plain\",\"data\":\"YQBi\"}");
    expect_alone("text/plain", NULL, 0, "\"\"");
    expect_alone("image/png", NULL, 0, "{\"contentType\":\"image/png\",\"data\":\"\"}");
    json_from_payload(NULL, &text);
    assert_string_equal(buf_str(&text), "null");
}

/* JSON that is nested too deeply to be read back within a message is not written as JSON here
 * either. */
static void test_deep_payload_alone(void **state)
{
    char *deep = repeat("", "[", 100000, "");
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    CLEANUP(buf_deinit) struct buf text = {0};

    payload.content_type = (char *)"application/json";
    payload.data.data = (uint8_t *)deep;
    payload.data.len = strlen(deep);
    json_from_payload(&payload, &text);
    assert_int_equal(strncmp(buf_str(&text), "{\"contentType\":", 15), 0);
    free(deep);
}

static void test_value_alone(void **state)
{
    json_t *value = json_loads("{\"a\": [1, -2.50, 1e300, true, null, \"\\n\"]}", 0, NULL);
    CLEANUP(buf_deinit) struct buf text = {0};

    json_from_value(value, &text);
    assert_string_equal(buf_str(&text), "{\"a\":[1,-2.5,1e+300,true,null,\"\\n\"]}");
    json_decref(value);
}

static void test_oneof(void **state)
{
    expect_same(CONTROL, "{\"jobId\":\"a\",\"cancel\":{}}");
    expect_flaw(CONTROL, "{\"cancel\":{},\"kill\":{}}", "kill");
    expect_flaw(CONTROL, "{\"cancel\":{},\"retry\":{\"steps\":[\"a\"]}}", "retry");
    expect_flaw(CONTROL, "{\"cancel\":5}", "cancel");
    expect_written(CONTROL, "{\"cancel\":null,\"kill\":{}}", "{\"kill\":{}}");
}

static void test_unknown_and_doubled(void **state)
{
    expect_flaw(SUBMIT, "{\"jobid\":\"a\"}", "");
    expect_flaw(SUBMIT, "{\"jobId\":\"a\",\"job_id\":\"a\"}", "job_id");
    expect_flaw(SUBMIT, "{\"definition\":{\"steps\":[{},{\"nmae\":1}]}}", "definition.steps[1]");
    expect_flaw(SUBMIT, "{\"job_Id\":\"a\"}", "");
    expect_flaw(SUBMIT, "{\"job_id_\":\"a\"}", "");
    expect_syntax("{\"jobId\":\"a\",\"jobId\":\"a\"}");
}

/* The first problem is reported, and the valid fields are read. */
static void test_valid_fields_beside_a_flaw(void **state)
{
    ProtobufCMessage *message;
    struct problem problem;
    const char *text = "{\"priority\":\"x\",\"nonsense\":[[1]],\"labels\":[{\"name\":1},5,"
                       "{\"name\":\"n\"}],\"jobId\":\"a\"}";
    Drover__V1__Submit *submit;

    assert_int_equal(json_to_message(bytes_str(text), SUBMIT, NULL, &message, &problem),
                     JSON_E_FIELD);
    assert_string_equal(problem.field, "priority");
    submit = (Drover__V1__Submit *)message;
    assert_string_equal(submit->job_id, "a");
    assert_int_equal(submit->n_labels, 2);
    assert_string_equal(submit->labels[1]->name, "n");
    protobuf_c_message_free_unpacked(message, NULL);
}

static void test_syntax(void **state)
{
    static const char *const TEXTS[] = {
        "",
        "{",
        "[]",
        "{]",
        "{\"a\"}",
        "{}{}",
        "{} x",
        "5",
        "{\"jobId\":\"\xff\"}",
        "{\"jobId\\u0000\":\"a\"}",
        "{\"jobId\":\"\\ud800\"}",
        "{'a':1}",
        "{\"priority\":01}",
        "{\"startAt\":9223372036854775808}",
        "{\"input\":{\"json\":NaN}}",
        "{\"jobId\":\"",
    };

    for (size_t i = 0; i < array_size(TEXTS); i++)
        expect_syntax(TEXTS[i]);
}

/* A value of a client may contain NUL, and is then no C string; text fields may not. */
static void test_nul(void **state)
{
    Drover__V1__Payload *p = read_good(PAYLOAD, "{\"text\":\"a\\u0000b\"}");

    assert_int_equal(p->data.len, 3);
    assert_memory_equal(p->data.data, "a\0b", 3);
    protobuf_c_message_free_unpacked(&p->base, NULL);
    expect_same(PAYLOAD, "{\"contentType\":\"application/json\",\"json\":[\"a\\u0000b\"]}");
    expect_flaw(PAYLOAD, "{\"contentType\":\"a\\u0000\"}", "content_type");
    expect_flaw(PAYLOAD, "{\"data\":\"YWJj\\u0000\"}", "data");
    expect_flaw(SUBMIT, "{\"jobId\":\"\\u0000\"}", "job_id");
    expect_flaw(SUBMIT, "{\"desired\":\"ACTIVE\\u0000\"}", "desired");
    expect_flaw(SUBMIT, "{\"priority\":\"1\\u0000\"}", "priority");
    expect_flaw(SUBMIT, "{\"startAt\":\"1\\u0000\"}", "start_at");
}

static void expect_quoted(const char *text, const char *quoted)
{
    ProtobufCMessage *message;
    struct problem problem;

    assert_int_equal(json_to_message(bytes_str(text), SUBMIT, NULL, &message, &problem),
                     JSON_E_FIELD);
    assert_string_equal(problem.reason, quoted);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* A quoted text ends with a whole character. */
static void test_quotes(void **state)
{
    char *name = repeat("{\"", "\xc3\xbc", 32, "\":1}");
    char *longer = repeat("{\"x", "\xc3\xbc", 32, "\":1}");
    char *value = repeat("{\"desired\":\"", "\xe2\x82\xac", 22, "\"}");
    char *whole = repeat("has no field \"", "\xc3\xbc", 32, "\"");
    char *cut = repeat("has no field \"x", "\xc3\xbc", 31, "\"");
    char *cut_value = repeat("\"", "\xe2\x82\xac", 21, "\" is no State");

    expect_quoted(name, whole);
    expect_quoted(longer, cut);
    expect_quoted(value, cut_value);
    free(name);
    free(longer);
    free(value);
    free(whole);
    free(cut);
    free(cut_value);
}

/* A large payload is written in the readable form unless that is much longer than base64. */
static void test_form_of_a_large_payload(void **state)
{
    static const char *const PARTS[] = {"\1", ",1e9", "a", ",1"};
    static const char *const BEGINS[] = {
        "{\"contentType\":\"text/plain\",\"data\":\"AQEB",
        "{\"contentType\":\"application/json\",\"data\":\"WzEs",
        "{\"contentType\":\"text/plain\",\"text\":\"aaa",
        "{\"contentType\":\"application/json\",\"json\":[1,1",
    };

    for (size_t i = 0; i < array_size(PARTS); i++) {
        CLEANUP(buf_deinit) struct buf text = {0};
        char *data = repeat(i % 2 ? "[1" : "", PARTS[i], WIRE_INPUT_MAX / 6, i % 2 ? "]" : "");
        Drover__V1__Payload p = DROVER__V1__PAYLOAD__INIT;

        p.content_type = i % 2 ? "application/json" : "text/plain";
        p.data.data = (uint8_t *)data;
        p.data.len = strlen(data);
        json_from_message(&p.base, &text);
        if (strncmp(buf_str(&text), BEGINS[i], strlen(BEGINS[i])) != 0)
            fail_msg("%zu: %.80s", i, buf_str(&text));
        assert_true(text.len <= 2 * p.data.len + ((size_t)512 << 10));
        free(data);
    }
}

static void test_depth(void **state)
{
    char *text = repeat("{\"input\":{\"json\":", "[", 100000, "");

    expect_syntax(text);
    free(text);
}

/* The allocator of jansson is global: other threads may be parsing. */
static void test_parsing_leaves_jansson_its_memory(void **state)
{
    Drover__V1__Payload p = DROVER__V1__PAYLOAD__INIT;
    json_malloc_t before, after;
    json_free_t release;
    json_t *value;

    p.data.data = (uint8_t *)"{}";
    p.data.len = 2;
    json_get_alloc_funcs(&before, &release);
    json_set_alloc_funcs(malloc, release);
    assert_int_equal(json_of_payload(&p, &value), 0);
    json_decref(value);
    json_get_alloc_funcs(&after, &release);
    json_set_alloc_funcs(before, release);
    assert_true(after == malloc);
}

/* jansson never takes more memory than was estimated before. */
static void test_memory(void **state)
{
    static const struct {
        const char *head, *part, *tail;
        int result;
    } CASES[] = {
        {"{\"definition\":{\"steps\":[{}", ",{}", "]}}", JSON_E_TOO_LARGE},
        {"{\"input\":{\"json\":[[]", ",[]", "]}}", JSON_E_TOO_LARGE},
        {"{\"input\":{\"json\":[1", ",1", "]}}", JSON_E_TOO_LARGE},
        {"{\"input\":{\"json\":[\"\"", ",\"\"", "]}}", JSON_E_TOO_LARGE},
        {"{\"labels\":[{\"name\":\"\"}", ",{\"name\":\"\"}", "]}", JSON_E_TOO_LARGE},
    };

    for (size_t i = 0; i < array_size(CASES); i++) {
        for (size_t n = 1; n <= 2u << 20; n *= 2) {
            char *text = repeat(CASES[i].head, CASES[i].part, n, CASES[i].tail);
            ProtobufCMessage *message = NULL;
            json_t *root;
            int r = json_to_message(bytes_str(text), SUBMIT, NULL, &message, NULL);

            if (r == JSON_E_TOO_LARGE) {
                free(text);
                break;
            }
            assert_int_equal(r, 0);
            protobuf_c_message_free_unpacked(message, NULL);
            memory_measure();
            root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
            assert_true(memory_peak() <= JSON_MEMORY_MAX);
            json_decref(root);
            free(text);
            assert_true(n < 2u << 20);
        }
    }
}

/* A megabyte of one-digit numbers is accepted like other payloads. */
static void test_a_dense_payload_fits(void **state)
{
    char *text = repeat("{\"input\":{\"json\":[1", ",1", 524200, "]}}");
    Drover__V1__Submit *submit = read_good(SUBMIT, text);

    assert_true(submit->input->data.len > 1048000);
    protobuf_c_message_free_unpacked(&submit->base, NULL);
    free(text);
}

static void test_infinite_numbers_are_written_as_null(void **state)
{
    Drover__V1__Progress progress = DROVER__V1__PROGRESS__INIT;
    CLEANUP(buf_deinit) struct buf text = {0};

    progress.fraction = (double)INFINITY;
    json_from_message(&progress.base, &text);
    assert_string_equal(buf_str(&text), "{\"fraction\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_defaults),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_other_scalars),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_narrow_numbers),
        cmocka_unit_test(test_payload_for_people),
        cmocka_unit_test(test_payload_of_wrong_type),
        cmocka_unit_test(test_types_of_json),
        cmocka_unit_test(test_payload_of_json_like_types),
        cmocka_unit_test(test_payload_alone),
        cmocka_unit_test(test_deep_payload_alone),
        cmocka_unit_test(test_value_alone),
        cmocka_unit_test(test_oneof),
        cmocka_unit_test(test_unknown_and_doubled),
        cmocka_unit_test(test_valid_fields_beside_a_flaw),
        cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_form_of_a_large_payload),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_parsing_leaves_jansson_its_memory),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_a_dense_payload_fits),
        cmocka_unit_test(test_infinite_numbers_are_written_as_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
