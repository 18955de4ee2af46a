// SPDX-License-Identifier: Apache-2.0
/*
 * Several Submits in one message, and batches of Receipts and JobEvents
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "machines/alone.h"
#include "machines/logged.h"
#include "scheduler/client_batch.h"
#include "scheduler/state.h"

#define STEPS "\"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": \"hand\"}]}"
#define SUBMIT(id, more) "{\"jobId\": \"" id "\", " STEPS more "}"
#define BATCHES ", \"batches\": true"
#define MINE ", \"replyTo\": \"mine\""
#define RECEIPT(id, at)                                                                            \
    "{\"jobId\":\"" id "\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,\"recordedAt\":\"" at "\"}"

static void submits_again(struct alone *w, const char *json, bool redelivered)
{
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_SUBMIT,
                                           .batch = true,
                                           .redelivered = redelivered,
                                           .reply_to = "me",
                                           .correlation_id = "c",
                                           .message_id = "m",
                                           .body = bytes_str(json)});
}

static void submits(struct alone *w, const char *json)
{
    submits_again(w, json, false);
}

/* Each is judged and answered by itself; the message is acknowledged when all are done. */
static void test_each_by_itself(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    submits(w, "{\"submits\": [" SUBMIT("j", "") ", {\"jobId\": \"k\"}, " SUBMIT("l", MINE) ", {}, "
                                                                                            "7]}");
    alone_expect(w, "reply {\"code\":\"RECEIPT_CODE_REJECTED\",\"reason\":\"is no JSON of "
                    "drover.v1.Submits\"}, ack");
    submits(w,
            "{\"submits\": [" SUBMIT("j", "") ", {\"jobId\": \"k\"}, " SUBMIT("l", MINE) ", {}]}");
    assert_non_null(strstr(buf_str(&w->story), RECEIPT("j", "1700000000002")));
    assert_non_null(strstr(buf_str(&w->story), RECEIPT("l", "1700000000002")));
    assert_non_null(
        strstr(buf_str(&w->story), "reply {\"jobId\":\"k\",\"code\":\"RECEIPT_CODE_REJECTED\""));
    assert_non_null(strstr(buf_str(&w->story), "\"field\":\"job_id\"")); /* not that of the batch */
    assert_string_equal(strstr(buf_str(&w->story), "ack"), "ack");
    assert_non_null(strstr(buf_str(&w->reply_routes), "mine/c me/c"));
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.submits, 2);
    assert_int_equal(stats.rejected, 3);
    assert_int_equal(stats.open, 0);
}

/* Receipts for clients that read batches share a message, for each client; one alone stays alone.
 */
static void test_receipts(void **state)
{
    struct alone *w = *state;

    submits(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "," SUBMIT(
                   "l", BATCHES MINE) "," SUBMIT("m", "") "]}");
    assert_non_null(strstr(buf_str(&w->story),
                           "reply {\"receipts\":[" RECEIPT("j", "1700000000000") "," RECEIPT(
                               "k", "1700000000000") "]}, reply " RECEIPT("l", "1700000000000")));
    assert_string_equal(buf_str(&w->reply_routes), "me/c me/(null) mine/c ");
    assert_true(scheduler_idle(w->scheduler));
}

static void token_of(struct alone *w, size_t request, char *out)
{
    const char *at = buf_str(&w->tokens);

    for (size_t i = 0; i < request; i++)
        at = strchr(at, ' ') + 1;
    at = strchr(at, '/') + 1;
    snprintf(out, WIRE_TOKEN_MAX + 1, "%.*s", (int)strcspn(at, " "), at);
}

/* The jobs j and k end, by one message of replies, with results of so many bytes. */
static void end_both(struct alone *w, size_t bytes)
{
    CLEANUP(buf_deinit) struct buf replies = {0};

    buf_puts(&replies, "{\"replies\": [");
    for (size_t i = 0; i < 2; i++) {
        char token[WIRE_TOKEN_MAX + 1];

        token_of(w, i, token);
        buf_printf(&replies,
                   "%s{\"jobId\": \"%s\", \"step\": \"a\", \"token\": \"%s\", "
                   "\"achieved\": \"STATE_ACTIVE\", \"result\": {\"text\": \"",
                   i ? "," : "", i ? "k" : "j", token);
        for (size_t k = 0; k < bytes; k++)
            buf_putc(&replies, 'r');
        buf_puts(&replies, "\"}}");
    }
    buf_puts(&replies, "]}");
    alone_replies(w, buf_str(&replies));
}

/* So do the ends of their jobs. */
static void test_ends(void **state)
{
    struct alone *w = *state;

    submits(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "]}");
    w->story.len = w->reply_routes.len = 0;
    end_both(w, 1);
    assert_non_null(strstr(buf_str(&w->story), "reply {\"events\":[{\"kind\":"));
    assert_non_null(strstr(buf_str(&w->reply), "\"jobId\":\"j\""));
    assert_non_null(strstr(buf_str(&w->reply), "\"jobId\":\"k\""));
    assert_string_equal(buf_str(&w->reply_routes), "me/(null) ");
    assert_true(scheduler_idle(w->scheduler));
}

/* Large ones leave as they are. */
static void test_large_ends(void **state)
{
    struct alone *w = *state;

    submits(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "]}");
    w->reply_routes.len = 0;
    end_both(w, CLIENT_BATCH_BYTES);
    assert_string_equal(buf_str(&w->reply_routes), "me/c me/c ");
    assert_true(scheduler_idle(w->scheduler));
}

/* Each Submit of a message that comes again gets ALREADY. The last one decides how the client
 * reads.
 */
static void test_redelivered(void **state)
{
    struct alone *w = *state;

    submits(w, "{\"submits\": [" SUBMIT("j", "") "," SUBMIT("k", "") "]}");
    w->story.len = w->reply_routes.len = 0;
    submits_again(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "]}", true);
    assert_string_equal(buf_str(&w->reply_routes), "me/(null) ");
    assert_string_equal(strstr(buf_str(&w->story), "ack"), "ack");
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(buf_str(&w->story), i ? "{\"jobId\":\"j\",\"code\":"
                                                       "\"RECEIPT_CODE_ALREADY\""
                                                     : "{\"jobId\":\"k\",\"code\":"
                                                       "\"RECEIPT_CODE_ALREADY\""));
    w->reply_routes.len = 0;
    end_both(w, 1);
    assert_string_equal(buf_str(&w->reply_routes), "me/(null) ");
    assert_true(scheduler_idle(w->scheduler));
}

/* A batch is full at its most messages, or bytes. */
static void test_full_batches(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_puts(&json, "{\"submits\": [");
    for (int i = 0; i < CLIENT_BATCH_MAX + 2; i++)
        buf_printf(&json, "%s{\"jobId\": \"j%d\", " STEPS BATCHES "}", i ? "," : "", i);
    buf_puts(&json, "]}");
    submits(w, buf_str(&json));
    assert_string_equal(buf_str(&w->reply_routes), "me/(null) me/(null) ");
    assert_true(scheduler_idle(w->scheduler));
}

/* As many bytes as a message may have: its Submits do not wait for those. */
static void test_large_batch(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    const int n = 5;

    buf_puts(&json, "{\"submits\": [");
    for (int i = 0; i < n; i++) {
        buf_printf(&json, "%s{\"jobId\": \"j%d\", " STEPS BATCHES ", \"input\": {\"text\": \"",
                   i ? "," : "", i);
        for (size_t k = 0; k < WIRE_INPUT_MAX * 3 / 4; k++)
            buf_putc(&json, 'x');
        buf_puts(&json, "\"}}");
    }
    buf_puts(&json, "]}");
    submits(w, buf_str(&json));
    assert_non_null(
        strstr(buf_str(&w->story), "\"jobId\":\"j4\",\"code\":\"RECEIPT_CODE_CREATED\""));
    assert_true(scheduler_idle(w->scheduler));
}

/* The queue is gone when the batch comes: each job's end is tried again, once its time has come. */
static void test_client_is_gone(void **state)
{
    struct alone *w = *state;

    w->gone = "me";
    submits(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "]}");
    assert_true(scheduler_idle(w->scheduler)); /* the clients submit again */
    end_both(w, 1);
    assert_true(scheduler_idle(w->scheduler));
    w->gone = NULL;
    for (int i = 0; i < 2; i++) {
        CLEANUP(wire_free) struct wire_message m = {0};
        CLEANUP(buf_deinit) struct buf json = {0};

        alone_ask(w, i ? "{\"jobId\": \"k\", \"query\": {}}" : "{\"jobId\": \"j\", \"query\": {}}",
                  &m);
        buf_printf(&json, "{\"jobId\": \"%s\", \"notify\": {\"seq\": %d}}", i ? "k" : "j",
                   (int)m.answer->status->seq);
        if (i == 0) {
            w->story.len = 0;
            alone_control(w, buf_str(&json));
            assert_string_equal(buf_str(&w->story), "ack"); /* put off, for five seconds */
            alone_pass(w, 6000);
        }
        w->reply_routes.len = 0;
        alone_control(w, buf_str(&json));
        assert_string_equal(buf_str(&w->reply_routes), "me/c ");
    }
}

/* The store refuses each call, for a cause that does not pass: a dead letter for each Submit. */
static void test_store_refuses(void **state)
{
    struct alone *w = *state;

    w->instead = (struct alone_answer){"submit", STORE_ERROR, "ERR broken"};
    w->times = 2 * OP_REFUSALS_MAX;
    submits(w, "{\"submits\": [" SUBMIT("j", "") "," SUBMIT("k", "") "]}");
    alone_pass(w, 60000);
    assert_non_null(strstr(buf_str(&w->story), "dead STORE_REFUSED"));
    assert_true(scheduler_idle(w->scheduler));
}

/* A large message must not be kept until the store has room. */
static void test_full_store(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};

    w->instead = (struct alone_answer){"submit", STORE_OOM, "OOM no room"};
    w->times = 1;
    buf_printf(&json,
               "{\"submits\": [{\"jobId\": \"j\", " STEPS ", \"input\": {\"text\": \"%*s\"}}]}",
               (int)INTAKE_LARGE_BYTES, "x");
    alone_deliver(w, (struct bus_delivery){
                         .source = SCHEDULER_SUBMIT, .batch = true, .body = buf_bytes(&json)});
    assert_non_null(strstr(buf_str(&w->story), "dead STORE_FULL"));
    assert_true(scheduler_idle(w->scheduler));
}

/* What cannot be split is refused as a whole. */
static void test_no_submits(void **state)
{
    struct alone *w = *state;

    submits(w, "{\"submits\": []}");
    alone_expect(w, "reply {\"code\":\"RECEIPT_CODE_REJECTED\",\"field\":\"submits\",\"reason\":"
                    "\"must be 1 to 100, not 0\"}, ack");
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_SUBMIT,
                                           .batch = true,
                                           .body = bytes_str("\x0a\x05x")});
    alone_expect(w, "dead batch MALFORMED is no protobuf of drover.v1.Submits, ack, "
                    "alert DEAD_LETTER");
}

/* The type says so of Submits only. */
static void test_other_messages(void **state)
{
    struct alone *w = *state;

    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_CONTROL,
                                           .batch = true,
                                           .redelivered = true,
                                           .reply_to = "me",
                                           .body = bytes_str("{\"jobId\": \"j\", \"query\": {}}")});
    alone_expect(w,
                 "reply {\"jobId\":\"j\",\"code\":\"ANSWER_CODE_UNKNOWN_JOB\",\"reason\":\"there "
                 "is no such job\"}, ack");
}

static void deliver_transient(struct alone *w, int source, const char *json)
{
    alone_deliver(
        w, (struct bus_delivery){.source = source, .transient = true, .body = bytes_str(json)});
}

/* Submits and commands that a restart of the broker would have lost are counted, and one line a
 * minute says so; questions may be lost. */
static void test_not_persistent(void **state)
{
    static const char *const questions[] = {
        "{\"jobId\": \"j\", \"query\": {}}",
        "{\"jobId\": \"j\", \"history\": {}}",
        "{\"listJobs\": {}}",
        "{\"listWorkflows\": {}}",
    };
    struct alone *w = *state;
    struct scheduler_stats stats;

    alone_pass(w, 1); /* time 0 means never */
    logged_begin();
    deliver_transient(w, SCHEDULER_SUBMIT, SUBMIT("j", ""));
    deliver_transient(w, SCHEDULER_CONTROL,
                      "{\"jobId\": \"j\", \"commandId\": \"c\", \"pause\": {}}");
    for (size_t i = 0; i < array_size(questions); i++)
        deliver_transient(w, SCHEDULER_CONTROL, questions[i]);
    deliver_transient(w, SCHEDULER_SUBMIT, "{}"); /* it is refused for another reason */
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.transient, 2);
    assert_int_equal(logged_count("message_not_persistent"), 1);
    alone_pass(w, 60000);
    deliver_transient(w, SCHEDULER_SUBMIT, SUBMIT("k", ""));
    assert_int_equal(logged_count("message_not_persistent"), 2);
    logged_end();
}

/* Nothing is left when a scheduler ends with batches that have not left. */
static void test_end_of_a_scheduler(void **state)
{
    struct alone *w = *state;

    w->silent = true;
    submits(w, "{\"submits\": [" SUBMIT("j", BATCHES) "," SUBMIT("k", BATCHES) "]}");
    assert_false(scheduler_idle(w->scheduler));
    alone_restart(w);
    assert_true(scheduler_idle(w->scheduler));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_by_itself),     TEST(test_receipts),       TEST(test_ends),
        TEST(test_large_ends),         TEST(test_redelivered),    TEST(test_full_batches),
        TEST(test_large_batch),        TEST(test_client_is_gone), TEST(test_store_refuses),
        TEST(test_full_store),         TEST(test_no_submits),     TEST(test_other_messages),
        TEST(test_end_of_a_scheduler), TEST(test_not_persistent),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
