// SPDX-License-Identifier: Apache-2.0
/*
 * Failpoints: the grammar, what is refused, and what each action does at its place
 *
 * tests/integration/operation/test_failpoints.py covers the actions that end or stop a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "io/failpoint.h"
#include "model/wire.h"

static void set(const char *spec)
{
    struct problem problem = {0};

    if (failpoint_set(spec, &problem))
        fail_msg("%s: %s", spec, problem.reason);
}

static enum failpoint_act at_record(const char *payload)
{
    const struct bytes b = bytes_str(payload);

    return failpoint("store", "record", "after", &b, 1);
}

static enum failpoint_act at_reply(void)
{
    const struct bus_message m = {.exchange = WIRE_REPLY_EXCHANGE "demo", .key = "reply"};

    return failpoint_message(&m, "before");
}

static void test_off(void **state)
{
    (void)state;
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("store.record.after=off");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("store.record.before=return");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
}

static void test_acts(void **state)
{
    (void)state;
    set("store.record.after=return ; publish.reply.before=drop");
    assert_int_equal(at_record("x"), FAILPOINT_RETURN);
    assert_int_equal(at_reply(), FAILPOINT_DROP);
    set("# a comment\n\n  publish.reply.before=double\r\n");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    assert_int_equal(at_reply(), FAILPOINT_DOUBLE);
    set("store.record.after=print(words)->return");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("store.record.after=yield");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
}

static void test_counts(void **state)
{
    (void)state;
    set("store.record.after=2*off->1*return");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    assert_int_equal(at_record("x"), FAILPOINT_RETURN);
    assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("store.record.after=0*return->yield");
    assert_int_equal(at_record("x"), FAILPOINT_GO);
}

static void test_payload(void **state)
{
    (void)state;
    set("store.record.after=1*return@job 7");
    assert_int_equal(at_record("a job 6"), FAILPOINT_GO);
    assert_int_equal(at_record("a job 7 b"), FAILPOINT_RETURN);
    assert_int_equal(at_record("a job 7 b"), FAILPOINT_GO);
    assert_int_equal(at_record(""), FAILPOINT_GO);
    assert_int_equal(failpoint("store", "record", "after", NULL, 0), FAILPOINT_GO);
}

static void test_chance(void **state)
{
    int often = 0;

    (void)state;
    set("store.record.after=0%return");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(at_record("x"), FAILPOINT_GO);
    set("store.record.after=100%return");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(at_record("x"), FAILPOINT_RETURN);
    set("store.record.after=25.5%3000*return");
    for (int i = 0; i < 10000; i++)
        often += at_record("x") == FAILPOINT_RETURN;
    assert_in_range(often, 2200, 2900);
}

static void test_time(void **state)
{
    int64_t began = clock_monotonic_ms(), clock = clock_unix_ms();

    (void)state;
    set("store.record.after=1*sleep(30ms)->1*delay(30)");
    at_record("x");
    assert_true(clock_monotonic_ms() - began >= 30);
    at_record("x");
    assert_true(clock_monotonic_ms() - began >= 60);
    set("store.record.after=1*clock(+600s)->1*clock(-20m)");
    at_record("x");
    assert_true(clock_unix_ms() - clock >= 600000);
    at_record("x");
    assert_true(clock_unix_ms() < clock);
}

static void test_refused(void **state)
{
    static const char *const specs[][2] = {
        {"store.nothing.after=return", "no failpoint is called \"store.nothing.after\""},
        {"=return", "no failpoint is called \"\""},
        {"store.record.after", "no ="},
        {"store.record.after=", "no such task"},
        {"store.record.after=explode", "no such task at \"explode\""},
        {"store.record.after=3*", "no such task"},
        {"store.record.after=return(1)", "has no argument"},
        {"store.record.after=sleep", "a time in parentheses is missing"},
        {"store.record.after=sleep(", "no end of the argument"},
        {"store.record.after=sleep(soon)", "not a time"},
        {"store.record.after=sleep(-1)", "not a time"},
        {"store.record.after=sleep(1d)", "not a time"},
        {"store.record.after=return@", "no text"},
        {"store.record.after=return->", "no such task"},
        {"store.record.after=off return", "not understood"},
        {"store.record.after=drop", "store.record.after cannot drop"},
        {"publish.reply.after=double", "publish.reply.after cannot double"},
        {"run.before=return", "run.before cannot return"},
        {"ack.before=off->off->off->off->off->off->off->off->off", "too many terms"},
    };

    (void)state;
    set("store.record.after=return");
    for (size_t i = 0; i < array_size(specs); i++) {
        struct problem problem = {0};

        assert_int_equal(failpoint_set(specs[i][0], &problem), 1);
        if (!strstr(problem.reason, specs[i][1]))
            fail_msg("%s: %s", specs[i][0], problem.reason);
    }
    assert_int_equal(at_record("x"), FAILPOINT_RETURN); /* the refused text has set nothing */
}

/* Every failpoint that is listed can be set, once. */
static void test_list(void **state)
{
    struct failpoint_info point;
    char spec[128];
    size_t n;

    (void)state;
    for (n = 0; failpoint_at(n, &point); n++) {
        snprintf(spec, sizeof(spec), "%s=print", point.name);
        set(spec);
        assert_true(point.what[0]);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),     cmocka_unit_test(test_acts),
        cmocka_unit_test(test_counts),  cmocka_unit_test(test_payload),
        cmocka_unit_test(test_chance),  cmocka_unit_test(test_time),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
