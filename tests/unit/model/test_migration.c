// SPDX-License-Identifier: Apache-2.0
/*
 * Migrations: the numbers of the steps, which steps differ, and what does not fit
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/json.h"
#include "model/migration.h"

static const char FLAGS[] = "!?%~&*^+-#0123456789"; /* each stands after a step's name */
static const char TERM_FLAGS[] = "%~&+123456789";   /* those that leave its work as it is */

static const char *members_of(char flag)
{
    static const char *const members[] = {
        "\"actor\":\"y\"",
        "\"actor\":\"x\",\"revert\":{}",
        "\"actor\":\"x\",\"retry\":{\"maximumAttempts\":3}",
        "\"actor\":\"x\",\"retry\":{\"nonRetryable\":[\"no\"]}",
        "\"actor\":\"x\",\"lockMs\":1234",
        "\"actor\":\"x\",\"arguments\":{\"contentType\":\"text/plain\"}",
        "\"actor\":\"x\",\"arguments\":{\"contentType\":\"text/plain\",\"data\":\"AA==\"}",
        "\"actor\":\"x\",\"retry\":{\"nonRetryable\":[\"never\"]}",
        "\"actor\":\"x\",\"revert\":{\"action\":\"undo\"}",
        "\"actor\":\"x\",\"revert\":{},\"waiveRevert\":true",
        "\"actor\":\"x\",\"action\":\"other\"",
        "\"actor\":\"x\",\"waitMs\":1234",
        "\"actor\":\"x\",\"retry\":{\"initialIntervalMs\":1234}",
        "\"actor\":\"x\",\"retry\":{\"backoffCoefficient\":1.5}",
        "\"actor\":\"x\",\"retry\":{\"maximumIntervalMs\":123456}",
        "\"actor\":\"x\",\"retry\":{\"maximumExpiries\":7}",
        "\"actor\":\"x\",\"retry\":{\"jitter\":0.25}",
        "\"actor\":\"x\",\"retry\":{\"parkIntervalMs\":1234}",
        "\"actor\":\"x\",\"retry\":{\"onPermanent\":\"RECOURSE_PARK\"}",
        "\"actor\":\"x\",\"retry\":{\"onExhausted\":\"RECOURSE_FAIL\"}",
    };
    const char *found = flag ? strchr(FLAGS, flag) : NULL;

    return found ? members[found - FLAGS] : NULL;
}

/* Version @version of "w" with the members of @steps. Text such as "a b>a c>a,b" is the name of
 * each step and the steps that it waits for; a flag after a name adds members to the step. */
static struct workflow *version(uint32_t version, const char *name, const char *steps)
{
    struct buf json = {0};
    char *text = strdup(steps), *save = NULL;
    struct workflow *w = NULL;
    struct problem problem = {0};
    ProtobufCMessage *message;

    buf_printf(&json, "{\"steps\":[");
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *after = strchr(word, '>');
        const char *members;

        if (after)
            *after++ = '\0';
        members = members_of(word[strlen(word) - 1]);
        if (members)
            word[strlen(word) - 1] = '\0';
        buf_printf(&json, "%s{\"name\":\"%s\",%s,\"after\":[", word == text ? "" : ",", word,
                   members ? members : "\"actor\":\"x\"");
        for (const char *c = after; c && *c; c += c[1] ? 2 : 1)
            buf_printf(&json, "%s\"%c\"", c == after ? "" : ",", *c);
        buf_puts(&json, "]}");
    }
    buf_printf(&json, "]");
    if (*name)
        buf_printf(&json, ",\"name\":\"%s\",\"version\":%" PRIu32, name, version);
    buf_puts(&json, "}");
    if (json_to_message(buf_bytes(&json), &drover__v1__workflow__descriptor, NULL, &message,
                        &problem) != 0)
        fail_msg("%s: %s %s", buf_str(&json), problem.field, problem.reason);
    if (workflow_new(&w, (Drover__V1__Workflow *)message, "", &problem) != 0)
        fail_msg("%s: %s %s", steps, problem.field, problem.reason);
    protobuf_c_message_free_unpacked(message, NULL);
    buf_deinit(&json);
    free(text);
    return w;
}

/* @order: the names by number; @differing: numbers of the old version, with a t if the step is the
 * same work with other terms. */
static void expect(const char *from, const char *to, const char *order, const char *differing)
{
    struct workflow *old = version(1, "w", from), *newer = version(2, "w", to);
    struct migration m;
    struct problem problem = {0};
    char names[128] = "", numbers[128] = "";

    if (migration_plan(&m, old, newer, &problem) != 0)
        fail_msg("%s to %s: %s %s", from, to, problem.field, problem.reason);
    for (uint32_t i = 0; i < m.arranged->n_steps; i++)
        strcat(names, m.arranged->steps[i].name);
    for (uint32_t i = 0; i < m.n_differing; i++)
        snprintf(numbers + strlen(numbers), sizeof(numbers) - strlen(numbers), "%" PRIu32 "%s",
                 m.differing[i], m.differences[i] == DIFFERENCE_TERMS ? "t" : "");
    assert_string_equal(names, order);
    assert_string_equal(numbers, differing);
    assert_string_equal(m.arranged->full_name, "w@2");
    assert_int_equal(m.arranged->n_edges, newer->n_edges);
    migration_deinit(&m);
    workflow_unref(old);
    workflow_unref(newer);
}

static void test_numbers(void **state)
{
    expect("a b>a", "a b>a", "ab", "");
    expect("a b>a", "b>a a", "ab", "");       /* written in another order */
    expect("a b>a", "a n>a b>n", "abn", "1"); /* a step is inserted */
    expect("a b>a c>b", "a c>a", "ac", "12"); /* a step is removed: the last moves up */
    expect("a b>a c>b", "a n>a c>n", "anc",
           "1"); /* another step takes its number: the dependency of c differs */
    expect("a b c", "n", "n", "012");
    expect("a", "p q a r", "apqr", "");
}

static void test_differences(void **state)
{
    expect("a b>a c>b", "a? b>a c>b", "abc", "0");
    for (const char *flag = FLAGS; *flag; flag++) {
        const char b[] = {'a', ' ', 'b', *flag, '>', 'a', '\0'};

        expect("a b>a", b, "ab", strchr(TERM_FLAGS, *flag) ? "1t" : "1");
    }
    for (const char *flag = FLAGS; *flag; flag++) {
        const char same[] = {'a', *flag, '\0'};

        expect(same, same, "a", "");
    }
    expect("a*", "a^", "a", "0");  /* other data of the same type */
    expect("a~", "a+", "a", "0t"); /* other errors, as many */
    expect("a?", "a-", "a", "0");  /* another undo */
    expect("a?", "a#", "a", "0");  /* the undo is waived or not */
    expect("a b c>a", "a b c>b", "abc", "2");
    expect("a b c>a", "a b c>a,b", "abc", "2");
    expect("a b>a", "a b>a z>a", "abz", ""); /* a new dependent of a does not change a */
}

static void test_same_order_is_not_copied(void **state)
{
    struct workflow *old = version(1, "w", "a b>a"), *newer = version(2, "w", "a b!>a c>b");
    struct migration m;

    assert_int_equal(migration_plan(&m, old, newer, NULL), 0);
    assert_ptr_equal(m.arranged, newer);
    migration_deinit(&m);
    workflow_unref(old);
    workflow_unref(newer);
}

static void expect_unfit(struct workflow *old, struct workflow *newer, const char *word)
{
    struct migration m;
    struct problem problem = {0};

    assert_int_equal(migration_plan(&m, old, newer, &problem), MIGRATION_E_UNFIT);
    if (!strstr(problem.reason, word))
        fail_msg("'%s' has no '%s'", problem.reason, word);
    assert_null(m.arranged);
    assert_null(m.differing);
    workflow_unref(old);
    workflow_unref(newer);
}

static struct workflow *many(uint32_t number, uint32_t n, const char *actor)
{
    Drover__V1__Workflow message = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step *steps = calloc(n, sizeof(*steps));
    char(*names)[8] = calloc(n, sizeof(*names));
    struct workflow *w = NULL;

    message.name = (char *)"w";
    message.version = number;
    message.n_steps = n;
    message.steps = calloc(n, sizeof(*message.steps));
    for (uint32_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "s%" PRIu32, i % 10000);
        drover__v1__step__init(&steps[i]);
        steps[i].name = names[i];
        steps[i].actor = (char *)actor;
        message.steps[i] = &steps[i];
    }
    assert_int_equal(workflow_new(&w, &message, "", NULL), 0);
    free(message.steps);
    free(steps);
    free(names);
    return w;
}

static void test_workflows_that_do_not_fit(void **state)
{
    expect_unfit(version(1, "w", "a"), version(2, "v", "a"), "w@1");
    expect_unfit(version(0, "", "a"), version(2, "w", "a"), "of its own");
    expect_unfit(many(1, MIGRATION_DIFFERING_MAX + 1, "x"),
                 many(2, MIGRATION_DIFFERING_MAX + 1, "y"), "more than 1000 steps differ");
}

static void test_largest(void **state)
{
    struct workflow *old = many(1, MIGRATION_DIFFERING_MAX, "x"),
                    *newer = many(2, MIGRATION_DIFFERING_MAX, "y");
    struct migration m;

    assert_int_equal(migration_plan(&m, old, newer, NULL), 0);
    assert_int_equal(m.n_differing, MIGRATION_DIFFERING_MAX);
    migration_deinit(&m);
    workflow_unref(old);
    workflow_unref(newer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_same_order_is_not_copied),
        cmocka_unit_test(test_workflows_that_do_not_fit),
        cmocka_unit_test(test_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
