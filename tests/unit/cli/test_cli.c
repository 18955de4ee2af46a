// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of the command line that need no broker: options, times and addresses, jobs from files,
 * import, tables
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/command_parse.h"
#include "cli/command_run.h"
#include "cli/help.h"
#include "cli/import.h"
#include "cli/load.h"
#include "cli/parse.h"
#include "cli/table.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/job_id.h"
#include "model/json.h"
#include "model/workflow.h"

#define NOW INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */

/* ---- options ---- */

#define WORDS_MAX 24

struct line {
    char text[256];
    char *words[WORDS_MAX + 1];
    int n;
    struct args args;
    struct problem problem;
};

/* Splits at blanks and parses. */
static int parse(struct line *l, const char *text)
{
    char *rest;

    memset(l, 0, sizeof(*l));
    snprintf(l->text, sizeof(l->text), "drover %s", text);
    for (char *w = strtok_r(l->text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        assert_true(l->n < WORDS_MAX);
        l->words[l->n++] = w;
    }
    return command_parse(l->n, l->words, NOW, &l->args, &l->problem);
}

static void refuses(const char *text, const char *reason)
{
    struct line l;

    assert_int_equal(parse(&l, text), COMMAND_E_USAGE);
    assert_string_equal(l.problem.reason, reason);
}

static void test_options(void **state)
{
    struct line l;

    assert_int_equal(parse(&l, "run --workflow order@3 -l a=1 --label b= --id=x --timeout 1500ms "
                               "-o jsonl --start-at +10m --url amqp://h"),
                     0);
    assert_string_equal(l.args.command->name, "run");
    assert_string_equal(l.args.workflow, "order@3");
    assert_string_equal(l.args.id, "x");
    assert_string_equal(l.args.url, "amqp://h");
    assert_int_equal(l.args.n_labels, 2);
    assert_string_equal(l.args.labels[1], "b=");
    assert_int_equal(l.args.timeout_ms, 1500);
    assert_int_equal(l.args.start_at, NOW + 600000);
    assert_int_equal(l.args.output, OUTPUT_JSONL);
    assert_int_equal(l.args.n_operands, 0);
}

static void test_options_stand_anywhere(void **state)
{
    struct line l;

    assert_int_equal(parse(&l, "-o id get job-1 --data"), 0);
    assert_string_equal(l.args.command->name, "get");
    assert_int_equal(l.args.n_operands, 1);
    assert_string_equal(l.args.operands[0], "job-1");
    assert_true(l.args.data);
    assert_int_equal(l.args.output, OUTPUT_ID);

    assert_int_equal(parse(&l, "submit -"), 0);
    assert_string_equal(l.args.operands[0], "-");
    assert_int_equal(parse(&l, "get -- --data"), 0);
    assert_string_equal(l.args.operands[0], "--data");
}

static void test_options_defaults(void **state)
{
    struct line l;

    assert_int_equal(parse(&l, "import a b c"), 0);
    assert_int_equal(l.args.n_operands, 3);
    assert_true(l.args.scale == 1);
    assert_null(l.args.actor);
    assert_int_equal(l.args.timeout_ms, 0);
    assert_int_equal(l.args.output, OUTPUT_TABLE);
}

static void test_commands_of_two_words(void **state)
{
    struct line l;

    assert_int_equal(parse(&l, "workflow -o json show order"), 0);
    assert_string_equal(l.args.command->name, "workflow show");
    assert_int_equal(l.args.n_operands, 1);
    assert_string_equal(l.args.operands[0], "order");
    refuses("workflow", "workflow what? list, show, validate");
    refuses("workflow shwo order",
            "there is no command workflow shwo; did you mean workflow show?");
}

static void test_options_of_list(void **state)
{
    struct line l;

    assert_int_equal(
        parse(&l, "list -p error -w order -l a=1 --since -2h --before +1h -n 7 --after x"), 0);
    assert_int_equal(l.args.phase, DROVER__V1__PHASE__PHASE_ERROR);
    assert_string_equal(l.args.workflow, "order");
    assert_int_equal(l.args.n_labels, 1);
    assert_int_equal(l.args.since, NOW - 7200000);
    assert_int_equal(l.args.before, NOW + 3600000);
    assert_int_equal(l.args.limit, 7);
    assert_string_equal(l.args.after, "x");
    refuses("list -p done", "--phase: 'done' is not pending, processing, processed or error");
    refuses("list -n 0", "--limit: '0' is not a number from 1 to 1000000");
    refuses("list job", "usage: drover list");
}

static void test_options_help_needs_no_operands(void **state)
{
    struct line l;

    assert_int_equal(parse(&l, "get --help"), 0);
    assert_true(l.args.help);
    assert_int_equal(parse(&l, "--help"), 0);
    assert_null(l.args.command);
    assert_int_equal(parse(&l, "--version"), 0);
    assert_true(l.args.version);
}

static void test_options_refused(void **state)
{
    refuses("", "what should be done?");
    refuses("sumbit", "there is no command sumbit; did you mean submit?");
    refuses("frobnicate", "there is no command frobnicate");
    refuses("run --wrokflow=x", "there is no option --wrokflow; did you mean --workflow?");
    refuses("run --frobnicate", "there is no option --frobnicate");
    refuses("run -x", "there is no option -x");
    refuses("run --id", "--id needs a value");
    refuses("get x --data=1", "--data takes no value");
    refuses("get x --actor y", "`get` takes no option --actor");
    refuses("get", "usage: drover get JOB");
    refuses("get x y", "usage: drover get JOB");
    refuses("get x --timeout 30", "--timeout: '30' is not a duration such as 500ms, 30s or 5m");
    refuses("get x --timeout 0s", "--timeout: '0s' is not a duration such as 500ms, 30s or 5m");
    refuses("get x -o yaml", "--output: 'yaml' is not table, json, jsonl or id");
    refuses("run --label =x", "--label: '=x' is not NAME=VALUE, or one too many");
    refuses("import x --scale nan", "--scale: 'nan' is not a number from 0 to 1000000000");
}

static void test_each_command_has_a_function(void **state)
{
    const struct command *c;

    for (size_t n = 0; (c = command_at(n)); n++)
        assert_non_null(command_run_function(c));
}

static void test_help_names_what_a_command_takes(void **state)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    int words;

    help_text(NULL, &text);
    assert_non_null(strstr(buf_str(&text), "\n  submit "));
    assert_non_null(strstr(buf_str(&text), "\n  124  timed out"));
    buf_clear(&text);
    help_text(command_find("import", NULL, &words), &text);
    assert_int_equal(words, 1);
    assert_non_null(strstr(buf_str(&text), "usage: drover import FILE..."));
    assert_non_null(strstr(buf_str(&text), "--scale FACTOR"));
    assert_null(strstr(buf_str(&text), "--url"));
}

/* ---- times ---- */

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"250ms", 250}, {"30s", 30000}, {"5m", 300000}, {"1h", 3600000}, {"2d", 172800000}};
    static const char *const bad[] = {"",   "5",   "s",    "-5s",
                                      "5x", "5 s", "1.5h", "99999999999999999d"};
    int64_t ms;

    for (size_t i = 0; i < array_size(good); i++) {
        assert_true(parse_duration(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < array_size(bad); i++)
        assert_false(parse_duration(bad[i], &ms));
}

static void test_moments(void **state)
{
    static const struct {
        const char *text;
        int64_t at;
    } good[] = {
        {"2026-01-31T12:00:00Z", NOW},
        {"2026-01-31T12:00:00.5Z", NOW + 500},
        {"2026-01-31T12:00:00.1239Z", NOW + 123},
        {"2026-01-31T13:30:00+01:30", NOW},
        {"2026-01-31T07:00:00-05:00", NOW},
        {"+90s", NOW + 90000},
        {"-90s", NOW - 90000},
    };
    static const char *const bad[] = {
        "",   "now",  "2026-01-31",           "2026-01-31T12:00:00",  "2026-01-31T12:00:00+1:30",
        "+5", "+-5s", "2026-13-31T12:00:00Z", "2026-01-31T12:00:00Zx"};
    int64_t at;

    for (size_t i = 0; i < array_size(good); i++) {
        assert_true(parse_moment(good[i].text, NOW, &at));
        assert_int_equal(at, good[i].at);
    }
    for (size_t i = 0; i < array_size(bad); i++)
        assert_false(parse_moment(bad[i], NOW, &at));
}

/* ---- jobs ---- */

static void test_jobs_from_options(void **state)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    const Drover__V1__Submit *m;
    struct line l;

    assert_int_equal(parse(&l, "submit -w order@3 -l a=b=c --input {\"n\":1} --start-at +1s"), 0);
    assert_int_equal(load_jobs(&l.args, &jobs, &l.problem), 0);
    assert_int_equal(jobs.n, 1);
    m = jobs.items[0];
    assert_string_equal(m->workflow, "order@3");
    assert_int_equal(strlen(m->job_id), JOB_ID_LEN);
    assert_int_equal(m->n_labels, 1);
    assert_string_equal(m->labels[0]->name, "a");
    assert_string_equal(m->labels[0]->value, "b=c");
    assert_string_equal(m->input->content_type, "application/json");
    assert_int_equal(m->input->data.len, 7);
    assert_int_equal(m->start_at, NOW + 1000);
}

static void test_jobs_from_wrong_options(void **state)
{
    static const struct {
        const char *text;
        int error;
    } bad[] = {
        {"submit", LOAD_E_USAGE},
        {"submit -w x file", LOAD_E_USAGE},
        {"submit -w order@0", JOBS_E_INVALID},
        {"submit -w x --id a/b", JOBS_E_INVALID},
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        CLEANUP(jobs_deinit) struct jobs jobs = {0};
        struct line l;

        assert_int_equal(parse(&l, bad[i].text), 0);
        assert_int_equal(load_jobs(&l.args, &jobs, &l.problem), bad[i].error);
        assert_true(*l.problem.reason);
    }
}

/* ---- import ---- */

static const struct import_options SLEEPING = {.actor = "demo", .scale = 0.5};

static void imports(const char *text, const struct import_options *options, const char *expected)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};
    int r = import_jobs(bytes_str(text), options, &out, &problem);

    assert_string_equal(problem.reason, "");
    assert_int_equal(r, 0);
    assert_string_equal(buf_str(&out), expected);
}

static void test_import_sleeps(void **state)
{
    imports("{\"name\":\"n\",\"more\":1,\"steps\":[{\"name\":\"a\",\"runtime\":3},"
            "{\"name\":\"b\",\"actor\":\"X\",\"depends_on\":[\"a\"],\"runtime\":100.5}]}",
            &SLEEPING,
            "{\"definition\":{\"steps\":[{\"name\":\"a\",\"actor\":\"demo\",\"action\":\"sleep\","
            "\"arguments\":{\"json\":{\"ms\":1500}}},{\"name\":\"b\",\"actor\":\"demo\","
            "\"action\":\"sleep\",\"after\":[\"a\"],\"arguments\":{\"json\":{\"ms\":50250}},"
            "\"lockMs\":100500}]},\"labels\":[{\"name\":\"name\",\"value\":\"n\"}]}\n");
}

static void test_import_many_without_sleep(void **state)
{
    const struct import_options options = {.actor = "x", .scale = 0};

    imports("[{\"steps\":[{\"name\":\"a\"}]},{\"steps\":[{\"name\":\"b\",\"runtime\":9}]}]",
            &options,
            "{\"definition\":{\"steps\":[{\"name\":\"a\",\"actor\":\"x\",\"action\":\"noop\"}]},"
            "\"labels\":[]}\n"
            "{\"definition\":{\"steps\":[{\"name\":\"b\",\"actor\":\"x\",\"action\":\"noop\"}]},"
            "\"labels\":[]}\n");
}

/* Neither of the two names that would become "a_b" gets it: a step of that name exists. */
static void test_import_of_a_name_with_control_characters(void **state)
{
    const struct import_options awake = {.actor = "demo", .scale = 0};

    imports("{\"name\":\"a\\nb\\u007fc\",\"steps\":[{\"name\":\"s\"}]}", &awake,
            "{\"definition\":{\"steps\":[{\"name\":\"s\",\"actor\":\"demo\",\"action\":\"noop\"}]},"
            "\"labels\":[{\"name\":\"name\",\"value\":\"a_b_c\"}]}\n");
}

static void test_import_keeps_names_distinct(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    ProtobufCMessage *m;
    const Drover__V1__Workflow *w;
    static const char *const names[] = {"a_b-2", "a_b-3", "a_b", "_"};

    assert_int_equal(import_jobs(bytes_str("{\"steps\":[{\"name\":\"a b\"},{\"name\":\"a/b\"},"
                                           "{\"name\":\"a_b\",\"depends_on\":[\"a/b\",\"a b\"]},"
                                           "{\"name\":\"\"}]}"),
                                 &SLEEPING, &out, NULL),
                     0);
    assert_int_equal(
        json_to_message(buf_bytes(&out), &drover__v1__submit__descriptor, NULL, &m, NULL), 0);
    w = ((Drover__V1__Submit *)m)->definition;
    assert_int_equal(w->n_steps, array_size(names));
    for (size_t i = 0; i < array_size(names); i++)
        assert_string_equal(w->steps[i]->name, names[i]);
    assert_string_equal(w->steps[2]->after[0], "a_b-3");
    assert_string_equal(w->steps[2]->after[1], "a_b-2");
    protobuf_c_message_free_unpacked(m, NULL);
}

/* Two names that differ only after the maximum length. */
static void test_import_cuts_long_names(void **state)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct workflow *w;
    ProtobufCMessage *m;

    buf_puts(&text, "{\"steps\":[");
    for (int i = 0; i < 2; i++)
        buf_printf(&text, "%s{\"name\":\"%0200d%d\"}", i > 0 ? "," : "", 0, i);
    buf_puts(&text, "]}");
    assert_int_equal(import_jobs(buf_bytes(&text), &SLEEPING, &out, NULL), 0);
    assert_int_equal(
        json_to_message(buf_bytes(&out), &drover__v1__submit__descriptor, NULL, &m, NULL), 0);
    assert_int_equal(workflow_new(&w, ((Drover__V1__Submit *)m)->definition, "definition", NULL),
                     0);
    assert_int_equal(strlen(w->steps[1].name), ID_NAME_MAX);
    workflow_unref(w);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void test_import_refused(void **state)
{
    static const struct {
        const char *text, *field, *reason;
    } bad[] = {
        {"{}", "steps", "must be an array of at least one step"},
        {"[1]", "steps", "must be an array of at least one step"},
        {"{\"steps\":[1]}", "steps", "every step needs a name"},
        {"{\"steps\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "a", "is the name of two steps"},
        {"{\"steps\":[{\"name\":\"a\",\"depends_on\":[\"b\"]}]}", "a",
         "depends on a step that is not there"},
        {"{\"steps\":[{\"name\":\"a\",\"runtime\":1e9}]}", "a",
         "sleeps longer than half the longest lease: use a smaller --scale"},
        {"{\"steps\":[{\"name\":\"a\",\"runtime\":-1}]}", "a", "has a negative runtime"},
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        CLEANUP(buf_deinit) struct buf out = {0};
        struct problem problem = {0};

        assert_int_equal(import_jobs(bytes_str(bad[i].text), &SLEEPING, &out, &problem),
                         IMPORT_E_INVALID);
        assert_string_equal(problem.field, bad[i].field);
        assert_string_equal(problem.reason, bad[i].reason);
        assert_int_equal(out.len, 0);
    }
}

/* ---- view ---- */

static void test_color_wanted(void **state)
{
    assert_true(view_color_wanted(true, false, NULL, "xterm"));
    assert_true(view_color_wanted(true, false, "", "xterm"));
    assert_false(view_color_wanted(false, false, NULL, "xterm"));
    assert_false(view_color_wanted(true, true, NULL, "xterm"));
    assert_false(view_color_wanted(true, false, "1", "xterm"));
    assert_false(view_color_wanted(true, false, NULL, "dumb"));
    assert_false(view_color_wanted(true, false, NULL, NULL));
}

static void test_text_is_harmless(void **state)
{
    static const struct {
        const char *text;
        size_t max;
        const char *expected;
    } cases[] = {
        {"plain", 0, "plain"},
        {"a\033[31mb\n\x7f", 0, "a?[31mb??"},
        {"\xc2\x9b"
         "31m \xff \xc3\xa9",
         0, "?31m ? \xc3\xa9"},
        {"abcdef", 6, "abcdef"},
        {"abcdefg", 6, "abc..."},
        {"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4, "\xc3\xa9..."},
        {"abcdefg", 2, ".."},
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        CLEANUP(buf_deinit) struct buf out = {0};

        view_text(&out, cases[i].text, cases[i].max);
        assert_string_equal(buf_str(&out), cases[i].expected);
    }
}

static void test_durations_shown(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{-5, "0ms"},       {999, "999ms"},      {4250, "4.2s"},
                 {130000, "2m10s"}, {11040000, "3h04m"}, {440000000, "5d02h"}};

    for (size_t i = 0; i < array_size(cases); i++) {
        CLEANUP(buf_deinit) struct buf out = {0};

        view_duration(&out, cases[i].ms);
        assert_string_equal(buf_str(&out), cases[i].text);
    }
}

static void test_bars(void **state)
{
    static const struct {
        double fraction;
        const char *text;
    } cases[] = {{-1, "[----]"}, {0, "[----]"}, {0.5, "[##--]"}, {1, "[####]"}, {7, "[####]"}};

    for (size_t i = 0; i < array_size(cases); i++) {
        CLEANUP(buf_deinit) struct buf out = {0};

        view_bar(&out, cases[i].fraction, 6);
        assert_string_equal(buf_str(&out), cases[i].text);
    }
}

static void test_tables(void **state)
{
    CLEANUP(table_deinit) struct table t = {.columns = 3};
    CLEANUP(buf_deinit) struct buf out = {0};

    table_add(&t, VIEW_BOLD, "A");
    table_add(&t, VIEW_PLAIN, "B");
    table_add(&t, VIEW_PLAIN, "C");
    table_add(&t, VIEW_PLAIN, "\xc3\xa9t\xc3\xa9");
    table_add(&t, VIEW_PLAIN, "%s", "");
    table_add(&t, VIEW_RED, "%d", 7);
    table_add(&t, VIEW_PLAIN, "x");
    table_add(&t, VIEW_PLAIN, "long");
    table_add(&t, VIEW_PLAIN, "%s", "");
    assert_int_equal(table_print(&t, false, 0, &out), 3);
    assert_string_equal(buf_str(&out), "A    B     C\n"
                                       "\xc3\xa9t\xc3\xa9        7\n"
                                       "x    long\n");
    buf_clear(&out);
    table_print(&t, true, 8, &out);
    assert_string_equal(buf_str(&out), "\033[1mA\033[0m    B\n"
                                       "\xc3\xa9t\xc3\xa9\n"
                                       "x    ...\n");
}

static void test_job_shown(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    ProtobufCMessage *m;
    static const char status[] =
        "{\"jobId\":\"j\",\"workflow\":\"order@1\",\"current\":\"DISABLED\",\"desired\":\"ACTIVE\","
        "\"phase\":\"PROCESSING\",\"stepsTotal\":4,\"stepsOpen\":3,\"now\":\"1769860800000\","
        "\"created\":\"1769860795000\",\"labels\":[{\"name\":\"a\",\"value\":\"b\"}],"
        "\"steps\":[{\"name\":\"one\",\"actor\":\"x\",\"state\":\"DONE\",\"attempt\":1},"
        "{\"name\":\"two\",\"actor\":\"x\",\"state\":\"RUNNING\",\"attempt\":2,\"failures\":1,"
        "\"fraction\":0.5,\"note\":\"half\",\"until\":\"1769860804000\",\"begun\":true,"
        "\"agent\":\"a-1\"},"
        "{\"name\":\"three\",\"actor\":\"x\",\"state\":\"PARKED\",\"attempt\":3,\"expiries\":2,"
        "\"lastError\":{\"class\":\"no_money\",\"message\":\"none\\nleft\"}},"
        "{\"name\":\"four\",\"actor\":\"x\",\"state\":\"WAITING\",\"waiting\":1,"
        "\"after\":[\"one\",\"two\"]}]}";

    assert_int_equal(
        json_to_message(bytes_str(status), &drover__v1__job_status__descriptor, NULL, &m, NULL), 0);
    view_job((Drover__V1__JobStatus *)m, false, &out);
    assert_string_equal(
        buf_str(&out),
        "Job       j\n"
        "Workflow  order@1\n"
        "State     PROCESSING\n"
        "Current   DISABLED, desired ACTIVE\n"
        "Steps     4, 3 open\n"
        "Created   2026-01-31T11:59:55.000Z (5.0s ago)\n"
        "Labels    a=b\n"
        "\n"
        "STEP   ACTOR  STATE    ATTEMPT  DETAIL\n"
        "one    x      DONE     1\n"
        "two    x      RUNNING  2        [#####-----] 50%, half, lease ends in 4.0s, 1 failure, at "
        "a-1\n"
        "three  x      PARKED   3        2 leases expired, no_money: none?left\n"
        "four   x      WAITING           waits for 1 of 2\n");
    buf_clear(&out);
    view_job_progress((Drover__V1__JobStatus *)m, &out);
    assert_string_equal(buf_str(&out),
                        "[#####---------------] 1 of 4 settled, 1 running, 1 parked");
    protobuf_c_message_free_unpacked(m, NULL);
}

/* A job that has ended waits for nothing. */
static void test_killed_job_shown(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    ProtobufCMessage *m;
    static const char status[] =
        "{\"jobId\":\"j\",\"current\":\"UNKNOWN\",\"desired\":\"ACTIVE\",\"phase\":\"ERROR\","
        "\"outcome\":\"KILLED\",\"reason\":\"REQUESTED\",\"hold\":\"killed\",\"now\":\"10000\","
        "\"stepsTotal\":4,\"stepsOpen\":4,\"steps\":["
        "{\"name\":\"a\",\"state\":\"RUNNING\",\"attempt\":1,\"until\":\"14000\"},"
        "{\"name\":\"b\",\"state\":\"REVERTING\",\"attempt\":1,\"until\":\"9000\","
        "\"heartbeatMs\":\"500\"},"
        "{\"name\":\"c\",\"state\":\"BACKOFF\",\"attempt\":1,\"failures\":1,\"until\":\"14000\"},"
        "{\"name\":\"d\",\"state\":\"WAITING\",\"waiting\":1,\"after\":[\"a\"]}]}";

    (void)state;
    assert_int_equal(
        json_to_message(bytes_str(status), &drover__v1__job_status__descriptor, NULL, &m, NULL), 0);
    view_job((Drover__V1__JobStatus *)m, false, &out);
    assert_non_null(strstr(buf_str(&out),
                           "a            SENT     1        in flight when the job ended, "
                           "an agent may be at it for 4.0s\n"
                           "b            QUEUED   1        in flight when the job ended\n"
                           "c            BACKOFF  1        1 failure\n"
                           "d            WAITING\n"));
    protobuf_c_message_free_unpacked(m, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_options_stand_anywhere),
        cmocka_unit_test(test_options_defaults),
        cmocka_unit_test(test_commands_of_two_words),
        cmocka_unit_test(test_options_of_list),
        cmocka_unit_test(test_options_help_needs_no_operands),
        cmocka_unit_test(test_options_refused),
        cmocka_unit_test(test_each_command_has_a_function),
        cmocka_unit_test(test_help_names_what_a_command_takes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_jobs_from_options),
        cmocka_unit_test(test_jobs_from_wrong_options),
        cmocka_unit_test(test_import_sleeps),
        cmocka_unit_test(test_import_many_without_sleep),
        cmocka_unit_test(test_import_of_a_name_with_control_characters),
        cmocka_unit_test(test_import_keeps_names_distinct),
        cmocka_unit_test(test_import_cuts_long_names),
        cmocka_unit_test(test_import_refused),
        cmocka_unit_test(test_color_wanted),
        cmocka_unit_test(test_text_is_harmless),
        cmocka_unit_test(test_durations_shown),
        cmocka_unit_test(test_bars),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_job_shown),
        cmocka_unit_test(test_killed_job_shown),
    };

    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
