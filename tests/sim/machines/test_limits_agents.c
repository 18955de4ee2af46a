// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: replies and Progress of agents that send too many, or false ones
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machines/limited.h"
#include "model/store_ops.h"

/* A message with more replies than allowed: the first ones count. */
static void test_too_many_replies(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};

    alone_submit(w, SUBMIT("j"));
    w->story.len = 0;
    buf_printf(&json,
               "{\"replies\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", " DONE "}",
               w->token);
    for (int i = 0; i < WIRE_REPLIES_MAX; i++)
        buf_puts(&json, ", {}");
    buf_puts(&json, "], \"progress\": [{}]}");
    alone_replies(w, buf_str(&json));
    assert_non_null(strstr(buf_str(&w->story),
                           "dead INVALID replies has more than 1000: the rest was "
                           "not read"));
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    w->story.len = 0;
}

static void made_up(struct alone *w, const char *actor, unsigned n)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_puts(&json, "{\"replies\": [");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&json, "%s{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"0.%u\", " DONE "}",
                   i > 0 ? "," : "", i);
    buf_puts(&json, "]}");
    alone_deliver(w, (struct bus_delivery){
                         .source = SCHEDULER_REPLIES, .actor = actor, .body = buf_bytes(&json)});
}

/* Replies of an actor whose agents invent tokens are ignored for a while; those of other actors,
 * and valid ones, are not. */
static void test_bad_replies(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;
    char json[300];

    made_up(w, "hand", 200);
    made_up(w, "hand", 200);
    made_up(w, "hand", 100); /* some allowance was gained */
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 0);
    made_up(w, "hand", 100);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 1);
    assert_non_null(strstr(buf_str(&w->story), "alert REPLIES_IGNORED"));
    w->story.len = 0;
    made_up(w, "other", 1);
    made_up(w, "", 1000);
    made_up(w, "hand", 1);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 2);
    assert_null(strstr(buf_str(&w->story), "alert"));
    alone_pass(w, 11000); /* an allowance for ten more invalid ones */
    for (int i = 0; i < 30; i++) {
        snprintf(json, sizeof(json),
                 "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                 "\"hand\"}]}}",
                 i);
        alone_submit(w, json);
        snprintf(json, sizeof(json),
                 "{\"replies\": [{\"jobId\": \"j%d\", \"step\": \"a\", \"token\": \"%s\", " DONE
                 "}]}",
                 i, w->token);
        w->story.len = 0;
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .body = bytes_str(json)});
        assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    }
    w->story.len = 0;
}

/* A reply with a token that is not valid changes nothing, and is counted. */
static void test_stale_replies(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                    "\"hand\"}]}}");
    made_up(w, "hand", 2);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.stale, 2);
    assert_int_equal(stats.unknown, 0);
    assert_int_equal(stats.recorded, 0);
    w->story.len = 0;
}

/* An agent has mixed two requests up. A reply that names another step than its token changes
 * nothing: the right one still counts. The letter tells no secret. */
static void test_reply_for_another_step(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf letter = {0};
    struct effects fx = {0};

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                    "\"hand\"}, {\"name\": \"b\", \"actor\": \"hand\", \"after\": [\"a\"]}]}}");
    buf_printf(&letter,
               "dead INVALID replies.step names another step than token %s, alert OTHER_STEP, ack",
               ops_token_id(&fx, w->token));
    effects_deinit(&fx);
    w->story.len = 0;
    alone_serve(w, "j", "b", DONE);
    alone_expect(w, buf_str(&letter));
    alone_serve(w, "j", "a", DONE);
    alone_expect(w, "request b, ack");
}

/* Progress for one token: the step is in flight, but each message costs a store call. Beyond the
 * allowance Progress is ignored, and is charged as replies are. */
static void test_progress_costs(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;
    char json[300];
    int n = 0;

    alone_submit(w, SUBMIT("j"));
    snprintf(json, sizeof(json),
             "{\"progress\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\"}]}", w->token);
    do {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .reply_to = "me",
                                               .body = bytes_str(json)});
        scheduler_stats(w->scheduler, &stats);
        w->story.len = 0;
    } while (stats.progress_ignored == 0 && ++n < 1000);
    assert_in_range(n, 400, 450);
    alone_serve(w, "j", "a", DONE);
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    for (n = 0; stats.ignored == 0 && n < 10000; n++) {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .body = bytes_str(json)});
        scheduler_stats(w->scheduler, &stats);
    }
    assert_in_range(n, 300, 900);
    w->story.len = 0;
}

/* A setting for when all agents reply by the exchange of their actor. Until then agents that use
 * the shared exchange have one allowance if owners are required. */
static void test_replies_by_the_shared_exchange(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    with_owners(w);
    for (int i = 0; i < 4; i++)
        made_up(w, "", 200);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 1);
    w->story.len = 0;
    owner_access.by_actor = true;
    alone_restart(w);
    made_up(w, "", 1);
    owner_access.by_actor = false;
    assert_non_null(strstr(buf_str(&w->story), "DENIED"));
    w->story.len = 0;
}

/* The alert for one actor does not suppress the one for another. */
static void test_alert_for_each_actor(void **state)
{
    struct alone *w = *state;

    for (const char *const *actor = (const char *const[]){"hand", "other", NULL}; *actor; actor++) {
        for (int i = 0; i < 4; i++)
            made_up(w, *actor, 200);
        assert_non_null(strstr(buf_str(&w->story), "alert REPLIES_IGNORED"));
        w->story.len = 0;
    }
    made_up(w, "hand", 1);
    assert_null(strstr(buf_str(&w->story), "alert"));
    w->story.len = 0;
}

/* A user who may read an exchange of Drover could bind it to that of its actor. */
static void test_replies_by_another_exchange(void **state)
{
    struct alone *w = *state;
    char json[300];

    alone_submit(w, SUBMIT("j"));
    snprintf(json, sizeof(json),
             "{\"replies\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", " DONE "}]}",
             w->token);
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = wire_reply_by("drover.pulse"),
                                           .body = bytes_str(json)});
    assert_non_null(strstr(buf_str(&w->story), "DENIED"));
    assert_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    assert_string_equal(wire_reply_by("drover.replies"), "");
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = wire_reply_by("drover.reply.hand"),
                                           .body = bytes_str(json)});
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    w->story.len = 0;
}

/* Of several Progress for one token in a message only the last counts: each would cost a store
 * call. */
static void test_progress_of_one_token(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};

    alone_submit(w, SUBMIT("j"));
    buf_puts(&json, "{\"progress\": [");
    for (int i = 1; i <= 4; i++)
        buf_printf(&json,
                   "%s{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", \"fraction\": 0.%d}",
                   i > 1 ? "," : "", w->token, i);
    buf_puts(&json, "]}");
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){
                         .source = SCHEDULER_REPLIES, .reply_to = "me", .body = buf_bytes(&json)});
    assert_non_null(strstr(buf_str(&w->story), "reply "));
    assert_ptr_equal(strstr(buf_str(&w->story), "reply "),
                     strstr(buf_str(&w->story), "reply {\"answers"));
    assert_null(strstr(strstr(buf_str(&w->story), "reply ") + 1, "reply "));
    w->story.len = 0;
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", &answer);
    assert_true(answer.answer->status->steps[0]->fraction > 0.39);
    w->story.len = 0;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_too_many_replies),
        TEST(test_bad_replies),
        TEST(test_stale_replies),
        TEST(test_reply_for_another_step),
        TEST(test_progress_costs),
        TEST(test_alert_for_each_actor),
        TEST(test_replies_by_another_exchange),
        TEST(test_replies_by_the_shared_exchange),
        TEST(test_progress_of_one_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
