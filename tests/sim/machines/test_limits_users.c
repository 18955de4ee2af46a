// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: how much of a scheduler, of the store and of the broker a user can take
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machines/limited.h"
#include "scheduler/state.h"

#define LIST "{\"commandId\": \"c\", \"listJobs\": {}}"

static bool lists(struct alone *w, const char *user)
{
    bool done;

    say_as(w, user, SCHEDULER_CONTROL, strcmp(user, "ann") == 0 ? "me" : "amq.gen-1", LIST);
    done = strstr(buf_str(&w->story), "ANSWER_CODE_DONE") != NULL;
    assert_true(done || strstr(buf_str(&w->story), "ANSWER_CODE_RETRY_LATER"));
    w->story.len = 0;
    return done;
}

/* A rate per second, with an allowance of two seconds; operators have none. A list costs one unit
 * for its message, and one for each of the store's two partitions. */
static void test_rate(void **state)
{
    struct alone *w = *state;
    int done = 0;

    with_owners(w);
    while (done < 100 && lists(w, "ann"))
        done++;
    assert_in_range(done, 7, 8); /* 20 units, and those gained meanwhile */
    for (int i = 0; i < 50; i++)
        assert_true(lists(w, "op"));
    alone_pass(w, 500);
    assert_true(lists(w, "ann"));
    assert_true(lists(w, "ann"));
    assert_false(lists(w, "ann"));
    alone_pass(w, 60000);
    for (done = 0; done < 100 && lists(w, "ann");)
        done++;
    assert_in_range(done, 7, 8);
}

/* A redelivered message may have been carried out, and has a further allowance. */
static void test_rate_of_redelivered_messages(void **state)
{
    struct alone *w = *state;
    int done = 0;

    with_owners(w);
    while (done < 100 && lists(w, "ann"))
        done++;
    for (done = 0; done < 100; done++) {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_CONTROL,
                                               .redelivered = true,
                                               .user_id = "ann",
                                               .reply_to = "me",
                                               .body = bytes_str(LIST)});
        if (strstr(buf_str(&w->story), "ANSWER_CODE_RETRY_LATER"))
            break;
        assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_DONE"));
        w->story.len = 0;
    }
    assert_in_range(done, 4, 8);
    w->story.len = 0;
}

static void submits_as(struct alone *w, const char *user, const char *json)
{
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_SUBMIT,
                                           .batch = true,
                                           .user_id = user,
                                           .reply_to = "me",
                                           .body = bytes_str(json)});
}

/* A message that cannot be split into Submits costs as much as one that can. */
static void test_unreadable_batches(void **state)
{
    struct alone *w = *state;

    with_owners(w);
    for (int i = 0; i < 30; i++)
        submits_as(w, "ann", "{\"submits\": [}");
    w->story.len = 0;
    assert_false(lists(w, "ann"));
}

/* A large one is not split for a user who has taken enough. */
static void test_large_batches(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    struct scheduler_stats stats;

    buf_printf(&json, "{\"submits\": [{\"jobId\": \"j\", \"workflow\": \"%*s\"}]}",
               (int)INTAKE_LARGE_BYTES, "w");
    with_owners(w);
    while (lists(w, "ann"))
        ;
    submits_as(w, "ann", buf_str(&json));
    alone_expect(
        w, "reply {\"code\":\"RECEIPT_CODE_RETRY_LATER\",\"field\":\"user_id\",\"reason\":"
           "\"ann has taken as much as it may (security.submitters): repeat it later\"}, ack");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.rejected, 0);
}

#define USERS_MOST 1024 /* whose allowances a scheduler keeps */

/* Lists jobs under the name of the @n-th of many users. */
static bool lists_as(struct alone *w, int n)
{
    char user[16];

    snprintf(user, sizeof(user), "u%d", n);
    return lists(w, user);
}

/* For one user more than that the oldest allowance is dropped, and no other. */
static void test_rate_of_many_users(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf list = {0};

    with_owners(w);
    buf_puts(&list, LIST);
    memset(buf_reserve(&list, 500000), ' ', 500000); /* some hundred units: ten seconds' worth */
    list.len += 500000;
    say_as(w, "ann", SCHEDULER_CONTROL, "me", buf_str(&list));
    assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_DONE"));
    w->story.len = 0;
    for (int n = 1; n < USERS_MOST; n++)
        assert_true(lists_as(w, n));
    assert_false(lists(w, "ann"));
    assert_true(lists_as(w, USERS_MOST));
    assert_true(lists(w, "ann"));
    assert_false(lists_as(w, USERS_MOST));
    assert_false(lists_as(w, USERS_MOST - 1));
}

/* Without a reply_to the message becomes a dead letter; a large message is not even decoded. */
static void test_rate_without_a_reply_to(void **state)
{
    static char text[INTAKE_LARGE_BYTES + 2];
    struct alone *w = *state;

    with_owners(w);
    for (int i = 0; i < 100 && lists(w, "ann"); i++)
        ;
    say_as(w, "ann", SCHEDULER_SUBMIT, NULL, SUBMIT("j"));
    alone_expect(w, "dead LIMIT user_id ann has taken as much as it may (security.submitters): "
                    "repeat it later, ack, alert DEAD_LETTER");
    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, "{\"jobId\": \"k\",", 14);
    memcpy(text + sizeof(text) - 17, "\"workflow\": \"w\"}", 17);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", text);
    alone_expect(
        w, "reply {\"code\":\"RECEIPT_CODE_RETRY_LATER\",\"field\":\"user_id\",\"reason\":"
           "\"ann has taken as much as it may (security.submitters): repeat it later\"}, ack");
    for (int i = 0; i < 5; i++)
        say_as(w, "sup", SCHEDULER_CONTROL, NULL, "{\"jobId\": \"j\", \"recover\": {}}");
    alone_expect(w, "ack, ack, ack, ack, ack");
}

/* There are two partitions: a limit of three is two in each. */
static void test_job_limit(void **state)
{
    struct alone *w = *state;
    unsigned created = 0, later = 0;
    char json[300];

    with_owners(w);
    for (int i = 0; i < 12; i++) {
        snprintf(json, sizeof(json),
                 "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                 "\"hand\"}]}}",
                 i);
        alone_pass(w, 1000);
        say_as(w, "ann", SCHEDULER_SUBMIT, "me", json);
        created += strstr(buf_str(&w->story), "CODE_CREATED") != NULL;
        later +=
            strstr(buf_str(&w->story), "ann has as many jobs in the store, or takes as many bytes "
                                       "of it, as it may") != NULL;
        w->story.len = 0;
    }
    assert_int_equal(created, 4);
    assert_int_equal(later, 8);
}

/* Submits "j<n>", with a step "s<n>" that has large arguments. */
static void submit_defined(struct alone *w, const char *user, const char *reply_to, unsigned n)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json,
               "{\"jobId\": \"j%u\", \"definition\": {\"steps\": [{\"name\": \"s%u\", \"actor\": "
               "\"hand\", \"arguments\": {\"text\": \"",
               n, n);
    memset(buf_reserve(&json, 40000), 'x', 40000);
    json.len += 40000;
    buf_puts(&json, "\"}}]}}");
    say_as(w, user, SCHEDULER_SUBMIT, reply_to, buf_str(&json));
}

/* Definitions in Submits are stored even without jobs: a user may store as many bytes of them in an
 * hour as its jobs may take. A known definition costs nothing. */
static void test_definition_limit(void **state)
{
    struct alone *w = *state;
    unsigned created = 0, n = 0;

    user_groups[0].limits = (struct access_limits){.bytes = 4 << 20};
    with_owners(w);
    for (; n < 200; n++) {
        submit_defined(w, "ann", "me", n);
        if (strstr(buf_str(&w->story), "RETRY_LATER"))
            break;
        created += strstr(buf_str(&w->story), "CODE_CREATED") != NULL;
        w->story.len = 0;
    }
    assert_int_equal(created, n);
    assert_in_range(n, 80, 105); /* and those gained meanwhile */
    assert_non_null(strstr(buf_str(&w->story), "ann has brought as many bytes of definitions as it "
                                               "may in an hour"));
    w->story.len = 0;
    submit_defined(w, "ann", "me", n - 1);
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_ALREADY"));
    w->story.len = 0;
    for (unsigned all = 3 * n; n < all; n++) { /* operators have no such limit */
        submit_defined(w, "op", "amq.gen-1", n);
        assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
        w->story.len = 0;
    }
    alone_pass(w, 60000);
    submit_defined(w, "ann", "me", n + 1);
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
    w->story.len = 0;
    user_groups[0].limits = (struct access_limits){.rate = 10, .jobs = 3};
}

/* A query with data is charged before its answer: few of these answers are made at a time. */
static void test_questions_with_data(void **state)
{
    struct alone *w = *state;
    unsigned refused = 0;

    user_groups[0].limits.rate = 1000;
    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    w->instead = (struct alone_answer){"inspect", STORE_UNKNOWN, ""};
    w->times = 100; /* no call is answered yet */
    for (int i = 0; i < 10; i++) {
        w->story.len = 0;
        say_as(w, "ann", SCHEDULER_CONTROL, "me",
               "{\"jobId\": \"j\", \"commandId\": \"c\", \"query\": {\"withData\": true}}");
        refused += strstr(buf_str(&w->story), "RETRY_LATER") != NULL;
    }
    assert_in_range(refused, 5, 6); /* four or five times 500 of the allowance of two seconds */
    w->times = 0;
    w->story.len = 0;
    alone_pass(w, 3000);
    for (int i = 0; i < 10; i++) {
        w->story.len = 0;
        say_as(w, "ann", SCHEDULER_CONTROL, "me",
               "{\"jobId\": \"j\", \"commandId\": \"c\", \"query\": {\"withData\": true}}");
        assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_DONE"));
    }
    w->story.len = 0;
    user_groups[0].limits.rate = 10;
}

/* A scheduler declares the queues of some actors that only jobs name, and of all that its workflows
 * name. */
static void test_declared_actors(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": ["
                    "{\"name\": \"a\", \"actor\": \"a\"}, {\"name\": \"b\", \"actor\": \"b\"}, "
                    "{\"name\": \"c\", \"actor\": \"c\"}, {\"name\": \"d\", \"actor\": \"a\"}]}}");
    w->story.len = 0;
    assert_int_equal(w->declared, 3);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.undeclared, 1);
}

static void test_declared_actors_of_workflows(void **state)
{
    struct alone *w = *state;
    CLEANUP(workflow_unref) struct workflow *registered = NULL;
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(
        wire_decode(
            WIRE_SUBMIT,
            bytes_str("{\"jobId\": \"x\", \"definition\": {\"name\": \"w\", \"version\": 1, "
                      "\"steps\": [{\"name\": \"a\", \"actor\": \"a\", \"revert\": {\"actor\": "
                      "\"b\"}}, {\"name\": \"c\", \"actor\": \"c\"}]}}"),
            NULL, &m, NULL),
        0);
    assert_int_equal(workflow_new(&registered, m.submit->definition, "", NULL), 0);
    assert_int_equal(scheduler_register(w->scheduler, registered), 0);
    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": ["
                    "{\"name\": \"a\", \"actor\": \"a\"}, {\"name\": \"b\", \"actor\": \"b\"}, "
                    "{\"name\": \"c\", \"actor\": \"c\"}, {\"name\": \"d\", \"actor\": \"d\"}]}}");
    w->story.len = 0;
    assert_int_equal(w->declared, 4);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rate),
        TEST(test_rate_of_redelivered_messages),
        TEST(test_unreadable_batches),
        TEST(test_large_batches),
        TEST(test_rate_of_many_users),
        TEST(test_rate_without_a_reply_to),
        TEST(test_job_limit),
        TEST(test_definition_limit),
        TEST(test_questions_with_data),
        TEST(test_declared_actors),
        TEST(test_declared_actors_of_workflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
