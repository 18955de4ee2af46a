// SPDX-License-Identifier: Apache-2.0
/*
 * Alerts of two schedulers about missing agents and corrupt jobs, and their work while the store is
 * full
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machines/pair.h"
#include "model/store_ops.h"
#include "model/wire.h"

#define MINUTE INT64_C(60000)
#define SOON_MS 6000 /* when a supervisor asks for a notification again */

/* Asks in JSON; the caller frees the answer. */
static void ask(struct pair *w, const char *control, struct wire_message *answer)
{
    w->reply.len = 0;
    pair_deliver(w, A, SCHEDULER_CONTROL, bytes_str(control));
    assert_true(w->reply.len > 0);
    assert_int_equal(wire_decode(WIRE_ANSWER, buf_bytes(&w->reply), NULL, answer, NULL), 0);
}

/* Submits jobs j0, j1, ... whose requests no agent takes in time. */
static void wait_for_agent(struct pair *w, int jobs)
{
    for (int i = 0; i < jobs; i++) {
        char id[16];

        snprintf(id, sizeof(id), "j%d", i);
        pair_submit(w, A, id);
    }
    pair_pass(w, PAIR_WAIT_MS);
}

/* No agent takes the job's request within its wait: it expires and reaches this scheduler. */
static void unstarted(struct pair *w, enum peer peer, const char *id)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    buf_append(&body, pair_job(w, id)->request.data, pair_job(w, id)->request.len);
    pair_deliver(w, peer, SCHEDULER_EXPIRED, buf_bytes(&body));
}

/* An agent fails the job for good. */
static void failed(struct pair *w, enum peer peer, const char *id)
{
    Drover__V1__Error error = DROVER__V1__ERROR__INIT;

    error.verdict = DROVER__V1__VERDICT__VERDICT_PERMANENT;
    pair_reply(w, peer, id, &error);
}

/* The scheduler that gets the next reply may be another one than the one that sent the alert. */
static void test_each_outage_has_an_alert(void **state)
{
    struct pair *w = *state;

    wait_for_agent(w, 4);
    unstarted(w, A, "j0");
    unstarted(w, B, "j1");
    pair_expect(w, "A NO_AGENT j0");
    pair_served(w, B, "j0");
    pair_pass(w, MINUTE);
    unstarted(w, A, "j2");
    pair_expect(w, "A NO_AGENT j2");
    pair_served(w, B, "j1"); /* a minute after B got the first reply */
    pair_pass(w, MINUTE);
    unstarted(w, B, "j3");
    pair_expect(w, "B NO_AGENT j3");
}

/* The scheduler dies before the broker has its alert: another one sends it a minute later. */
static void test_dies_before_the_alert(void **state)
{
    struct pair *w = *state;

    wait_for_agent(w, 4);
    w->mood = SILENT;
    unstarted(w, A, "j0");
    pair_expect(w, "A NO_AGENT j0");
    pair_die(w, A);
    w->mood = CONFIRMS;
    unstarted(w, B, "j1");
    pair_expect(w, "");
    pair_pass(w, MINUTE);
    unstarted(w, B, "j2");
    pair_expect(w, "B NO_AGENT j2");
    pair_pass(w, 10 * MINUTE);
    unstarted(w, A, "j3");
    pair_expect(w, "");
}

/* The answer of the store that the alert is new gets lost. */
static void test_answer_about_an_alert_lost(void **state)
{
    struct pair *w = *state;

    wait_for_agent(w, 2);
    w->deaf_to = "told";
    unstarted(w, A, "j0");
    unstarted(w, B, "j1");
    pair_expect(w, "");
    pair_pass(w, 1000);
    pair_expect(w, "A NO_AGENT j0");
}

static void test_outage_known_for_two_hours(void **state)
{
    struct pair *w = *state;

    wait_for_agent(w, 6);
    unstarted(w, A, "j0");
    pair_expect(w, "A NO_AGENT j0");
    pair_pass(w, 100 * MINUTE);
    unstarted(w, B, "j1");
    pair_pass(w, 100 * MINUTE);
    unstarted(w, B, "j2");
    pair_expect(w, "");
    pair_pass(w, 121 * MINUTE);
    unstarted(w, A, "j3");
    pair_expect(w, "A NO_AGENT j3");
}

/* A sweep has met the corrupt job; this scheduler gets the supervisor's command. */
static void swept(struct pair *w, enum peer peer, const char *id)
{
    char control[80];

    snprintf(control, sizeof(control), "{\"jobId\": \"%s\", \"notify\": {\"torn\": true}}", id);
    pair_deliver(w, peer, SCHEDULER_CONTROL, bytes_str(control));
    assert_true(scheduler_idle(w->peers[peer]));
}

/* Each corrupt job has one alert, whichever schedulers the sweeps reach. */
static void test_corrupt_jobs(void **state)
{
    struct pair *w = *state;

    for (int hour = 0; hour < 5; hour++) {
        swept(w, hour % 2 ? B : A, "j0");
        pair_expect(w, hour == 0 ? "A TORN j0" : "");
        pair_pass(w, 60 * MINUTE);
    }
    assert_int_equal(id_partition("j2", PAIR_PARTITIONS), id_partition("j0", PAIR_PARTITIONS));
    swept(w, B, "j2");
    pair_expect(w, "B TORN j2");
    pair_pass(w, 121 * MINUTE); /* a person has put j0 back, and damages it again */
    swept(w, B, "j0");
    pair_expect(w, "B TORN j0");
}

/* If the broker refuses the alert, a sweep after the next minute raises it. */
static void test_refused_alert_about_a_corrupt_job(void **state)
{
    struct pair *w = *state;

    w->mood = NACKS;
    swept(w, A, "j0");
    pair_expect(w, "A TORN j0");
    w->mood = CONFIRMS;
    swept(w, B, "j0");
    pair_expect(w, "");
    pair_pass(w, MINUTE);
    swept(w, B, "j0");
    pair_expect(w, "B TORN j0");
    pair_pass(w, MINUTE);
    swept(w, A, "j0");
    pair_expect(w, "");
}

static void expect_receipt(struct pair *w, const char *code)
{
    assert_true(w->reply.len > 0);
    assert_non_null(strstr(buf_str(&w->reply), code));
    w->reply.len = 0;
}

/* New jobs are refused, except those that may be recorded already: their senders would take a
 * refusal for final. */
static void test_full_store(void **state)
{
    static const char submit[] =
        "{\"jobId\": \"j\", \"replyTo\": \"me\","
        " \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": \"hand\"}]}}";
    struct pair *w = *state;

    w->full = true;
    pair_deliver(w, A, SCHEDULER_SUBMIT, bytes_str(submit));
    expect_receipt(w, "RETRY_LATER");
    pair_deliver_again(w, A, SCHEDULER_SUBMIT, bytes_str(submit));
    pair_pass(w, 5000);
    assert_int_equal(w->reply.len, 0);
    w->full = false;
    pair_pass(w, 5000);
    expect_receipt(w, "CREATED");
    w->deaf_to = "submit";
    pair_deliver(w, A, SCHEDULER_SUBMIT, bytes_str(submit));
    w->full = true;
    pair_pass(w, 5000);
    assert_int_equal(w->reply.len, 0);
    w->full = false;
    pair_pass(w, 5000);
    expect_receipt(w, "ALREADY");
}

static void token_of(struct pair *w, const char *id, char token[WIRE_TOKEN_MAX + 1])
{
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(
        wire_decode(WIRE_REQUESTS, buf_bytes(&pair_job(w, id)->request), NULL, &m, NULL), 0);
    snprintf(token, WIRE_TOKEN_MAX + 1, "%s", m.requests->requests[0]->token);
}

/* Ends the leases that are over by now, and marks what is due. */
static void expire(struct pair *w, const char *id)
{
    struct effects fx = {0};
    struct store_answer answer;
    const struct effect *e;

    ops_expire(&fx, 0, id_partition(id, PAIR_PARTITIONS), 0, 10, 0,
               &(struct ops_clock){.since = 1});
    e = &fx.items[0];
    simstore_call(w->store, PAIR_EPOCH + w->now, w->full, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    assert_int_equal(answer.result, STORE_OK);
    effects_deinit(&fx);
}

/* Jobs in progress go on: commands, replies, leases, the next try, the notification of the end. */
static void test_full_store_goes_on(void **state)
{
    static const char recover[] = "{\"jobId\": \"j\", \"recover\": {\"steps\": [0]}}";
    static const char notify[] = "{\"jobId\": \"j\", \"notify\": {\"seq\": %" PRIu64 "}}";
    static const char *const commands[] = {"pause", "resume"};
    CLEANUP(wire_free) struct wire_message end = {0};
    Drover__V1__Error error = DROVER__V1__ERROR__INIT;
    char first[WIRE_TOKEN_MAX + 1], second[WIRE_TOKEN_MAX + 1], control[120];
    struct pair *w = *state;

    pair_deliver(w, A, SCHEDULER_SUBMIT,
                 bytes_str("{\"jobId\": \"j\", \"replyTo\": \"me\", \"definition\": {\"steps\": "
                           "[{\"name\": \"a\", \"actor\": \"hand\"}]}}"));
    token_of(w, "j", first);
    w->full = true;
    for (size_t i = 0; i < array_size(commands); i++) {
        CLEANUP(wire_free) struct wire_message m = {0};

        snprintf(control, sizeof(control),
                 "{\"jobId\": \"j\", \"replyTo\": \"me\", \"commandId\": \"c%zu\", \"%s\": {}}", i,
                 commands[i]);
        ask(w, control, &m);
        assert_int_equal(m.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    }
    error.class_ = (char *)"BROKEN";
    pair_reply(w, A, "j", &error);
    pair_pass(w, MINUTE);
    expire(w, "j");
    pair_deliver(w, A, SCHEDULER_CONTROL, bytes_str(recover));
    token_of(w, "j", second);
    assert_string_not_equal(first, second);
    w->reply.len = 0;
    pair_served(w, A, "j");
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(&w->reply), NULL, &end, NULL), 0);
    assert_int_equal(end.event->outcome, DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED);
    w->reply.len = 0;
    snprintf(control, sizeof(control), notify, end.event->seq);
    pair_deliver(w, A, SCHEDULER_CONTROL, bytes_str(control));
    assert_int_equal(w->reply.len, 0); /* it has left the outbox */
}

/* The token of its last dispatch but @back. */
static void dispatched(struct pair *w, const char *id, unsigned back, char *token, size_t size)
{
    char key[32];
    uint32_t n;

    snprintf(key, sizeof(key), "hist:%s", id);
    n = simstore_list(w->store, id_partition(id, PAIR_PARTITIONS), key);
    for (uint32_t i = 0; i < n; i++) {
        struct bytes entry = simstore_entry(w->store, i);
        const char *at = memmem(entry.data, entry.len, " dispatched ", 12);

        if (at && back-- == 0) {
            snprintf(token, size, "%.*s", (int)((const char *)entry.data + entry.len - at), at);
            memmove(token, strrchr(token, ' ') + 1, strlen(strrchr(token, ' ')));
            return;
        }
    }
    fail_msg("not dispatched so often");
}

/* The steps that a drive has dispatched, without an answer, have expired when the call is repeated.
 * */
static void test_repeated_drive_makes_new_tokens(void **state)
{
    struct pair *w = *state;
    char first[64], second[64];

    pair_submit(w, A, "j");
    w->now += 2 * PAIR_WAIT_MS;
    expire(w, "j");
    w->deaf_to = "drive";
    pair_deliver(w, A, SCHEDULER_CONTROL,
                 bytes_str("{\"jobId\": \"j\", \"recover\": {\"steps\": [0]}}"));
    w->now +=
        4 *
        PAIR_WAIT_MS; /* the first dispatch has no evidence: the second one waits twice as long */
    expire(w, "j");
    pair_pass(w, 1000);
    dispatched(w, "j", 1, first, sizeof(first));
    dispatched(w, "j", 0, second, sizeof(second));
    assert_string_not_equal(first, second);
}

/* Asks for the notification of the job's last entry, if it is in the outbox. */
static void notify(struct pair *w, enum peer peer, const char *id)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    CLEANUP(buf_deinit) struct buf body = {0};

    buf_printf(&body, "{\"jobId\": \"%s\", \"replyTo\": \"me\", \"query\": {}}", id);
    ask(w, buf_str(&body), &answer);
    body.len = 0;
    buf_printf(&body, "{\"jobId\": \"%s\", \"notify\": {\"seq\": %" PRIu64 "}}", id,
               answer.answer->status->seq);
    pair_deliver(w, peer, SCHEDULER_CONTROL, buf_bytes(&body));
}

/* Nothing waits for a broker that refuses alerts: one in the outbox is asked for again, and a cause
 * is reported again after a minute. */
static void test_refused_alerts(void **state)
{
    struct pair *w = *state;

    wait_for_agent(w, 3);
    w->mood = NACKS;
    unstarted(w, A, "j0");
    failed(w, A, "j1");
    pair_expect(w, "A NO_AGENT j0, A PARKED j1");
    assert_true(scheduler_idle(w->peers[A]));
    w->mood = CONFIRMS;
    notify(w, B, "j1"); /* another Notify was in the queue: the next try is not due */
    pair_expect(w, "");
    pair_pass(w, SOON_MS);
    notify(w, B, "j1");
    pair_expect(w, "B PARKED j1");
    notify(w, A, "j1");
    pair_pass(w, MINUTE);
    unstarted(w, B, "j2");
    pair_expect(w, "B NO_AGENT j2");
    assert_true(scheduler_idle(w->peers[B]));
}

static void say(struct pair *w, int actor, enum ops_cause what)
{
    struct effects out = {0};
    struct store_answer answer;

    ops_alert_cause(&out, 1, 0, effects_printf(&out, "NO_AGENT a%d", actor), what, "0a");
    simstore_call(w->store, PAIR_EPOCH + w->now, false, 0, "told", out.items[0].store.args,
                  out.items[0].store.n, &answer);
    effects_deinit(&out);
}

static size_t causes(struct pair *w)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const char *words[] = {"HGETALL", "drover:{p0}:told"};
    size_t n = 0;

    simstore_command(w->store, words, 2, &text);
    for (const char *at = buf_str(&text); (at = strstr(at, "NO_AGENT")); at++)
        n++;
    return n;
}

/* The causes of actors whose last alert is long past are forgotten, also without a sign that it is
 * over. */
static void test_causes_are_forgotten(void **state)
{
    struct pair *w = *state;

    for (int i = 0; i < 100; i++) {
        say(w, i, OPS_CAUSE_ASK);
        say(w, i, OPS_CAUSE_PUBLISHED);
    }
    assert_int_equal(causes(w), 100);
    pair_pass(w, 119 * MINUTE);
    say(w, 0, OPS_CAUSE_ASK);
    pair_pass(w, 2 * MINUTE);
    for (int i = 100; i < 300; i++)
        say(w, i, OPS_CAUSE_ASK);
    assert_in_range(causes(w), 201,
                    210); /* the new ones, the first, and hardly one of the others */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_outage_has_an_alert),
        TEST(test_dies_before_the_alert),
        TEST(test_answer_about_an_alert_lost),
        TEST(test_outage_known_for_two_hours),
        TEST(test_corrupt_jobs),
        TEST(test_refused_alert_about_a_corrupt_job),
        TEST(test_full_store),
        TEST(test_full_store_goes_on),
        TEST(test_repeated_drive_makes_new_tokens),
        TEST(test_refused_alerts),
        TEST(test_causes_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
