// SPDX-License-Identifier: Apache-2.0
/*
 * The program that is run for each alert: its input and environment, and how it is ended
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "scheduler/alert_io.h"

#define LIMIT_MS 300
#define PATIENCE_MS 10000

struct world {
    uv_loop_t loop;
    uv_timer_t patience;
    struct alert_io *alerts;
    char folder[32];
    char program[64];
    char output[64]; /* what the program has written */
    bool closed;
};

static void on_patience(uv_timer_t *timer)
{
    /* wakes the loop, nothing else */
}

static void on_closed(void *ctx)
{
    ((struct world *)ctx)->closed = true;
}

/* Runs the loop until the condition holds. */
#define until(w, condition)                                                                        \
    do {                                                                                           \
        uv_timer_start(&(w)->patience, on_patience, 5, 5);                                         \
        for (int turns = 0; !(condition); turns++) {                                               \
            assert_true(turns < PATIENCE_MS / 5);                                                  \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                       \
        }                                                                                          \
        uv_timer_stop(&(w)->patience);                                                             \
    } while (0)

/* Sends an alert to a shell script. */
static void run(struct world *w, const char *script, int limit_ms)
{
    FILE *file = fopen(w->program, "w");

    assert_non_null(file);
    fprintf(file, "#!/bin/sh\noutput=%s\n%s\n", w->output, script);
    fchmod(fileno(file), 0755);
    fclose(file);
    assert_int_equal(alert_io_new(&w->alerts, &w->loop, w->program, limit_ms), 0);
    alert_io_run(w->alerts, "shop", "{\"reason\":\"PARKED\"}");
}

static const char *output(const struct world *w)
{
    static char text[4096];
    FILE *file = fopen(w->output, "r");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        fclose(file);
    text[n] = '\0';
    return text;
}

static bool output_complete(const struct world *w)
{
    return strstr(output(w), "end\n") != NULL;
}

/* The process has ended, or is a zombie that its parent has not yet waited for. */
static bool process_gone(const char *pid)
{
    char path[64], state = 'Z';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", atoi(pid));
    file = fopen(path, "r");
    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z' || state == 'X';
}

/* ---- tests ---- */

/* The program does not get the environment of the scheduler, which may hold passwords. */
static void test_input_and_environment(void **state)
{
    struct world *w = *state;

    setenv("DROVER_RABBITMQ__PASSWORD", "secret", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    run(w, "exec >$output; cat; echo; env; echo end", LIMIT_MS * 100);
    until(w, output_complete(w));
    assert_non_null(strstr(output(w), "{\"reason\":\"PARKED\"}\n"));
    assert_non_null(strstr(output(w), "PATH=/usr/bin:/bin\n"));
    assert_null(strstr(output(w), "secret"));
    assert_null(strstr(output(w), "DROVER_"));
    assert_null(strstr(output(w), "HOME="));
}

/* If the program is too slow, or the scheduler ends, its whole process group is killed. */
static void test_process_group_is_killed(void **state)
{
    static const char script[] =
        "trap '' TERM; sleep 1000 & echo $! >$output; echo end >>$output; wait";
    struct world *w = *state;

    run(w, script, LIMIT_MS);
    until(w, output_complete(w));
    assert_false(process_gone(output(w)));
    until(w, process_gone(output(w)));
}

static void test_program_ends_with_the_scheduler(void **state)
{
    static const char script[] = "sleep 1000 & echo $! >$output; echo end >>$output; wait";
    struct world *w = *state;

    run(w, script, LIMIT_MS * 100);
    until(w, output_complete(w));
    alert_io_close(w->alerts, LIMIT_MS, on_closed, w);
    alert_io_run(w->alerts, "shop", "too late");
    until(w, w->closed && process_gone(output(w)));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 0);
}

/* Alerts that wait when the scheduler ends are still passed to the program, as long as that is
 * quick. */
static void test_waiting_alerts_are_passed_on_at_the_end(void **state)
{
    struct world *w = *state;

    run(w, "cat >>$output; echo >>$output", LIMIT_MS * 100);
    alert_io_run(w->alerts, "shop", "second");
    alert_io_run(w->alerts, "clinic", "third");
    alert_io_close(w->alerts, LIMIT_MS * 100, on_closed, w);
    until(w, w->closed);
    assert_string_equal(output(w), "{\"reason\":\"PARKED\"}\nsecond\nthird\n");
    assert_int_equal(alert_io_stats(w->alerts)->left_out, 0);
}

static void test_alerts_left_out_at_the_end(void **state)
{
    struct world *w = *state;

    run(w, "sleep 1000", LIMIT_MS * 100);
    alert_io_run(w->alerts, "shop", "second");
    alert_io_close(w->alerts, 1, on_closed, w);
    until(w, w->closed);
    assert_int_equal(alert_io_stats(w->alerts)->left_out, 1);
}

/* Processes that the program leaves behind are killed. */
static void test_background_processes_are_killed(void **state)
{
    struct world *w = *state;

    run(w, "sleep 1000 & echo $! >$output; echo end >>$output; exit 0", LIMIT_MS * 100);
    until(w, output_complete(w) && process_gone(output(w)));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 0);
}

/* A program fails, exceeds its limit, prints without end or does not exist: the scheduler counts
 * that, and goes on with the next alert. */
static void test_programs_that_fail(void **state)
{
    struct world *w = *state;

    run(w,
        "case $(cat) in"
        " fails) exit 3;; hangs) exec sleep 1000;; floods) exec 2>/dev/null; yes >&2;;"
        " end) echo end >>$output;; esac",
        LIMIT_MS * 10); /* time in which a program that fails has ended */
    alert_io_run(w->alerts, "shop", "fails");
    alert_io_run(w->alerts, "shop", "hangs");
    alert_io_run(w->alerts, "shop", "fails");
    alert_io_run(w->alerts, "shop", "floods");
    alert_io_run(w->alerts, "shop", "end");
    until(w, output_complete(w));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 2);
    assert_int_equal(alert_io_stats(w->alerts)->killed, 2);
}

/* ---- setup ---- */

/* An owner with many alerts does not delay those of others; the program is told how many alerts
 * were left out. */
static void test_owners_take_turns(void **state)
{
    struct world *w = *state;

    run(w, "exec >>$output; cat; echo", LIMIT_MS * 100);
    for (int i = 0; i < 150; i++)
        alert_io_run(w->alerts, "mallory", "m");
    alert_io_run(w->alerts, "clinic", "fire");
    alert_io_run(w->alerts, "", "nobody");
    until(w, strstr(output(w), "ALERTS_LEFT_OUT") &&
                 strchr(strstr(output(w), "ALERTS_LEFT_OUT"), '\n'));
    assert_true(strncmp(output(w), "{\"reason\":\"PARKED\"}\nm\nfire\nnobody\nm\nm\n", 37) == 0);
    assert_non_null(strstr(output(w),
                           "\n{\"kind\":\"EVENT_KIND_ALERT\",\"reason\":\"ALERTS_LEFT_OUT\","
                           "\"labels\":[{\"name\":\"about\",\"value\":\"mallory\"},"
                           "{\"name\":\"alerts\",\"value\":\"52\"}]}\n"));
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    strcpy(w->folder, "/tmp/drover-alert-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->program, sizeof(w->program), "%s/page", w->folder);
    snprintf(w->output, sizeof(w->output), "%s/output", w->folder);
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->patience);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    if (!w->closed)
        alert_io_close(w->alerts, 0, on_closed, w);
    until(w, w->closed);
    alert_io_free(w->alerts);
    uv_close((uv_handle_t *)&w->patience, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    unlink(w->program);
    unlink(w->output);
    rmdir(w->folder);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_input_and_environment),
        TEST(test_process_group_is_killed),
        TEST(test_owners_take_turns),
        TEST(test_program_ends_with_the_scheduler),
        TEST(test_waiting_alerts_are_passed_on_at_the_end),
        TEST(test_alerts_left_out_at_the_end),
        TEST(test_background_processes_are_killed),
        TEST(test_programs_that_fail),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    signal(SIGPIPE, SIG_IGN); /* as daemons do */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
