// SPDX-License-Identifier: Apache-2.0
/*
 * Requests in batches: which requests share a message, and what happens to them together
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machines/alone.h"
#include "scheduler/state.h"

#define FAN 10

/* A reply that says: done after @took ms, and @batch requests can begin at once. */
static const char *done(struct alone *w, int batch, int took)
{
    static char said[120];

    snprintf(said, sizeof(said),
             "\"achieved\": \"STATE_ACTIVE\", \"batch\": %d, \"durationMs\": \"%d\"", batch, took);
    return said;
}

static void step_append(struct buf *json, const char *name, const char *actor, bool waits)
{
    buf_printf(json, "%s{\"name\": \"%s\", \"actor\": \"%s\", \"action\": \"do\"%s}",
               waits ? ", " : "", name, actor, waits ? ", \"after\": [\"root\"]" : "");
}

/* A step and ten that wait for it; every @nth of those is of another actor. */
static void submit_fan(struct alone *w, const char *job, int nth)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json, "{\"jobId\": \"%s\", \"definition\": {\"steps\": [", job);
    step_append(&json, "root", "hand", false);
    for (int i = 0; i < FAN; i++)
        step_append(&json, (char[]){(char)('a' + i), '\0'}, nth && i % nth == 0 ? "foot" : "hand",
                    true);
    buf_puts(&json, "]}}");
    alone_submit(w, buf_str(&json));
}

/* The root of a fan is done: the ten steps that wait for it are dispatched. */
static void fan_out(struct alone *w, const char *job, int nth, const char *said)
{
    submit_fan(w, job, nth);
    w->story.len = 0;
    alone_serve(w, job, "root", said);
}

/* A job of one step of that actor is done. */
static void do_one_of(struct alone *w, const char *actor, const char *said)
{
    static int n;
    CLEANUP(buf_deinit) struct buf json = {0};
    char job[16];

    snprintf(job, sizeof(job), "one%d", n++);
    buf_printf(&json, "{\"jobId\": \"%s\", \"definition\": {\"steps\": [", job);
    step_append(&json, "only", actor, false);
    buf_puts(&json, "]}}");
    alone_submit(w, buf_str(&json));
    alone_serve(w, job, "only", said);
}

static void do_one(struct alone *w, const char *said)
{
    do_one_of(w, "hand", said);
}

/* ---- which requests share a message ---- */

static void test_short_requests_share_a_message(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 8, 0));
    alone_expect(w, "request a b c d e f g h, request i j, ack");
    assert_true(scheduler_idle(w->scheduler));
}

/* A job of three steps that can begin at once. */
static void submit_three(struct alone *w, const char *job, const char *actor)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json, "{\"jobId\": \"%s\", \"definition\": {\"steps\": [", job);
    for (int i = 0; i < 3; i++) {
        buf_puts(&json, i > 0 ? ", " : "");
        step_append(&json, (char[]){(char)('a' + i), '\0'}, actor, false);
    }
    buf_puts(&json, "]}}");
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){.body = buf_bytes(&json)});
}

/* Agents that take JSON get one request in a message. */
static void test_no_batch_in_json(void **state)
{
    struct alone *w = *state;

    do_one_of(w, "hand", done(w, 8, 0));
    do_one_of(w, "jay", done(w, 8, 0));
    submit_three(w, "j", "hand");
    alone_expect(w, "request a b c, ack");
    submit_three(w, "k", "jay");
    alone_expect(w, "request a, request b, request c, ack");
}

/* The smallest capacity reported by an agent counts, until it was not reported for a while. */
static void test_capacity_of_the_agent(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 3, 0));
    alone_expect(w, "request a b c, request d e f, request g h i, request j, ack");
    fan_out(w, "k", 0, done(w, 1000, 0));
    alone_expect(w, "request a b c, request d e f, request g h i, request j, ack");
    for (int i = 0; i < 62; i++)
        do_one(w, done(w, 1000, 0));
    fan_out(w, "l", 0, done(w, 1000, 0));
    alone_expect(w, "request a b c, request d e f, request g h i, request j, ack");
    fan_out(w, "m", 0, done(w, 1000, 0));
    alone_expect(w, "request a b c d e f g h, request i j, ack");
}

/* A foreign agent reports no capacity. */
static void test_no_batch_without_a_capacity(void **state)
{
    static const char each[] = "request a, request b, request c, request d, request e, request f,"
                               " request g, request h, request i, request j, ack";
    struct alone *w = *state;

    fan_out(w, "j", 0, "\"achieved\": \"STATE_ACTIVE\"");
    alone_expect(w, each);
    do_one(w, done(w, 8, 0));
    fan_out(w, "k", 0,
            "\"achieved\": \"STATE_ACTIVE\""); /* from now on this agent may get the requests */
    alone_expect(w, each);
    fan_out(w, "l", 0, done(w, 8, 0));
    alone_expect(w, each);
}

/* A batch has at most 5 ms of work, by the service time, for each request that can begin at once.
 * */
static void test_work_in_a_batch(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 8, 5));
    alone_expect(w, "request a b c d e f g h, request i j, ack");
    fan_out(w, "k", 0, done(w, 8, 8));
    alone_expect(w, "request a b c d e, request f g h i j, ack");
    fan_out(w, "l", 0, done(w, 8, 20));
    alone_expect(w, "request a b, request c d, request e f, request g h, request i j, ack");
    fan_out(w, "m", 0, done(w, 8, 21));
    alone_expect(w, "request a, request b, request c, request d, request e, request f, request g,"
                    " request h, request i, request j, ack");
}

/* An agent that begins fewer at once takes longer for a batch. */
static void test_work_by_capacity(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 4, 5));
    alone_expect(w, "request a b c d, request e f g h, request i j, ack");
    fan_out(w, "k", 0, done(w, 4, 10));
    alone_expect(w, "request a b, request c d, request e f, request g h, request i j, ack");
    fan_out(w, "l", 0, done(w, 4, 11));
    alone_expect(w, "request a, request b, request c, request d, request e, request f, request g,"
                    " request h, request i, request j, ack");
}

/* One agent begins two requests of an action at once, another eight of another action: a message
 * that has the first action has at most two requests. */
static void test_smallest_capacity_in_a_message(void **state)
{
    static const char steps[] = "{\"jobId\": \"two\", \"definition\": {\"steps\": ["
                                "{\"name\": \"root\", \"actor\": \"hand\", \"action\": \"more\"}";
    CLEANUP(buf_deinit) struct buf json = {0};
    struct alone *w = *state;

    do_one(w, done(w, 2, 0));
    buf_puts(&json, steps);
    for (const char *c = "aMNbOPQcR"; *c; c++)
        buf_printf(&json,
                   ", {\"name\": \"%c\", \"actor\": \"hand\", \"action\": \"%s\", "
                   "\"after\": [\"root\"]}",
                   *c, *c >= 'a' ? "do" : "more");
    buf_puts(&json, "]}}");
    alone_submit(w, buf_str(&json));
    w->story.len = 0;
    alone_serve(w, "two", "root", done(w, 8, 0));
    alone_expect(w, "request a M, request N b, request O P Q, request c R, ack");
}

/* One slow run counts at once, and loses its weight slowly. */
static void test_slow_run_is_remembered(void **state)
{
    struct alone *w = *state;

    do_one(w, done(w, 8, 0));
    do_one(w, done(w, 8, 200));
    for (int i = 0; i < 34; i++)
        do_one(w, done(w, 8, 0));
    fan_out(w, "j", 0, done(w, 8, 0));
    alone_expect(w, "request a, request b, request c, request d, request e, request f, request g,"
                    " request h, request i, request j, ack");
    fan_out(w, "k", 0, done(w, 8, 0));
    alone_expect(w, "request a b, request c d, request e f, request g h, request i j, ack");
}

/* The service times of so many actions are kept: one more, and the oldest is forgotten. */
static void test_service_times_that_are_kept(void **state)
{
    struct alone *w = *state;
    char actor[24];

    do_one(w, done(w, 8, 0));
    do_one(w, done(w, 8, 200));
    for (int i = 1; i <= SERVICE_TIMES_MAX; i++) {
        if (i == SERVICE_TIMES_MAX) {
            fan_out(w, "j", 0, done(w, 8, 0));
            alone_expect(w, "request a, request b, request c, request d, request e, request f,"
                            " request g, request h, request i, request j, ack");
        }
        snprintf(actor, sizeof(actor), "actor%d", i);
        do_one_of(w, actor, done(w, 8, 0));
    }
    fan_out(w, "k", 0, done(w, 8, 0));
    alone_expect(w, "request a b c d e f g h, request i j, ack");
}

/* A slow failure counts as a slow run. */
static void test_slow_failure_is_remembered(void **state)
{
    struct alone *w = *state;

    do_one(w, done(w, 8, 0));
    do_one(w, "\"batch\": 8, \"durationMs\": \"30000\","
              " \"error\": {\"class\": \"TIMEOUT\", \"verdict\": \"VERDICT_TRANSIENT\"}");
    fan_out(w, "j", 0, done(w, 8, 0));
    alone_expect(w, "request a, request b, request c, request d, request e, request f, request g,"
                    " request h, request i, request j, ack");
}

/* A deferred request was not done, and a quick failure says nothing about the service time. */
static void test_quick_failure_is_no_service_time(void **state)
{
    struct alone *w = *state;

    do_one(w, done(w, 8, 0));
    do_one(w, done(w, 8, 200));
    for (int i = 0; i < 40; i++) {
        do_one(w, "\"batch\": 8, \"error\": {\"class\": \"BUSY\", \"verdict\": \"VERDICT_DEFER\"}");
        do_one(w,
               "\"batch\": 8, \"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_TRANSIENT\"}");
    }
    fan_out(w, "j", 0, done(w, 8, 0));
    alone_expect(w, "request a, request b, request c, request d, request e, request f, request g,"
                    " request h, request i, request j, ack");
}

/* If an expiry in a batch would be the last one allowed, the request is sent alone. */
static void test_last_expiry_is_risked_alone(void **state)
{
    struct alone *w = *state;

    do_one(w, done(w, 8, 0));
    alone_submit(
        w, "{\"jobId\": \"j\", \"definition\": {\"retry\": {\"maximumExpiries\": 1}, \"steps\": ["
           "{\"name\": \"a\", \"actor\": \"hand\", \"action\": \"do\"},"
           "{\"name\": \"b\", \"actor\": \"hand\", \"action\": \"do\"}]}}");
    assert_non_null(strstr(buf_str(&w->story), "request a, request b, "));
}

/* Each actor has a queue of its own, and the service time of the other is not known. */
static void test_one_actor_in_a_message(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 4, done(w, 8, 0));
    alone_expect(w, "request a, request e, request i, request b c d f g h j, ack");
}

/* ---- what happens to a batch ---- */

/* No queue takes the message: this is recorded for each request. */
static void test_returned_batch(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    submit_fan(w, "j", 0);
    w->unroutable = true;
    alone_serve(w, "j", "root", done(w, 8, 0));
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.unroutable, FAN);
    assert_int_equal(stats.dispatched, 1 + FAN);
    assert_int_equal(stats.messages, 1 + 2);
    assert_true(scheduler_idle(w->scheduler));
}

/* ---- JSON ---- */

static void put_zeros(struct buf *out, size_t bytes)
{
    for (size_t i = 0; i < bytes / 3; i++)
        buf_puts(out, "AAAA");
}

#define TAKEN 9 /* results */

/* Input and results fit into a message as protobuf, but not in base64. */
static void test_too_large_in_json(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf data = {0}, submit = {0}, said = {0};

    put_zeros(&data, WIRE_INPUT_MAX - 64);
    buf_printf(&submit, "{\"jobId\": \"j\", \"input\": {\"data\": \"%s\"}, \"definition\": {",
               buf_str(&data));
    buf_puts(&submit, "\"steps\": [{\"name\": \"s0\", \"actor\": \"jay\"}, ");
    for (int i = 1; i < TAKEN; i++)
        buf_printf(&submit, "{\"name\": \"s%d\", \"actor\": \"jay\", \"after\": [\"s%d\"]}, ", i,
                   i - 1);
    buf_puts(&submit, "{\"name\": \"all\", \"actor\": \"jay\", \"after\": [\"s0\"");
    for (int i = 1; i < TAKEN; i++)
        buf_printf(&submit, ", \"s%d\"", i);
    buf_puts(&submit, "]}]}}");
    alone_submit(w, buf_str(&submit));
    data.len = 0;
    put_zeros(&data, WIRE_RESULT_MAX - 64);
    buf_printf(&said, "\"achieved\": \"STATE_ACTIVE\", \"result\": {\"data\": \"%s\"}",
               buf_str(&data));
    for (int i = 0; i < TAKEN; i++) {
        char name[] = {'s', (char)('0' + i), 0};

        assert_non_null(strstr(buf_str(&w->story), name)); /* its request was sent */
        w->story.len = 0;
        alone_serve(w, "j", name, buf_str(&said));
    }
    assert_null(strstr(buf_str(&w->story), "request all"));
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_COMPENSATED"));
}

/* ---- requests that have waited in the scheduler ---- */

#define HELD                                                                                       \
    "{\"jobId\": \"j\", \"definition\": {\"steps\": ["                                             \
    "{\"name\": \"a\", \"actor\": \"hand\", \"action\": \"do\", \"revert\": {}}]}}"

/* The broker reads nothing: the request of a job waits in the bus, and has its outcome later. */
static void hold_a_request(struct alone *w)
{
    w->silent = true;
    alone_submit(w, HELD);
    w->silent = false;
    w->story.len = 0;
}

static void has_waited(struct alone *w)
{
    for (uint64_t id = 1; id <= w->publish; id++)
        alone_step(w, (struct scheduler_event){
                          .type = SCHEDULER_OUTCOME, .id = id, .outcome = BUS_WAITED});
}

/* The request is still wanted: the scheduler sends the same one, as there is no copy of it. */
static void test_waited_request_is_sent(void **state)
{
    struct alone *w = *state;
    char token[sizeof(w->token)];

    hold_a_request(w);
    memcpy(token, w->token, sizeof(token));
    has_waited(w);
    alone_expect(w, "request a, ack");
    assert_string_equal(w->token, token);
    alone_serve(w, "j", "a", done(w, 1, 0));
    assert_true(scheduler_idle(w->scheduler));
}

/* No agent can have begun the request: there is nothing to undo. */
static void test_waited_request_of_a_cancelled_job(void **state)
{
    struct alone *w = *state;

    hold_a_request(w);
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"cancel\": {}}");
    w->story.len = 0;
    has_waited(w);
    assert_null(strstr(buf_str(&w->story), "request"));
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_CANCELLED"));
}

/* The scheduler may have died before it sent the first copy: the next one sends the request, too.
 * */
static void test_copy_that_has_waited(void **state)
{
    struct alone *w = *state;
    struct bus_delivery d = {
        .source = SCHEDULER_SUBMIT, .redelivered = true, .reply_to = "me", .body = bytes_str(HELD)};

    hold_a_request(w);
    alone_restart(w);
    w->silent = true;
    alone_deliver(w, d);
    w->silent = false;
    w->story.len = 0;
    has_waited(w);
    assert_non_null(strstr(buf_str(&w->story), "request a"));
}

/* A job on hold sends nothing; the resume sends the request. */
static void test_waited_request_on_hold(void **state)
{
    struct alone *w = *state;

    hold_a_request(w);
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"pause\": {}}");
    w->story.len = 0;
    has_waited(w);
    alone_expect(w, "ack");
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"d\", \"resume\": {}}");
    assert_non_null(strstr(buf_str(&w->story), "request a"));
}

/* The reply is acknowledged when every message that it has led to is confirmed. */
static void test_acknowledged_when_all_are_confirmed(void **state)
{
    struct alone *w = *state;

    submit_fan(w, "j", 0);
    alone_confirm(w);
    w->story.len = 0;
    w->silent = true;
    alone_serve(w, "j", "root", done(w, 8, 0));
    alone_expect(w, "request a b c d e f g h, request i j");
    alone_confirm(w);
    alone_expect(w, "ack");
}

/* Of job "j". */
static void read_record(struct alone *w, uint32_t step, struct ops_step_record *out)
{
    assert_true(simstore_hash(w->store, id_partition("j", 2), "job:j"));
    assert_int_equal(ops_read_step_record(simstore_step(w->store, step), out), 0);
}

/* A request that got no slot is sent again with the answer to its deferral, alone. */
static void test_deferred_request_is_sent_alone(void **state)
{
    static const char both[] = "{\"replies\": ["
                               "{\"jobId\": \"j\", \"step\": \"i\", \"token\": \"%s\", "
                               "\"batch\": 8, \"error\": {\"class\": \"NO_SLOT\","
                               " \"verdict\": \"VERDICT_DEFER\", \"retryAfterMs\": \"1\"}},"
                               "{\"jobId\": \"j\", \"step\": \"j\", \"token\": \"%s\", "
                               "\"batch\": 8, \"error\": {\"class\": \"NO_SLOT\","
                               " \"verdict\": \"VERDICT_DEFER\", \"retryAfterMs\": \"1\"}}]}";
    CLEANUP(buf_deinit) struct buf json = {0};
    struct ops_step_record i, j;
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 8, 0));
    w->story.len = 0;
    read_record(w, 9, &i);
    read_record(w, 10, &j);
    buf_printf(&json, both, i.token, j.token);
    alone_replies(w, buf_str(&json));
    alone_expect(w, "request i, request j, ack");
    alone_serve(w, "j", "j",
                "\"batch\": 8, \"error\": {\"class\": \"NO_SLOT\","
                " \"verdict\": \"VERDICT_DEFER\", \"retryAfterMs\": \"1\"}");
    alone_expect(w, "ack"); /* the second time it waits for the supervisor, like any other */
}

/* A deferred request is not sent again while its job is on hold. */
static void test_deferred_request_on_hold(void **state)
{
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 8, 0));
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"pause\": {}}");
    w->story.len = 0;
    alone_serve(w, "j", "i",
                "\"batch\": 8, \"error\": {\"class\": \"NO_SLOT\","
                " \"verdict\": \"VERDICT_DEFER\", \"retryAfterMs\": \"1\"}");
    alone_expect(w, "ack");
}

/* The scheduler that recorded the deferral died before it sent the request: the reply is
 * redelivered. */
static void test_deferred_request_is_not_lost(void **state)
{
    static const char again[] =
        "{\"replies\": [{\"jobId\": \"j\", \"step\": \"i\", \"token\": \"%s\","
        " \"error\": {\"class\": \"NO_SLOT\", \"verdict\": \"VERDICT_DEFER\","
        " \"retryAfterMs\": \"1\"}}]}";
    CLEANUP(buf_deinit) struct buf json = {0};
    struct alone *w = *state;

    fan_out(w, "j", 0, done(w, 8, 0));
    buf_printf(&json, again, w->token);
    w->silent = true;
    alone_replies(w, buf_str(&json));
    alone_restart(w);
    w->silent = false;
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .redelivered = true,
                                           .body = bytes_str(buf_str(&json))});
    alone_pass(w, 1000);
    alone_expect(w, "request i, ack");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_short_requests_share_a_message),
        TEST(test_no_batch_in_json),
        TEST(test_capacity_of_the_agent),
        TEST(test_no_batch_without_a_capacity),
        TEST(test_work_in_a_batch),
        TEST(test_work_by_capacity),
        TEST(test_smallest_capacity_in_a_message),
        TEST(test_slow_run_is_remembered),
        TEST(test_service_times_that_are_kept),
        TEST(test_slow_failure_is_remembered),
        TEST(test_quick_failure_is_no_service_time),
        TEST(test_last_expiry_is_risked_alone),
        TEST(test_one_actor_in_a_message),
        TEST(test_returned_batch),
        TEST(test_too_large_in_json),
        TEST(test_waited_request_is_sent),
        TEST(test_waited_request_of_a_cancelled_job),
        TEST(test_copy_that_has_waited),
        TEST(test_waited_request_on_hold),
        TEST(test_acknowledged_when_all_are_confirmed),
        TEST(test_deferred_request_is_sent_alone),
        TEST(test_deferred_request_on_hold),
        TEST(test_deferred_request_is_not_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
