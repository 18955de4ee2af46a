// SPDX-License-Identifier: Apache-2.0
/*
 * Watched requests: when a scheduler reports that one has left its queue
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
#include "scheduler/state.h"

#define WAIT_MS 2000 /* of a dispatch that follows one that came back */

/* The request came back as no agent took it in time: it is sent again, and may wait longer. */
static void comes_back(struct alone *w, const char *job)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    buf_printf(&body,
               "{\"requests\": [{\"jobId\": \"%s\", \"step\": \"a\", \"token\": \"%s\", "
               "\"actor\": \"hand\", \"idempotencyKey\": \"%s/a/1\", \"action\": \"do\", "
               "\"lockMs\": 60000, \"desired\": \"STATE_ACTIVE\"}]}",
               job, w->token, job);
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_EXPIRED, .body = buf_bytes(&body)});
}

static void submit(struct alone *w, const char *job, const char *actor, int wait_ms)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json,
               "{\"jobId\": \"%s\", \"definition\": {\"waitMs\": %d, \"lockMs\": 60000, "
               "\"steps\": [{\"name\": \"a\", \"actor\": \"%s\", \"action\": \"do\"}]}}",
               job, wait_ms, actor);
    alone_submit(w, buf_str(&json));
}

static void queue(struct alone *w, uint32_t messages, uint32_t consumers)
{
    alone_step(w,
               (struct scheduler_event){.type = SCHEDULER_QUEUE, .queue = {messages, consumers}});
}

/* A job whose first request came back. */
static void begin_waiting(struct alone *w, const char *job, const char *actor, int wait_ms)
{
    submit(w, job, actor, wait_ms);
    comes_back(w, job);
    if (strstr(buf_str(&w->story), "inspect"))
        queue(w, 1, 1);
    w->story.len = 0;
}

static void begin(struct alone *w, const char *job, const char *actor)
{
    begin_waiting(w, job, actor, WAIT_MS / 2);
}

/* Whether the store has evidence for the last request. */
static bool is_taken(struct alone *w, const char *job)
{
    char key[32];

    snprintf(key, sizeof(key), "data:%s", job);
    return simstore_hash(w->store, id_partition(job, 2), key) &&
           bytes_is(simstore_field(w->store, "t0"), w->token);
}

/* Each inspection finds this, until the wait is over. */
static void inspections_find(struct alone *w, uint32_t messages, uint32_t consumers)
{
    for (int64_t end = w->now + WAIT_MS; w->now < end;) {
        alone_pass(w, 10);
        if (w->story.len > 0)
            queue(w, messages, consumers);
        w->story.len = 0;
    }
}

static void test_request_taken(void **state)
{
    struct alone *w = *state;

    begin(w, "j", "hand");
    alone_pass(w, 900);
    alone_expect(w, "");
    alone_pass(w, 200);
    alone_expect(w, "inspect drover.task.hand");
    queue(w, 0, 1);
    alone_pass(w, 300);
    alone_expect(w, "");
    inspections_find(w, 0, 1);
    assert_true(is_taken(w, "j"));
}

/* A first dispatch is not watched. */
static void test_first_dispatch_is_not_watched(void **state)
{
    struct alone *w = *state;

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"waitMs\": 1000, \"steps\": ["
                    "{\"name\": \"a\", \"actor\": \"hand\", \"action\": \"do\"}]}}");
    w->story.len = 0;
    alone_pass(w, 5000);
    alone_expect(w, "");
    assert_false(is_taken(w, "j"));
}

/* The request may be the message in the queue; or there may be no queue. */
static void test_request_not_taken(void **state)
{
    struct alone *w = *state;

    begin(w, "ready", "hand");
    inspections_find(w, 1, 1);
    assert_false(is_taken(w, "ready"));
    begin(w, "none", "hand");
    inspections_find(w, 0, 0);
    assert_false(is_taken(w, "none"));
}

/* An agent may have given it back since. */
static void test_last_inspection_counts(void **state)
{
    struct alone *w = *state;

    begin(w, "back", "hand");
    alone_pass(w, 1100);
    queue(w, 0, 1);
    inspections_find(w, 1, 1);
    assert_false(is_taken(w, "back"));
    begin(w, "gone", "hand");
    alone_pass(w, 1100);
    queue(w, 1, 1);
    inspections_find(w, 0, 1);
    assert_true(is_taken(w, "gone"));
}

/* The request may have expired by then. */
static void test_inspected_too_late(void **state)
{
    struct alone *w = *state;

    begin(w, "j", "hand");
    alone_pass(w, 1100);
    alone_expect(w, "inspect drover.task.hand");
    w->now += WAIT_MS; /* without a tick */
    queue(w, 0, 1);
    alone_pass(w, WAIT_MS);
    assert_false(is_taken(w, "j"));
}

/* An inspection from before the broker had the request shows nothing. */
static void test_confirmed_first(void **state)
{
    struct alone *w = *state;

    begin(w, "one", "hand");
    alone_pass(w, 1100);
    alone_expect(w, "inspect drover.task.hand");
    begin(w, "other", "hand");
    queue(w, 0, 1);
    alone_pass(w, WAIT_MS);
    assert_false(is_taken(w, "other"));
}

/* An inspection of the queue of another actor shows nothing; each queue has its inspection. */
static void test_another_queue(void **state)
{
    struct alone *w = *state;

    begin(w, "j", "hand");
    begin(w, "k", "foot");
    alone_pass(w, 1100);
    alone_expect(w, "inspect drover.task.hand");
    queue(w, 0, 1);
    alone_pass(w, 10);
    alone_expect(w, "inspect drover.task.foot");
    alone_pass(w, WAIT_MS);
    assert_false(is_taken(w, "k"));
}

/* A broker that comes back may have lost its queues. */
static void test_lost_connection(void **state)
{
    struct alone *w = *state;

    begin(w, "j", "hand");
    alone_pass(w, 1100);
    queue(w, 0, 1);
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    w->story.len = 0;
    queue(w, 0, 1);
    alone_pass(w, WAIT_MS);
    alone_expect(w, "");
    assert_false(is_taken(w, "j"));
}

/* Requests beyond the limit are not watched; when others are finished, there is room again. */
static void test_many_requests(void **state)
{
    struct alone *w = *state;
    char job[16];

    for (int i = 0; i <= WATCH_MAX; i++) {
        snprintf(job, sizeof(job), "j%d", i);
        begin(w, job, "hand");
    }
    inspections_find(w, 0, 1);
    assert_false(is_taken(w, job));
    begin(w, "j", "hand");
    inspections_find(w, 0, 1);
    assert_true(is_taken(w, "j"));
}

/* Requests of an actor without agents wait longer, and do not keep others from being watched. */
static void test_many_long_waits(void **state)
{
    struct alone *w = *state;
    char job[16];

    for (int i = 0; i <= WATCH_MAX; i++) {
        snprintf(job, sizeof(job), "j%d", i);
        begin(w, job, "dead");
    }
    begin_waiting(w, "j", "hand", WAIT_MS / 4);
    for (int64_t end = w->now + WAIT_MS; w->now < end;) {
        alone_pass(w, 10);
        if (w->story.len > 0)
            queue(w, 0, strstr(buf_str(&w->story), "hand") ? 1 : 0);
        w->story.len = 0;
    }
    assert_true(is_taken(w, "j"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

/* Dead letters from before are not reported; later ones are reported a minute after they were seen.
 * */
static void test_dead_letters_of_others(void **state)
{
    struct alone *w = *state;

    w->letters = 5;
    alone_pass(w, 2L * ALERT_AGAIN_MS);
    alone_expect(w, "");
    w->letters = 7;
    alone_pass(w, ALERT_AGAIN_MS);
    alone_expect(w, ""); /* a scheduler may have put them there and not reported it yet */
    alone_pass(w, ALERT_AGAIN_MS);
    alone_expect(w, "alert DEAD_LETTER");
    alone_pass(w, 2L * ALERT_AGAIN_MS);
    alone_expect(w, "");
    w->letters = 8;
    alone_pass(w, 2L * ALERT_AGAIN_MS);
    alone_expect(w, "alert DEAD_LETTER");
}

/* Its own dead letters are reported at once, and not again when they are seen in drover.dead. */
static void test_dead_letters_of_its_own(void **state)
{
    struct alone *w = *state;

    alone_pass(w, 2L * ALERT_AGAIN_MS);
    alone_replies(w, "{}");
    alone_expect(w, "dead INVALID replies must be given, ack, alert DEAD_LETTER");
    w->letters = 1;
    alone_pass(w, 3L * ALERT_AGAIN_MS);
    alone_expect(w, "");
}

/* Alerts of one cause within a minute are counted; the process reports the number before it ends.
 * */
static void test_waiting_alerts_are_sent_at_the_end(void **state)
{
    struct alone *w = *state;

    alone_replies(w, "{}");
    alone_expect(w, "dead INVALID replies must be given, ack, alert DEAD_LETTER");
    alone_replies(w, "{}");
    alone_expect(w, "dead INVALID replies must be given, ack");
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_STOP});
    alone_expect(w, "alert DEAD_LETTER");
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_STOP});
    alone_expect(w, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_taken),
        TEST(test_first_dispatch_is_not_watched),
        TEST(test_request_not_taken),
        TEST(test_last_inspection_counts),
        TEST(test_inspected_too_late),
        TEST(test_confirmed_first),
        TEST(test_another_queue),
        TEST(test_lost_connection),
        TEST(test_many_requests),
        TEST(test_many_long_waits),
        TEST(test_dead_letters_of_others),
        TEST(test_dead_letters_of_its_own),
        TEST(test_waiting_alerts_are_sent_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
