// SPDX-License-Identifier: Apache-2.0
/*
 * A store that goes back in time: each of two schedulers reports what it had accepted and is lost
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machines/pair.h"
#include "model/workflow.h"

#define MINUTE INT64_C(60000)

/* The server ends, and comes back without its last calls. */
static void lose_calls(struct pair *w, uint32_t from, const char *run)
{
    replay_back(w->calls, w->store, 0, from, NULL, NULL);
    w->run = run;
}

static void reconnect(struct pair *w, enum peer peer)
{
    pair_connect(w, peer);
    pair_pass(w, MINUTE);
}

/* The store deletes j0, as after its retention. */
static void delete_j0(struct pair *w)
{
    const char *keys[] = {"DEL", "drover:{p0}:job:j0", "drover:{p1}:job:j0"};
    CLEANUP(buf_deinit) struct buf text = {0};

    simstore_command(w->store, keys, array_size(keys), &text);
}

/* Each scheduler reports the jobs that it accepted itself, in their order, and none that still
 * exists. */
static void test_store_went_back(void **state)
{
    struct pair *w = *state;
    uint32_t kept;

    pair_submit(w, A, "j0");
    kept = replay_calls(w->calls);
    pair_submit(w, A, "j1");
    pair_submit(w, B, "j2");
    pair_submit(w, A, "j3");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    pair_expect(w, "A STORE_WENT_BACK , A JOB_LOST j1, A JOB_LOST j3");
    reconnect(w, B);
    pair_expect(w, "B STORE_WENT_BACK , B JOB_LOST j2");
    reconnect(w, A);
    pair_expect(w, "");
    pair_served(w, A, "j1"); /* a reply for a lost job is not answered, and has no effect */
    pair_served(w, A, "j0");
    pair_submit(w, A, "j1");
    pair_served(w, B, "j1");
    pair_expect(w, "");
}

/* The answer to the first rollback check is lost, with or without the connection. */
static void test_rollback_check_unanswered(void **state)
{
    struct pair *w = *state;
    uint32_t kept = replay_calls(w->calls);

    pair_submit(w, A, "j0");
    pair_submit(w, B, "j1");
    lose_calls(w, kept, "second");
    w->deaf_to = "mark";
    reconnect(w, A);
    pair_expect(w, "A STORE_WENT_BACK , A JOB_LOST j0");
    w->deaf_to = "mark";
    pair_connect(w, B);
    assert_true(scheduler_idle(w->peers[B])); /* it may drain meanwhile */
    reconnect(w, B);
    pair_expect(w, "B STORE_WENT_BACK , B JOB_LOST j1");
}

/* A restart that loses nothing is not reported. */
static void test_store_restarts(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    pair_served(w, A, "j0");
    lose_calls(w, replay_calls(w->calls), "second");
    reconnect(w, A);
    reconnect(w, B);
    pair_expect(w, "");
}

/* j0 of B is lost, and A accepts more jobs than were lost. */
static void go_back_and_on(struct pair *w)
{
    uint32_t kept = replay_calls(w->calls);

    pair_submit(w, B, "j0");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    for (int i = 1; i < 8; i++) {
        char id[16];

        snprintf(id, sizeof(id), "j%d", i);
        pair_submit(w, A, id);
    }
}

/* Another scheduler connects first, and accepts more jobs than were lost. */
static void test_store_went_back_and_on(void **state)
{
    struct pair *w = *state;

    go_back_and_on(w);
    pair_expect(w, "");
    reconnect(w, B);
    pair_expect(w, "B STORE_WENT_BACK , B JOB_LOST j0");
}

/* The same, and the server has been restarted twice meanwhile: nothing is left of the first run. */
static void test_store_went_back_twice(void **state)
{
    struct pair *w = *state;

    go_back_and_on(w);
    lose_calls(w, replay_calls(w->calls), "third");
    reconnect(w, A);
    pair_expect(w, "");
    reconnect(w, B);
    pair_expect(w, "B STORE_WENT_BACK , B JOB_LOST j0");
}

/* Not only accepted jobs can be lost: a job that had ended has not ended any more. */
static void test_lost_end_of_a_job(void **state)
{
    struct pair *w = *state;
    uint32_t kept;

    pair_submit(w, A, "j0");
    kept = replay_calls(w->calls);
    pair_served(w, B, "j0");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    pair_expect(w, "");
    reconnect(w, B);
    pair_expect(w, "B STORE_WENT_BACK ");
}

/* The store is emptied while connections stay up: the scheduler that accepts the next job notices
 * it. */
static void test_store_emptied(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    lose_calls(w, 0, "first");
    pair_submit(w, A, "j0");
    pair_expect(w, "A STORE_LOST "); /* the job exists again */
    pair_submit(w, B, "j1");
    reconnect(w, B);
    pair_expect(w, "B STORE_LOST ");
}

/* Only this scheduler knows what is lost: it repeats the alert until the broker takes it. */
static void test_refused_alerts(void **state)
{
    struct pair *w = *state;
    uint32_t kept = replay_calls(w->calls);

    pair_submit(w, A, "j0");
    lose_calls(w, kept, "second");
    w->mood = NACKS;
    pair_connect(w, A);
    pair_expect(w, "A STORE_WENT_BACK , A JOB_LOST j0");
    assert_false(scheduler_idle(w->peers[A]));
    w->mood = CONFIRMS;
    pair_pass(w, MINUTE);
    pair_expect(w, "A STORE_WENT_BACK , A JOB_LOST j0");
    assert_true(scheduler_idle(w->peers[A]));
}

static struct workflow *registered_new(void)
{
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&step};
    struct problem problem = {0};
    struct workflow *w;

    step.name = (char *)"a";
    step.actor = (char *)"hand";
    m.name = (char *)"known";
    m.version = 1;
    m.steps = steps;
    m.n_steps = 1;
    assert_int_equal(workflow_new(&w, &m, "", &problem), 0);
    return w;
}

static bool is_known_everywhere(struct pair *w)
{
    const char *words[][2] = {{"HGETALL", "drover:{p0}:workflows"},
                              {"HGETALL", "drover:{p1}:workflows"}};
    bool known = true;

    for (size_t p = 0; p < array_size(words); p++) {
        CLEANUP(buf_deinit) struct buf text = {0};

        simstore_command(w->store, words[p], 2, &text);
        known = known && strstr(buf_str(&text), "known@1");
    }
    return known;
}

/* Workflows are registered again in a store that went back, also while they are being registered,
 * or if the store was emptied. */
static void test_workflows_are_registered_again(void **state)
{
    struct pair *w = *state;
    CLEANUP(workflow_unref) struct workflow *known = registered_new();

    assert_int_equal(scheduler_register(w->peers[A], known), 0);
    w->deaf_to = "define";
    pair_connect(w, A);
    assert_true(is_known_everywhere(w));
    lose_calls(w, 0, "second");
    assert_false(is_known_everywhere(w));
    reconnect(w, A);
    assert_true(is_known_everywhere(w));
    pair_submit(w, A, "j0");
    w->story.len = 0;
    lose_calls(w, 0, "second");
    pair_submit(w, A, "j0");
    pair_expect(w, "A STORE_LOST ");
    assert_true(is_known_everywhere(w));
}

/* A scheduler is asked for a notification that is not in the outbox, or not again yet: another one
 * may get that number later. */
static void test_unknown_notifications_are_ignored(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    w->deaf_to = "settle_owed";
    pair_deliver(w, A, SCHEDULER_CONTROL,
                 bytes_str("{\"jobId\": \"j0\", \"notify\": {\"seq\": 9}}"));
    assert_non_null(w->deaf_to); /* it was not called */
}

/* A job that was accepted long before a restart was on disk by then. If the store has lost it all
 * the same, its name is forgotten. */
static void test_old_jobs_are_not_checked(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    pair_pass(w, MINUTE);
    pair_submit(w, A, "j1");
    lose_calls(w, 0, "second");
    reconnect(w, A);
    pair_expect(w, "A STORE_LOST , A JOB_LOST j1, A STORE_LOSS_UNKNOWN ");
}

/* A job is remembered for the whole loss window. */
static void test_loss_window(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    pair_pass(w, PAIR_LOSS_WINDOW_MS - 1000);
    pair_submit(w, A, "j1");
    lose_calls(w, 0, "second");
    reconnect(w, A);
    pair_expect(w, "A STORE_LOST , A JOB_LOST j1, A JOB_LOST j0"); /* by partition */
}

/* A job that is forgotten and still there is no loss; it may become one the next time. */
static void test_forgotten_jobs(void **state)
{
    struct pair *w = *state;
    uint32_t half, all;

    for (int i = 0; i < 4; i++)
        pair_submit(w, A, (const char *[]){"j0", "j1", "j2", "j3"}[i]);
    half = replay_calls(w->calls);
    for (int i = 0; i < 4; i++)
        pair_submit(w, A, (const char *[]){"j4", "j5", "j6", "j7"}[i]);
    pair_pass(w, MINUTE);
    all = replay_calls(w->calls);
    pair_submit(w, A, "j8");
    lose_calls(w, all, "second");
    reconnect(w, A);
    pair_expect(w, "A STORE_WENT_BACK , A JOB_LOST j8");
    lose_calls(w, half, "third");
    reconnect(w, A);
    pair_expect(w, "A STORE_WENT_BACK , A STORE_LOSS_UNKNOWN ");
    lose_calls(w, 0, "fourth");
    reconnect(w, A);
    pair_expect(w, "A STORE_LOST , A STORE_LOSS_UNKNOWN ");
    lose_calls(w, 0, "fifth");
    reconnect(w, A);
    pair_expect(w, "A STORE_LOST "); /* again, but without jobs */
}

/* The same without another job; but none is forgotten while the store does not answer. */
static void test_jobs_before_an_outage_are_checked(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    pair_submit(w, B, "j1");
    pair_pass(w, MINUTE);
    pair_step(w, A, (struct scheduler_event){.type = SCHEDULER_MEMORY});
    lose_calls(w, 0, "second");
    reconnect(w, A);
    pair_expect(w, "A STORE_LOST , A STORE_LOSS_UNKNOWN ");
    reconnect(w, B);
    pair_expect(w, "B STORE_LOST , B JOB_LOST j1");
}

/* The store deletes j0 after its retention. A restart of the server does not make that a loss,
 * although the scheduler has accepted no job since. */
static void test_deleted_jobs_are_not_lost(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    pair_served(w, A, "j0");
    pair_pass(w, MINUTE);
    pair_step(w, A, (struct scheduler_event){.type = SCHEDULER_MEMORY});
    delete_j0(w);
    w->run = "second";
    reconnect(w, A);
    pair_expect(w, "");
}

/* Once a check after a restart has all its answers, a job that is gone is no loss. */
static void test_jobs_deleted_after_a_check(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    w->run = "second";
    pair_connect(w, A);
    delete_j0(w);
    pair_connect(w, A);
    pair_expect(w, "");
}

/* The same if the connection was lost during the first check. */
static void test_jobs_deleted_after_a_second_check(void **state)
{
    struct pair *w = *state;

    pair_submit(w, A, "j0");
    w->run = "second";
    w->deaf_to = "mark";
    pair_connect(w, A);
    reconnect(w, A);
    delete_j0(w);
    pair_connect(w, A);
    pair_expect(w, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_store_went_back),
        TEST(test_rollback_check_unanswered),
        TEST(test_store_restarts),
        TEST(test_store_went_back_and_on),
        TEST(test_store_went_back_twice),
        TEST(test_lost_end_of_a_job),
        TEST(test_store_emptied),
        TEST(test_refused_alerts),
        TEST(test_workflows_are_registered_again),
        TEST(test_unknown_notifications_are_ignored),
        TEST(test_old_jobs_are_not_checked),
        TEST(test_loss_window),
        TEST(test_forgotten_jobs),
        TEST(test_jobs_before_an_outage_are_checked),
        TEST(test_deleted_jobs_are_not_lost),
        TEST(test_jobs_deleted_after_a_check),
        TEST(test_jobs_deleted_after_a_second_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
