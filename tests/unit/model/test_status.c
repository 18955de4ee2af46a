// SPDX-License-Identifier: Apache-2.0
/*
 * Status: how the records of a step and of a job are shown to people
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/status.h"

struct world {
    struct workflow *workflow;
    struct effects fx;
    struct ops_step step;
    struct ops_job job;
    Drover__V1__JobStatus status;
};

static int setup(void **state)
{
    static struct world w;
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT, *list[] = {&step};

    memset(&w, 0, sizeof(w));
    step.name = step.actor = (char *)"a";
    m.steps = list;
    m.n_steps = 1;
    w.job = (struct ops_job){.desired = bytes_str("A"), .since = 1, .steps = &w.step, .n_steps = 1};
    *state = &w;
    return workflow_new(&w.workflow, &m, "", NULL);
}

static int teardown(void **state)
{
    struct world *w = *state;

    workflow_unref(w->workflow);
    effects_deinit(&w->fx);
    return 0;
}

static const Drover__V1__StepStatus *status_of(struct world *w, const char *record)
{
    w->step.record = bytes_str(record);
    drover__v1__job_status__init(&w->status);
    status_steps(&w->fx, &w->status, &w->job, w->workflow);
    return w->status.n_steps > 0 ? w->status.steps[0] : NULL;
}

static void test_timers_after_a_turn(void **state)
{
    struct world *w = *state;
    const Drover__V1__StepStatus *m = status_of(w, "D A B 1 2 t 99 1 0 0 0");

    assert_int_equal(m->state, DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF);
    assert_int_equal(m->until, 99);
    w->job.since = 2; /* the job has turned since then: there will be no further try */
    m = status_of(w, "D A B 1 2 t 99 1 0 0 0");
    assert_int_equal(m->state, DROVER__V1__STEP_STATE__STEP_STATE_WAITING);
    assert_int_equal(m->until, 0);
    m = status_of(w, "D A R 1 2 t 99 1 0 0 0"); /* in flight all the same */
    assert_int_equal(m->state, DROVER__V1__STEP_STATE__STEP_STATE_RUNNING);
    assert_int_equal(m->until, 99);
}

static void test_counts(void **state)
{
    const Drover__V1__StepStatus *m = status_of(*state, "D A B 3 4 t 99 5 6 7 8");

    assert_int_equal(m->turn, 3);
    assert_int_equal(m->attempt, 4);
    assert_int_equal(m->until, 99);
    assert_int_equal(m->failures, 5);
    assert_int_equal(m->expiries, 6);
    assert_int_equal(m->waiting, 7);
    assert_int_equal(m->unstarted, 8);
}

static void test_progress(void **state)
{
    struct world *w = *state;
    const Drover__V1__StepStatus *m;

    w->step.progress = bytes_str("t 99 0.5@a-1 half way");
    m = status_of(w, "D A R 1 2 t 99 1 0 0 0");
    assert_true(m->begun);
    assert_true(m->fraction == 0.5);
    assert_string_equal(m->note, "half way");
    assert_string_equal(m->agent, "a-1");
    m = status_of(w, "D A R 1 2 other 99 1 0 0 0"); /* the Progress is of another dispatch */
    assert_false(m->begun);
    assert_true(m->fraction == 0);
    w->step.progress = bytes_str("t 99 0.5 half way"); /* of a build before 46 */
    m = status_of(w, "D A R 1 2 t 99 1 0 0 0");
    assert_true(m->begun && m->fraction == 0.5);
    assert_string_equal(m->note, "half way");
    assert_string_equal(m->agent, "");
    w->step.progress = bytes_str("t 99 half");
    m = status_of(w, "D A R 1 2 t 99 1 0 0 0");
    assert_false(m->begun);
    assert_true(m->fraction == 0);
}

/* A record that this build did not write: the readable parts are shown. */
static void test_unknown_records(void **state)
{
    struct world *w = *state;
    const Drover__V1__StepStatus *m = status_of(w, "D A");

    assert_string_equal(m->name, "a");
    assert_int_equal(m->state, DROVER__V1__STEP_STATE__STEP_STATE_UNSPECIFIED);
    w->step.progress = bytes_str("t 99 0.5@a-1"); /* no word ends behind the '@' */
    m = status_of(w, "D A R 1 2 t 99 1 0 0 0");
    assert_true(m->begun && m->fraction == 0.5);
    assert_string_equal(m->note, "a-1");
    assert_string_equal(m->agent, "");
    w->step.step = 1;
    assert_null(status_of(w, ""));
}

static const Drover__V1__JobStatus *job_status_of(struct world *w, const char *attention,
                                                  const char *failure)
{
    w->job.attention = bytes_str(attention);
    w->job.failure = bytes_str(failure);
    drover__v1__job_status__init(&w->status);
    status_job(&w->fx, &w->status, bytes_str("j"), &w->job);
    return &w->status;
}

/* A reason that this build cannot read is none. */
static void test_reasons_of_a_job(void **state)
{
    struct world *w = *state;
    const Drover__V1__JobStatus *m = job_status_of(w, "parked 5 a x BAD", "b A DEATHS 0 -");

    assert_int_equal(m->attention->needs, DROVER__V1__NEED__NEED_PARKED);
    assert_int_equal(m->attention->since, 5);
    assert_string_equal(m->attention->step, "a");
    assert_string_equal(m->attention->actor, "x");
    assert_string_equal(m->attention->error_class, "BAD");
    assert_string_equal(m->error->class_, "DEATHS");
    assert_string_equal(m->failed_step, "b");
    m = job_status_of(w, "parked x a x BAD", "b AA DEATHS 0 -");
    assert_null(m->attention);
    assert_null(m->error);
    assert_string_equal(m->failed_step, "");
    assert_null(job_status_of(w, "bored 5 a x BAD", "")->attention);
    assert_null(job_status_of(w, "", "")->attention);
    assert_int_equal(job_status_of(w, "deadline 5 - - -", "")->attention->needs,
                     DROVER__V1__NEED__NEED_DEADLINE);
    assert_int_equal(job_status_of(w, "ended 5 - - -", "")->attention->needs,
                     DROVER__V1__NEED__NEED_ENDED);
}

/* Each member of the answer has its own place in the status. */
static void test_members_of_a_job(void **state)
{
    struct world *w = *state;
    const Drover__V1__JobStatus *m;

    w->job = (struct ops_job){
        .now = 1,
        .turn = 2,
        .seq = 3,
        .n = 4,
        .open = 5,
        .created = 6,
        .updated = 7,
        .start_at = 8,
        .complete_by = 9,
        .parked = 10,
        .next_try = 11,
        .failures = 12,
        .definition = bytes_str("digest"),
        .current = bytes_str("D"),
        .desired = bytes_str("A"),
        .workflow = bytes_str("w@1"),
        .submitter = bytes_str("ann"),
        .cause = bytes_str("command"),
        .ending = bytes_str("FAILED"),
        .locked_by = bytes_str("s-1"),
        .waits_for = bytes_str("0"),
    };
    m = job_status_of(w, "", "");
    assert_int_equal(m->now, 1);
    assert_int_equal(m->turn, 2);
    assert_int_equal(m->seq, 3);
    assert_int_equal(m->steps_total, 4);
    assert_int_equal(m->steps_open, 5);
    assert_int_equal(m->created, 6);
    assert_int_equal(m->updated, 7);
    assert_int_equal(m->start_at, 8);
    assert_int_equal(m->complete_by, 9);
    assert_int_equal(m->parked, 10);
    assert_int_equal(m->next_try_at, 11);
    assert_int_equal(m->failures, 12);
    assert_string_equal(m->job_id, "j");
    assert_string_equal(m->definition, "digest");
    assert_int_equal(m->current, DROVER__V1__STATE__STATE_DISABLED);
    assert_int_equal(m->desired, DROVER__V1__STATE__STATE_ACTIVE);
    assert_string_equal(m->workflow, "w@1");
    assert_string_equal(m->submitter, "ann");
    assert_string_equal(m->cause, "command");
    assert_string_equal(m->ending, "FAILED");
    assert_string_equal(m->locked_by, "s-1");
    assert_true(m->changing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers_after_a_turn), TEST(test_counts),           TEST(test_progress),
        TEST(test_unknown_records),     TEST(test_reasons_of_a_job), TEST(test_members_of_a_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
