// SPDX-License-Identifier: Apache-2.0
/*
 * The program that is run for each alert: what it is given, and how it is ended
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
    char told[64]; /* what the program has written */
    bool closed;
};

static void on_patience(uv_timer_t *timer)
{
    /* only that the loop turns */
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

/* Has an alert told by a shell script. */
static void run(struct world *w, const char *script, int limit_ms)
{
    FILE *file = fopen(w->program, "w");

    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ntold=%s\n%s\n", w->told, script);
    fchmod(fileno(file), 0755);
    fclose(file);
    assert_int_equal(alert_io_new(&w->alerts, &w->loop, w->program, limit_ms), 0);
    alert_io_run(w->alerts, "shop", "{\"reason\":\"PARKED\"}");
}

static const char *told(const struct world *w)
{
    static char text[4096];
    FILE *file = fopen(w->told, "r");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        fclose(file);
    text[n] = '\0';
    return text;
}

static bool told_all(const struct world *w)
{
    return strstr(told(w), "end\n") != NULL;
}

/* Gone, or a zombie that only waits for its parent. */
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

/* The environment of the scheduler may hold its passwords. */
static void test_what_it_gets(void **state)
{
    struct world *w = *state;

    setenv("DROVER_RABBITMQ__PASSWORD", "secret", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    run(w, "exec >$told; cat; echo; env; echo end", LIMIT_MS * 100);
    until(w, told_all(w));
    assert_non_null(strstr(told(w), "{\"reason\":\"PARKED\"}\n"));
    assert_non_null(strstr(told(w), "PATH=/usr/bin:/bin\n"));
    assert_null(strstr(told(w), "secret"));
    assert_null(strstr(told(w), "DROVER_"));
    assert_null(strstr(told(w), "HOME="));
}

/* Too slow, or the scheduler ends: what the program has started ends with it. */
static void test_its_group_is_killed(void **state)
{
    static const char script[] =
        "trap '' TERM; sleep 1000 & echo $! >$told; echo end >>$told; wait";
    struct world *w = *state;

    run(w, script, LIMIT_MS);
    until(w, told_all(w));
    assert_false(process_gone(told(w)));
    until(w, process_gone(told(w)));
}

static void test_ends_with_the_scheduler(void **state)
{
    static const char script[] = "sleep 1000 & echo $! >$told; echo end >>$told; wait";
    struct world *w = *state;

    run(w, script, LIMIT_MS * 100);
    until(w, told_all(w));
    alert_io_close(w->alerts, LIMIT_MS, on_closed, w);
    alert_io_run(w->alerts, "shop", "too late");
    until(w, w->closed && process_gone(told(w)));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 0);
}

/* What waits when the scheduler ends is handed over all the same, as long as that takes no time. */
static void test_handed_over_at_the_end(void **state)
{
    struct world *w = *state;

    run(w, "cat >>$told; echo >>$told", LIMIT_MS * 100);
    alert_io_run(w->alerts, "shop", "second");
    alert_io_run(w->alerts, "clinic", "third");
    alert_io_close(w->alerts, LIMIT_MS * 100, on_closed, w);
    until(w, w->closed);
    assert_string_equal(told(w), "{\"reason\":\"PARKED\"}\nsecond\nthird\n");
    assert_int_equal(alert_io_stats(w->alerts)->left_out, 0);
}

static void test_left_out_at_the_end(void **state)
{
    struct world *w = *state;

    run(w, "sleep 1000", LIMIT_MS * 100);
    alert_io_run(w->alerts, "shop", "second");
    alert_io_close(w->alerts, 1, on_closed, w);
    until(w, w->closed);
    assert_int_equal(alert_io_stats(w->alerts)->left_out, 1);
}

/* What it has started and left behind would be there for ever. */
static void test_what_it_leaves_behind_is_killed(void **state)
{
    struct world *w = *state;

    run(w, "sleep 1000 & echo $! >$told; echo end >>$told; exit 0", LIMIT_MS * 100);
    until(w, told_all(w) && process_gone(told(w)));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 0);
}

/* It fails, outlasts its limit, prints without end, or is none: counted, and the next alert has its
 * turn. */
static void test_programs_that_fail(void **state)
{
    struct world *w = *state;

    run(w,
        "case $(cat) in"
        " fails) exit 3;; hangs) exec sleep 1000;; floods) exec 2>/dev/null; yes >&2;;"
        " end) echo end >>$told;; esac",
        LIMIT_MS * 10); /* in which a program that fails has ended */
    alert_io_run(w->alerts, "shop", "fails");
    alert_io_run(w->alerts, "shop", "hangs");
    alert_io_run(w->alerts, "shop", "fails");
    alert_io_run(w->alerts, "shop", "floods");
    alert_io_run(w->alerts, "shop", "end");
    until(w, told_all(w));
    assert_int_equal(alert_io_stats(w->alerts)->failed, 2);
    assert_int_equal(alert_io_stats(w->alerts)->killed, 2);
}

/* ---- life ---- */

/* Whoever has most of them keeps nobody else's from being told, and hears how many were left out.
 */
static void test_turns(void **state)
{
    struct world *w = *state;

    run(w, "exec >>$told; cat; echo", LIMIT_MS * 100);
    for (int i = 0; i < 150; i++)
        alert_io_run(w->alerts, "mallory", "m");
    alert_io_run(w->alerts, "clinic", "fire");
    alert_io_run(w->alerts, "", "nobody");
    until(w,
          strstr(told(w), "ALERTS_LEFT_OUT") && strchr(strstr(told(w), "ALERTS_LEFT_OUT"), '\n'));
    assert_true(strncmp(told(w), "{\"reason\":\"PARKED\"}\nm\nfire\nnobody\nm\nm\n", 37) == 0);
    assert_non_null(strstr(told(w),
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
    snprintf(w->told, sizeof(w->told), "%s/told", w->folder);
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
    unlink(w->told);
    rmdir(w->folder);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_it_gets),
        TEST(test_its_group_is_killed),
        TEST(test_turns),
        TEST(test_ends_with_the_scheduler),
        TEST(test_handed_over_at_the_end),
        TEST(test_left_out_at_the_end),
        TEST(test_what_it_leaves_behind_is_killed),
        TEST(test_programs_that_fail),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    signal(SIGPIPE, SIG_IGN); /* as daemons do */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
