// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: the arguments and keys that a request has after a person has changed or resolved a step
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

/* A step that parks at its first failure; @revert: the fields of its undo, @more: other fields. */
#define STEP(name, revert, more)                                                                   \
    "{\"name\": \"" name "\", \"actor\": \"hand\", \"action\": \"do\", \"arguments\": "            \
    "{\"text\": \"old\"}, \"retry\": {\"onPermanent\": \"RECOURSE_PARK\"}, \"revert\": "           \
    "{\"action\": \"undo\"" revert "}" more "}"
#define SUBMIT(steps) "{\"jobId\": \"j\", \"definition\": {\"steps\": [" steps "]}}"
#define COMMAND(id, command) "{\"jobId\": \"j\", \"commandId\": \"" id "\", " command "}"
#define RETRY "\"retry\": {\"steps\": [\"a\"], \"arguments\": {\"text\": \"new\"}}"
#define BACK "\"setDesired\": {\"desired\": \"STATE_DISABLED\"}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""
#define UNDONE "\"achieved\": \"STATE_DISABLED\""
#define HOPELESS "\"error\": {\"class\": \"NO\", \"verdict\": \"VERDICT_PERMANENT\"}"

/* Compares the last request that the scheduler has published. @forward_key: of an undo, the
 * idempotency key of the forward action; else "". */
static void expect_request(struct alone *w, const char *action, const char *arguments,
                           const char *forward_key)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    const Drover__V1__StepRequest *r;
    const ProtobufCBinaryData *data;

    assert_int_equal(wire_decode(WIRE_REQUESTS, buf_bytes(&w->request), NULL, &m, NULL), 0);
    r = m.requests->requests[0];
    data = &r->arguments->data;
    assert_string_equal(r->action, action);
    assert_string_equal(r->forward_key, forward_key);
    assert_true(bytes_is(bytes_of(data->data, data->len), arguments));
}

/* The arguments that a person gives a step replace those of the definition, in its undo, too,
 * unless the undo has its own. */
static void test_arguments_of_a_person(void **state)
{
    static const struct {
        const char *submit, *of_undo;
    } jobs[] = {
        {SUBMIT(STEP("a", "", "")), "new"},
        {SUBMIT(STEP("a", ", \"arguments\": {\"text\": \"own\"}", "")), "own"},
    };
    struct alone *w = *state;

    for (size_t i = 0; i < array_size(jobs); i++) {
        simstore_reset(w->store, 0);
        alone_restart(w);
        alone_submit(w, jobs[i].submit);
        expect_request(w, "do", "old", "");
        alone_serve(w, "j", "a", HOPELESS);
        alone_control(w, COMMAND("c1", RETRY)); /* the work of before is undone first */
        expect_request(w, "undo", i == 0 ? "old" : "own", "j/a/1");
        alone_serve(w, "j", "a", UNDONE);
        expect_request(w, "do", "new", "");
        alone_serve(w, "j", "a", DONE);
        alone_control(w, COMMAND("c2", BACK));
        expect_request(w, "undo", jobs[i].of_undo, "j/a/4");
        w->story.len = 0;
    }
}

/* There is no key of work that no agent has done: a person says that it is done. */
static void test_undo_of_a_resolved_step(void **state)
{
    struct alone *w = *state;

    alone_submit(w, SUBMIT(STEP("a", "", "") ", " STEP("b", "", ", \"after\": [\"a\"]")));
    alone_control(w, COMMAND("c1", "\"pause\": {}"));
    alone_serve(w, "j", "a", DONE);
    alone_control(w, COMMAND("c2", "\"resolve\": {\"step\": \"b\", \"state\": \"STATE_ACTIVE\"}"));
    alone_control(w, COMMAND("c3", "\"resume\": {}"));
    alone_control(w, COMMAND("c4", BACK));
    expect_request(w, "undo", "old", "");
    alone_serve(w, "j", "b", UNDONE);
    expect_request(w, "undo", "old", "j/a/1");
    w->story.len = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_arguments_of_a_person),
        TEST(test_undo_of_a_resolved_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
