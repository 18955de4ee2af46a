// SPDX-License-Identifier: Apache-2.0
/*
 * A store that is broken: jobs and definitions that are damaged or gone, answers that cannot be,
 * and calls that fail for long
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "machines/alone.h"
#include "model/workflow.h"
#include "scheduler/state.h"

#define STEP(name)                                                                                 \
    "{\"name\": \"" name "\", \"actor\": \"hand\", \"retry\": {\"onPermanent\": "                  \
    "\"RECOURSE_PARK\"}}"
#define SUBMIT "{\"jobId\": \"j\", \"definition\": {\"steps\": [" STEP("a") "]}}"
#define NAMED "{\"jobId\": \"j\", \"workflow\": \"w\"}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""
#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"
#define NOTIFY "{\"jobId\": \"j\", \"notify\": {\"seq\": 9}}"

/* How long a call that fails is repeated. */
#define ROUND ((int64_t)OP_REFUSALS_MAX * OP_REPEAT_MS)

/* A command to the store about a key of the partition of job "j"; @more: NULL for none. */
static void damage(struct alone *w, const char *command, const char *key, const char *more)
{
    CLEANUP(buf_deinit) struct buf whole = {0}, answer = {0};
    const char *words[] = {command, NULL, more};

    buf_printf(&whole, "drover:{p%u}:%s", (unsigned)id_partition("j", 2), key);
    words[1] = buf_str(&whole);
    simstore_command(w->store, words, more ? 3 : 2, &answer);
}

static void query(struct alone *w, struct wire_message *answer)
{
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", answer);
    assert_int_equal(answer->answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    w->story.len = 0;
}

/* ---- jobs without their definition ---- */

#define KILLED                                                                                     \
    "{\"kind\":\"EVENT_KIND_SETTLED\",\"jobId\":\"j\",\"seq\":\"5\",\"at\":\"1700000000002\","     \
    "\"turn\":1,\"phase\":\"PHASE_ERROR\",\"outcome\":\"OUTCOME_KILLED\",\"reason\":"              \
    "\"REQUESTED\",\"stepsTotal\":1,\"stepsOpen\":1}"

/* A job that cannot be read is killed; its notification names no steps. */
static void test_killed_while_corrupt(void **state)
{
    struct alone *w = *state;

    alone_submit(w, SUBMIT);
    w->story.len = 0;
    damage(w, "HDEL", "job:j", "def");
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"kill\": {}}");
    alone_expect(w, "reply {\"jobId\":\"j\",\"commandId\":\"c\",\"code\":\"ANSWER_CODE_DONE\"}, "
                    "event " KILLED ", reply " KILLED ", ack");
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"history\": {}}");
    alone_expect(w, "reply {\"jobId\":\"j\",\"commandId\":\"c\",\"code\":"
                    "\"ANSWER_CODE_UNKNOWN_JOB\",\"reason\":\"there is no such job\"}, ack");
}

/* Registers the workflow "w", and submits the job "j" of it, which succeeds. */
static void succeed(struct alone *w)
{
    static const char workflow[] = "{\"jobId\": \"x\", \"definition\": {\"name\": \"w\", "
                                   "\"version\": 1, \"steps\": [" STEP("a") "]}}";
    CLEANUP(workflow_unref) struct workflow *known = NULL;
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(wire_decode(WIRE_SUBMIT, bytes_str(workflow), NULL, &m, NULL), 0);
    assert_int_equal(workflow_new(&known, m.submit->definition, "", NULL), 0);
    assert_int_equal(scheduler_register(w->scheduler, known), 0);
    alone_step(
        w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "first"});
    alone_submit(w, NAMED);
    alone_serve(w, "j", "a", DONE);
    w->story.len = 0;
}

/* The definition of a job is read for the Receipt of a Submit that is repeated; if it is gone,
 * there is no Receipt. */
static void test_definition_for_a_receipt(void **state)
{
    struct alone *w = *state;

    succeed(w);
    alone_restart(w);
    w->instead = (struct alone_answer){"inspect", STORE_OK, "UNKNOWN"};
    w->times = 1;
    alone_submit(w, NAMED);
    alone_expect(w, "ack");
    alone_submit(w, NAMED);
    assert_non_null(strstr(buf_str(&w->story), "\"code\":\"RECEIPT_CODE_ALREADY\","
                                               "\"workflow\":\"w@1\",\"steps\":1"));
    w->story.len = 0;
}

/* A definition that is no protobuf cannot be shown. */
static void test_definition_that_is_none(void **state)
{
    struct alone *w = *state;

    w->instead = (struct alone_answer){"inspect", STORE_OK, "FOUND z"};
    w->times = 1;
    alone_control(w, "{\"commandId\": \"c\", \"listWorkflows\": {\"workflow\": \"w\"}}");
    alone_expect(w, "ack");
}

/* Whether a definition is stored is decided by the call that needs it. */
static void test_empty_answer_to_define(void **state)
{
    struct alone *w = *state;

    w->cut = "define";
    alone_submit(w, SUBMIT);
    assert_int_equal(w->items, 1);
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000000000\"}, request a, ack");
}

/* ---- notifications that are damaged ---- */

/* Has the store answer the question for a notification so. @said: from the number of steps on. */
static void notified(struct alone *w, const char *definition, const char *said)
{
    char words[300];

    snprintf(words, sizeof(words), "FOUND %s %s", definition, said);
    w->instead = (struct alone_answer){"inspect", STORE_OK, words};
    w->times = 2; /* the second time for the results, unless it is an alert */
    w->story.len = 0;
    alone_control(w, NOTIFY);
    w->times = 0;
}

#define SETTLED(more)                                                                              \
    "event {\"kind\":\"EVENT_KIND_SETTLED\",\"jobId\":\"j\",\"seq\":\"9\",\"at\":"                 \
    "\"1700000000000\",\"turn\":1,\"phase\":\"PHASE_ERROR\",\"outcome\":\"OUTCOME_FAILED\","       \
    "\"reason\":\"PERMANENT\"," more "}, ack"

/* Steps that the definition does not have are left out; a result that is no Payload is empty. */
static void test_notification_with_unknown_steps(void **state)
{
    static const char said[] =
        "1       json 0 FAILED ERROR 1 1700000000000 0 PERMANENT 4294967294+0+1   "
        "2 0 z 4294967294 z 0";
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message status = {0};

    alone_submit(w, SUBMIT);
    query(w, &status);
    notified(w, status.answer->status->definition, said);
    alone_expect(w, SETTLED("\"results\":[{\"step\":\"a\"}],\"stepsTotal\":1,"
                            "\"failedSteps\":[\"a\"]"));
    notified(w, "lost", said);
    alone_expect(w, SETTLED("\"stepsTotal\":1"));
}

/* The store's record of an alert is damaged: the scheduler publishes the alert with the fields that
 * it can read. */
static void test_damaged_alerts(void **state)
{
    static const struct {
        const char *said, *story, *step;
    } alerts[] = {
        {"PARKED 0+0", "alert PARKED, ack", "a"}, {"FAILED 0+1", "alert FAILED, ack", "a"},
        {"PARKED 1+0", "alert PARKED, ack", ""}, /* no such step */
        {"PARKED 0", "alert PARKED, ack", ""},    {"PARKED ", "alert PARKED, ack", ""},
        {"OTHER 0+0", "alert PARKED, ack", "a"}, /* no such reason */
    };
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message status = {0};
    char said[200];

    alone_submit(w, SUBMIT);
    query(w, &status);
    for (size_t i = 0; i < array_size(alerts); i++) {
        snprintf(said, sizeof(said), "1       json 0 ALERT PROCESSING 1 1700000000000 1 %s   0 0",
                 alerts[i].said);
        notified(w, status.answer->status->definition, said);
        alone_expect(w, alerts[i].story);
        assert_string_equal(w->alert_step, alerts[i].step);
        notified(w, "lost", said);
        alone_expect(w, alerts[i].story);
        assert_string_equal(w->alert_step, "");
    }
}

/* A notification whose answer ends too early is not published. */
static void test_notification_cut(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    char notify[80];

    alone_submit(w, SUBMIT);
    w->outcome = BUS_NACKED;
    alone_serve(w, "j", "a", HOPELESS);
    w->outcome = BUS_CONFIRMED;
    alone_pass(w, 6000); /* until the next try */
    query(w, &m);
    snprintf(notify, sizeof(notify), "{\"jobId\": \"j\", \"notify\": {\"seq\": %d}}",
             (int)m.answer->status->seq);
    w->items = UINT32_MAX;
    for (w->left = 0; w->left < w->items; w->left++) {
        w->cut = "inspect";
        alone_control(w, notify);
        alone_expect(w, "ack");
    }
    assert_true(w->left > 20);
    w->cut = NULL;
    alone_control(w, notify);
    alone_expect(w, "alert PARKED, ack");
}

#define TOLD                                                                                       \
    "{\"jobId\": \"j\", \"events\": \"EVENTS_STEP_REPLY\", \"definition\": {\"steps\": [" STEP(    \
        "a") "]}}"

/* Step events whose answer ends too early are not published; without a reply queue none are. */
static void test_step_events_cut(void **state)
{
    struct alone *w = *state;

    w->items = UINT32_MAX;
    for (w->left = 0; w->left <= w->items; w->left++) {
        simstore_reset(w->store, 0);
        alone_restart(w);
        w->cut = "step_events";
        alone_submit(w, TOLD);
        assert_int_equal(strstr(buf_str(&w->story), "EVENT_KIND_STEP") != NULL,
                         w->left == w->items);
        w->story.len = 0;
    }
    assert_true(w->items > 7);
    w->cut = NULL;
    simstore_reset(w->store, 0);
    alone_restart(w);
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(TOLD)});
    alone_expect(w, "request a, ack");
}

/* ---- calls that fail ---- */

/* An error without a message is not one of the functions, so it is waited for. */
static void test_error_without_a_message(void **state)
{
    struct alone *w = *state;

    w->instead = (struct alone_answer){"submit", STORE_ERROR, NULL};
    w->times = 2 * OP_REFUSALS_MAX;
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(SUBMIT)});
    alone_pass(w, 2 * ROUND - OP_REPEAT_MS);
    alone_expect(w, "");
    alone_pass(w, OP_REPEAT_MS);
    alone_expect(w, "request a, ack");
}

/* A call that belongs to no message blocks no queue: it is repeated until it is carried out. */
static void test_own_call_fails_for_long(void **state)
{
    struct alone *w = *state;

    alone_submit(w, SUBMIT);
    w->story.len = 0;
    simstore_reset(w->store, 0);
    w->instead = (struct alone_answer){"mark", STORE_ERROR, "ERR broken"};
    w->times = 2 * OP_REFUSALS_MAX;
    alone_step(
        w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "second"});
    alone_pass(w, ROUND / 2);
    alone_expect(w, "");
    alone_pass(w, 2 * ROUND);
    assert_int_equal(w->times, 0);
    alone_expect(w, "alert STORE_LOST, alert JOB_LOST");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_killed_while_corrupt),
        TEST(test_definition_for_a_receipt),
        TEST(test_definition_that_is_none),
        TEST(test_empty_answer_to_define),
        TEST(test_notification_with_unknown_steps),
        TEST(test_damaged_alerts),
        TEST(test_notification_cut),
        TEST(test_step_events_cut),
        TEST(test_error_without_a_message),
        TEST(test_own_call_fails_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
