// SPDX-License-Identifier: Apache-2.0
/*
 * Names in templates, and the document that has everything of a request
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "agent/template.h"

#define RESULTS 4

/* A request; a payload is present if its type is set. */
struct world {
    Drover__V1__StepRequest request;
    Drover__V1__Payload input;
    Drover__V1__Payload arguments;
    Drover__V1__Payload forward;
    Drover__V1__Result results[RESULTS];
    Drover__V1__Result *list[RESULTS];
    Drover__V1__Payload payloads[RESULTS];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    drover__v1__step_request__init(&w->request);
    w->request.job_id = (char *)"order-17";
    w->request.step = (char *)"charge";
    w->request.results = w->list;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static Drover__V1__Payload *payload(Drover__V1__Payload *to, const char *type, const void *data,
                                    size_t len)
{
    drover__v1__payload__init(to);
    to->content_type = (char *)type;
    to->data.data = (uint8_t *)data;
    to->data.len = len;
    return to;
}

static void set_input(struct world *w, const char *type, const char *text)
{
    w->request.input = payload(&w->input, type, text, strlen(text));
}

static void set_arguments(struct world *w, const char *type, const char *text)
{
    w->request.arguments = payload(&w->arguments, type, text, strlen(text));
}

static void add_result(struct world *w, const char *step, const char *type, const char *text)
{
    size_t i = w->request.n_results++;

    assert_true(i < RESULTS);
    drover__v1__result__init(&w->results[i]);
    w->list[i] = &w->results[i];
    w->results[i].step = (char *)step;
    if (type)
        w->results[i].payload = payload(&w->payloads[i], type, text, strlen(text));
}

static void expect(struct world *w, const char *text, const char *expected)
{
    CLEANUP(template_values_deinit) struct template_values values = {.request = &w->request};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};

    assert_int_equal(template_check(text, &problem), 0);
    if (template_expand(text, &values, &out, &problem))
        fail_msg("%s: %s %s", text, problem.field, problem.reason);
    assert_string_equal(buf_str(&out), expected);
}

static void refuse(struct world *w, const char *text, const char *name, const char *reason)
{
    CLEANUP(template_values_deinit) struct template_values values = {.request = &w->request};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};

    assert_int_equal(template_check(text, &problem), 0);
    if (!template_expand(text, &values, &out, &problem))
        fail_msg("%s: %s", text, buf_str(&out));
    assert_string_equal(problem.field, name);
    if (!strstr(problem.reason, reason))
        fail_msg("%s: %s", text, problem.reason);
}

/* ---- names ---- */

static void test_every_name(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json", "{\"tenant\": \"t1\", \"n\": 7}");
    set_arguments(w, "application/json", "[\"first\", \"second\"]");
    add_result(w, "reserve", "application/json", "{\"id\": \"r-9\"}");
    add_result(w, "greet", "text/plain", "hello");
    expect(w, "", "");
    expect(w, "/plain/text?a=b&c=%20", "/plain/text?a=b&c=%20");
    expect(w, "${job}", "order-17");
    expect(w, "/${job}/${step}/", "/order-17/charge/");
    expect(w, "${job}${job}", "order-17order-17");
    expect(w, "${input.tenant}-${input.n}", "t1-7");
    expect(w, "${arguments.1}", "second");
    expect(w, "${results.reserve.id}", "r-9");
    expect(w, "${results.greet}", "hello");
}

/* A dollar or a brace does not always begin a name. */
static void test_text_that_is_no_name(void **state)
{
    expect(*state, "$job $ { } {job} $$ }${job}}{", "$job $ { } {job} $$ }order-17}{");
    expect(*state, "$${job}", "$order-17");
    expect(*state, "$", "$");
}

static void test_nesting(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json",
              "{\"a\": {\"b\": {\"c\": \"deep\"}},"
              " \"items\": [{\"id\": 10}, {\"id\": 11, \"tags\": [\"x\", [\"y\"]]}],"
              " \"0\": \"key\", \"a.b\": \"dotted\", \"\xc3\xa4\": \"umlaut\"}");
    expect(w, "${input.a.b.c}", "deep");
    expect(w, "${input.items.0.id}${input.items.1.id}", "1011");
    expect(w, "${input.items.1.tags.0}${input.items.1.tags.1.0}", "xy");
    expect(w, "${input.0}", "key");
    expect(w, "${input.items.01.id}", "11");
    expect(w, "${input.\xc3\xa4}", "umlaut");
    refuse(w, "${input.items.2.id}", "${input.items.2.id}", "has no value");
    refuse(w, "${input.items.-1.id}", "${input.items.-1.id}", "has no value");
    refuse(w, "${input.items.x}", "${input.items.x}", "has no value");
    refuse(w, "${input.items.99999999999999999999}", "${input.items.99999999999999999999}",
           "has no value");
    refuse(w, "${input.a.b.c.d}", "${input.a.b.c.d}", "has no value");
    refuse(w, "${input.A}", "${input.A}", "has no value");
}

/* If the names of several steps fit, the longest one counts. */
static void test_step_names_with_dots(void **state)
{
    struct world *w = *state;

    add_result(w, "a", "application/json", "{\"b\": {\"id\": \"of a\"}, \"bc\": 3, \"x\": 1}");
    add_result(w, "a.b", "application/json", "{\"id\": \"of a.b\"}");
    add_result(w, "a.b.", "application/json", "\"trailing\"");
    expect(w, "${results.a.x}", "1");
    expect(w, "${results.a.bc}", "3");
    expect(w, "${results.a.b.id}", "of%20a.b");
    expect(w, "${results.a.b.}", "trailing");
    refuse(w, "${results.a.c}", "${results.a.c}", "has no value");
    refuse(w, "${results.b}", "${results.b}", "has no value");
    refuse(w, "${results.a.b.x}", "${results.a.b.x}", "has no value");
}

static void test_result_without_payload(void **state)
{
    struct world *w = *state;

    add_result(w, "a", NULL, NULL);
    refuse(w, "${results.a}", "${results.a}", "has no value");
    refuse(w, "${results.a.b}", "${results.a.b}", "has no value");
}

/* ---- values ---- */

static void test_encoding(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json",
              "{\"free\": \"AZaz09-._~\", \"reserved\": \":/?#[]@!$&'()*+,;=\","
              " \"other\": \" \\\"%<>\\\\^`{|}\", \"utf8\": \"\xc3\xa4\xe2\x82\xac\","
              " \"lines\": \"a\\r\\nX-Evil: 1\", \"control\": \"\\u0001\\u007f\","
              " \"name\": \"${job}\"}");
    expect(w, "${input.free}", "AZaz09-._~");
    expect(w, "${input.reserved}", "%3A%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D");
    expect(w, "${input.other}", "%20%22%25%3C%3E%5C%5E%60%7B%7C%7D");
    expect(w, "${input.utf8}", "%C3%A4%E2%82%AC");
    expect(w, "${input.lines}", "a%0D%0AX-Evil%3A%201");
    expect(w, "${input.control}", "%01%7F");
    expect(w, "${input.name}", "%24%7Bjob%7D"); /* a value is not searched for names */
}

static void test_numbers_and_booleans(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json",
              "{\"n\": -9223372036854775807, \"r\": 19.99, \"e\": 1e300, \"t\": true, \"f\": false,"
              " \"zero\": 0}");
    expect(w, "${input.n}", "-9223372036854775807");
    expect(w, "${input.r}", "19.99");
    expect(w, "${input.e}", "1e%2B300");
    expect(w, "${input.t}${input.f}", "truefalse");
    expect(w, "${input.zero}", "0");
}

static void test_missing_values(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json",
              "{\"empty\": \"\", \"null\": null, \"object\": {}, \"list\": [], \"full\": [1]}");
    refuse(w, "x${input.empty}", "${input.empty}", "is empty");
    refuse(w, "x${input.null}", "${input.null}", "neither text nor a number");
    refuse(w, "x${input.object}", "${input.object}", "neither text nor a number");
    refuse(w, "x${input.list}", "${input.list}", "neither text nor a number");
    refuse(w, "x${input.full}", "${input.full}", "neither text nor a number");
    refuse(w, "x${input}", "${input}", "neither text nor a number");
    refuse(w, "x${input.nothing}", "${input.nothing}", "has no value");
    refuse(w, "x${arguments}", "${arguments}", "has no value");
    refuse(w, "x${arguments.a}", "${arguments.a}", "has no value");
}

/* The content type decides; without one, data that is valid JSON is JSON. */
static void test_types(void **state)
{
    static const struct {
        const char *type, *text, *expected; /* NULL: no value */
    } cases[] = {
        {"application/json", "\"a\"", "a"},
        {"application/json", " 5 ", "5"},
        {"Application/JSON; charset=utf-8", "5", "5"},
        {"application/problem+json", "true", "true"},
        {"text/plain", "\"a\"", "%22a%22"},
        {"text/plain; charset=utf-8", "5", "5"},
        {"text/html", "{\"a\": 1}", "%7B%22a%22%3A%201%7D"},
        {"", "5", "5"},
        {"", "\"a\"", "a"},
        {"", "so it is", "so%20it%20is"},
        {"image/png", "\x89PNG", NULL},
        {"text/plain", "\xff", NULL},
        {"text/plain", "", NULL},
    };
    struct world *w = *state;

    for (size_t i = 0; i < array_size(cases); i++) {
        set_input(w, cases[i].type, cases[i].text);
        if (cases[i].expected)
            expect(w, "${input}", cases[i].expected);
        else
            refuse(w, "${input}", "${input}", "has no value");
    }
    set_input(w, "text/plain", "{\"a\": 1}");
    refuse(w, "${input.a}", "${input.a}", "has no value");
    w->request.input = payload(&w->input, "text/plain", "a\0b", 3);
    expect(w, "${input}", "a%00b");
}

/* Data that Drover does not accept as JSON elsewhere is not JSON here either: of two values under
 * one key the service might take either. */
static void test_invalid_json(void **state)
{
    struct world *w = *state;
    struct buf deep = {0};

    set_input(w, "application/json", "{\"tenant\": \"a\", \"tenant\": \"b\"}");
    refuse(w, "${input.tenant}", "${input.tenant}", "has no value");
    for (int i = 0; i < 1000; i++)
        buf_puts(&deep, "[");
    buf_puts(&deep, "1");
    for (int i = 0; i < 1000; i++)
        buf_puts(&deep, "]");
    set_input(w, "application/json", buf_str(&deep));
    refuse(w, "${input.0}", "${input.0}", "has no value");
    buf_deinit(&deep);
}

static void test_long_values(void **state)
{
    struct world *w = *state;
    char text[8002];

    memset(text, '%', sizeof(text));
    text[8001] = '\0';
    set_input(w, "text/plain", text);
    refuse(w, "${input}", "${input}", "is too long");
}

/* ---- names that no request has ---- */

static void test_invalid_names(void **state)
{
    static const struct {
        const char *text, *name, *reason;
    } cases[] = {
        {"/${job", "${job", "has no closing }"},
        {"${job}/${", "${", "has no closing }"},
        {"${input.}", "${input.}", "must be job"},
        {"${input..a}", "${input..a}", "must be job"},
        {"${arguments.a.}", "${arguments.a.}", "must be job"},
        {"${}", "${}", "must be job, step, arguments"},
        {"${ job}", "${ job}", "must be job"},
        {"${Job}", "${Job}", "must be job"},
        {"${jobs}", "${jobs}", "must be job"},
        {"${job.id}", "${job.id}", "must be job"},
        {"${job.}", "${job.}", "must be job"},
        {"${step.name}", "${step.name}", "must be job"},
        {"${results}", "${results}", "must be job"},
        {"${results.}", "${results.}", "must be job"},
        {"${token}", "${token}", "must be job"},
        {"${job}${input.a}${env.HOME}", "${env.HOME}", "must be job"},
        {"${${job}}", "${${job}", "must be job"},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        struct problem problem = {0};

        assert_int_equal(template_check(cases[i].text, &problem), TEMPLATE_E_INVALID);
        assert_string_equal(problem.field, cases[i].name);
        if (!strstr(problem.reason, cases[i].reason))
            fail_msg("%s: %s", cases[i].text, problem.reason);
    }
}

static void test_long_names_are_quoted_in_part(void **state)
{
    char text[400] = "${input.";
    struct problem problem = {0};

    memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 1);
    assert_int_equal(template_check(text, &problem), TEMPLATE_E_INVALID);
    assert_int_equal(strlen(problem.field), 70 + strlen("${"));
}

/* ---- the document ---- */

static void expect_document(struct world *w, const char *expected)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    json_t *value;

    template_document(&w->request, &out);
    assert_string_equal(buf_str(&out), expected);
    value = json_loads(expected, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    json_decref(value);
}

static void test_document_of_an_empty_request(void **state)
{
    expect_document(*state, "{\"job\":\"order-17\",\"step\":\"charge\",\"arguments\":null,"
                            "\"input\":null,\"results\":{}}");
}

static void test_document(void **state)
{
    struct world *w = *state;

    set_input(w, "application/json", "{ \"b\": [1, 2.50, null],\n \"a\": \"\xe2\x82\xac\" }");
    set_arguments(w, "", "\"x\"");
    add_result(w, "text", "text/plain; charset=utf-8", "two\nlines \"quoted\"");
    add_result(w, "binary", "image/png", "\x89PNG");
    add_result(w, "none", NULL, NULL);
    add_result(w, "lie", "application/json", "{");
    expect_document(w, "{\"job\":\"order-17\",\"step\":\"charge\",\"arguments\":\"x\","
                       "\"input\":{\"b\":[1,2.5,null],\"a\":\"\xe2\x82\xac\"},"
                       "\"results\":{\"text\":\"two\\nlines \\\"quoted\\\"\","
                       "\"binary\":{\"contentType\":\"image/png\",\"data\":\"iVBORw==\"},"
                       "\"none\":null,"
                       "\"lie\":{\"contentType\":\"application/json\",\"data\":\"ew==\"}}}");
}

static void test_document_of_undo(void **state)
{
    struct world *w = *state;

    w->request.desired = DROVER__V1__STATE__STATE_DISABLED;
    w->request.forward_key = (char *)"order-17/charge/1";
    expect_document(w, "{\"job\":\"order-17\",\"step\":\"charge\",\"arguments\":null,"
                       "\"input\":null,\"results\":{},"
                       "\"forward_key\":\"order-17/charge/1\",\"forward_result\":null}");
    w->request.forward_result = payload(&w->forward, "application/json", "{\"id\":5}", 8);
    expect_document(w, "{\"job\":\"order-17\",\"step\":\"charge\",\"arguments\":null,"
                       "\"input\":null,\"results\":{},"
                       "\"forward_key\":\"order-17/charge/1\",\"forward_result\":{\"id\":5}}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_name),
        TEST(test_text_that_is_no_name),
        TEST(test_nesting),
        TEST(test_step_names_with_dots),
        TEST(test_result_without_payload),
        TEST(test_encoding),
        TEST(test_numbers_and_booleans),
        TEST(test_missing_values),
        TEST(test_types),
        TEST(test_invalid_json),
        TEST(test_long_values),
        TEST(test_invalid_names),
        TEST(test_long_names_are_quoted_in_part),
        TEST(test_document_of_an_empty_request),
        TEST(test_document),
        TEST(test_document_of_undo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
