// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting a message of several Submits into theirs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "model/wire.h"
#include "model/wire_split.h"

static struct bytes items[WIRE_SUBMITS_MAX];

static void expect(const char *json, const char *const *parts, size_t n)
{
    size_t found;

    assert_int_equal(wire_split(bytes_str(json), items, &found, NULL), 0);
    assert_int_equal(found, n);
    for (size_t i = 0; i < n; i++)
        assert_true(bytes_is(items[i], parts[i]));
}

static void refuse(struct bytes body, int result, const char *reason)
{
    struct problem problem = {0};
    size_t n;

    assert_int_equal(wire_split(body, items, &n, &problem), result);
    assert_int_equal(n, 0);
    assert_string_equal(problem.reason, reason);
}

static void test_json(void **state)
{
    expect("{\"submits\":[{}]}", (const char *[]){"{}"}, 1);
    expect("{ \"submits\" :\n[ {\"a\": [1, {\"}\": \"]\\\"\\\\\"}]}\t,{\"b\":{}} ]\r} ",
           (const char *[]){"{\"a\": [1, {\"}\": \"]\\\"\\\\\"}]}", "{\"b\":{}}"}, 2);
    /* what is in a Submit is not read here */
    expect("{\"submits\":[{nonsense},{\"a\":}]}", (const char *[]){"{nonsense}", "{\"a\":}"}, 2);
}

static void test_bad_json(void **state)
{
    static const char *const bad[] = {
        "{",
        "{}",
        "{\"submits\"",
        "{\"submits\":",
        "{\"submits\":[",
        "{\"submits\":[{",
        "{\"submits\":[{\"a",
        "{\"submits\":[{\"a\\",
        "{\"submits\":[{}",
        "{\"submits\":[{},",
        "{\"submits\":[{},]}",
        "{\"submits\":[{}{}]}",
        "{\"submits\":[{}]",
        "{\"submits\":[{}]}}",
        "{\"submits\":[{}],\"more\":1}",
        "{\"submits\":[7]}",
        "{\"submits\":[\"{}\"]}",
        "{\"submits\":{}}",
        "{\"Submits\":[{}]}",
    };

    for (size_t i = 0; i < array_size(bad); i++)
        refuse(bytes_str(bad[i]), WIRE_E_MALFORMED, "is no JSON of drover.v1.Submits");
}

/* Fields of a newer protocol are passed over, of each kind. */
static void test_protobuf(void **state)
{
    static const uint8_t body[] = {
        0x0a, 2,    'h',  'i',                    /* a Submit */
        0x10, 0x96, 1,                            /* 2: a number */
        0x19, 1,    2,    3,    4,    5, 6, 7, 8, /* 3: of 64 bits */
        0x22, 1,    'x',                          /* 4: a text */
        0x2d, 1,    2,    3,    4,                /* 5: of 32 bits */
        0x0a, 0,                                  /* an empty Submit */
        0xfa, 0xff, 0xff, 0xff, 0x0f, 1, 0        /* the last number of a field */
    };
    size_t n;

    assert_int_equal(wire_split(bytes_of(body, sizeof(body)), items, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_true(bytes_is(items[0], "hi"));
    assert_int_equal(items[1].len, 0);
    for (size_t len = 1; len < sizeof(body); len++) { /* cut anywhere */
        bool whole = len == 4 || len == 7 || len == 16 || len == 19 || len == 24 || len == 26;
        int r = wire_split(bytes_of(body, len), items, &n, NULL);

        assert_int_equal(r, whole ? 0 : WIRE_E_MALFORMED);
    }
}

static void test_bad_protobuf(void **state)
{
    static const char *const bad[] = {
        "\x08\x01",                                              /* the field is a number */
        "\x0b",                                                  /* or a group, or */
        "\x0e",                                                  /* of no kind */
        "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",      /* a length without an end */
        "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",              /* or longer than the body */
        "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", /* a number without an end */
    };

    for (size_t i = 0; i < array_size(bad); i++)
        refuse(bytes_str(bad[i]), WIRE_E_MALFORMED, "is no protobuf of drover.v1.Submits");
}

static void test_count(void **state)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    size_t n;

    refuse(BYTES_EMPTY, WIRE_E_INVALID, "must be 1 to 100, not 0");
    refuse(bytes_str("{\"submits\":[]}"), WIRE_E_INVALID, "must be 1 to 100, not 0");
    for (int i = 0; i < WIRE_SUBMITS_MAX; i++)
        buf_append(&body, "\x0a", 2);
    assert_int_equal(wire_split(buf_bytes(&body), items, &n, NULL), 0);
    assert_int_equal(n, WIRE_SUBMITS_MAX);
    buf_append(&body, "\x0a", 2);
    refuse(buf_bytes(&body), WIRE_E_INVALID, "must be 1 to 100, not 101");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),     cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_protobuf), cmocka_unit_test(test_bad_protobuf),
        cmocka_unit_test(test_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
