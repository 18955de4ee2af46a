// SPDX-License-Identifier: Apache-2.0
/*
 * Changes of one step: the result is the job's definition, with only the given fields replaced
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/change.h"
#include "model/json.h"
#include "model/migration.h"

static const char WORKFLOW[] =
    "{\"name\":\"w\",\"version\":3,\"lockMs\":5000,\"steps\":["
    "{\"name\":\"a\",\"actor\":\"x\",\"arguments\":{\"json\":1},\"retry\":{\"maximumAttempts\":2,"
    "\"jitter\":0.5,\"nonRetryable\":[\"old\"]},\"revert\":{\"action\":\"back\",\"lockMs\":7000}},"
    "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"]}]}";

static ProtobufCMessage *message(const ProtobufCMessageDescriptor *type, const char *json)
{
    struct problem problem = {0};
    ProtobufCMessage *m = NULL;

    if (json_to_message(bytes_str(json), type, NULL, &m, &problem) != 0)
        fail_msg("%s: %s %s", json, problem.field, problem.reason);
    return m;
}

struct fixture {
    struct workflow *from;
    struct workflow *to;
    char fields[128];
    struct problem problem;
};

/* Return: as change_apply(). */
static int change(struct fixture *f, uint32_t step, const char *json)
{
    ProtobufCMessage *w = message(&drover__v1__workflow__descriptor, WORKFLOW);
    ProtobufCMessage *m = message(&drover__v1__step__descriptor, json);
    CLEANUP(buf_deinit) struct buf fields = {0};
    int r;

    assert_int_equal(workflow_new(&f->from, (Drover__V1__Workflow *)w, "", NULL), 0);
    change_fields((Drover__V1__Step *)m, &fields);
    snprintf(f->fields, sizeof(f->fields), "%s", buf_str(&fields));
    r = change_apply(&f->to, f->from, step, (Drover__V1__Step *)m, &f->problem);
    protobuf_c_message_free_unpacked(w, NULL);
    protobuf_c_message_free_unpacked(m, NULL);
    return r;
}

static void fixture_deinit_p(struct fixture *f)
{
    workflow_unref(f->from);
    workflow_unref(f->to);
}

static void test_terms(void **state)
{
    CLEANUP(fixture_deinit) struct fixture f = {0};
    const struct workflow_step *a;

    assert_int_equal(change(&f, 0,
                            "{\"lockMs\":9000,\"waitMs\":1000,\"retry\":{\"maximumAttempts\":8},"
                            "\"revert\":{\"waitMs\":2000}}"),
                     0);
    a = &f.to->steps[0];
    assert_string_equal(f.fields, "lock_ms,wait_ms,retry.maximum_attempts,revert.wait_ms");
    assert_string_equal(f.to->full_name, "w@3");
    assert_string_not_equal(f.to->digest, f.from->digest);
    assert_int_equal(a->forward.lock_ms, 9000);
    assert_int_equal(a->forward.wait_ms, 1000);
    assert_int_equal(a->forward.policy.maximum_attempts, 8);
    assert_true(a->forward.policy.jitter == 0.5); /* not given: unchanged */
    assert_int_equal(a->forward.policy.n_non_retryable, 1);
    assert_non_null(a->forward.arguments);
    assert_string_equal(a->revert.action, "back");
    assert_int_equal(a->revert.lock_ms, 7000);
    assert_int_equal(a->revert.wait_ms, 2000);
    assert_int_equal(migration_how(&f.from->steps[0], a), DIFFERENCE_TERMS);
    assert_int_equal(f.to->steps[1].forward.lock_ms, 5000);
}

static void test_other_work(void **state)
{
    CLEANUP(fixture_deinit) struct fixture f = {0};

    assert_int_equal(change(&f, 1, "{\"actor\":\"y\",\"action\":\"do\"}"), 0);
    assert_string_equal(f.fields, "actor,action");
    assert_string_equal(f.to->steps[1].forward.actor, "y");
    assert_string_equal(f.to->steps[1].forward.action, "do");
    assert_int_equal(f.to->steps[1].n_after, 1);
    assert_int_equal(migration_how(&f.from->steps[1], &f.to->steps[1]), DIFFERENCE_OTHER);
}

/* A list is replaced as a whole. */
static void test_list(void **state)
{
    CLEANUP(fixture_deinit) struct fixture f = {0};
    const struct policy *policy;

    assert_int_equal(change(&f, 0, "{\"retry\":{\"nonRetryable\":[\"new\",\"other\"]}}"), 0);
    policy = &f.to->steps[0].forward.policy;
    assert_string_equal(f.fields, "retry.non_retryable");
    assert_int_equal(policy->n_non_retryable, 2);
    assert_string_equal(policy->non_retryable[0], "new");
    assert_string_equal(policy->non_retryable[1], "other");
    assert_int_equal(policy->maximum_attempts, 2);
    assert_int_equal(f.from->steps[0].forward.policy.n_non_retryable, 1);
}

static void test_no_difference(void **state)
{
    CLEANUP(fixture_deinit) struct fixture f = {0};

    assert_int_equal(change(&f, 0, "{\"lockMs\":0}"), 0);
    assert_string_equal(f.fields, "");
    assert_string_equal(f.to->digest, f.from->digest);
}

static void expect_unfit(uint32_t step, const char *json, const char *field)
{
    CLEANUP(fixture_deinit) struct fixture f = {0};

    assert_int_equal(change(&f, step, json), CHANGE_E_UNFIT);
    assert_string_equal(f.problem.field, field);
    assert_null(f.to);
}

static void test_invalid_change(void **state)
{
    expect_unfit(1, "{\"revert\":{\"lockMs\":1}}", "retry.change.revert");
    expect_unfit(0, "{\"lockMs\":-1}", "steps[0].lock_ms");
    expect_unfit(1, "{\"heartbeatMs\":5001}", "steps[1].heartbeat_ms");
    expect_unfit(0, "{\"retry\":{\"jitter\":7}}", "steps[0].retry.jitter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms),          cmocka_unit_test(test_other_work),
        cmocka_unit_test(test_list),           cmocka_unit_test(test_no_difference),
        cmocka_unit_test(test_invalid_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
