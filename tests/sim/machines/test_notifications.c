// SPDX-License-Identifier: Apache-2.0
/*
 * Notifications of a scheduler: ends, step events, alerts; and those that are too large
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
#include "scheduler/alert_cause.h"
#include "scheduler/notification.h"
#include "scheduler/state.h"

#define STEP(name, actor)                                                                          \
    "{\"name\": \"" name "\", \"actor\": \"" actor                                                 \
    "\", \"retry\": {\"onPermanent\": \"RECOURSE_FAIL\"}}"
#define SUBMIT(more)                                                                               \
    "{\"jobId\": \"j\", \"replyTo\": \"mine\", \"definition\": {\"steps\": [" STEP(                \
        "a", "hand") "]}" more "}"
#define SHARED_WITH(more)                                                                          \
    "{\"jobId\": \"j\", \"definition\": {\"steps\": [" STEP("a", "hand") "]}" more "}"
#define SHARED SHARED_WITH("")
#define LABELS ", \"labels\": [{\"name\": \"shop\", \"value\": \"north\"}]"
#define DONE "\"achieved\": \"STATE_ACTIVE\""
#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"

/* The step is done, with a result of the maximum size. */
static void say_result(struct buf *out)
{
    static const char TYPE[] = "text/plain";

    buf_printf(out, "%s, \"result\": {\"contentType\": \"%s\", \"text\": \"", DONE, TYPE);
    for (size_t i = strlen(TYPE); i < WIRE_RESULT_MAX; i++)
        buf_putc(out, 'r');
    buf_puts(out, "\"}");
}

/* Decodes the last reply as the event of an end. */
static void heard(struct alone *w, struct wire_message *m)
{
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(&w->reply), NULL, m, NULL), 0);
}

static void test_labels_in_notifications(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, SUBMIT(LABELS ", \"events\": \"EVENTS_STEP\""));
    assert_non_null(strstr(buf_str(&w->story), "event {\"kind\":\"EVENT_KIND_STEP\""));
    assert_non_null(
        strstr(buf_str(&w->story), "\"labels\":[{\"name\":\"shop\",\"value\":\"north\"}]"));
    alone_serve(w, "j", "a", DONE);
    heard(w, &m);
    assert_int_equal(m.event->n_labels, 1);
    assert_string_equal(m.event->labels[0]->value, "north");
}

static void test_failed_steps_in_notifications(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0}, alert = {0};

    alone_submit(w, SUBMIT(""));
    alone_serve(w, "j", "a", HOPELESS);
    heard(w, &m);
    assert_int_equal(m.event->outcome, DROVER__V1__OUTCOME__OUTCOME_FAILED);
    assert_int_equal(m.event->n_failed_steps, 1);
    assert_string_equal(m.event->failed_steps[0], "a");
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(&w->alert), NULL, &alert, NULL), 0);
    assert_string_equal(alert.event->reason, "FAILED");
    assert_non_null(alert.event->error);
    assert_string_equal(alert.event->error->class_, "NO");
}

/* Results that do not fit are named. */
static void test_results_left_out(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(buf_deinit) struct buf said = {0};

    alone_submit(w, SUBMIT(""));
    say_result(&said);
    alone_serve(w, "j", "a", buf_str(&said));
    heard(w, &m);
    assert_int_equal(m.event->n_results, 0);
    assert_int_equal(m.event->n_results_left_out, 1);
    assert_string_equal(m.event->results_left_out[0], "a");
}

/* The call of a supervisor before it asks for notifications. */
static void scan(struct alone *w)
{
    struct effects fx = {0};
    struct store_answer answer;

    for (uint32_t p = 0; p < 2; p++) {
        const struct effect *e;

        ops_expire(&fx, 1, p, 0, 100, 0, &(struct ops_clock){0});
        e = &fx.items[fx.n - 1];
        simstore_call(w->store, ALONE_EPOCH + w->now, false, p, "expire", e->store.args, e->store.n,
                      &answer);
    }
    effects_deinit(&fx);
}

#define HOUR_MS 3600000
#define SOON_MS 6000 /* when a supervisor asks for the first time again */

/* Asks for a notification as a supervisor does after @ms. */
static void ask_for_notification(struct alone *w, uint64_t seq, int64_t ms)
{
    char control[80];

    snprintf(control, sizeof(control), "{\"jobId\": \"j\", \"notify\": {\"seq\": %d}}", (int)seq);
    alone_pass(w, ms);
    scan(w);
    w->story.len = 0;
    alone_control(w, control);
}

/* The client's queue is gone, however often the supervisor asks: in the end there is an alert. */
static void expect_undeliverable(struct alone *w, uint64_t seq, const char *returned,
                                 const char *dead)
{
    for (int tries = 1; tries < NOTIFICATION_TRIES; tries++) {
        assert_null(strstr(buf_str(&w->story), "dead"));
        assert_non_null(strstr(buf_str(&w->story), returned));
        ask_for_notification(w, seq, HOUR_MS);
    }
    assert_non_null(strstr(buf_str(&w->story), dead));
}

static void test_undeliverable_notification(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, SUBMIT(""));
    w->outcome = BUS_RETURNED;
    alone_serve(w, "j", "a", DONE);
    heard(w, &m);
    expect_undeliverable(w, m.event->seq, "reply",
                         "dead UNDELIVERABLE reply_to mine, ack, alert DEAD_LETTER");
}

static void write_data(struct alone *w, const char *field, const char *value)
{
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};

    buf_printf(&key, "drover:{p%u}:data:j", (unsigned)id_partition("j", 2));
    simstore_command(w->store, (const char *[]){"HSET", buf_str(&key), field, value}, 4, &reply);
    assert_string_equal(buf_str(&reply), ":0\r\n"); /* it was there */
}

/* The store goes back before the last try has its outcome, and the job has made another
 * notification of the same number since: that one has its own tries, and is no dead letter. */
static void test_undeliverable_and_another(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    char field[16];

    alone_submit(w, SUBMIT(""));
    w->outcome = BUS_RETURNED;
    alone_serve(w, "j", "a", DONE);
    heard(w, &m);
    for (int tries = 2; tries < NOTIFICATION_TRIES; tries++)
        ask_for_notification(w, m.event->seq, HOUR_MS);
    alone_confirm(w); /* nothing: all have their outcome */
    w->silent = true;
    ask_for_notification(w, m.event->seq, HOUR_MS);
    snprintf(field, sizeof(field), "s%d", (int)m.event->seq);
    write_data(w, field, "SUCCEEDED SUCCEEDED 1 5 0 ");
    w->silent = false;
    for (uint64_t id = w->confirmed + 1, last = w->publish; id <= last; id++)
        alone_step(w, (struct scheduler_event){
                          .type = SCHEDULER_OUTCOME, .id = id, .outcome = BUS_RETURNED});
    assert_null(strstr(buf_str(&w->story), "dead"));
    assert_true(scheduler_idle(w->scheduler));
    ask_for_notification(w, m.event->seq, HOUR_MS);
    assert_non_null(strstr(buf_str(&w->story), "reply"));
}

/* The broker takes long to confirm: the supervisor asks again and again meanwhile, and the event is
 * published once. */
static void test_notify_while_it_is_published(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, SUBMIT(""));
    w->silent = true;
    alone_serve(w, "j", "a", DONE);
    heard(w, &m);
    w->reply_routes.len = 0;
    for (int i = 0; i < 3; i++) {
        ask_for_notification(w, m.event->seq, SOON_MS);
        assert_string_equal(buf_str(&w->reply_routes), "");
    }
    w->silent = false;
    alone_confirm(w);
    assert_true(scheduler_idle(w->scheduler));
}

static void test_undeliverable_alert(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                    "\"hand\", \"retry\": {\"onPermanent\": \"RECOURSE_PARK\"}}]}}");
    w->outcome = BUS_NACKED;
    w->story.len = 0;
    alone_serve(w, "j", "a", HOPELESS);
    alone_expect(w, "alert PARKED, ack");
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", &m);
    buf_puts(&w->story, "alert");
    expect_undeliverable(w, m.answer->status->seq, "alert",
                         "dead UNDELIVERABLE drover.events, ack");
}

/* ---- several submitters of one job ---- */

static void submit_body_from(struct alone *w, const char *body, const char *queue,
                             const char *correlation)
{
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_SUBMIT,
                                           .reply_to = queue,
                                           .correlation_id = correlation,
                                           .body = bytes_str(body)});
}

static void submit_from(struct alone *w, const char *queue, const char *correlation)
{
    submit_body_from(w, SHARED, queue, correlation);
}

static void expect_notified(struct alone *w, const char *routes)
{
    assert_string_equal(buf_str(&w->reply_routes), routes);
    w->reply_routes.len = 0;
}

/* The client gets its step events with the correlation id of its Submit, as the Receipt and the
 * end. */
static void test_step_events_to_the_client(void **state)
{
    struct alone *w = *state;

    submit_body_from(w, SHARED_WITH(", \"events\": \"EVENTS_STEP_REPLY\""), "a", "1");
    expect_notified(w, "a/1 a/1 ");
    assert_non_null(strstr(buf_str(&w->reply), "STEP_EVENT_SENT"));
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "a/1 a/1 ");
}

/* The last submitter gets every end, the earlier ones once. A submitter that repeats its Submit
 * from the same queue counts once. */
static void test_all_submitters_are_notified(void **state)
{
    struct alone *w = *state;

    submit_from(w, "a", "1");
    submit_from(w, "b", "2");
    submit_from(w, "b", "2");
    submit_from(w, "b", "3");
    submit_from(w, "a", "1");
    expect_notified(w, "a/1 b/2 b/2 b/3 a/1 ");
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "a/1 b/3 b/2 ");
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"setDesired\": {\"desired\": "
                     "\"STATE_DISABLED\"}}");
    expect_notified(w, "me/ a/1 b/3 b/2 ");
}

static void test_some_submitters_are_notified(void **state)
{
    static const char *const queues[] = {"a", "b", "c", "d", "e", "f"};
    struct alone *w = *state;

    for (size_t i = 0; i < array_size(queues); i++)
        submit_from(w, queues[i], "");
    w->reply_routes.len = 0;
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "f/ e/ d/ c/ b/ ");
}

/* An earlier submitter that is gone is not tried again, and nothing waits for it. */
static void test_earlier_submitter_is_gone(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    submit_from(w, "a", "");
    submit_from(w, "b", "");
    w->gone = "a";
    w->reply_routes.len = w->story.len = 0;
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "b/ a/ ");
    heard(w, &m);
    ask_for_notification(w, m.event->seq, HOUR_MS);
    expect_notified(w, "");
    assert_true(scheduler_idle(w->scheduler));
}

/* The notification stays in the outbox for the last submitter alone. */
static void test_last_submitter_is_gone(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    submit_from(w, "a", "");
    submit_from(w, "b", "");
    w->gone = "b";
    w->reply_routes.len = 0;
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "b/ a/ ");
    heard(w, &m);
    w->gone = NULL;
    ask_for_notification(w, m.event->seq, HOUR_MS);
    expect_notified(w, "b/ ");
    ask_for_notification(w, m.event->seq, HOUR_MS);
    expect_notified(w, "");
}

/* It is unknown what a scheduler that died has sent: the next one sends it to all once more, and
 * only once. */
static void test_submitters_of_a_scheduler_that_dies(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    submit_from(w, "a", "");
    submit_from(w, "b", "");
    w->reply_routes.len = 0;
    w->silent = true;
    alone_serve(w, "j", "a", DONE);
    expect_notified(w, "b/ a/ ");
    heard(w, &m);
    w->silent = false;
    alone_restart(w);
    ask_for_notification(w, m.event->seq, SOON_MS);
    expect_notified(w, "b/ a/ ");
    ask_for_notification(w, m.event->seq, SOON_MS);
    expect_notified(w, "");
}

/* ---- alerts ---- */

/* More causes than a scheduler remembers: the store knows which of them had an alert. */
static void test_many_causes(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    unsigned alerts = 0;

    buf_puts(&json, "{\"jobId\": \"j\", \"definition\": {\"steps\": [");
    for (int i = 0; i <= ALERT_ASKED_MAX; i++)
        buf_printf(&json, "%s{\"name\": \"s%d\", \"actor\": \"a%d\"}", i ? ", " : "", i, i);
    buf_puts(&json, "]}}");
    w->unroutable = true;
    alone_submit(w, buf_str(&json));
    alone_pass(w, 600000);
    for (const char *at = buf_str(&w->story); (at = strstr(at, "alert UNROUTABLE")); at++)
        alerts++;
    assert_int_equal(alerts, ALERT_ASKED_MAX + 1);
}

static void isolated(struct alone *w, const char *job)
{
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_ISOLATED, .isolated = {.job = job}});
}

/* A publish was given up and is a dead letter: each one counts, one a minute has an alert. */
static void test_isolated_publishes(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    struct scheduler_stats stats;

    alone_submit(w, SHARED);
    w->story.len = 0;
    isolated(w, "j");
    alone_expect(w, "alert ISOLATED");
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(&w->alert), NULL, &m, NULL), 0);
    assert_string_equal(m.event->job_id, "j");
    assert_int_equal(m.event->at, ALONE_EPOCH); /* when the store last said it */
    isolated(w, "k");
    alone_pass(w, ALERT_AGAIN_MS - 1);
    isolated(w, "l");
    alone_expect(w, "");
    alone_pass(w, 1);
    isolated(w, "m");
    alone_expect(w, "alert ISOLATED");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.dead_letters, 4);
    assert_int_equal(stats.alerts, 2);
    assert_true(scheduler_idle(w->scheduler));
}

/* ---- notifications that are too large ---- */

#define RESULTS 16 /* that a step gets by default */

/* Steps in sequence, and one that takes the results of all: with them the request exceeds a
 * message. */
static void submit_large(struct alone *w)
{
    CLEANUP(buf_deinit) struct buf json = {0}, after = {0}, said = {0};

    buf_puts(&json, "{\"jobId\": \"j\", \"definition\": {\"steps\": [");
    for (int i = 0; i < RESULTS; i++) {
        buf_printf(&json, "{\"name\": \"s%d\", \"actor\": \"x\", \"after\": [", i);
        if (i > 0)
            buf_printf(&json, "\"s%d\"", i - 1);
        buf_puts(&json, "]}, ");
        buf_printf(&after, "%s\"s%d\"", i ? ", " : "", i);
    }
    buf_printf(&json,
               "{\"name\": \"last\", \"actor\": \"x\", \"after\": [%s], \"retry\": "
               "{\"onPermanent\": \"RECOURSE_PARK\"}}]}}",
               buf_str(&after));
    alone_submit(w, buf_str(&json));
    say_result(&said);
    for (int i = 0; i < RESULTS; i++) {
        char step[16];

        snprintf(step, sizeof(step), "s%d", i);
        w->story.len = 0;
        alone_serve(w, "j", step, buf_str(&said));
    }
}

static void test_request_too_large(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    submit_large(w);
    alone_expect(w, "alert PARKED, ack");
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {\"withData\": true, \"fromStep\": 16}}", &m);
    assert_string_equal(m.answer->status->steps[0]->name, "last");
    assert_string_equal(m.answer->status->steps[0]->last_error->class_, "INPUT_TOO_LARGE");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_labels_in_notifications),
        TEST(test_failed_steps_in_notifications),
        TEST(test_results_left_out),
        TEST(test_undeliverable_notification),
        TEST(test_undeliverable_and_another),
        TEST(test_undeliverable_alert),
        TEST(test_notify_while_it_is_published),
        TEST(test_many_causes),
        TEST(test_isolated_publishes),
        TEST(test_request_too_large),
        TEST(test_step_events_to_the_client),
        TEST(test_all_submitters_are_notified),
        TEST(test_some_submitters_are_notified),
        TEST(test_earlier_submitter_is_gone),
        TEST(test_last_submitter_is_gone),
        TEST(test_submitters_of_a_scheduler_that_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
