// SPDX-License-Identifier: Apache-2.0
/*
 * Access: what a user may submit and command, where answers may go, and what the refusals say
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "memory/memory.h"
#include "model/json.h"
#include "model/wire_reply.h"
#include "scheduler/access.h"

static char *some[] = {(char *)"order", (char *)"refund", NULL}, *all[] = {NULL};

static struct access_submitter groups[] = {
    {.user = (char *)"shop", .workflows = some, .limits = {.rate = 10, .jobs = 20, .bytes = 30}},
    {.user = (char *)"billing", .workflows = all, .replies = (char *)"bill-"},
};

/* Users with and without a group; a test changes its own copy. */
static const struct access access_of_groups = {
    .required = true,
    .operators = (char *)"root op",
    .supervisors = (char *)"sup",
    .submitters = groups,
    .n_submitters = array_size(groups),
};

/* No groups: every user may submit. */
static const struct access access_of_all = {
    .required = true, .operators = (char *)"root op", .supervisors = (char *)"sup"};

#define NO_USER                                                                                    \
    "user_id is missing: set the message property user_id to the name of the login "               \
    "(security.identity is required)"
#define NO_OPERATOR(user) "user_id " user " is not in security.operators: "
#define ONLY_RESOLVE                                                                               \
    "where scheduler.definitions is registered, only they resolve steps or change arguments"
#define ONLY_CHANGE                                                                                \
    "only they change what a step is, or have it begin anew though it may have been done"
#define NOT_THIS(field, user) field " user " user " may not start this one (security.submitters)"

static ProtobufCMessage *message(const ProtobufCMessageDescriptor *type, const char *json)
{
    struct problem problem = {0};
    ProtobufCMessage *m = NULL;

    if (json_to_message(bytes_str(json), type, NULL, &m, &problem) != 0)
        fail_msg("%s: %s %s", json, problem.field, problem.reason);
    return m;
}

/* @why: field and reason of the refusal; NULL: it is to be allowed. */
static void compare(const char *what, bool allowed, const struct problem *problem, const char *why)
{
    char said[sizeof(*problem) + 1];

    snprintf(said, sizeof(said), "%s %s", problem->field, problem->reason);
    if (allowed == !why && strcmp(said, why ? why : " ") == 0)
        return;
    fail_msg("%s: %s: %s", what, allowed ? "allowed" : "refused", said);
}

static void expect_submit(const struct access *a, const char *user, const char *json,
                          const char *why)
{
    ProtobufCMessage *m = message(&drover__v1__submit__descriptor, json);
    struct problem problem = {0};
    bool allowed = access_submit(a, user, (Drover__V1__Submit *)m, &problem);

    protobuf_c_message_free_unpacked(m, NULL);
    compare(json, allowed, &problem, why);
}

static void expect_control(const struct access *a, const char *user, const char *json,
                           const char *why)
{
    ProtobufCMessage *m = message(&drover__v1__control__descriptor, json);
    struct problem problem = {0};
    bool allowed = access_control(a, user, (Drover__V1__Control *)m, &problem);

    protobuf_c_message_free_unpacked(m, NULL);
    compare(json, allowed, &problem, why);
}

static void expect_reply_to(const struct access *a, const char *user, const char *reply_to,
                            const char *prefix)
{
    struct problem problem = {0};
    char why[256];
    bool allowed = access_reply_to(a, user, reply_to, &problem);

    snprintf(why, sizeof(why),
             "reply_to must be a queue that the broker has named (amq.gen-...), "
             "amq.rabbitmq.reply-to, or one whose name begins with %s",
             prefix ? prefix : "");
    compare(reply_to, allowed, &problem, prefix ? why : NULL);
    assert_int_equal(access_reply_to(a, user, reply_to, NULL), allowed);
}

static void expect_limits(const struct access *a, const char *user, int64_t rate, int64_t jobs,
                          int64_t bytes)
{
    struct access_limits limits = access_limits(a, user);

    assert_int_equal(limits.rate, rate);
    assert_int_equal(limits.jobs, jobs);
    assert_int_equal(limits.bytes, bytes);
}

/* ---- senders ---- */

/* Without identity every user may do everything, also a user whom nothing proves. */
static void test_identity_off(void **state)
{
    struct access a = access_of_groups;

    a.required = false;
    for (const char *const *user = (const char *const[]){"", "shop", "ann", NULL}; *user; user++) {
        expect_submit(&a, *user, "{\"workflow\":\"other\"}", NULL);
        expect_submit(&a, *user, "{\"definition\":{}}", NULL);
        expect_control(&a, *user, "{\"recover\":{}}", NULL);
        expect_control(&a, *user, "{\"retry\":{\"change\":{}}}", NULL);
        expect_control(&a, *user, "{\"migrate\":{\"workflow\":\"other\"}}", NULL);
        expect_reply_to(&a, *user, "bob.inbox", NULL);
        expect_limits(&a, *user, 0, 0, 0);
        assert_null(access_owner(&a, *user));
    }
    a.registered = true; /* this one holds for all users */
    expect_control(&a, "ann", "{\"resolve\":{}}", NULL);
    expect_submit(&a, "ann", "{\"definition\":{}}",
                  "definition must be registered before, and named in `workflow` "
                  "(scheduler.definitions is registered)");
}

static void test_no_user(void **state)
{
    expect_submit(&access_of_all, "", "{\"workflow\":\"order\"}", NO_USER);
    expect_control(&access_of_all, "", "{\"query\":{}}", NO_USER);
    expect_control(&access_of_all, "", "{\"recover\":{}}", NO_USER);
    expect_reply_to(&access_of_all, "", ".inbox", ".");
}

/* A job is its owner's; operators reach all jobs, supervisors do not. */
static void test_owner(void **state)
{
    assert_string_equal(access_owner(&access_of_all, "ann"), "ann");
    assert_string_equal(access_owner(&access_of_all, "sup"), "sup");
    assert_string_equal(access_owner(&access_of_all, "ro"), "ro");
    assert_null(access_owner(&access_of_all, "root"));
    assert_null(access_owner(&access_of_all, "op"));
}

/* ---- what may be started ---- */

static void test_definitions(void **state)
{
    struct access a = access_of_all;

    expect_submit(&a, "ann", "{\"definition\":{}}", NULL);
    a.registered = true;
    for (const char *const *user = (const char *const[]){"ann", "op", NULL}; *user; user++) {
        expect_submit(&a, *user, "{\"workflow\":\"order\"}", NULL);
        expect_submit(&a, *user, "{\"definition\":{}}",
                      "definition must be registered before, and named in `workflow` "
                      "(scheduler.definitions is registered)");
    }
}

/* A group with a list of workflows may bring no definition. */
static void test_groups(void **state)
{
    const struct access *a = &access_of_groups;

    expect_submit(a, "shop", "{\"workflow\":\"order\"}", NULL);
    expect_submit(a, "shop", "{\"workflow\":\"refund@7\"}", NULL);
    expect_submit(a, "shop", "{\"workflow\":\"orders\"}", NOT_THIS("workflow", "shop"));
    expect_submit(a, "shop", "{\"workflow\":\"orde\"}", NOT_THIS("workflow", "shop"));
    expect_submit(a, "shop", "{\"workflow\":\"order@0\"}", NOT_THIS("workflow", "shop"));
    expect_submit(a, "shop", "{\"definition\":{\"name\":\"order\",\"version\":1}}",
                  NOT_THIS("definition", "shop"));
    expect_submit(a, "billing", "{\"workflow\":\"other\"}", NULL);
    expect_submit(a, "billing", "{\"definition\":{}}", NULL);
    expect_submit(a, "op", "{\"workflow\":\"other\"}", NULL);
    expect_submit(a, "op", "{\"definition\":{}}", NULL);
    expect_submit(a, "ann", "{\"workflow\":\"order\"}",
                  "user_id ann is not in security.submitters");
}

/* The group of "*" is for users without one of their own, not in addition to it. */
static void test_group_of_others(void **state)
{
    static char *hello[] = {(char *)"hello", NULL};
    struct access_submitter with_others[] = {
        {.user = (char *)ACCESS_OTHERS, .workflows = hello, .replies = (char *)"any-"}, groups[0]};
    struct access a = access_of_groups;

    a.submitters = with_others;
    expect_submit(&a, "ann", "{\"workflow\":\"hello\"}", NULL);
    expect_submit(&a, "ann", "{\"workflow\":\"order\"}", NOT_THIS("workflow", "ann"));
    expect_submit(&a, "shop", "{\"workflow\":\"order\"}", NULL);
    expect_submit(&a, "shop", "{\"workflow\":\"hello\"}", NOT_THIS("workflow", "shop"));
    expect_reply_to(&a, "ann", "any-queue", NULL);
    expect_reply_to(&a, "shop", "any-queue", "shop.");
}

/* ---- commands ---- */

static void test_commands_of_supervisors(void **state)
{
    for (const char *const *command = (const char *const[]){"recover", "notify", NULL}; *command;
         command++) {
        char json[64];

        snprintf(json, sizeof(json), "{\"%s\":{}}", *command);
        expect_control(&access_of_groups, "sup", json, NULL);
        expect_control(&access_of_groups, "shop", json,
                       "user_id shop is not in security.supervisors");
        expect_control(&access_of_groups, "op", json, "user_id op is not in security.supervisors");
    }
    expect_control(&access_of_groups, "sup", "{\"query\":{}}", NULL);
}

/* Whose the job is decides about these, see access_owner(). */
static void test_commands_of_all(void **state)
{
    static const char *const commands[] = {
        "{\"query\":{}}",    "{\"history\":{}}",       "{\"cancel\":{}}",
        "{\"kill\":{}}",     "{\"pause\":{}}",         "{\"setDesired\":{}}",
        "{\"listJobs\":{}}", "{\"listWorkflows\":{}}", "{\"retry\":{\"steps\":[\"a\"]}}",
    };
    struct access a = access_of_groups;

    for (int registered = 0; registered <= 1; registered++) {
        a.registered = registered;
        for (size_t i = 0; i < array_size(commands); i++)
            expect_control(&a, "ann", commands[i], NULL);
    }
}

/* If only registered definitions run, a submitter may not say what a step has done or is to do. */
static void test_commands_that_rewrite_a_step(void **state)
{
    static const char *const commands[] = {"{\"resolve\":{\"step\":\"a\"}}",
                                           "{\"retry\":{\"arguments\":{}}}"};
    struct access a = access_of_all;

    for (size_t i = 0; i < array_size(commands); i++) {
        a.registered = false;
        expect_control(&a, "ann", commands[i], NULL);
        a.registered = true;
        expect_control(&a, "ann", commands[i], NO_OPERATOR("ann") ONLY_RESOLVE);
        expect_control(&a, "sup", commands[i], NO_OPERATOR("sup") ONLY_RESOLVE);
        expect_control(&a, "op", commands[i], NULL);
    }
}

static void test_commands_that_change_a_step(void **state)
{
    static const char *const commands[] = {"{\"retry\":{\"change\":{\"actor\":\"b\"}}}",
                                           "{\"retry\":{\"beginAnew\":true}}",
                                           "{\"migrate\":{\"beginAnew\":true}}"};

    for (size_t i = 0; i < array_size(commands); i++) {
        expect_control(&access_of_all, "ann", commands[i], NO_OPERATOR("ann") ONLY_CHANGE);
        expect_control(&access_of_all, "root", commands[i], NULL);
    }
    expect_control(&access_of_all, "ann", "{\"migrate\":{\"workflow\":\"order\"}}", NULL);
}

static void test_resend(void **state)
{
    static const char command[] = "{\"resend\":{\"actor\":\"hand\"}}";

    expect_control(&access_of_all, "ann", command,
                   NO_OPERATOR("ann") "only they have requests sent again");
    expect_control(&access_of_all, "root", command, NULL);
}

/* A job migrates only to a workflow that its user may start. */
static void test_migrate(void **state)
{
    const struct access *a = &access_of_groups;

    expect_control(a, "shop", "{\"migrate\":{\"workflow\":\"order@2\"}}", NULL);
    expect_control(a, "shop", "{\"migrate\":{\"workflow\":\"other\"}}",
                   NOT_THIS("migrate.workflow", "shop"));
    expect_control(a, "ann", "{\"migrate\":{\"workflow\":\"order\"}}",
                   "user_id ann is not in security.submitters");
    expect_control(a, "op", "{\"migrate\":{\"workflow\":\"other\",\"beginAnew\":true}}", NULL);
}

/* ---- where answers go ---- */

static void test_reply_to(void **state)
{
    static const char *const good[] = {"", "amq.gen-XyZ", "amq.rabbitmq.reply-to.g1h3.a2V5",
                                       "shop.inbox"};
    static const char *const bad[] = {
        "billing.payments",      "book.inbox",   "bill-queue", "shop",    "shop.",
        "shopx.inbox",           "x.shop.inbox", "amq.gen",    "amq.gem", "shop-inbox",
        "amq.rabbitmq.reply-to",
    };

    for (size_t i = 0; i < array_size(good); i++)
        expect_reply_to(&access_of_groups, "shop", good[i], NULL);
    for (size_t i = 0; i < array_size(bad); i++)
        expect_reply_to(&access_of_groups, "shop", bad[i], "shop.");
    expect_reply_to(&access_of_groups, "ann", "ann.inbox", NULL); /* without a group */
    expect_reply_to(&access_of_groups, "op", "shop.inbox", "op.");
}

/* A prefix that is set stands in place of the user's name. */
static void test_prefix_of_reply_queues(void **state)
{
    expect_reply_to(&access_of_groups, "billing", "bill-queue", NULL);
    expect_reply_to(&access_of_groups, "billing", "bill-", NULL);
    expect_reply_to(&access_of_groups, "billing", "amq.gen-1", NULL);
    expect_reply_to(&access_of_groups, "billing", "billing.queue", "bill-");
    expect_reply_to(&access_of_groups, "billing", "a-bill-queue", "bill-");
}

/* ---- replies of agents ---- */

static void expect_replies(bool by_actor, const char *exchange, const char *why)
{
    struct access a = access_of_all;
    struct problem problem = {0};

    a.by_actor = by_actor;
    compare(exchange, access_replies(&a, wire_reply_by(exchange), &problem), &problem, why);
}

static void test_replies(void **state)
{
    for (int by_actor = 0; by_actor <= 1; by_actor++) {
        expect_replies(by_actor, "drover.reply.hand", NULL);
        expect_replies(by_actor, "drover.pulse", " must come by the exchange drover.reply.<actor>");
    }
    expect_replies(false, "drover.replies", NULL);
    expect_replies(true, "drover.replies",
                   " must come by the exchange drover.reply.<actor> (security.replies is "
                   "by_actor)");
}

/* ---- limits ---- */

static void test_limits(void **state)
{
    expect_limits(&access_of_groups, "shop", 10, 20, 30);
    expect_limits(&access_of_groups, "billing", 0, 0, 0);
    expect_limits(&access_of_groups, "ann", 1000, 1000000, 1 << 30);
    expect_limits(&access_of_all, "shop", 1000, 1000000, 1 << 30);
    expect_limits(&access_of_all, "op", 0, 0, 0);
    expect_limits(&access_of_all, "sup", 0, 0, 0);
}

/* ---- memory ---- */

static char **copy_of(const char *first, const char *second)
{
    char **list = or_abort(calloc(3, sizeof(*list)));

    list[0] = or_abort(strdup(first));
    list[1] = or_abort(strdup(second));
    return list;
}

/* Also the group that was read only in part, because one of its settings was wrong. */
static void test_all_is_freed(void **state)
{
    struct access *a;

    assert_null(access_free(NULL));
    memory_measure();
    a = or_abort(calloc(1, sizeof(*a)));
    a->operators = or_abort(strdup("op"));
    a->supervisors = or_abort(strdup("sup"));
    a->submitters = or_abort(calloc(2, sizeof(*a->submitters)));
    a->n_submitters = 2;
    a->submitters[0] = (struct access_submitter){.user = or_abort(strdup("shop")),
                                                 .workflows = copy_of("order", "refund"),
                                                 .replies = or_abort(strdup("shop-"))};
    a->submitters[1].user = or_abort(strdup("billing"));
    assert_true(memory_held() > 0);
    assert_null(access_free(a));
    assert_int_equal(memory_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity_off),
        cmocka_unit_test(test_no_user),
        cmocka_unit_test(test_owner),
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_group_of_others),
        cmocka_unit_test(test_commands_of_supervisors),
        cmocka_unit_test(test_commands_of_all),
        cmocka_unit_test(test_commands_that_rewrite_a_step),
        cmocka_unit_test(test_commands_that_change_a_step),
        cmocka_unit_test(test_resend),
        cmocka_unit_test(test_migrate),
        cmocka_unit_test(test_reply_to),
        cmocka_unit_test(test_prefix_of_reply_queues),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_all_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
