// SPDX-License-Identifier: Apache-2.0
/*
 * Policies: ranges, inheritance, defaults
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/policy.h"

typedef Drover__V1__Policy Policy;

#define POLICY(...)                                                                                \
    {                                                                                              \
        PROTOBUF_C_MESSAGE_INIT(&drover__v1__policy__descriptor), __VA_ARGS__                      \
    }

static void expect_refused(const Policy *policy, const char *field)
{
    struct problem problem = {0};

    assert_false(policy_check(policy, PATH(NULL, "retry"), &problem));
    assert_string_equal(problem.field, field);
    assert_true(problem.reason[0] != '\0');
    assert_false(policy_check(policy, NULL, NULL));
}

static void expect_good(const Policy *policy)
{
    struct problem problem = {0};

    if (!policy_check(policy, NULL, &problem))
        fail_msg("%s: %s", problem.field, problem.reason);
}

static void test_defaults(void **state)
{
    struct policy p;

    policy_resolve(&p, NULL, NULL, NULL);
    assert_int_equal(p.initial_interval_ms, 1000);
    assert_true(p.backoff_coefficient == 2.0);
    assert_int_equal(p.maximum_interval_ms, 100000);
    assert_int_equal(p.maximum_attempts, 10);
    assert_int_equal(p.maximum_expiries, 5);
    assert_true(p.jitter == 0.1);
    assert_int_equal(p.park_interval_ms, 600000);
    assert_int_equal(p.on_permanent, DROVER__V1__RECOURSE__RECOURSE_COMPENSATE);
    assert_int_equal(p.on_exhausted, DROVER__V1__RECOURSE__RECOURSE_PARK);
    assert_int_equal(p.n_non_retryable, 0);
}

static void test_precedence_of_policies(void **state)
{
    char *classes[] = {(char[]){"declined"}};
    Policy workflow = POLICY(.maximum_attempts = 3, .maximum_expiries = 4, .jitter = 0.5,
                             .non_retryable = classes, .n_non_retryable = 1);
    Policy step = POLICY(.maximum_attempts = 7, .jitter = -1, .park_interval_ms = -5,
                         .on_permanent = DROVER__V1__RECOURSE__RECOURSE_FAIL);
    Policy revert = POLICY(.maximum_attempts = 9, .backoff_coefficient = 1,
                           .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_FAIL);
    struct policy p;

    policy_resolve(&p, &workflow, &step, NULL);
    assert_int_equal(p.maximum_attempts, 7);
    assert_int_equal(p.maximum_expiries, 4);
    assert_true(p.jitter == 0);
    assert_int_equal(p.park_interval_ms, POLICY_PARK_NEVER);
    assert_int_equal(p.on_permanent, DROVER__V1__RECOURSE__RECOURSE_FAIL);
    assert_int_equal(p.on_exhausted, DROVER__V1__RECOURSE__RECOURSE_PARK);
    assert_ptr_equal(p.non_retryable, classes);

    policy_resolve(&p, &workflow, &step, &revert);
    assert_int_equal(p.maximum_attempts, 9);
    assert_true(p.backoff_coefficient == 1);
    assert_true(p.jitter == 0);
    assert_int_equal(p.on_exhausted, DROVER__V1__RECOURSE__RECOURSE_FAIL);
}

static void test_a_long_first_wait_raises_an_inherited_maximum(void **state)
{
    Policy workflow = POLICY(.maximum_interval_ms = 5000);
    Policy step = POLICY(.initial_interval_ms = 9000);
    struct policy p;

    policy_resolve(&p, NULL, &step, NULL);
    assert_int_equal(p.maximum_interval_ms, 100000);
    policy_resolve(&p, &workflow, &step, NULL);
    assert_int_equal(p.maximum_interval_ms, 9000);
}

static void test_good(void **state)
{
    expect_good(NULL);
    expect_good(&(Policy)POLICY(.initial_interval_ms = 1));
    expect_good(&(Policy)POLICY(.initial_interval_ms = POLICY_DURATION_MAX_MS,
                                .maximum_interval_ms = POLICY_DURATION_MAX_MS,
                                .park_interval_ms = POLICY_DURATION_MAX_MS,
                                .maximum_attempts = POLICY_COUNT_MAX,
                                .maximum_expiries = POLICY_COUNT_MAX,
                                .backoff_coefficient = POLICY_COEFFICIENT_MAX, .jitter = 1));
    expect_good(&(Policy)POLICY(.park_interval_ms = INT64_MIN, .jitter = -1e300));
}

static void test_refused(void **state)
{
    const int64_t too_long = POLICY_DURATION_MAX_MS + 1;

    expect_refused(&(Policy)POLICY(.initial_interval_ms = -1), "retry.initial_interval_ms");
    expect_refused(&(Policy)POLICY(.initial_interval_ms = too_long), "retry.initial_interval_ms");
    expect_refused(&(Policy)POLICY(.maximum_interval_ms = -1), "retry.maximum_interval_ms");
    expect_refused(&(Policy)POLICY(.maximum_interval_ms = INT64_MAX), "retry.maximum_interval_ms");
    expect_refused(&(Policy)POLICY(.initial_interval_ms = 2, .maximum_interval_ms = 1),
                   "retry.maximum_interval_ms");
    expect_refused(&(Policy)POLICY(.backoff_coefficient = 0.99), "retry.backoff_coefficient");
    expect_refused(&(Policy)POLICY(.backoff_coefficient = -1), "retry.backoff_coefficient");
    expect_refused(&(Policy)POLICY(.backoff_coefficient = 101), "retry.backoff_coefficient");
    expect_refused(&(Policy)POLICY(.backoff_coefficient = (double)NAN),
                   "retry.backoff_coefficient");
    expect_refused(&(Policy)POLICY(.maximum_attempts = POLICY_COUNT_MAX + 1),
                   "retry.maximum_attempts");
    expect_refused(&(Policy)POLICY(.maximum_expiries = UINT32_MAX), "retry.maximum_expiries");
    expect_refused(&(Policy)POLICY(.jitter = 1.01), "retry.jitter");
    expect_refused(&(Policy)POLICY(.jitter = (double)NAN), "retry.jitter");
    expect_refused(&(Policy)POLICY(.park_interval_ms = too_long), "retry.park_interval_ms");
    expect_refused(&(Policy)POLICY(.on_permanent = 4), "retry.on_permanent");
    expect_refused(&(Policy)POLICY(.on_exhausted = 77), "retry.on_exhausted");
}

static void test_error_classes(void **state)
{
    char good[] = "io.Timeout", bad[] = "no spaces";
    char *classes[POLICY_NON_RETRYABLE_MAX + 1];
    Policy policy = POLICY(.non_retryable = classes, .n_non_retryable = POLICY_NON_RETRYABLE_MAX);

    for (size_t i = 0; i <= POLICY_NON_RETRYABLE_MAX; i++)
        classes[i] = good;
    expect_good(&policy);
    classes[2] = bad;
    expect_refused(&policy, "retry.non_retryable[2]");
    policy.n_non_retryable++;
    expect_refused(&policy, "retry.non_retryable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_precedence_of_policies),
        cmocka_unit_test(test_a_long_first_wait_raises_an_inherited_maximum),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_error_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
