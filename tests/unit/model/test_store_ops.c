// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: invalid records and answers, and the texts that effects consist of
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/store_ops.h"
#include "model/store_schema.h"

#define NONE                                                                                       \
    "012345678901234567890123456789012345678901234567890123456789012" /* a token as long as may be \
                                                                       */

static void test_token_id(void **state)
{
    struct effects fx = {0};

    assert_string_equal(ops_token_id(&fx, "12.0123456789abcdef"), "12.7cdb22af");
    assert_string_equal(ops_token_id(&fx, "12"), "12");
    assert_string_equal(ops_token_id(&fx, "-"), "-");
    effects_deinit(&fx);
}

static void test_step_record(void **state)
{
    static const char *const bad[] = {
        "",
        "AA A W 1 2 t 3 4 5 6 7",
        "A  W 1 2 t 3 4 5 6 7",
        "A A WW 1 2 t 3 4 5 6 7",
        "A A W x 2 t 3 4 5 6 7",
        "A A W 1 -2 t 3 4 5 6 7",
        "A A W 1 2  3 4 5 6 7",
        ("A A W 1 2 " NONE "1 3 4 5 6 7"),
        "A A W 1 2 t x 4 5 6 7",
        "A A W 1 2 t 3 4294967296 5 6 7",
        "A A W 1 2 t 3 4 x 6 7",
        "A A W 1 2 t 3 4 5 x 7",
        "A A W 1 2 t 3 4 5 6",
        "A A W 1 2 t 3 4 5 6 7 x",
        "A A W 1 2 t 3 4 5 6 7 8",
        "A A W 1 2 t 3 4 5 6 7 8 x",
        "A A W 1 2 t 3 4 5 6 7 8 9 10",
    };
    struct ops_step_record r;

    for (size_t i = 0; i < array_size(bad); i++)
        if (ops_read_step_record(bytes_str(bad[i]), &r) != -EPROTO)
            fail_msg("%s", bad[i]);

    assert_int_equal(ops_read_step_record(bytes_str("U A R 1 2 " NONE " 3 4 5 6 7"), &r), 0);
    assert_int_equal(r.current, STATE_UNKNOWN);
    assert_int_equal(r.asked, STATE_ACTIVE);
    assert_int_equal(r.state, STEP_IN_FLIGHT);
    assert_int_equal(r.attempt, 2);
    assert_string_equal(r.token, NONE);
    assert_int_equal(r.until, 3);
    assert_int_equal(r.failures, 4);
    assert_int_equal(r.expiries, 5);
    assert_int_equal(r.waiting, 6);
    assert_int_equal(r.unstarted, 7);
    assert_int_equal(r.since, 1); /* the default, for a job that was never turned */
    assert_int_equal(r.forward, 1);

    assert_int_equal(ops_read_step_record(bytes_str("A D F 9 2 t 3 4 5 6 7 8 1"), &r), 0);
    assert_int_equal(r.since, 8);
    assert_int_equal(r.forward, 1);
}

static void expect_int(struct effects *fx, int64_t i, const char *text)
{
    struct bytes b = effects_int(fx, i);

    assert_true(bytes_is(b, text));
    assert_string_equal((const char *)b.data, text);
}

/* Texts of every length that a block may have left. */
static void test_texts(void **state)
{
    struct effects fx = {0};

    expect_int(&fx, 0, "0");
    expect_int(&fx, -7, "-7");
    expect_int(&fx, INT64_MAX, "9223372036854775807");
    expect_int(&fx, INT64_MIN, "-9223372036854775808");
    for (int i = 0; i < 300000; i += 37) {
        const char *before = effects_str(&fx, "before");
        char text[40];

        snprintf(text, sizeof(text), "%0*d", 1 + i % 31, i);
        assert_string_equal(effects_printf(&fx, "%0*d", 1 + i % 31, i), text);
        assert_string_equal(before, "before");
    }
    effects_deinit(&fx);
}

static struct ops_reader two(struct bytes *items, const char *first, const char *second)
{
    items[0] = bytes_str(first);
    items[1] = bytes_str(second);
    return ops_reader(&(struct store_answer){.items = items, .n = 2});
}

static int refusal(const char *why, const char *step, struct ops_refusal *out)
{
    struct bytes items[2];
    struct ops_reader r = two(items, why, step);

    return ops_read_refusal(&r, out);
}

#define ITEMS 12

/* @text: the items, with a bar behind each. */
static struct ops_reader many(struct bytes items[ITEMS], const char *text)
{
    struct ops_reader r = {.items = items};

    for (const char *bar; (bar = strchr(text, '|')) != NULL; text = bar + 1) {
        assert_true(r.left < ITEMS);
        items[r.left++] = bytes_of(text, (size_t)(bar - text));
    }
    return r;
}

static int driven(const char *text, struct effects *fx, struct ops_transition *out)
{
    struct bytes items[ITEMS];
    struct ops_reader r = many(items, text);

    return ops_read_transition(&r, fx, out);
}

#define DRIVEN "DRIVEN|d|"
#define ALERT "2 D PARKED 12|"
#define REQUEST "0 A D 1 2 0.abc 1700000060000 1000 3 4 1 5 "
#define DATA "in|0 0 1|7|result|"

static void test_transition(void **state)
{
    static const char *const bad[] = {
        "",
        "DRIVING|d|1 2 3 1 1 4 5 6 0 0|",
        "DRIVEN|d|",
        "DRIVEN|d||",
        (DRIVEN "1 2 3 1 1 4 5 6 0|"),
        (DRIVEN "1 2 3 1 1 4 5 6 0 0 0|"),
        (DRIVEN "1 2 x 1 1 4 5 6 0 0|"),
        (DRIVEN "1 2 3 1 1 4294967296 5 6 0 0|"),
        (DRIVEN "1 2 3 1 1 4 5 6 -1 0|"),
        (DRIVEN "1 2 3 1 1 4 5 6 1 0|"), /* the item that it names is missing */
        (DRIVEN "1 2 3 1 1 4 5 6 1 0|2 D PARKED|"),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|"),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|" REQUEST "0 0|"),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|" REQUEST "0|" DATA),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|" REQUEST "0 0 0|" DATA),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|" REQUEST "0 0|in|0 0 2|7|result|"),
        (DRIVEN "1 2 3 1 1 4 5 6 0 1|" REQUEST "0 0|in|1 0 0|labels|"),
    };
    struct effects fx = {0};
    struct ops_transition d;

    for (size_t i = 0; i < array_size(bad); i++)
        if (driven(bad[i], &fx, &d) != -EPROTO)
            fail_msg("%s", bad[i]);

    assert_int_equal(driven(DRIVEN "1 2 3 1 0 4 5 6 1 2|" ALERT REQUEST "1 0|error|" REQUEST
                                   "0 1|arguments|" DATA,
                            &fx, &d),
                     0);
    assert_int_equal(d.code, OPS_DRIVEN);
    assert_int_equal(d.now, 1);
    assert_int_equal(d.seq, 2);
    assert_int_equal(d.ended_seq, 3);
    assert_true(d.more && !d.publish_step_events);
    assert_int_equal(d.open, 4);
    assert_int_equal(d.steps, 5);
    assert_int_equal(d.watermark, 6);
    assert_int_equal(d.n_alerts, 1);
    assert_true(d.alerts[0].step == 2 && d.alerts[0].back && d.alerts[0].seq == 12);
    assert_true(bytes_is(d.alerts[0].reason, "PARKED"));
    assert_int_equal(d.n_requests, 2);
    assert_true(d.requests[0].active && d.requests[0].current == STATE_DISABLED &&
                d.requests[0].sent_before);
    assert_true(bytes_is(d.requests[0].token, "0.abc"));
    assert_int_equal(d.requests[0].locked_until, 1700000060000);
    assert_int_equal(d.requests[0].forward_turn, 5);
    assert_true(bytes_is(d.requests[0].last_error, "error") && d.requests[0].arguments.len == 0);
    assert_true(bytes_is(d.requests[1].arguments, "arguments") &&
                d.requests[1].last_error.len == 0);
    assert_true(bytes_is(d.input, "in") && d.labels.len == 0);
    assert_int_equal(d.n_results, 1);
    assert_int_equal(d.results[0].step, 7);
    assert_true(bytes_is(d.results[0].payload, "result"));
    effects_deinit(&fx);
}

static void test_refusal(void **state)
{
    struct ops_refusal m;

    assert_int_equal(refusal("THERE", "7", &m), 0);
    assert_string_equal(m.why, "THERE");
    assert_int_equal(m.step, 7);
    assert_int_equal(refusal("", "", &m), 0);
    assert_string_equal(m.why, "");
    assert_int_equal(refusal("0123456789012345678901234", "7", &m), -EPROTO);
    assert_int_equal(refusal("THERE", "x", &m), -EPROTO);
}

static void test_swept(void **state)
{
    struct ops_swept m;
    char text[sizeof(m.cursor) + 1];
    struct bytes items[2];
    struct ops_reader r;

    memset(text, 'x', sizeof(text));
    text[sizeof(m.cursor)] = '\0';
    r = two(items, text, "job");
    assert_int_equal(ops_read_swept(&r, &m), -EPROTO);
    text[sizeof(m.cursor) - 1] = '\0';
    r = two(items, text, "job");
    assert_int_equal(ops_read_swept(&r, &m), 0);
    assert_string_equal(m.cursor, text);
    assert_int_equal(m.n_mended, 0);
}

/* ---- texts of a job ---- */

/* Compares three texts. */
static void expect_words(struct bytes a, const char *first, struct bytes b, const char *second,
                         struct bytes c, const char *third)
{
    assert_true(bytes_is(a, first));
    assert_true(bytes_is(b, second));
    assert_true(bytes_is(c, third));
}

static void test_attention(void **state)
{
    static const char *const bad[] = {"", "parked", "parked  a x BAD", "parked x a x BAD",
                                      "parked 5 a x BAD more"};
    struct ops_attention m;

    for (size_t i = 0; i < array_size(bad); i++)
        if (ops_read_attention(bytes_str(bad[i]), &m) != -EPROTO)
            fail_msg("%s", bad[i]);
    assert_int_equal(ops_read_attention(bytes_str("parked 1700000001000 a x BAD"), &m), 0);
    assert_true(bytes_is(m.kind, "parked"));
    assert_int_equal(m.since, 1700000001000);
    expect_words(m.step, "a", m.actor, "x", m.class, "BAD");
    assert_int_equal(ops_read_attention(bytes_str("deadline 5 - - -"), &m), 0);
    assert_true(bytes_is(m.kind, "deadline"));
    expect_words(m.step, "", m.actor, "", m.class, "");
}

/* Of the failures forward and back the last one counts. */
static void test_failure(void **state)
{
    static const char *const bad[] = {"",
                                      "a",
                                      "a AD PERMANENT 0 BAD",
                                      "a  PERMANENT 0 BAD",
                                      "a A",
                                      "a A PERMANENT 0 BAD more",
                                      "a A PERMANENT 0 BAD|"};
    struct ops_failure m;

    for (size_t i = 0; i < array_size(bad); i++)
        if (ops_read_failure(bytes_str(bad[i]), &m) != -EPROTO)
            fail_msg("%s", bad[i]);
    assert_int_equal(ops_read_failure(bytes_str("a D PERMANENT 0 BAD"), &m), 0);
    assert_true(bytes_is(m.step, "a") && bytes_is(m.reason, "PERMANENT"));
    assert_int_equal(m.asked, STATE_DISABLED);
    assert_int_equal(ops_read_failure(bytes_str("a A EXHAUSTED 0 BAD|b D DEATHS 1 -"), &m), 0);
    assert_true(bytes_is(m.step, "b") && bytes_is(m.reason, "DEATHS"));
    assert_int_equal(m.asked, STATE_DISABLED);
    assert_int_equal(ops_read_failure(bytes_str("- A DEADLINE - -"), &m), 0);
    assert_true(bytes_is(m.step, "") && bytes_is(m.reason, "DEADLINE"));
    assert_int_equal(m.asked, STATE_ACTIVE);
}

/* ---- step events ---- */

static int step_events(const char *text, struct effects *fx, struct ops_step_events *out)
{
    struct bytes items[ITEMS];
    struct ops_reader r = many(items, text);

    return ops_read_step_events(&r, fx, out);
}

static void test_step_events(void **state)
{
    struct effects fx = {0};
    struct ops_step_events m = {.n = 7};

    assert_int_equal(step_events("", &fx, &m), -EPROTO);
    assert_int_equal(m.n, 0);
    assert_int_equal(step_events("UNKNOWN_JOB|", &fx, &m), -ENOENT);
    assert_int_equal(step_events("FOUND|1 2 3|w@1|ann|me|c|", &fx, &m), -EPROTO);
    assert_int_equal(step_events("FOUND|1 2|w@1|ann|me|c|json|", &fx, &m), -EPROTO);
    assert_int_equal(step_events("FOUND|1 2 3|w@1|ann|me|c|json|4 5 done 1 A|s||", &fx, &m),
                     -EPROTO);
    assert_int_equal(step_events("FOUND|1 2 3|w@1|ann|me|c||", &fx, &m), 0);
    assert_int_equal(m.n, 0);
    assert_false(m.json);
    assert_int_equal(
        step_events("FOUND|1 2 3|w@1|ann|me|c|json|4 5 failed 6 D a-1|s|error|", &fx, &m), 0);
    assert_true(m.now == 1 && m.open == 2 && m.steps == 3 && m.json && m.n == 1);
    expect_words(m.workflow, "w@1", m.submitter, "ann", m.to.reply_to, "me");
    assert_true(bytes_is(m.to.correlation, "c"));
    assert_true(m.events[0].seq == 4 && m.events[0].at == 5 && m.events[0].attempt == 6);
    assert_true(m.events[0].back && bytes_is(m.events[0].event, "failed"));
    expect_words(m.events[0].agent, "a-1", m.events[0].step, "s", m.events[0].error, "error");
    assert_int_equal(step_events("FOUND|1 2 3|w@1|ann|me|c|json|4 5 done 6 A -|s||", &fx, &m), 0);
    assert_false(m.events[0].back);
    expect_words(m.events[0].agent, "", m.events[0].step, "s", m.events[0].error, "");
    effects_deinit(&fx);
}

/* ---- names of agents ---- */

/* Compares an argument of the last call. */
static void expect_argument(const struct effects *fx, int i, const char *text)
{
    const struct effect *last = &fx->items[fx->n - 1];

    assert_true(i < last->store.n);
    if (!bytes_is(last->store.args[i], text))
        fail_msg("%.*s", (int)last->store.args[i].len, (const char *)last->store.args[i].data);
}

/* An agent may give itself any name: in a text of words it is one of them. */
static void test_agent_is_one_word(void **state)
{
    static const struct {
        const char *name, *word;
    } names[] = {{"host-1", "host-1"},
                 {"a b\tc\x01\x1f", "a_b_c__"},
                 {" ", "_"},
                 {"\xc3\xa4!~", "\xc3\xa4!~"},
                 {"", ""}};
    struct ops_record_args record = {.kind = REPORT_ACTIVE, .job = "j", .token = "t", .class = ""};
    const struct ops_record_args *const records[] = {&record};
    struct effects fx = {0};

    for (size_t i = 0; i < array_size(names); i++) {
        const struct ops_progress progress = {.fraction = 0.5, .note = "n", .agent = names[i].name};
        char text[32];

        record.agent = names[i].name;
        ops_record(&fx, 1, 0, "s", records, 1);
        expect_argument(&fx, AT_RECORD_VALUES + AT_REPORT_AGENT, names[i].word);
        ops_renew(&fx, 1, 0, "j", "t", &progress, "");
        snprintf(text, sizeof(text), "0.5000@%s", names[i].word);
        expect_argument(&fx, AT_RENEW_FRACTION, text);
    }
    record.agent = NULL;
    ops_record(&fx, 1, 0, "s", records, 1);
    expect_argument(&fx, AT_RECORD_VALUES + AT_REPORT_AGENT, "");
    effects_deinit(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_id),    cmocka_unit_test(test_step_record),
        cmocka_unit_test(test_transition),  cmocka_unit_test(test_texts),
        cmocka_unit_test(test_refusal),     cmocka_unit_test(test_swept),
        cmocka_unit_test(test_attention),   cmocka_unit_test(test_failure),
        cmocka_unit_test(test_step_events), cmocka_unit_test(test_agent_is_one_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
