// SPDX-License-Identifier: Apache-2.0
/*
 * Targets: which calls share a circuit breaker, and the error of a call that is not let through
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/target.h"
#include "base/cleanup.h"
#include "base/log.h"

/* Opens with the first failure, for 100 ms, then 200, ... */
static const struct breaker_config CONFIG = {.failures = 1, .open_ms = 100, .open_max_ms = 500};
static const struct breaker_config NONE = {.failures = 0};

static const struct agent_result REFUSED = {.class = "EXIT_69", .message = "exit status 69"};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct targets));
    return 0;
}

static int teardown(void **state)
{
    targets_free(*state);
    free(*state);
    return 0;
}

static struct target_call admitted(struct target *target, int64_t now)
{
    struct agent_result deferred = {0};
    struct target_call call;

    assert_true(target_admit(target, now, &call, &deferred));
    assert_null(deferred.class);
    return call;
}

static bool is_open(struct target *target, int64_t now, struct agent_result *deferred)
{
    struct target_call call;

    *deferred = (struct agent_result){0};
    return !target_admit(target, now, &call, deferred);
}

static void call_and_fail(struct target *target, int64_t now)
{
    struct target_call call = admitted(target, now);

    target_failed(&call, &REFUSED, now);
}

/* One breaker for each actor and name; no two different pairs share one. */
static void test_names(void **state)
{
    static const char *const pairs[][2] = {{"a", "b c"}, {"a b", "c"}, {"a", "b"}, {"b", "b"},
                                           {"b", "a"},   {"", "a"},    {"a", ""}};
    struct target *seen[array_size(pairs)];

    for (size_t i = 0; i < array_size(pairs); i++) {
        seen[i] = target_find(*state, pairs[i][0], pairs[i][1], &CONFIG);
        assert_non_null(seen[i]);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(seen[i], seen[k]);
    }
    for (size_t i = 0; i < array_size(pairs); i++)
        assert_ptr_equal(target_find(*state, pairs[i][0], pairs[i][1], &CONFIG), seen[i]);
}

static void test_no_breaker(void **state)
{
    struct target *target = target_find(*state, "a", "x", &NONE);
    struct target_call call;

    assert_null(target);
    for (int64_t now = 0; now < 100; now++)
        call_and_fail(target, now);
    call = admitted(target, 100);
    target_answered(&call);
    target_abandoned(&call, 100);
}

static void test_deferred(void **state)
{
    struct target *target = target_find(*state, "a", "x", &CONFIG);
    struct target *other = target_find(*state, "a", "y", &CONFIG);
    struct agent_result deferred;

    call_and_fail(target, 1000);
    assert_true(is_open(target, 1040, &deferred));
    assert_false(deferred.ok);
    assert_string_equal(deferred.class, "BREAKER_OPEN");
    assert_string_equal(deferred.message, "spared for a while; last: exit status 69");
    assert_int_equal(deferred.verdict, DROVER__V1__VERDICT__VERDICT_DEFER);
    assert_int_equal(deferred.effect, DROVER__V1__EFFECT__EFFECT_UNKNOWN);
    assert_int_equal(deferred.retry_after_ms, 60);
    assert_false(is_open(other, 1040, &deferred));
}

/* A call that was refused has no end: reporting one changes nothing. */
static void test_refused_call(void **state)
{
    struct target *target = target_find(*state, "a", "x", &CONFIG);
    struct agent_result deferred;
    struct target_call call;

    call_and_fail(target, 0);
    assert_false(target_admit(target, 50, &call, &deferred));
    target_failed(&call, &REFUSED, 50);
    target_answered(&call);
    target_abandoned(&call, 50);
    assert_true(is_open(target, 99, &deferred));
    admitted(target, 100);
}

static void test_probe(void **state)
{
    struct target *target = target_find(*state, "a", "x", &CONFIG);
    struct agent_result deferred;
    struct target_call probe;

    call_and_fail(target, 0);
    probe = admitted(target, 100);
    assert_true(is_open(target, 100, &deferred));
    target_failed(&probe, &REFUSED, 100);
    assert_true(is_open(target, 299, &deferred));
    probe = admitted(target, 300);
    target_abandoned(&probe, 300);
    probe = admitted(target, 300);
    target_answered(&probe);
    assert_false(is_open(target, 300, &deferred));
    admitted(target, 300);
}

static void test_pause_that_the_target_asks_for(void **state)
{
    const struct agent_result busy = {
        .class = "HTTP_503", .message = "503", .retry_after_ms = 9999};
    struct target *target = target_find(*state, "a", "x", &CONFIG);
    struct target_call call = admitted(target, 0);
    struct agent_result deferred;

    target_failed(&call, &busy, 0);
    assert_true(is_open(target, 0, &deferred));
    assert_int_equal(deferred.retry_after_ms, CONFIG.open_max_ms);
}

/* A long message about a failure is cut. */
static void test_long_message(void **state)
{
    struct target *target = target_find(*state, "a", "x", &CONFIG);
    struct target_call call = admitted(target, 0);
    struct agent_result deferred;
    char message[1000] = {0};

    memset(message, 'x', sizeof(message) - 1);
    target_failed(&call, &(struct agent_result){.class = "EXIT_1", .message = message}, 0);
    assert_true(is_open(target, 0, &deferred));
    assert_int_equal(strlen(deferred.message), strlen("spared for a while; last: ") + 150);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_names),        TEST(test_no_breaker), TEST(test_deferred),
        TEST(test_refused_call), TEST(test_probe),      TEST(test_pause_that_the_target_asks_for),
        TEST(test_long_message),
    };

    log_set_level(LOG_ERROR); /* breakers log warnings */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
