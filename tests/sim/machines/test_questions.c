// SPDX-License-Identifier: Apache-2.0
/*
 * The answers of a scheduler to questions: History, ListJobs, ListWorkflows, Query
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
#include "model/workflow.h"

/* A job of two steps in sequence, each with an undo; the second parks at its first failure. */
#define STEP(name, more)                                                                           \
    "{\"name\": \"" name "\", \"actor\": \"hand\", \"action\": \"do\", \"revert\": {\"action\": "  \
    "\"undo\"}, \"retry\": {\"onPermanent\": \"RECOURSE_PARK\"}" more "}"
#define SUBMIT(id, more)                                                                           \
    "{\"jobId\": \"" id "\", \"definition\": {\"steps\": [" STEP("a", "") ", " STEP(               \
        "b", ", \"after\": [\"a\"]") "]}" more "}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""
#define UNDONE "\"achieved\": \"STATE_DISABLED\""
#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"

/* ---- History ---- */

static void history_of(struct wire_message *answer, struct buf *out)
{
    for (size_t i = 0; i < answer->answer->n_history; i++) {
        const Drover__V1__HistoryEntry *e = answer->answer->history[i];

        buf_printf(out, "%s%s", i ? ", " : "", e->event);
        if (*e->step)
            buf_printf(out, " %s", e->step);
        if (e->attempt)
            buf_printf(out, "#%u", (unsigned)e->attempt);
        if (*e->detail)
            buf_printf(out, " (%s)", e->detail);
    }
}

static void test_history(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message all = {0}, page = {0}, none = {0};
    CLEANUP(buf_deinit) struct buf story = {0}, paged = {0};

    alone_submit(w, SUBMIT("j", ""));
    alone_serve(w, "j", "a", DONE);
    alone_serve(w, "j", "b", HOPELESS);
    alone_control(
        w, "{\"jobId\": \"j\", \"commandId\": \"c1\", \"by\": \"me\", \"reason\": \"at last\","
           "\"retry\": {\"steps\": [\"b\"]}}");
    alone_serve(w, "j", "b", HOPELESS);
    alone_control(
        w, "{\"jobId\": \"j\", \"commandId\": \"c2\", \"by\": \"me\", \"reason\": \"no more\","
           "\"cancel\": {}}");
    alone_serve(w, "j", "b", UNDONE);
    alone_serve(w, "j", "a", UNDONE);

    alone_restart(w); /* the definition is read again */
    alone_ask(w, "{\"jobId\": \"j\", \"history\": {}}", &all);
    history_of(&all, &story);
    assert_string_equal(
        buf_str(&story),
        "created (alone), dispatched a#1, done a#1, dispatched b#1, failed b#1, parked b "
        "(PERMANENT), "
        "command (retry c1 me at last), retried b, dispatched b#2, failed b#2, parked b "
        "(PERMANENT), "
        "command (cancel c2 me no more), turned (D CANCELLED), dispatched b#3, undone b#3, "
        "dispatched a#2, undone a#2, settled (CANCELLED REQUESTED)");

    alone_ask(w, "{\"jobId\": \"j\", \"history\": {\"fromSeq\": 3, \"maxEntries\": 2}}", &page);
    history_of(&page, &paged);
    assert_string_equal(buf_str(&paged), "done a#1, dispatched b#1");
    assert_string_equal(page.answer->next, "5");
    assert_string_equal(all.answer->next, "");

    alone_ask(w, "{\"jobId\": \"other\", \"history\": {}}", &none);
    assert_int_equal(none.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB);
}

/* No history has numbers that high; the answer to a question for later entries is empty. */
static void test_history_from_far_ahead(void **state)
{
    static const char *const numbers[] = {"19", "9007199254740993", "9223372036854775807",
                                          "9223372036854775808", "18446744073709551615"};
    struct alone *w = *state;

    alone_submit(w, SUBMIT("j", ""));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        CLEANUP(wire_free) struct wire_message answer = {0};
        char question[100];

        snprintf(question, sizeof(question),
                 "{\"jobId\": \"j\", \"history\": {\"fromSeq\": \"%s\"}}", numbers[i]);
        alone_ask(w, question, &answer);
        assert_int_equal(answer.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
        assert_int_equal(answer.answer->n_history, 0);
        assert_int_equal(answer.answer->history_first, 1);
    }
}

/* Questions with the largest numbers that fit are answered. */
static void test_large_numbers(void **state)
{
#define I64 "\"9223372036854775807\""
#define U64 "\"18446744073709551615\""
#define U32 "4294967295"
    static const struct {
        Drover__V1__AnswerCode code;
        const char *question;
    } asked[] = {
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"query\": {\"fromStep\": " U32 ", \"maxSteps\": " U32 "}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"query\": {\"fromStep\": " U32 ", \"withData\": true}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"history\": {\"fromSeq\": " U64 ", \"maxEntries\": " U32 "}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"listJobs\": {\"since\": " I64 ", \"before\": " I64 ", \"limit\": " U32 "}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"listJobs\": {\"before\": " I64 ", \"limit\": " U32 "}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE, "\"listJobs\": {\"since\": " I64 "}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"ifSeq\": " U64
         ", \"commandId\": \"0\", \"pause\": {}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"commandId\": \"1\", \"pause\": {}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"commandId\": \"2\", \"resume\": {}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"commandId\": \"3\", \"retry\": {}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"commandId\": \"4\", \"setDesired\": "
         "{\"desired\": \"DISABLED\"}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED,
         "\"jobId\": \"j\", \"issuedAt\": " I64 ", \"commandId\": \"5\", \"cancel\": {}"},
        {DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE,
         "\"jobId\": \"k\", \"query\": {\"maxSteps\": " U32 ", \"withData\": true}"},
    };
    struct alone *w = *state;

    alone_submit(w, SUBMIT("j", ""));
    alone_submit(w, SUBMIT("k", ", \"startAt\": \"253402300799998\", \"completeBy\": "
                                "\"253402300799999\", \"priority\": 9"));
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        CLEANUP(wire_free) struct wire_message answer = {0};
        char question[300];

        snprintf(question, sizeof(question), "{%s}", asked[i].question);
        alone_ask(w, question, &answer);
        assert_int_equal(answer.answer->code, asked[i].code);
    }
    w->story.len = 0;
    alone_control(w, "{\"jobId\": \"j\", \"notify\": {\"seq\": " U64 "}}");
    alone_control(w, "{\"jobId\": \"j\", \"recover\": {\"steps\": [0, 9999]}}");
    alone_expect(w, "ack, ack");
}

/* ---- ListJobs ---- */

/* @said: the jobs of an answer, and after a bar where the next page begins. */
static void expect_list(struct alone *w, const char *json, const char *said)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(buf_deinit) struct buf text = {0};

    alone_ask(w, json, &m);
    for (size_t i = 0; i < m.answer->n_jobs; i++)
        buf_printf(&text, "%s ", m.answer->jobs[i]->job_id);
    buf_printf(&text, "| %s", *m.answer->next ? m.answer->next : m.answer->reason);
    assert_string_equal(buf_str(&text), said);
}

static void test_list(void **state)
{
    struct alone *w = *state;

    expect_list(w, "{\"listJobs\": {}}", "| ");
    alone_submit(w, SUBMIT("j1", ", \"labels\": [{\"name\": \"shop\", \"value\": \"north\"}]"));
    alone_pass(w, 1000);
    alone_submit(w, SUBMIT("j2", ", \"labels\": [{\"name\": \"shop\", \"value\": \"south\"}]"));
    alone_pass(w, 1000);
    alone_submit(w, SUBMIT("j3", ", \"startAt\": \"1800000000000\""));
    expect_list(w, "{\"listJobs\": {}}", "j3 j2 j1 | ");
    expect_list(w, "{\"listJobs\": {\"phase\": \"PHASE_PENDING\"}}", "j3 | ");
    expect_list(w, "{\"listJobs\": {\"phase\": \"PHASE_PROCESSING\"}}", "j2 j1 | ");
    expect_list(w, "{\"listJobs\": {\"phase\": \"PHASE_ERROR\"}}", "| ");
    expect_list(w, "{\"listJobs\": {\"workflow\": \"none\"}}", "| ");
    expect_list(w, "{\"listJobs\": {\"labels\": [{\"name\": \"shop\", \"value\": \"north\"}]}}",
                "j1 | ");
    expect_list(w, "{\"listJobs\": {\"since\": \"1700000000500\"}}", "j3 j2 | ");
    expect_list(w, "{\"listJobs\": {\"before\": \"1700000000500\"}}", "j1 | ");
    expect_list(w, "{\"listJobs\": {\"limit\": 2}}", "j3 j2 | 1700000001004.j2");
    expect_list(w, "{\"listJobs\": {\"limit\": 2, \"after\": \"1700000001004.j2\"}}", "j1 | ");
    expect_list(w, "{\"listJobs\": {\"after\": \"yesterday\"}}",
                "| list_jobs.after: must be the `next` of an answer");
}

static void say_quotes(struct buf *out, int n)
{
    while (n-- > 0)
        buf_puts(out, "\\\"");
}

/* As many labels as allowed, of the greatest size, which are twice as large in JSON. */
static void say_labels(struct buf *out)
{
    for (int i = 0; i < WIRE_LABELS_MAX; i++) {
        buf_printf(out, "%s{\"name\": \"%c", i ? ", " : ", \"labels\": [", '_' + i);
        say_quotes(out, WIRE_LABEL_NAME_MAX - 1);
        buf_puts(out, "\", \"value\": \"");
        say_quotes(out, WIRE_LABEL_VALUE_MAX);
        buf_puts(out, "\"}");
    }
    buf_puts(out, "]");
}

/* A list is shortened until it fits into a message, and the next page begins where it was cut. */
static void test_list_too_large(void **state)
{
    const int jobs = WIRE_LIST_MAX;
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf labels = {0};
    char next[WIRE_CURSOR_MAX + 1] = "", question[512], id[32];
    int found = 0, pages = 0;

    say_labels(&labels);
    for (int i = 0; i < jobs; i++) {
        CLEANUP(buf_deinit) struct buf submit = {0};

        buf_printf(&submit, "{\"jobId\": \"bulky-%d\", \"definition\": {\"steps\": [%s]}%s}", i,
                   STEP("a", ""), buf_str(&labels));
        alone_submit(w, buf_str(&submit));
    }
    do {
        CLEANUP(wire_free) struct wire_message m = {0};

        snprintf(question, sizeof(question), "{\"listJobs\": {\"limit\": 200, \"after\": \"%s\"}}",
                 next);
        alone_ask(w, question, &m);
        assert_int_equal(m.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
        for (size_t i = 0; i < m.answer->n_jobs; i++) {
            snprintf(id, sizeof(id), "bulky-%d", jobs - 1 - found++);
            assert_string_equal(m.answer->jobs[i]->job_id, id); /* newest first */
        }
        snprintf(next, sizeof(next), "%s", m.answer->next);
        pages++;
    } while (*next && pages < 5);
    assert_int_equal(found, jobs);
    assert_in_range(pages, 2, 4);
}

/* ---- ListWorkflows ---- */

static void know(struct alone *w, const Drover__V1__Workflow *m)
{
    CLEANUP(workflow_unref) struct workflow *known = NULL;

    assert_int_equal(workflow_new(&known, m, "", NULL), 0);
    assert_int_equal(scheduler_register(w->scheduler, known), 0);
}

static void know_small(struct alone *w, const char *name, const char *actor)
{
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT, *list[] = {&step};

    step.name = (char *)"a";
    step.actor = (char *)actor;
    m.steps = list;
    m.n_steps = 1;
    m.name = (char *)name;
    m.version = 3;
    know(w, &m);
}

/* Stores the definitions that it knows. */
static void define(struct alone *w)
{
    alone_step(
        w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "first"});
}

/* A definition nearly as large as a message may be: no answer can hold it. */
static void know_large(struct alone *w)
{
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Payload arguments = DROVER__V1__PAYLOAD__INIT;
    Drover__V1__Step steps[4], *list[4];
    char names[4][12];
    uint8_t *text = calloc(1, WIRE_INPUT_MAX);

    assert_non_null(text);
    arguments.content_type = (char *)"application/octet-stream";
    arguments.data.data = text;
    arguments.data.len = WIRE_INPUT_MAX - 128;
    for (int i = 0; i < 4; i++) {
        drover__v1__step__init(&steps[i]);
        snprintf(names[i], sizeof(names[i]), "%d", i);
        steps[i].name = names[i];
        steps[i].actor = (char *)"hand";
        steps[i].arguments = &arguments;
        list[i] = &steps[i];
    }
    m.steps = list;
    m.n_steps = 4;
    m.name = (char *)"large";
    m.version = 1;
    know(w, &m);
    free(text);
}

static void test_workflows(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message all = {0}, one = {0}, none = {0};

    know_small(w, "small", "hand");
    define(w);
    alone_ask(w, "{\"listWorkflows\": {}}", &all);
    assert_int_equal(all.answer->n_workflows, 1);
    assert_string_equal(all.answer->workflows[0]->workflow, "small@3");
    assert_string_equal(all.answer->next, "");

    alone_ask(w, "{\"listWorkflows\": {\"workflow\": \"small\"}}", &one);
    assert_int_equal(one.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    assert_int_equal(one.answer->definition->version, 3);
    assert_string_equal(one.answer->definition->steps[0]->actor, "hand");

    alone_ask(w, "{\"commandId\": \"c\", \"listWorkflows\": {\"workflow\": \"small@2\"}}", &none);
    assert_int_equal(none.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW);
    assert_string_equal(none.answer->command_id, "c");
}

/* Workflows are listed in pages, by name. */
static void test_many_workflows(void **state)
{
    const int workflows = 2 * WIRE_PAGE_MAX + 1;
    struct alone *w = *state;
    char next[WIRE_CURSOR_MAX + 1] = "", question[512], name[32];
    int found = 0, pages = 0;

    for (int i = 0; i < workflows; i++) {
        snprintf(name, sizeof(name), "w%05d", i);
        know_small(w, name, "hand");
    }
    define(w);
    do {
        CLEANUP(wire_free) struct wire_message m = {0};

        snprintf(question, sizeof(question), "{\"listWorkflows\": {\"after\": \"%s\"}}", next);
        alone_ask(w, question, &m);
        for (size_t i = 0; i < m.answer->n_workflows; i++) {
            snprintf(name, sizeof(name), "w%05d@3", found++);
            assert_string_equal(m.answer->workflows[i]->workflow, name);
            assert_int_equal(m.answer->workflows[i]->steps, 1);
        }
        snprintf(next, sizeof(next), "%s", m.answer->next);
        pages++;
    } while (*next && pages < 4);
    assert_int_equal(found, workflows);
    assert_int_equal(pages, 3);
}

static void test_definition_too_large(void **state)
{
    struct alone *w = *state;

    know_large(w);
    define(w);
    alone_control(w, "{\"commandId\": \"c\", \"listWorkflows\": {\"workflow\": \"large\"}}");
    alone_expect(
        w, "reply {\"commandId\":\"c\",\"code\":\"ANSWER_CODE_TOO_LARGE\",\"reason\":\"the answer "
           "would exceed the message limit\"}, ack");
}

/* The definition behind a name and version does not change. */
static void test_registered_with_another_definition(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};

    know_small(w, "small", "hand");
    define(w);
    alone_restart(w);
    know_small(w, "small", "foot");
    define(w);
    alone_ask(w, "{\"listWorkflows\": {\"workflow\": \"small\"}}", &m);
    assert_string_equal(m.answer->definition->steps[0]->actor, "hand");
}

/* ---- Query ---- */

static void test_query(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message all = {0}, page = {0}, none = {0};

    alone_submit(w,
                 SUBMIT("j", ", \"input\": {\"text\": \"in\"}, \"labels\": [{\"name\": \"shop\", "
                             "\"value\": \"north\"}, {\"name\": \"tier\", \"value\": \"two\"}]"));
    alone_serve(w, "j", "a", DONE ", \"result\": {\"text\": \"out\"}");
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {\"withData\": true}}", &all);
    assert_int_equal(all.answer->status->n_steps, 2);
    assert_int_equal(all.answer->status->input->data.len, 2);
    assert_int_equal(all.answer->status->steps[0]->state, DROVER__V1__STEP_STATE__STEP_STATE_DONE);
    assert_int_equal(all.answer->status->steps[0]->result->data.len, 3);
    assert_int_equal(all.answer->status->n_labels, 2);
    assert_string_equal(all.answer->status->labels[1]->value, "two");

    alone_ask(w, "{\"jobId\": \"j\", \"query\": {\"fromStep\": 1, \"maxSteps\": 1}}", &page);
    assert_int_equal(page.answer->status->n_steps, 1);
    assert_string_equal(page.answer->status->steps[0]->name, "b");
    assert_null(page.answer->status->input);

    alone_ask(w, "{\"jobId\": \"other\", \"query\": {}}", &none);
    assert_int_equal(none.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_history),
        TEST(test_history_from_far_ahead),
        TEST(test_large_numbers),
        TEST(test_list),
        TEST(test_list_too_large),
        TEST(test_workflows),
        TEST(test_many_workflows),
        TEST(test_definition_too_large),
        TEST(test_registered_with_another_definition),
        TEST(test_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
