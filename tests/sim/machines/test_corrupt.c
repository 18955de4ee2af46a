// SPDX-License-Identifier: Apache-2.0
/*
 * A scheduler and damage in the store: corrupt jobs, and notifications that it cannot read
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "machines/alone.h"
#include "machines/logged.h"

#define PARTITIONS 2 /* of alone.c */
#define RETRY "\"retry\": {\"onPermanent\": \"RECOURSE_FAIL\"}"
#define STEP(name) "{\"name\": \"" name "\", \"actor\": \"hand\", " RETRY "}"
#define SUBMIT(steps)                                                                              \
    "{\"jobId\": \"j\", \"replyTo\": \"mine\", \"definition\": {\"steps\": [" steps "]}}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""
#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"
#define TORN "{\"jobId\": \"j\", \"issuedAt\": \"1700000000123\", \"notify\": {\"torn\": true}}"

/* Decodes the last reply, or alert, as an event. */
static void heard(const struct buf *body, struct wire_message *m)
{
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(body), NULL, m, NULL), 0);
}

static void edit(struct alone *w, const char *command, const char *field, const char *value)
{
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};
    const char *words[] = {command, NULL, field, value};

    buf_printf(&key, "drover:{p%u}:job:j", (unsigned)id_partition("j", PARTITIONS));
    words[1] = buf_str(&key);
    simstore_command(w->store, words, value ? 4 : 3, &reply);
    assert_true(reply.len > 0 && buf_str(&reply)[0] == ':');
}

/* The alert says which job, and since when. The supervisor's command is acknowledged when the
 * broker has the alert. */
static void test_alert_about_a_corrupt_job(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, SUBMIT(STEP("a")));
    edit(w, "HSET", "turn", "x");
    w->story.len = 0;
    w->silent = true;
    alone_control(w, TORN);
    alone_expect(w, "alert TORN");
    alone_confirm(w);
    alone_expect(w, "ack");
    heard(&w->alert, &m);
    assert_string_equal(m.event->job_id, "j");
    assert_int_equal(m.event->at, INT64_C(1700000000123));
    assert_int_equal(m.event->seq, 0);
    assert_string_equal(m.event->step, "");
    assert_string_equal(m.event->actor, "");
    w->silent = false;
    for (int sweeps = 0; sweeps < 3; sweeps++) {
        alone_pass(w, 600000);
        alone_control(w, TORN);
        alone_expect(w, "ack");
    }
}

/* The scheduler cannot name the steps of a job whose definition is gone. The event of its end has
 * only the step whose failure decided, because the store keeps that name. */
static void test_kill_of_a_corrupt_job(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_submit(w, SUBMIT(STEP("a") ", " STEP("b") ", " STEP("c")));
    alone_serve(w, "j", "c", HOPELESS);
    edit(w, "HDEL", "def", NULL);
    w->reply_routes.len = 0;
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"kill\": {}}");
    assert_string_equal(buf_str(&w->reply_routes), "me/ mine/ ");
    heard(&w->reply, &m);
    assert_int_equal(m.event->outcome, DROVER__V1__OUTCOME__OUTCOME_KILLED);
    assert_string_equal(m.event->step, "c");
    assert_string_equal(m.event->error->class_, "NO");
    assert_int_equal(m.event->n_failed_steps, 1);
    assert_string_equal(m.event->failed_steps[0], "c");
    assert_int_equal(m.event->n_results, 0);
    assert_true(scheduler_idle(w->scheduler));
}

static uint64_t last_seq(struct alone *w)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", &m);
    return m.answer->status->seq;
}

/* An answer that ends too early is no notification. It stays in the outbox: the supervisor asks for
 * it again. */
static void test_notification_with_a_broken_answer(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    char notify[80];

    alone_submit(w, SUBMIT(STEP("a")));
    w->story.len = 0;
    w->cut = "inspect";
    w->left = 2;
    logged_begin();
    alone_serve(w, "j", "a", DONE);
    assert_int_equal(logged_count("error test store_answer_broken job=j\n"), 1);
    logged_end();
    alone_expect(w, "ack");
    w->cut = NULL;
    snprintf(notify, sizeof(notify), "{\"jobId\": \"j\", \"notify\": {\"seq\": %d}}",
             (int)last_seq(w));
    w->reply.len = w->reply_routes.len = 0;
    alone_control(w, notify);
    assert_string_equal(buf_str(&w->reply_routes), "mine/ ");
    heard(&w->reply, &m);
    assert_int_equal(m.event->outcome, DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_alert_about_a_corrupt_job),
        TEST(test_kill_of_a_corrupt_job),
        TEST(test_notification_with_a_broken_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
