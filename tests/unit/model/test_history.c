// SPDX-License-Identifier: Apache-2.0
/*
 * History: how the lines that the store keeps are read
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/history.h"

static struct workflow *two_steps(void)
{
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step steps[2], *list[2] = {&steps[0], &steps[1]};
    struct workflow *w;

    for (int i = 0; i < 2; i++) {
        drover__v1__step__init(&steps[i]);
        steps[i].name = (char *)(i ? "pay" : "book");
        steps[i].actor = (char *)"x";
    }
    m.steps = list;
    m.n_steps = 2;
    assert_int_equal(workflow_new(&w, &m, "", NULL), 0);
    return w;
}

/* @said: "seq@at event step #attempt token detail", without the parts that the line lacks. */
static void expect(const char *line, const char *said)
{
    CLEANUP(workflow_unref) struct workflow *w = two_steps();
    CLEANUP(buf_deinit) struct buf text = {0};
    Drover__V1__Answer answer = DROVER__V1__ANSWER__INIT;
    struct effects fx = {0};
    struct bytes entry = bytes_str(line);
    const Drover__V1__HistoryEntry *m;

    history_entries(&fx, &answer, &(struct ops_history){.first = 7, .entries = &entry, .n = 1}, w);
    assert_int_equal(answer.history_first, 7);
    assert_int_equal(answer.n_history, 1);
    m = answer.history[0];
    buf_printf(&text, "%d@%d %s", (int)m->seq, (int)m->at, m->event);
    if (*m->step)
        buf_printf(&text, " %s", m->step);
    if (m->attempt)
        buf_printf(&text, " #%u", (unsigned)m->attempt);
    if (*m->token)
        buf_printf(&text, " %s", m->token);
    if (*m->detail)
        buf_printf(&text, " (%s)", m->detail);
    assert_string_equal(buf_str(&text), said);
    effects_deinit(&fx);
}

/* A token that an earlier build has stored in full is shown as a digest, like those of this build.
 * */
static void test_tokens(void **state)
{
    expect("7 1 dispatched 1 2 1.9f2c41d07be83a65", "7@1 dispatched pay #2 1.680150bd");
    expect("7 1 dispatched 1 2 1.9f2c41d0", "7@1 dispatched pay #2 1.9f2c41d0");
    expect("7 1 unstarted 1 2 -", "7@1 unstarted pay #2 -");
}

static void test_steps(void **state)
{
    expect("8 90 dispatched 1 3 2.9f", "8@90 dispatched pay #3 2.9f");
    expect("8 90 dispatched 1 3 2.9f D", "8@90 dispatched pay #3 2.9f");
    expect("8 90 skipped 0", "8@90 skipped book");
    expect("8 90 parked 0 PERMANENT", "8@90 parked book (PERMANENT)");
    expect("8 90 resolved 1 A", "8@90 resolved pay (A)");
    expect("8 90 edited 1", "8@90 edited pay");
}

static void test_jobs(void **state)
{
    expect("1 90 created 2 sched-1", "1@90 created (sched-1)");
    expect("2 90 command retry c1 me too slow ", "2@90 command (retry c1 me too slow)");
    expect("2 90 settled SUCCEEDED", "2@90 settled (SUCCEEDED)");
    expect("2 90 killed", "2@90 killed");
    expect("2 90 a_later_event 1 2", "2@90 a_later_event (1 2)"); /* of a newer library */
}

/* Events that may concern one step or the job. */
static void test_steps_or_jobs(void **state)
{
    expect("3 90 turned D FAILURE PERMANENT 1", "3@90 turned pay (D FAILURE PERMANENT)");
    expect("3 90 turned D CANCELLED", "3@90 turned (D CANCELLED)");
    expect("3 90 turned D", "3@90 turned (D)");
    expect("3 90 retried 1", "3@90 retried pay");
    expect("3 90 retried all", "3@90 retried (all)");
    expect("3 90 mended 0", "3@90 mended book");
    expect("3 90 mended due", "3@90 mended (due)");
}

/* A line that this build did not write: the readable parts are shown. */
static void test_unknown_lines(void **state)
{
    expect("", "0@0 ");
    expect("x y dispatched 2 z 2.9f", "0@0 dispatched 2.9f");
    expect("1 90 done -1 -1 t", "1@90 done t");
    expect("1 90 done 1 4294967296 t", "1@90 done pay t");
    expect("1 90 done", "1@90 done");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_jobs),          cmocka_unit_test(test_steps_or_jobs),
        cmocka_unit_test(test_unknown_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
