// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: when a scheduler has the store record that the broker has lost requests with a queue
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
#include "model/store_ops.h"
#include "scheduler/state.h"

#define PARTITIONS 2
#define NOT_RECORDED (-1)

/* When the loss was recorded that is known of an actor: the same in all partitions. */
static int64_t recorded(struct alone *w, const char *actor)
{
    int64_t first = NOT_RECORDED;

    for (uint32_t i = 0; i < PARTITIONS; i++) {
        int64_t at = NOT_RECORDED;

        if (simstore_hash(w->store, i, "lost") &&
            bytes_to_i64(simstore_field(w->store, actor), &at))
            at -= ALONE_EPOCH;
        assert_true(i == 0 || at == first);
        first = at;
    }
    return first;
}

static void found(struct alone *w, const char *actor)
{
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_LOST, .lost_actor = actor});
    alone_pass(w, 0);
}

static void report(struct alone *w, const char *actor)
{
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = actor,
                                           .body = bytes_str("{\"requestsLost\": true}")});
}

/* The queue is declared after the loss is recorded in all partitions. */
static void test_found(void **state)
{
    struct alone *w = *state;

    alone_pass(w, 1000);
    found(w, "hand");
    alone_expect(w, "declare hand");
    assert_int_equal(recorded(w, "hand"), 1000);
    alone_pass(w, 1000);
    found(w, "*");
    alone_expect(w, "declare *");
    assert_int_equal(recorded(w, "*"), 2000);
    assert_int_equal(recorded(w, "hand"), 1000);
}

/* What is dispatched until the store answers was not lost. */
static void test_store_answers_late(void **state)
{
    struct alone *w = *state;

    alone_pass(w, 1000);
    w->instead = (struct alone_answer){.function = "lost", .result = STORE_UNKNOWN};
    w->times = 3;
    found(w, "hand");
    alone_pass(w, 500);
    alone_expect(w, "");
    assert_int_equal(recorded(w, "hand"), NOT_RECORDED);
    alone_pass(w, 500);
    alone_expect(w, "declare hand");
    assert_int_equal(recorded(w, "hand"), 1000);
}

/* The store is of another build: no request waits for its queue for ever. */
static void test_store_answers_nonsense(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf words = {0};

    buf_printf(&words, "1 %0*d", OPS_LOST_CURSOR, 0); /* a cursor that is too long */
    w->instead = (struct alone_answer){.function = "lost", .words = buf_str(&words)};
    w->times = 2;
    found(w, "hand");
    alone_expect(w, "declare hand");
    assert_int_equal(recorded(w, "hand"), NOT_RECORDED);
    alone_control(w, "{\"resend\": {\"actor\": \"hand\"}}");
    alone_expect(w, "ack"); /* and no answer that it is done */
}

/* The agents of an actor report it at the same time: that is one loss. The first report is
 * acknowledged when it is recorded, and stands for the others. */
static void test_reports_of_several_agents(void **state)
{
    struct alone *w = *state;

    alone_pass(w, 1000 - 2);
    report(w, "hand"); /* takes 2 ms */
    alone_expect(w, "");
    alone_pass(w, 98);
    report(w, "hand");
    report(w, "foot");
    alone_expect(w, "ack");
    alone_pass(w, LOSS_COLLECT_MS - 105);
    assert_int_equal(recorded(w, "hand"), NOT_RECORDED);
    alone_pass(w, 3);
    assert_int_equal(recorded(w, "hand"), 1098);
    assert_int_equal(recorded(w, "foot"), NOT_RECORDED);
    alone_expect(w, "ack");
    alone_pass(w, LOSS_COLLECT_MS);
    alone_expect(w, "ack");
    assert_int_equal(recorded(w, "foot"), 1100);
    report(w, "hand"); /* not so soon again */
    alone_pass(w, LOSS_AGAIN_MS / 2);
    alone_expect(w, "");
    report(w, "hand");
    alone_expect(w, "ack");
    alone_pass(w, LOSS_AGAIN_MS / 2);
    alone_expect(w, "ack");
    assert_int_equal(recorded(w, "hand"), w->now - LOSS_AGAIN_MS / 2 - 2);
}

/* The scheduler finds the same: it waits no longer. */
static void test_reported_and_found(void **state)
{
    struct alone *w = *state;

    report(w, "hand");
    alone_pass(w, 98);
    found(w, "hand");
    alone_expect(w, "declare hand, ack");
    assert_int_equal(recorded(w, "hand"), 100);
}

/* A report is acknowledged when it is recorded, whatever the scheduler has found by itself. */
static void test_found_and_reported(void **state)
{
    struct alone *w = *state;

    w->instead = (struct alone_answer){.function = "lost", .result = STORE_UNKNOWN};
    w->times = 100;
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_LOST, .lost_actor = "hand"});
    report(w, "hand");
    alone_pass(w, 2 * LOSS_COLLECT_MS);
    alone_expect(w, "");
    w->times = 0;
    alone_pass(w, LOSS_COLLECT_MS);
    alone_expect(w, "ack, declare hand");
    assert_int_not_equal(recorded(w, "hand"), NOT_RECORDED);
}

/* It is read also if the agents of its actor have used up what they may send. */
static void test_report_of_a_busy_actor(void **state)
{
    struct alone *w = *state;

    for (int i = 0; i < 200 && w->scheduler->stats.ignored == 0; i++) {
        CLEANUP(buf_deinit) struct buf json = {0};

        buf_puts(&json, "{\"replies\": [");
        for (int k = 0; k < 500; k++)
            buf_printf(&json, "%s{\"jobId\": \"j\", \"step\": \"s\", \"token\": \"0.t\"}",
                       k > 0 ? "," : "");
        buf_puts(&json, "]}");
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .body = buf_bytes(&json)});
    }
    assert_true(w->scheduler->stats.ignored > 0);
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = "hand",
                                           .body = bytes_of("\x18\x01", 2)});
    alone_pass(w, LOSS_COLLECT_MS);
    assert_int_not_equal(recorded(w, "hand"), NOT_RECORDED);
}

/* It must be known whose requests they are. */
static void test_report_of_nobody(void **state)
{
    struct alone *w = *state;

    report(w, "");
    alone_pass(w, LOSS_COLLECT_MS);
    alone_expect(w, "dead INVALID requests_lost must come by the exchange drover.reply.<actor>, "
                    "ack, alert DEAD_LETTER");
    assert_int_equal(recorded(w, ""), NOT_RECORDED);
}

/* The answer follows when it is recorded. */
static void test_resend(void **state)
{
    struct alone *w = *state;

    alone_pass(w, 1000);
    w->instead = (struct alone_answer){.function = "lost", .result = STORE_UNKNOWN};
    w->times = 1;
    alone_control(w, "{\"commandId\": \"c\", \"resend\": {\"actor\": \"hand\"}}");
    alone_expect(w, "");
    alone_pass(w, 200);
    alone_expect(w, "reply {\"commandId\":\"c\",\"code\":\"ANSWER_CODE_DONE\"}, ack");
    assert_int_equal(recorded(w, "hand"), 1000);
    alone_control(w, "{\"resend\": {\"actor\": \"*\"}}");
    alone_expect(w, "reply {\"code\":\"ANSWER_CODE_DONE\"}, ack");
    assert_int_equal(recorded(w, "*"), w->now - 2);
}

static void test_resend_for_no_actor(void **state)
{
    struct alone *w = *state;

    alone_control(w, "{\"resend\": {}}");
    assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_INVALID"));
    assert_non_null(strstr(buf_str(&w->story), "resend.actor"));
}

/* A scheduler that ends has not acknowledged what it has not recorded. */
static void test_end(void **state)
{
    struct alone *w = *state;

    report(w, "hand");
    alone_restart(w);
    alone_pass(w, LOSS_COLLECT_MS);
    alone_expect(w, "");
    assert_int_equal(recorded(w, "hand"), NOT_RECORDED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_found),
        TEST(test_store_answers_late),
        TEST(test_store_answers_nonsense),
        TEST(test_reports_of_several_agents),
        TEST(test_reported_and_found),
        TEST(test_found_and_reported),
        TEST(test_report_of_a_busy_actor),
        TEST(test_report_of_nobody),
        TEST(test_resend),
        TEST(test_resend_for_no_actor),
        TEST(test_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
