// SPDX-License-Identifier: Apache-2.0
/*
 * Renewal: when a refused message counts as the fault of the connection
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/bus/renewal.h"

static struct outgoing message_to(const char *key)
{
    return (struct outgoing){.message = {.exchange = "drover.tasks", .key = key}};
}

/* What the queue has taken over this connection, it can take. */
static void test_taken(void **state)
{
    const struct outgoing a = message_to("a"), b = message_to("b");
    struct renewal r = {0};

    renewal_taken(&r, &a);
    assert_false(renewal_refused(&r, &a, 100000));
    assert_true(renewal_refused(&r, &b, 100000));
    renewal_begin(&r, 100000);
    assert_int_equal(r.due, 0);
    assert_true(renewal_refused(&r, &a, 200000));
}

/* Only the last places are remembered. */
static void test_many_places(void **state)
{
    const struct outgoing first = message_to("first");
    struct renewal r = {0};
    char key[16];

    renewal_taken(&r, &first);
    for (int i = 0; i < RENEWAL_PLACES - 1; i++) {
        const struct outgoing m = message_to(key);

        snprintf(key, sizeof(key), "%d", i);
        renewal_taken(&r, &m);
        renewal_taken(&r, &m);
    }
    assert_false(renewal_refused(&r, &first, 100000));
    snprintf(key, sizeof(key), "last");
    renewal_taken(&r, &(struct outgoing){.message = {.exchange = "", .key = key}});
    assert_true(renewal_refused(&r, &first, 100000));
}

/* Connections that do not help are made with growing pauses; after a quiet minute anew. */
static void test_pauses(void **state)
{
    static const int pauses[] = {250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    const struct outgoing m = message_to("a");
    struct renewal r = {0};
    int64_t now = 5000;

    for (size_t i = 0; i < array_size(pauses); i++) {
        assert_true(renewal_refused(&r, &m, now));
        assert_true(renewal_refused(&r, &m, now + 1)); /* with it goes all else */
        assert_int_equal(r.due, now);
        renewal_begin(&r, now);
        if (pauses[i] > 1000)
            assert_false(renewal_refused(&r, &m, now + pauses[i] - 1));
        now += pauses[i];
    }
    renewal_begin(&r, now); /* a connection that was lost for another reason */
    now += 60000;
    assert_true(renewal_refused(&r, &m, now));
    renewal_begin(&r, now);
    assert_true(renewal_refused(&r, &m, now + 1000));
}

/* A short pause is waited for: the queue may have a new leader then. */
static void test_short_pauses(void **state)
{
    static const int pauses[] = {250, 500, 1000};
    const struct outgoing m = message_to("a");
    struct renewal r = {0};
    int64_t now = 5000;

    assert_true(renewal_refused(&r, &m, now));
    for (size_t i = 0; i < array_size(pauses); i++) {
        renewal_begin(&r, now);
        assert_true(renewal_refused(&r, &m, now + 1));
        assert_int_equal(r.due, now + pauses[i]);
        now += pauses[i];
    }
    renewal_begin(&r, now);
    assert_false(renewal_refused(&r, &m, now + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_many_places),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_short_pauses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
