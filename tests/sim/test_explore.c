// SPDX-License-Identifier: Apache-2.0
/*
 * The explorer, where three draws lead 27 ways: each is gone, and whichever one violates something,
 * or ends its process, is the one that the path leads to. Where a process that waits is killed,
 * that is told.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "explore.h"
#include "timeline.h"

#define DRAWS 3
#define WAYS 3
#define ALL (WAYS * WAYS * WAYS)

struct ways {
    unsigned crashes;  /* this one; ALL: none */
    unsigned violates; /* likewise */
    unsigned orphans;  /* likewise: whoever waits for it is killed */
    unsigned gone;     /* in this process, the last one */
};

static uint64_t no_digest(void *ctx)
{
    (void)ctx;
    return 0;
}

static bool at_end(void *ctx)
{
    (void)ctx;
    return true;
}

static void go(void *ctx, struct explorer *x)
{
    struct ways *w = ctx;
    struct timeline t;

    timeline_init(&t, 0, NULL);
    t.decider = explorer_decider(x);
    explorer_open(x, &(struct explorer_view){no_digest, at_end, NULL}, 0);
    timeline_step(&t); /* nothing is left to happen before it opens */
    w->gone = 0;
    for (int i = 0; i < DRAWS; i++)
        w->gone = w->gone * WAYS + timeline_choose(&t, WAYS);
    if (w->gone == w->crashes)
        raise(SIGKILL);
    if (w->gone == w->orphans)
        for (kill(getppid(), SIGKILL);;)
            pause(); /* it dies, too */
    explorer_end(x, w->gone == w->violates ? "X1" : NULL);
    timeline_deinit(&t);
}

/* Which way the path leads. */
static unsigned replay(const char *path)
{
    static struct explore_result result;
    struct ways w = {.crashes = ALL, .violates = ALL, .orphans = ALL};

    assert_int_equal(explore(&(struct explore_config){.replay = path}, go, &w, &result), 0);
    return w.gone;
}

static void test_all(void **state)
{
    static struct explore_result result;
    struct ways w = {.crashes = ALL, .violates = ALL, .orphans = ALL};

    (void)state;
    for (unsigned jobs = 1; jobs <= 3; jobs++) {
        assert_int_equal(explore(&(struct explore_config){.jobs = jobs}, go, &w, &result), 0);
        assert_int_equal(result.ends, ALL);
    }
}

static void test_violation(void **state)
{
    static struct explore_result result;

    (void)state;
    for (unsigned i = 0; i < 2 * ALL; i++) {
        const struct explore_config config = {.jobs = 1 + i % 2};
        struct ways w = {.crashes = ALL, .violates = i / 2, .orphans = ALL};

        assert_int_equal(explore(&config, go, &w, &result), 1);
        assert_string_equal(result.violation, "X1");
        assert_int_equal(replay(result.path), w.violates);
    }
}

static void test_crash(void **state)
{
    static struct explore_result result;

    (void)state;
    for (unsigned i = 0; i < 2 * ALL; i++) {
        const struct explore_config config = {.jobs = 1 + i % 2};
        struct ways w = {.crashes = i / 2, .violates = ALL, .orphans = ALL};

        assert_int_equal(explore(&config, go, &w, &result), 2);
        assert_string_equal(result.violation, "");
        assert_int_equal(replay(result.path), w.crashes);
    }
}

static void test_killed_while_it_waits(void **state)
{
    static struct explore_result result;

    (void)state;
    for (unsigned jobs = 1; jobs <= 3; jobs++) {
        for (unsigned i = 0; i < ALL - 1;
             i++) { /* the last way goes who was first: we wait for it */
            struct ways w = {.crashes = ALL, .violates = ALL, .orphans = i};

            assert_int_equal(explore(&(struct explore_config){.jobs = jobs}, go, &w, &result), 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_violation),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_killed_while_it_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
