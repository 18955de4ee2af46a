// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: records and answers that are none
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/store_ops.h"

#define NONE "0123456789012345678901234567890" /* a token as long as may be */

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
    assert_int_equal(r.current, 'U');
    assert_int_equal(r.asked, 'A');
    assert_int_equal(r.state, 'R');
    assert_int_equal(r.attempt, 2);
    assert_string_equal(r.token, NONE);
    assert_int_equal(r.till, 3);
    assert_int_equal(r.failures, 4);
    assert_int_equal(r.expiries, 5);
    assert_int_equal(r.waiting, 6);
    assert_int_equal(r.unstarted, 7);
    assert_int_equal(r.since, 1); /* of a job that was never turned */
    assert_int_equal(r.forward, 1);

    assert_int_equal(ops_read_step_record(bytes_str("A D F 9 2 t 3 4 5 6 7 8 1"), &r), 0);
    assert_int_equal(r.since, 8);
    assert_int_equal(r.forward, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_record),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
