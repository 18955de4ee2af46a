// SPDX-License-Identifier: Apache-2.0
/*
 * The explorer: three draws lead 27 ways. Each way is gone, and if one violates an invariant or
 * crashes, the path leads to it. If a process that waits is killed, that is reported. A roaming
 * event happens at every possible moment, and the world is not at rest before. The same events in
 * another order on one lane are another state. From two equal messages a machine makes different
 * random numbers.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "explorer/explore.h"
#include "world/parts.h"

#define DRAWS 3
#define WAYS 3
#define ALL (WAYS * WAYS * WAYS)

struct ways {
    unsigned crashes;  /* this one; ALL: none */
    unsigned violates; /* this one; ALL: none */
    unsigned orphans;  /* this one; the process that waits for it is killed */
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
            pause(); /* this process is killed, too */
    explorer_end(x, w->gone == w->violates ? "X1" : NULL);
    timeline_deinit(&t);
}

/* The way that the path leads to. */
static unsigned replay(const char *path)
{
    static struct explore_result result;
    struct ways w = {.crashes = ALL, .violates = ALL, .orphans = ALL};

    assert_int_equal(explore(&(struct explore_config){.replay = path}, go, &w, &result), 0);
    return w.gone;
}

static void test_all_ways(void **state)
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

static void test_killed_parent(void **state)
{
    static struct explore_result result;

    (void)state;
    for (unsigned jobs = 1; jobs <= 3; jobs++) {
        for (unsigned i = 0; i < ALL - 1;
             i++) { /* the first process goes the last way, so the test waits for it */
            struct ways w = {.crashes = ALL, .violates = ALL, .orphans = i};

            assert_int_equal(explore(&(struct explore_config){.jobs = jobs}, go, &w, &result), 2);
        }
    }
}

/* ---- events ---- */

struct letter {
    struct event event;
    struct letters *letters;
    char name;
};

/* What has happened, and when. At rest no event is left at that moment. */
struct letters {
    struct timeline t;
    struct letter a, b, c;
    char said[64];
    bool rests;
    const char *violates; /* the order that counts as a violation */
};

static void on_letter(struct event *e)
{
    struct letter *l = container_of(e, struct letter, event);
    char *said = l->letters->said;
    size_t len = strlen(said);

    snprintf(said + len, sizeof(l->letters->said) - len, "%c%d ", l->name, (int)l->letters->t.now);
}

static bool at_rest(void *ctx)
{
    return ((struct letters *)ctx)->rests = true;
}

static struct event *letter(struct letters *s, struct letter *l, char name, uint64_t lane)
{
    *l = (struct letter){.letters = s, .name = name};
    l->event.fire = on_letter;
    l->event.lane = lane;
    l->event.digest = (uint64_t)name;
    return &l->event;
}

static void letters_open(struct letters *s, struct explorer *x)
{
    s->rests = false;
    s->said[0] = '\0';
    timeline_init(&s->t, 0, NULL);
    s->t.decider = explorer_decider(x);
    explorer_open(x, &(struct explorer_view){no_digest, at_rest, s}, 0);
    timeline_step(&s->t);
}

static void letters_run(struct letters *s, struct explorer *x)
{
    while (!s->rests && timeline_step(&s->t))
        continue;
    explorer_end(x, s->violates && strcmp(s->said, s->violates) == 0 ? "X1" : NULL);
    timeline_deinit(&s->t);
}

static void roam(void *ctx, struct explorer *x)
{
    struct letters *s = ctx;

    letters_open(s, x);
    timeline_add(&s->t, letter(s, &s->a, 'a', 0), 0);
    timeline_add(&s->t, letter(s, &s->b, 'b', 0), 10);
    timeline_add_roaming(&s->t, letter(s, &s->c, 'c', 0), 1, 20);
    letters_run(s, x);
}

static void test_roaming(void **state)
{
    static const char *const all[] = {
        "c0 a0 ", "a0 c0 ", "a0 c10 b10 ", "a0 b10 c10 ", "a0 b10 c20 ",
    };
    static struct explore_result result;
    struct letters s = {0};

    (void)state;
    assert_int_equal(explore(&(struct explore_config){.jobs = 1}, roam, &s, &result), 0);
    assert_int_equal(result.ends, sizeof(all) / sizeof(all[0]));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        s.violates = all[i];
        assert_int_equal(explore(&(struct explore_config){.jobs = 1}, roam, &s, &result), 1);
    }
}

static void two_ways_round(void *ctx, struct explorer *x)
{
    struct letters *s = ctx;
    bool round;

    letters_open(s, x);
    round = timeline_choose(&s->t, 2);
    timeline_add(&s->t, letter(s, &s->a, round ? 'b' : 'a', 7), 0);
    timeline_add(&s->t, letter(s, &s->b, round ? 'a' : 'b', 7), 0);
    timeline_add(&s->t, letter(s, &s->c, 'c', 0), 0);
    letters_run(s, x);
}

static void test_order_of_a_lane(void **state)
{
    static struct explore_result result;
    struct letters s = {0};

    (void)state;
    assert_int_equal(explore(&(struct explore_config){.jobs = 1}, two_ways_round, &s, &result), 0);
    assert_int_equal(result.ends,
                     6); /* c is the first, the second or the third; a and b in both orders */
}

/* ---- what machines receive ---- */

static uint64_t heard;

static void keep_digest(struct decider *d, uint64_t digest)
{
    (void)d;
    heard = digest;
}

static void test_equal_messages(void **state)
{
    struct decider d = {.hears = keep_digest};
    struct timeline t = {.decider = &d};
    struct world w = {.t = &t};
    struct process p = {.world = &w, .name = "scheduler-1"}, other = p;
    uint64_t first;

    (void)state;
    process_hears(&p, 7);
    first = heard;
    process_hears(&p, 7);
    assert_int_not_equal(heard, first);
    process_hears(&other, 7);
    assert_int_equal(heard, first); /* equal pasts give equal numbers */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ways),       cmocka_unit_test(test_violation),
        cmocka_unit_test(test_crash),          cmocka_unit_test(test_killed_parent),
        cmocka_unit_test(test_roaming),        cmocka_unit_test(test_order_of_a_lane),
        cmocka_unit_test(test_equal_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
