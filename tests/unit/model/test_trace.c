// SPDX-License-Identifier: Apache-2.0
/*
 * Traces: the lines for events, effects, and calls of the store, without the data of jobs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "model/store_ops.h"
#include "model/trace.h"

#define SECRET "hush" /* stands for the data of a job */

static struct buf traced;

static void tell(void *ctx, const char *event, const struct log_field *fields, int n)
{
    trace_print(ctx, event, fields, n);
    buf_putc(ctx, '\n');
}

static void assert_traced(const char *expected)
{
    assert_string_equal(buf_str(&traced), expected);
    buf_clear(&traced);
}

static int tear_down(void **state)
{
    (void)state;
    buf_deinit(&traced);
    return 0;
}

/* ---- messages ---- */

static void test_delivery(void **state)
{
    (void)state;
    trace_delivery(&(struct bus_delivery){.handle = 7, .body = bytes_str(SECRET)}, tell, &traced);
    trace_delivery(&(struct bus_delivery){.handle = 8, .redelivered = true, .resent = true}, tell,
                   &traced);
    assert_traced("delivery handle=7\n"
                  "delivery handle=8 redelivered=true resent=true\n");
}

static void test_publish(void **state)
{
    struct effect e = {.type = EFFECT_PUBLISH,
                       .publish = {.exchange = "drover.tasks",
                                   .key = "a0",
                                   .body = bytes_str(SECRET),
                                   .type = "drover.v1.Requests",
                                   .job = "j",
                                   .step = "s",
                                   .attempt = 3,
                                   .actor = "a0"}};

    (void)state;
    trace_effect(&e, tell, &traced);
    e.publish = (struct bus_message){.exchange = "", .key = "inbox", .reason = "UNREADABLE"};
    trace_effect(&e, tell, &traced);
    e.publish.type = "plain";
    trace_effect(&e, tell, &traced);
    assert_traced("publish to=drover.tasks type=Requests job=j step=s attempt=3 actor=a0\n"
                  "publish to=inbox reason=UNREADABLE\n"
                  "publish to=inbox type=plain reason=UNREADABLE\n");
}

static void test_other_effects(void **state)
{
    static const enum effect_type types[] = {EFFECT_ACK, EFFECT_REQUEUE, EFFECT_CONSUME,
                                             EFFECT_STORE, EFFECT_ROLE};

    (void)state;
    for (size_t i = 0; i < array_size(types); i++)
        trace_effect(&(struct effect){.type = types[i], .id = 9}, tell, &traced);
    trace_effect(&(struct effect){.type = EFFECT_CONSUME, .wanted = true}, tell, &traced);
    assert_traced("ack handle=9\nrequeue handle=9\npause\nconsume\n");
}

static void test_outcomes(void **state)
{
    (void)state;
    for (int outcome = BUS_CONFIRMED; outcome <= BUS_EXPIRED; outcome++)
        trace_outcome((enum bus_outcome)outcome, tell, &traced);
    assert_traced("outcome outcome=RETURNED\noutcome outcome=NACKED\noutcome outcome=WAITED\n"
                  "outcome outcome=UNSENT\noutcome outcome=EXPIRED\n");
}

/* ---- store calls ---- */

static void trace_all(struct effects *fx, const struct store_answer *answer)
{
    for (size_t i = 0; i < fx->n; i++)
        trace_call(fx->items[i].store.function, fx->items[i].store.args, fx->items[i].store.n,
                   answer, tell, &traced);
    effects_deinit(fx);
    *fx = (struct effects){0};
}

static void record(struct effects *fx, const char *kinds)
{
    struct ops_record_args records[16] = {0};
    const struct ops_record_args *all[16];
    int n = (int)strlen(kinds);

    for (int i = 0; i < n; i++) {
        records[i] = (struct ops_record_args){.kind = (enum report_kind)kinds[i],
                                              .job = "j",
                                              .token = i == 0 ? "odd" : "12.0123456789abcdef",
                                              .result = bytes_str(SECRET),
                                              .error = bytes_str(SECRET),
                                              .class = SECRET};
        all[i] = &records[i];
    }
    ops_record(fx, 1, 0, "me", all, n);
}

static void test_records(void **state)
{
    struct effects fx = {0};

    (void)state;
    record(&fx, "ADTPLFNSXK?");
    trace_all(&fx, NULL);
    assert_traced("store call=record job=j what=ACTIVE\n"
                  "store call=record job=j number=12 what=DISABLED\n"
                  "store call=record job=j number=12 what=TRANSIENT\n"
                  "store call=record job=j number=12 what=PERMANENT\n"
                  "store call=record job=j number=12 what=UNSENDABLE\n"
                  "store call=record job=j number=12 what=DEFERRED\n"
                  "store call=record job=j number=12 what=UNSTARTED\n"
                  "store call=record job=j number=12 what=UNSENT\n"
                  "store call=record job=j number=12 what=UNROUTABLE\n"
                  "store call=record job=j number=12 what=REFUSED\n"
                  "store call=record job=j number=12\n");
}

static void test_calls(void **state)
{
    const struct bytes word = bytes_str("DONE");
    const struct store_answer done = {.items = &word, .n = 1};
    const struct ops_notification_id notification = {"j", 4, 5};
    struct effects fx = {0};

    (void)state;
    ops_steer(&fx, 1, 0,
              &(struct ops_steer_args){.job = "j",
                                       .command = "cancel",
                                       .command_id = "c",
                                       .reason = SECRET,
                                       .scheduler = "me",
                                       .nonce = "",
                                       .definition = "",
                                       .payload = bytes_str(SECRET)});
    ops_drive(&fx, 1, 0, "j", "", "me", false, NULL, 0);
    ops_renew(&fx, 1, 0, "j", "1.2", &(struct ops_progress){0.5, SECRET, "me", 0}, "");
    ops_inspect_definition(&fx, 1, 0, "digest");
    ops_inspect_history(&fx, 1, 0, "j", 1, 10, NULL);
    ops_alert_cause(&fx, 1, 0, "NO_AGENT a0", OPS_CAUSE_OVER, "");
    ops_suspect(&fx, 1, 0, "digest", "incarnation", OPS_SUSPECT_END);
    ops_settle_owed(&fx, 1, 0, &notification);
    ops_defer_owed(&fx, 1, 0, &notification, 1);
    ops_forget(&fx, 1, 0, 1, 1);
    trace_all(&fx, &done);
    assert_traced("store call=steer job=j what=cancel answer=DONE\n"
                  "store call=drive job=j answer=DONE\n"
                  "store call=renew job=j number=1 answer=DONE\n"
                  "store call=inspect what=definition answer=DONE\n"
                  "store call=inspect job=j what=history answer=DONE\n"
                  "store call=told what=over of=\"NO_AGENT a0\" answer=DONE\n"
                  "store call=suspect what=end of=digest answer=DONE\n"
                  "store call=settle_owed job=j answer=DONE\n"
                  "store call=defer_owed job=j answer=DONE\n");
}

/* A scan for due steps is traced only if it has found something. */
static void test_expired(void **state)
{
    static const char *const found[] = {"1700000000000",
                                        "0",
                                        "0",
                                        "0",
                                        "2",
                                        "j",
                                        "1",
                                        "2",
                                        "0",
                                        "7",
                                        "k",
                                        "0",
                                        "0",
                                        "2",
                                        "l",
                                        "4",
                                        "m",
                                        "5"};
    static const char *const nothing[] = {"1700000000000", "0", "0", "0", "0", "0"};
    struct bytes items[array_size(found)];
    struct effects fx = {0};

    (void)state;
    for (size_t i = 0; i < array_size(found); i++)
        items[i] = bytes_str(found[i]);
    ops_expire(&fx, 1, 0, 0, 10, 0, &(struct ops_clock){0});
    trace_all(&fx, &(struct store_answer){.items = items, .n = array_size(found)});
    assert_traced("store call=expire job=j due=0,7\n"
                  "store call=expire job=k\n"
                  "store call=expire job=l owed=4\n"
                  "store call=expire job=m owed=5\n");
    for (size_t i = 0; i < array_size(nothing); i++)
        items[i] = bytes_str(nothing[i]);
    ops_expire(&fx, 1, 0, 0, 10, 0, &(struct ops_clock){0});
    trace_all(&fx, &(struct store_answer){.items = items, .n = array_size(nothing)});
    assert_traced("");
}

/* Without an answer even frequent calls are traced. */
static void test_no_answer(void **state)
{
    static const enum store_result results[] = {STORE_ERROR, STORE_OOM, STORE_UNKNOWN};
    const struct bytes why = bytes_str("ERR " SECRET);
    struct effects fx = {0};

    (void)state;
    for (size_t i = 0; i < array_size(results); i++) {
        ops_forget(&fx, 1, 0, 1, 1);
        record(&fx, "AD");
        trace_all(&fx, &(struct store_answer){.result = results[i], .items = &why, .n = 1});
    }
    assert_traced("store call=forget answer=ERROR\n"
                  "store call=record job=j what=ACTIVE answer=ERROR\n"
                  "store call=record job=j number=12 what=DISABLED answer=ERROR\n"
                  "store call=forget answer=OUT_OF_MEMORY\n"
                  "store call=record job=j what=ACTIVE answer=OUT_OF_MEMORY\n"
                  "store call=record job=j number=12 what=DISABLED answer=OUT_OF_MEMORY\n"
                  "store call=forget answer=NONE\n"
                  "store call=record job=j what=ACTIVE answer=NONE\n"
                  "store call=record job=j number=12 what=DISABLED answer=NONE\n");
}

/* An answer that the library does not give, and one that is not a word. */
static void test_invalid_answers(void **state)
{
    const struct bytes word = bytes_str("longer than any word that a function says");
    const struct store_answer broken = {.items = &word, .n = 1};
    struct effects fx = {0};

    (void)state;
    record(&fx, "A");
    ops_expire(&fx, 1, 0, 0, 10, 0, &(struct ops_clock){0});
    ops_drive(&fx, 1, 0, "j", "", "me", false, NULL, 0);
    trace_all(&fx, &broken);
    assert_traced("store call=drive job=j\n");
}

/* ---- handlers ---- */

static void test_runs(void **state)
{
    Drover__V1__StepRequest request = DROVER__V1__STEP_REQUEST__INIT;
    char job[] = "j", step[] = "s";

    (void)state;
    request.job_id = job;
    request.step = step;
    request.attempt = 2;
    request.desired = DROVER__V1__STATE__STATE_ACTIVE;
    trace_run("start", &request, NULL, tell, &traced);
    request.desired = DROVER__V1__STATE__STATE_DISABLED;
    trace_run("end", &request, "busy", tell, &traced);
    assert_traced("start job=j step=s attempt=2\n"
                  "end job=j step=s undo=true attempt=2 result=busy\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delivery),        cmocka_unit_test(test_publish),
        cmocka_unit_test(test_other_effects),   cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_records),         cmocka_unit_test(test_calls),
        cmocka_unit_test(test_expired),         cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_invalid_answers), cmocka_unit_test(test_runs),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
