// SPDX-License-Identifier: Apache-2.0
/*
 * The client library without a broker: a session of this file gives the answers that a test has
 * prepared
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/id.h"
#include "client/control.h"
#include "client/job_id.h"
#include "client/job_status.h"
#include "client/jobs.h"
#include "client/payload.h"
#include "client/submit.h"
#include "client/wait.h"

#define NOW INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */

/* ---- a session, in the place of client/session.c ---- */

#define ANSWERS_MAX 8
#define UNANSWERED "" /* session_ask() returns SESSION_E_TIMEOUT */

struct session {
    const char *answers[ANSWERS_MAX]; /* JSON, in order; then there are none */
    unsigned asked;
    unsigned waited;
    uint32_t from_step; /* of the last Query */
    char command_ids[ANSWERS_MAX][ID_TOKEN_LEN + 1];
};

int session_ask(struct session *s, const struct session_question *question, int64_t deadline,
                struct wire_message *answer)
{
    const char *text = s->answers[s->asked];

    if (question->answer == WIRE_ANSWER) {
        const Drover__V1__Control *m = (const Drover__V1__Control *)question->body;

        s->from_step = m->query ? m->query->from_step : 0;
        snprintf(s->command_ids[s->asked], sizeof(s->command_ids[0]), "%s", m->command_id);
    }
    s->asked++;
    assert_non_null(text);
    if (!*text)
        return SESSION_E_TIMEOUT;
    assert_int_equal(wire_decode(question->answer, bytes_str(text), NULL, answer, NULL), 0);
    return 0;
}

int session_wait(struct session *s, int64_t deadline)
{
    s->waited++;
    return 0;
}

/* ---- controls ---- */

static void test_retry_later(void **state)
{
    struct session s = {{"{\"code\":\"RETRY_LATER\"}", "{\"code\":\"RETRY_LATER\"}",
                         "{\"code\":\"DONE\",\"jobId\":\"j\"}"}};
    CLEANUP(wire_free) struct wire_message answer = {0};

    assert_int_equal(control_query(&s, "j", SESSION_FOREVER, &answer), 0);
    assert_string_equal(answer.answer->job_id, "j");
    assert_int_equal(s.asked, 3);
    assert_int_equal(s.waited, 2);
    assert_string_equal(s.command_ids[0], s.command_ids[2]);
}

static void test_new_command_ids(void **state)
{
    struct session s = {{"{\"code\":\"DONE\"}", "{\"code\":\"DONE\"}"}};
    Drover__V1__ListJobs question = DROVER__V1__LIST_JOBS__INIT;

    for (int i = 0; i < 2; i++) {
        CLEANUP(wire_free) struct wire_message answer = {0};

        assert_int_equal(control_list_jobs(&s, &question, SESSION_FOREVER, &answer), 0);
    }
    assert_string_not_equal(s.command_ids[0], s.command_ids[1]);
}

static void test_submitted_again(void **state)
{
    struct session s = {{"{\"code\":\"RETRY_LATER\"}", "{\"code\":\"CREATED\"}"}};
    CLEANUP(wire_free) struct wire_message receipt = {0};
    Drover__V1__Submit job = DROVER__V1__SUBMIT__INIT;

    assert_int_equal(submit_job(&s, &job, SESSION_FOREVER, &receipt), 0);
    assert_int_equal(receipt.receipt->code, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED);
    assert_int_equal(s.asked, 2);
    assert_int_equal(s.waited, 1);
}

/* ---- status ---- */

static void test_status_of_several_pages(void **state)
{
    struct session s = {{"{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"stepsTotal\":3,"
                         "\"steps\":[{\"name\":\"a\"},{\"name\":\"b\",\"index\":1}]}}",
                         "{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"stepsTotal\":3,"
                         "\"steps\":[{\"name\":\"c\",\"index\":2}]}}"}};
    CLEANUP(wire_free) struct wire_message answer = {0};

    assert_int_equal(job_status_read(&s, "j", false, SESSION_FOREVER, &answer), 0);
    assert_int_equal(s.from_step, 2);
    assert_int_equal(answer.answer->status->n_steps, 3);
    assert_string_equal(answer.answer->status->steps[2]->name, "c");
}

/* A migration to fewer steps may come in between. */
static void test_status_with_fewer_steps(void **state)
{
    struct session s = {{"{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"stepsTotal\":3,"
                         "\"steps\":[{\"name\":\"a\"}]}}",
                         "{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"stepsTotal\":1}}"}};
    CLEANUP(wire_free) struct wire_message answer = {0};

    assert_int_equal(job_status_read(&s, "j", false, SESSION_FOREVER, &answer), 0);
    assert_int_equal(answer.answer->status->n_steps, 1);
}

/* ---- waiting ---- */

#define RUNNING "{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"phase\":\"PROCESSING\"}}"
#define ENDED                                                                                      \
    "{\"code\":\"DONE\",\"status\":{\"jobId\":\"j\",\"phase\":\"PROCESSED\","                      \
    "\"outcome\":\"SUCCEEDED\"}}"

static void test_wait(void **state)
{
    struct session s = {{UNANSWERED, RUNNING, UNANSWERED, ENDED}};
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool seen;

    assert_int_equal(wait_until_ended(&s, "j", SESSION_FOREVER, &answer, &seen), 0);
    assert_true(seen);
    assert_true(job_status_has_ended(answer.answer->status));
    assert_int_equal(s.asked, 4);
    assert_int_equal(s.waited, 3);
}

static void test_wait_for_an_unknown_job(void **state)
{
    struct session s = {{"{\"code\":\"UNKNOWN_JOB\",\"jobId\":\"j\"}"}};
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool seen;

    assert_int_equal(wait_until_ended(&s, "j", SESSION_FOREVER, &answer, &seen), 0);
    assert_null(answer.answer->status);
    assert_false(seen);
}

static void test_wait_past_the_deadline(void **state)
{
    struct session s = {{RUNNING}};
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool seen;

    assert_int_equal(wait_until_ended(&s, "j", 0, &answer, &seen), SESSION_E_TIMEOUT);
    assert_true(seen);
    assert_null(answer.answer);
}

/* ---- jobs ---- */

static void test_job_ids_sort_by_time(void **state)
{
    struct rng rng;
    char early[JOB_ID_LEN + 1], late[JOB_ID_LEN + 1], zero[JOB_ID_LEN + 1];

    rng_seed(&rng, 1);
    job_id_make(0, &rng, zero);
    job_id_make(NOW, &rng, early);
    job_id_make(NOW + 1, &rng, late);
    assert_memory_equal(zero, "0000000000", 10);
    assert_true(strcmp(zero, early) < 0);
    assert_true(strcmp(early, late) < 0);
    assert_int_equal(strlen(late), JOB_ID_LEN);
    assert_true(id_name_valid(late, strlen(late)));
}

static void test_jobs_read(void **state)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};

    assert_int_equal(jobs_read(bytes_str(" {\"workflow\": \"a}\\\"{\", \"input\": {\"json\": {}}}\n"
                                         "{\"jobId\": \"j\"} {}\n"),
                               &jobs, NULL),
                     0);
    assert_int_equal(jobs.n, 3);
    assert_string_equal(jobs.items[0]->workflow, "a}\"{");
    assert_string_equal(jobs.items[1]->job_id, "j");
}

static void test_jobs_refused(void **state)
{
    static const struct {
        const char *text, *field, *reason;
    } bad[] = {
        {" \n", "", "there is no job in it"},
        {"[]", "", "a job must be a JSON object"},
        {"{} x", "job 2", "a job must be a JSON object"},
        {"{} {\"priority\": \"x\"}", "job 2: priority",
         "must be a whole number of 32 bits, not negative"},
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        CLEANUP(jobs_deinit) struct jobs jobs = {0};
        struct problem problem = {0};

        assert_int_equal(jobs_read(bytes_str(bad[i].text), &jobs, &problem), JOBS_E_INVALID);
        assert_string_equal(problem.field, bad[i].field);
        assert_string_equal(problem.reason, bad[i].reason);
    }
}

static void test_jobs_complete(void **state)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    struct problem problem = {0};

    assert_int_equal(
        jobs_read(bytes_str("{\"workflow\":\"a\"} {\"jobId\":\"j\",\"workflow\":\"b\"}"), &jobs,
                  &problem),
        0);
    assert_int_equal(jobs_complete(&jobs, &problem), 0);
    assert_int_equal(strlen(jobs.items[0]->job_id), JOB_ID_LEN);
    assert_string_equal(jobs.items[1]->job_id, "j");
    assert_int_equal(jobs_add(&jobs), 0);
    assert_int_equal(jobs_complete(&jobs, &problem), JOBS_E_INVALID);
    assert_memory_equal(problem.field, "job 3", 5);
}

static void test_payloads(void **state)
{
    static const struct {
        struct bytes data;
        const char *type;
    } cases[] = {
        {{(const uint8_t *)"{}", 2}, "application/json"},
        {{(const uint8_t *)"12", 2}, "application/json"},
        {{(const uint8_t *)"hello", 5}, "text/plain; charset=utf-8"},
        {{(const uint8_t *)"", 0}, "text/plain; charset=utf-8"},
        {{(const uint8_t *)"\xff\x00", 2}, "application/octet-stream"},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        Drover__V1__Payload *p = payload_new(cases[i].data);

        assert_non_null(p);
        assert_string_equal(p->content_type, cases[i].type);
        assert_int_equal(p->data.len, cases[i].data.len);
        drover__v1__payload__free_unpacked(p, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_later),
        cmocka_unit_test(test_new_command_ids),
        cmocka_unit_test(test_submitted_again),
        cmocka_unit_test(test_status_of_several_pages),
        cmocka_unit_test(test_status_with_fewer_steps),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_wait_for_an_unknown_job),
        cmocka_unit_test(test_wait_past_the_deadline),
        cmocka_unit_test(test_job_ids_sort_by_time),
        cmocka_unit_test(test_jobs_read),
        cmocka_unit_test(test_jobs_refused),
        cmocka_unit_test(test_jobs_complete),
        cmocka_unit_test(test_payloads),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
