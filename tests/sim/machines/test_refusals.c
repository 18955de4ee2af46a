// SPDX-License-Identifier: Apache-2.0
/*
 * Refusals: what a scheduler says when it, or the store, does not do what a message asks for
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
#include "machines/limited.h"
#include "model/json.h"
#include "model/workflow.h"
#include "scheduler/state.h"

#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"

#define UNDONE "\"achieved\": \"STATE_DISABLED\""

#define RECEIPT(id, code, field, reason)                                                           \
    "reply {\"jobId\":\"" id "\",\"code\":\"RECEIPT_CODE_" code "\",\"field\":\"" field            \
    "\",\"reason\":\"" reason "\"}, ack"
#define COMMAND(id, command) "{\"jobId\": \"j\", \"commandId\": \"" id "\", " command "}"
#define ANSWER(id, code, reason)                                                                   \
    "reply {\"jobId\":\"j\",\"commandId\":\"" id "\",\"code\":\"ANSWER_CODE_" code                 \
    "\",\"reason\":\"" reason "\"}, ack"

/* A step that parks at its first failure; @more: its other fields. */
#define STEP(name, more)                                                                           \
    "{\"name\": \"" name "\", \"actor\": \"hand\", \"retry\": {\"onPermanent\": "                  \
    "\"RECOURSE_PARK\"}" more "}"
#define REVERT ", \"revert\": {\"action\": \"undo\"}"
#define JOB(steps) "{\"jobId\": \"j\", \"definition\": {\"steps\": [" steps "]}}"

/* Whether the story since the last call has this text. */
static bool told(struct alone *w, const char *text)
{
    bool found = strstr(buf_str(&w->story), text) != NULL;

    w->story.len = 0;
    return found;
}

/* Registers a workflow. */
static void know(struct alone *w, const char *json)
{
    CLEANUP(workflow_unref) struct workflow *known = NULL;
    ProtobufCMessage *m;

    assert_int_equal(
        json_to_message(bytes_str(json), &drover__v1__workflow__descriptor, NULL, &m, NULL), 0);
    assert_int_equal(workflow_new(&known, (Drover__V1__Workflow *)m, "", NULL), 0);
    protobuf_c_message_free_unpacked(m, NULL);
    assert_int_equal(scheduler_register(w->scheduler, known), 0);
    alone_step(
        w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "first"});
}

/* ---- where answers go ---- */

#define STRANGE                                                                                    \
    "reply_to must be a queue that the broker has named (amq.gen-...), amq.rabbitmq.reply-to, or " \
    "one whose name begins with me"

/* A sender gets no answer in a queue that is not its own, whatever else is wrong. */
static void test_queue_of_another_user(void **state)
{
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "zed", SUBMIT("j"));
    alone_expect(w, "dead DENIED " STRANGE ", ack, alert DEAD_LETTER");
    say_as(w, "ann", SCHEDULER_CONTROL, "zed", COMMAND("c", "\"query\": {}"));
    alone_expect(w, "dead DENIED " STRANGE ", ack");
    say_as(w, "ann", SCHEDULER_SUBMIT, "zed", "{\"jobId\": \"j\"}");
    alone_expect(w, "dead INVALID workflow either workflow or definition is given, ack, "
                    "alert DEAD_LETTER");
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
}

/* A reply counts all the same: only its Progress would be answered. */
static void test_reply_with_a_strange_queue(void **state)
{
    CLEANUP(buf_deinit) struct buf json = {0};
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    buf_printf(&json,
               "{\"progress\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\"}],"
               " \"replies\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", " DONE "}]}",
               w->token, w->token);
    w->reply_routes.len = 0;
    say_as(w, "bob", SCHEDULER_REPLIES, "zed", buf_str(&json));
    assert_true(told(w, "OUTCOME_SUCCEEDED"));
    assert_string_equal(buf_str(&w->reply_routes), "me/ ");
}

/* The answer has the format of the message, if that can be seen. */
static void test_format_of_an_answer(void **state)
{
    static const char *const bodies[] = {"", "x", "{"};
    struct alone *w = *state;

    for (size_t i = 0; i < array_size(bodies); i++) {
        alone_deliver(w, (struct bus_delivery){
                             .oversize = true, .reply_to = "me", .body = bytes_str(bodies[i])});
        assert_int_equal(buf_str(&w->reply)[0] == '{', i == 2);
        assert_non_null(strstr(buf_str(&w->reply), "TOO_LARGE"));
        w->story.len = 0;
    }
}

/* ---- Submits ---- */

#define SUBMIT_AT(id, at)                                                                          \
    "{\"jobId\": \"" id "\", \"startAt\": \"" at                                                   \
    "\", \"definition\": {\"steps\": [" STEP("a", "") "]}}"
#define TOO_FAR "is further ahead than scheduler.horizon allows"

static void test_start_beyond_the_horizon(void **state)
{
    struct alone *w = *state;

    alone_submit(w, SUBMIT_AT("i", "1800000000000"));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
    w->horizon_ms = 60000;
    alone_restart(w);
    alone_submit(w, SUBMIT_AT("j", "1700000060000"));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
    alone_submit(w, SUBMIT_AT("k", "1700000061000"));
    alone_expect(w, RECEIPT("k", "REJECTED", "start_at", TOO_FAR));
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(SUBMIT_AT("k", "1700000061000"))});
    alone_expect(w, "dead INVALID start_at " TOO_FAR ", ack, alert DEAD_LETTER");
}

#define WORKFLOW(steps) "{\"name\": \"w\", \"version\": 1, \"steps\": [" steps "]}"
#define OWN(id, workflow) "{\"jobId\": \"" id "\", \"definition\": " workflow "}"

/* A Submit may repeat a registered definition, but not give its name to another one. */
static void test_name_of_a_registered_workflow(void **state)
{
    struct alone *w = *state;

    know(w, WORKFLOW(STEP("a", "")));
    alone_submit(w, OWN("i", WORKFLOW(STEP("a", ""))));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
    alone_submit(w, OWN("j", WORKFLOW(STEP("b", ""))));
    alone_expect(w, RECEIPT("j", "REJECTED", "definition.name",
                            "is that of a registered workflow: name that in `workflow`, or call "
                            "this one otherwise"));
}

/* A user is not told whether a job of another user has the same content. */
static void test_job_of_another_user(void **state)
{
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
    say_as(w, "op", SCHEDULER_SUBMIT, "amq.gen-1", SUBMIT("j"));
    assert_true(told(w, "\"code\":\"RECEIPT_CODE_CONFLICT\",\"field\":\"job_id\",\"reason\":\"this "
                        "id is taken by a job with other content, or of another user\""));
}

static void test_job_limit_without_a_reply_to(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    user_groups[0].limits = (struct access_limits){.jobs = 1};
    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, NULL, SUBMIT("j"));
    alone_expect(w, "request a, ack");
    say_as(w, "ann", SCHEDULER_SUBMIT, NULL, SUBMIT("l")); /* of the same partition */
    alone_expect(w, "dead LIMIT user_id ann has as many jobs in the store, or takes as many bytes "
                    "of it, as it may (security.submitters), ack, alert DEAD_LETTER");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.retry_later, 1);
    user_groups[0].limits = (struct access_limits){.rate = 10, .jobs = 3};
}

/* ---- a store that is nearly full ---- */

static void deliver_when_full(struct alone *w, const char *reply_to, bool redelivered, size_t bytes)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_puts(&json, "{\"jobId\": \"j\", \"workflow\": \"w\", \"input\": {\"text\": \"");
    for (size_t i = 0; i < bytes; i++)
        buf_putc(&json, 'x');
    buf_puts(&json, "\"}}");
    alone_deliver(w, (struct bus_delivery){.reply_to = reply_to,
                                           .redelivered = redelivered,
                                           .body = buf_bytes(&json)});
}

/* The job of a redelivered Submit may be recorded: it waits for the store, unless it is large. */
static void test_submits_when_nearly_full(void **state)
{
    struct alone *w = *state;

    know(w, WORKFLOW(STEP("a", "")));
    fill_store(w, 90, 100);
    deliver_when_full(w, NULL, false, INTAKE_LARGE_BYTES);
    alone_expect(w, "dead STORE_FULL, ack, alert DEAD_LETTER");
    deliver_when_full(w, NULL, true, INTAKE_LARGE_BYTES);
    alone_expect(w, "dead STORE_FULL, ack");
    deliver_when_full(w, "me", false, 1);
    assert_true(told(w, "RETRY_LATER"));
    deliver_when_full(w, "me", true, INTAKE_LARGE_BYTES);
    assert_true(told(w, "RETRY_LATER"));
    deliver_when_full(w, "me", true, 1);
    alone_pass(w, 5000);
    alone_expect(w, "");
    fill_store(w, 89, 100);
    alone_pass(w, OP_REPEAT_MS);
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
}

/* ---- commands ---- */

#define CHANGE(step) "\"retry\": {\"steps\": [\"a\"], \"change\": {" step "}}"
#define CHANGING "another change of the job waits until a step is undone"
#define FAILS(name, actor)                                                                         \
    "{\"name\": \"" name "\", \"actor\": \"" actor "\", \"retry\": {\"onPermanent\": "             \
    "\"RECOURSE_FAIL\"}}"
#define NOWHERE                                                                                    \
    "retry.change.actor: no registered workflow has an actor foot (scheduler.definitions is "      \
    "registered)"

/* Where only registered definitions run, a change may name only the actors of these. */
static void test_change_to_an_unknown_actor(void **state)
{
    static const struct access registered = {
        .registered = true, .operators = (char *)"", .supervisors = (char *)""};
    struct alone *w = *state;

    w->access = &registered;
    alone_restart(w);
    know(w, WORKFLOW(STEP("a", REVERT)));
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w\"}");
    alone_serve(w, "j", "a", HOPELESS);
    w->story.len = 0;
    alone_control(w, COMMAND("c1", CHANGE("\"actor\": \"foot\"")));
    alone_expect(w, ANSWER("c1", "INVALID", NOWHERE));
    alone_control(w, COMMAND("c2", CHANGE("\"lockMs\": 5000"))); /* names no actor */
    assert_true(told(w, "ANSWER_CODE_DONE\"}, request a"));
    alone_serve(w, "j", "a", HOPELESS);
    w->story.len = 0;
    know(w, "{\"name\": \"v\", \"version\": 1, \"steps\": [{\"name\": \"s\", \"actor\": "
            "\"foot\"}]}");
    alone_control(w, COMMAND("c3", CHANGE("\"actor\": \"foot\"")));
    assert_true(told(w, "ANSWER_CODE_DONE\"}, request a"));
}

/* A step is undone before it becomes other work; until then there is no second change. */
static void test_second_change(void **state)
{
    struct alone *w = *state;

    know(w, WORKFLOW(STEP("a", REVERT)));
    know(w, "{\"name\": \"w\", \"version\": 2, \"steps\": [" STEP("a", "") "]}");
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w@1\"}");
    alone_serve(w, "j", "a", HOPELESS);
    alone_control(w, COMMAND("c1", CHANGE("\"actor\": \"foot\"")));
    assert_true(told(w, "ANSWER_CODE_DONE\"}, request a"));
    assert_string_equal(w->actor, "hand");
    alone_control(w, COMMAND("c2", CHANGE("\"actor\": \"hand\"")));
    alone_expect(w, ANSWER("c2", "WRONG_STATE", CHANGING));
    alone_control(w, COMMAND("c3", "\"migrate\": {\"workflow\": \"w@2\"}"));
    alone_expect(w, ANSWER("c3", "WRONG_STATE", CHANGING));
    alone_serve(w, "j", "a", UNDONE);
    alone_expect(w, "request a, ack");
    assert_string_equal(w->actor, "foot");
}

/* A job whose end is decided waits for the steps in flight. */
static void test_job_about_to_end(void **state)
{
    struct alone *w = *state;

    alone_submit(w, JOB(FAILS("a", "hand") ", " FAILS("b", "foot")));
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":2,"
                    "\"recordedAt\":\"1700000000000\"}, request a, request b, ack");
    alone_serve(w, "j", "b", HOPELESS);
    alone_expect(w, "ack");
    alone_control(w, COMMAND("c", "\"setDesired\": {\"desired\": \"STATE_ACTIVE\"}"));
    alone_expect(w, ANSWER("c", "WRONG_STATE", "the job is about to end"));
}

#define MANY (OPS_BUDGET + 1)

/* Registers a definition of so many steps. */
static void know_many(struct alone *w, unsigned version, unsigned steps, const char *action)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json,
               "{\"name\": \"w\", \"version\": %u, \"retry\": {\"onPermanent\": "
               "\"RECOURSE_PARK\"}, \"steps\": [",
               version);
    for (unsigned i = 0; i < steps; i++)
        buf_printf(&json,
                   "%s{\"name\": \"s%u\", \"actor\": \"hand\", \"action\": \"%s\", \"revert\": "
                   "{\"action\": \"undo\"}}",
                   i > 0 ? ", " : "", i, action);
    buf_puts(&json, "]}");
    know(w, buf_str(&json));
}

/* All steps fail for good. */
static void fail_all(struct alone *w)
{
    CLEANUP(buf_deinit) struct buf json = {0};
    char *tokens = or_abort(strdup(buf_str(&w->tokens))), *at = tokens, *word;

    while ((word = strsep(&at, " ")) && *word) {
        char *slash = strchr(word, '/');

        buf_printf(&json,
                   "%s{\"jobId\": \"j\", \"step\": \"%.*s\", \"token\": \"%s\", " HOPELESS "}",
                   json.len > 0 ? ", " : "{\"replies\": [", (int)(slash - word), word, slash + 1);
    }
    buf_puts(&json, "]}");
    alone_replies(w, buf_str(&json));
    free(tokens);
}

/* A migration undoes at once as many steps as one call touches, and no more. */
static void test_migration_that_undoes_too_much(void **state)
{
    struct alone *w = *state;

    for (unsigned n = MANY; n >= OPS_BUDGET; n--) {
        simstore_reset(w->store, 0);
        alone_restart(w);
        know_many(w, 1, n, "work");
        know_many(w, 2, n, "other");
        alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w@1\"}");
        fail_all(w);
        w->story.len = w->tokens.len = 0;
        alone_control(w, COMMAND("c", "\"migrate\": {\"workflow\": \"w@2\"}"));
        if (n == MANY)
            alone_expect(
                w, ANSWER("c", "WRONG_STATE", "more than 250 steps would have to be undone first"));
        else
            assert_true(told(w, "ANSWER_CODE_DONE"));
    }
}

/* The store names a step that the scheduler does not know. */
static void test_refusal_because_of_an_unknown_step(void **state)
{
    static const struct {
        const char *definition, *step, *said;
    } refusals[] = {
        {NULL, "0", "step a is in flight: wait for its answer, or for its lease to end"},
        {NULL, "1", "step ? is in flight: wait for its answer, or for its lease to end"},
        {"0123456789abcdef0123456789abcdef", "0",
         "step ? is in flight: wait for its answer, or for its lease to end"},
    };
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message m = {0};
    char words[200];

    alone_submit(w, SUBMIT("j"));
    alone_ask(w, COMMAND("q", "\"query\": {}"), &m);
    for (size_t i = 0; i < array_size(refusals); i++) {
        const char *own = m.answer->status->definition, *given = refusals[i].definition;

        w->story.len = 0;
        snprintf(words, sizeof(words),
                 "WRONG_STATE %s 1700000000000+1+0+0+0+0+1+0+0+0 IN_FLIGHT %s", given ? given : own,
                 refusals[i].step);
        w->instead = (struct alone_answer){"steer", STORE_OK, words};
        w->times = 1;
        alone_control(w, COMMAND("c", "\"resume\": {}"));
        assert_true(told(w, refusals[i].said));
    }
}

static void expect_last_entry(struct alone *w, const char *event, const char *detail)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    const char *found = "";

    say_as(w, "ann", SCHEDULER_CONTROL, "me", COMMAND("q", "\"history\": {}"));
    assert_int_equal(wire_decode(WIRE_ANSWER, buf_bytes(&w->reply), NULL, &m, NULL), 0);
    for (size_t i = 0; i < m.answer->n_history; i++)
        if (strcmp(m.answer->history[i]->event, event) == 0)
            found = m.answer->history[i]->detail;
    assert_string_equal(found, detail);
    w->story.len = 0;
}

/* The history names the user, and what the sender calls itself. */
static void test_who_gives_a_command(void **state)
{
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    say_as(w, "ann", SCHEDULER_CONTROL, "me",
           COMMAND("c1", "\"by\": \"a person\", \"reason\": \"too early\", \"pause\": {}"));
    expect_last_entry(w, "command", "pause c1 ann(a_person) too early");
    say_as(w, "ann", SCHEDULER_CONTROL, "me", COMMAND("c2", "\"resume\": {}"));
    expect_last_entry(w, "command", "resume c2 ann");
}

/* ---- what a user may take of the store ---- */

#define MUCH                                                                                       \
    "your jobs take as many bytes of the store as they may (security.submitters): cancel or kill " \
    "some, or ask an operator"

/* Commands count, too: those that end jobs are taken all the same. */
static void test_commands_of_a_user_with_many_bytes(void **state)
{
    char long_pause[WIRE_REASON_MAX + 100];
    struct alone *w = *state;

    user_groups[0].limits = (struct access_limits){.bytes = 8000}; /* 4000 in each partition */
    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    assert_true(told(w, "RECEIPT_CODE_CREATED"));
    snprintf(long_pause, sizeof(long_pause), COMMAND("c0", "\"reason\": \"%0*d\", \"pause\": {}"),
             WIRE_REASON_MAX, 0);
    say_as(w, "ann", SCHEDULER_CONTROL, "me", long_pause);
    assert_true(told(w, "ANSWER_CODE_DONE"));
    say_as(w, "ann", SCHEDULER_CONTROL, "me", COMMAND("c1", "\"resume\": {}"));
    alone_expect(w, ANSWER("c1", "RETRY_LATER", MUCH));
    say_as(w, "op", SCHEDULER_CONTROL, "amq.gen-1", COMMAND("c2", "\"resume\": {}"));
    assert_true(told(w, "ANSWER_CODE_DONE"));
    say_as(w, "ann", SCHEDULER_CONTROL, "me", COMMAND("c3", "\"cancel\": {}"));
    assert_true(told(w, "ANSWER_CODE_DONE"));
    user_groups[0].limits = (struct access_limits){.rate = 10, .jobs = 3};
}

/* ---- questions ---- */

#define FOUND_NONE "{\"commandId\": \"c\", \"listJobs\": {\"phase\": \"PHASE_PROCESSED\"}}"

/* A list that has to scan many jobs ends when it has used up what its user may take. */
static void test_list_that_scans_much(void **state)
{
    struct alone *w = *state;
    char json[300];

    user_groups[0].limits = (struct access_limits){.rate = 1000000};
    with_owners(w);
    for (int i = 0; i < 3 * OPS_BUDGET; i++) {
        snprintf(json, sizeof(json),
                 "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [" STEP("a", "") "]}}", i);
        say_as(w, "ann", SCHEDULER_SUBMIT, "me", json);
    }
    w->story.len = 0;
    say_as(w, "ann", SCHEDULER_CONTROL, "me", FOUND_NONE);
    alone_expect(w, "reply {\"commandId\":\"c\",\"code\":\"ANSWER_CODE_DONE\"}, ack");
    user_groups[0].limits.rate = 10;
    say_as(w, "ann", SCHEDULER_CONTROL, "me", FOUND_NONE);
    alone_expect(w, "reply {\"commandId\":\"c\",\"code\":\"ANSWER_CODE_RETRY_LATER\",\"reason\":"
                    "\"too many jobs are to be scanned for this list: name more of their "
                    "properties, or repeat it later\"}, ack");
    user_groups[0].limits = (struct access_limits){.rate = 10, .jobs = 3};
}

/* Adds an entry of so many bytes to the history of job "j". */
static void add_entry(struct alone *w, int number, size_t bytes)
{
    CLEANUP(buf_deinit) struct buf entry = {0}, done = {0};
    const char *words[] = {
        "RPUSH", id_partition("j", 2) ? "drover:{p1}:hist:j" : "drover:{p0}:hist:j", NULL};

    buf_printf(&entry, "%d 1700000000000 held ", number);
    for (size_t i = 0; i < bytes; i++)
        buf_putc(&entry, 'x');
    words[2] = buf_str(&entry);
    simstore_command(w->store, words, array_size(words), &done);
}

static void expect_page(struct alone *w, const char *from, size_t entries, const char *next)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    char json[100];

    snprintf(json, sizeof(json), "{\"jobId\": \"j\", \"history\": {\"fromSeq\": \"%s\"}}", from);
    alone_ask(w, json, &m);
    assert_int_equal(m.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    assert_int_equal(m.answer->n_history, entries);
    assert_string_equal(m.answer->next, next);
    w->story.len = 0;
}

/* A page of the history is shortened until it fits into a message; an entry is not cut. */
static void test_history_too_large(void **state)
{
    struct alone *w = *state;

    alone_submit(w, SUBMIT("j"));
    for (int i = 3; i < 6; i++)
        add_entry(w, i, WIRE_MESSAGE_MAX * 3 / 8);
    add_entry(w, 6, WIRE_MESSAGE_MAX);
    add_entry(w, 7, WIRE_MESSAGE_MAX - WIRE_KIB - 150); /* no room for the next cursor */
    add_entry(w, 8, 1);
    expect_page(w, "1", 4, "5");
    expect_page(w, "4", 2, "6");
    expect_page(w, "8", 1, "");
    alone_control(w, COMMAND("c", "\"history\": {\"fromSeq\": 6}"));
    alone_expect(w, ANSWER("c", "TOO_LARGE", "the answer would exceed the message limit"));
    alone_control(w, COMMAND("c", "\"history\": {\"fromSeq\": 7}"));
    alone_expect(w, ANSWER("c", "TOO_LARGE", "the answer would exceed the message limit"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_queue_of_another_user),
        TEST(test_reply_with_a_strange_queue),
        TEST(test_format_of_an_answer),
        TEST(test_start_beyond_the_horizon),
        TEST(test_name_of_a_registered_workflow),
        TEST(test_job_of_another_user),
        TEST(test_job_limit_without_a_reply_to),
        TEST(test_submits_when_nearly_full),
        TEST(test_change_to_an_unknown_actor),
        TEST(test_second_change),
        TEST(test_job_about_to_end),
        TEST(test_migration_that_undoes_too_much),
        TEST(test_refusal_because_of_an_unknown_step),
        TEST(test_who_gives_a_command),
        TEST(test_commands_of_a_user_with_many_bytes),
        TEST(test_list_that_scans_much),
        TEST(test_history_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
