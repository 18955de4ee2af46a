// SPDX-License-Identifier: Apache-2.0
/*
 * The minimiser, over many kinds of worlds, with an artificial violation: a message was lost, and a
 * connection cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "explorer/minimise.h"

#define SEEDS_MAX 200
#define EVENTS_MAX 1000 /* of a world that is used here: larger ones take seconds */
#define PERCENT 10000   /* millionths */

struct fixture {
    struct simstore *store;
    uint64_t seed;
    bool decoy;    /* worlds without it violate X1, too, but for another reason */
    bool once;     /* only the next world violates it */
    bool done;     /* that world was run */
    uint32_t kept; /* choices, as reported last */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    f->store = simstore_new(SIM_DROVER_LUA);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    simstore_free(f->store);
    free(f);
    return 0;
}

static void run(void *ctx, struct decider *decider, struct world_result *out)
{
    struct fixture *f = ctx;
    struct timeline t;
    struct plan plan;

    timeline_init(&t, f->seed, NULL);
    plan_draw(&plan, &t, f->seed);
    plan.faults.bus.lost = 5 * PERCENT;
    plan.faults.cut = PERCENT;
    t.decider = decider;
    world_play(&(struct world_config){.plan = &plan, .timeline = &t, .store = f->store}, out);
    timeline_deinit(&t);
    if (*out->violation)
        return;
    if (out->seen[FEATURE_MESSAGE_LOST] && out->seen[FEATURE_CONNECTION_CUT])
        snprintf(out->violation, sizeof(out->violation), "X1 e%d: after %d", (int)out->events,
                 (int)out->events);
    else if (f->decoy)
        snprintf(out->violation, sizeof(out->violation), "X1 e%d: a decoy", (int)out->events);
    if (f->done)
        *out->violation = 0;
    f->done = f->once;
}

static void on_progress(void *ctx, const struct minimise_result *r, const struct choices *kept)
{
    struct fixture *f = ctx;
    uint32_t n;

    if (!kept)
        return;
    choices_items(kept, &n);
    assert_int_equal(n, r->choices_after);
    f->kept = n;
}

/* Finds the next seed in which that happens soon. */
static void find_world(struct fixture *f)
{
    struct world_result result;

    do {
        f->seed++;
        assert_true(f->seed < SEEDS_MAX);
        run(f, NULL, &result);
    } while (!*result.violation || result.events > EVENTS_MAX);
}

static uint32_t count_site(const struct choices *choices, const char *site)
{
    uint32_t n, found = 0;
    const struct choice *items = choices_items(choices, &n);

    for (uint32_t i = 0; i < n; i++)
        found += strncmp(items[i].name, site, strlen(site)) == 0;
    return found;
}

/* Both violations are equal except for numbers. */
static void assert_same_kind(const struct minimise_result *r)
{
    assert_non_null(strstr(r->before.violation, ": after "));
    assert_non_null(strstr(r->after.violation, ": after "));
}

/* Without any single one of the choices the violation disappears. */
static void assert_least(struct fixture *f, struct choices *choices, uint64_t most_events)
{
    struct world_result result;
    uint32_t n;
    struct choice *items = choices_items(choices, &n);

    for (uint32_t i = 0; i < n; i++) {
        items[i].taken_back = true;
        choices_follow(choices, most_events);
        run(f, choices_decider(choices), &result);
        assert_string_equal(result.violation, "");
        items[i].taken_back = false;
    }
}

static void test_least(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        struct choices *choices = choices_new();
        struct minimise_result r;
        uint32_t n;

        find_world(f);
        assert_int_equal(minimise(choices, run, on_progress, f, &r), MINIMISE_LEAST);
        assert_same_kind(&r);
        assert_string_not_equal(r.after.violation, r.before.violation);
        assert_int_equal(count_site(choices, "broker_take lost,"), 1);
        assert_int_equal(count_site(choices, "strike_link cut,"), 1);
        choices_items(choices, &n);
        assert_int_equal(n, r.choices_after);
        assert_int_equal(n, f->kept);
        assert_true(2 * n < r.choices_before);
        assert_least(f, choices, MINIMISE_TIMES * r.before.events);
        choices_free(choices);
    }
}

/* A world that follows recorded choices is the same to the last byte, also after they were written
 * and read. */
static void test_followed(void **state)
{
    struct fixture *f = *state;

    for (f->seed = 1; f->seed <= 30; f->seed++) {
        struct choices *choices = choices_new(), *read = choices_new();
        struct world_result drawn, recorded, followed;
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);

        assert_non_null(out);
        run(f, NULL, &drawn);
        run(f, choices_decider(choices), &recorded);
        assert_int_equal(recorded.hash, drawn.hash);
        choices_write(choices, out);
        fclose(out);
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
            assert_true(choices_parse(read, line));
        choices_follow(read, UINT64_MAX);
        run(f, choices_decider(read), &followed);
        assert_int_equal(followed.hash, drawn.hash);
        free(text);
        choices_free(choices);
        choices_free(read);
    }
}

static void on_nothing(struct event *e)
{
    (void)e;
}

static void on_something(struct event *e)
{
    e->eager = true;
}

static uint64_t hash_of(void (*fire)(struct event *), int64_t at)
{
    struct timeline t;
    struct event e = {.fire = fire};
    uint64_t hash;

    timeline_init(&t, 1, NULL);
    timeline_add(&t, &e, at);
    assert_true(timeline_next(&t));
    hash = t.hash;
    timeline_deinit(&t);
    return hash;
}

/* Two runs differ if something happens at another moment, or something else happens. */
static void test_moments(void **state)
{
    (void)state;
    assert_int_equal(hash_of(on_nothing, 5), hash_of(on_nothing, 5));
    assert_int_not_equal(hash_of(on_nothing, 5), hash_of(on_nothing, 6));
    assert_int_not_equal(hash_of(on_nothing, 5), hash_of(on_something, 5));
}

static void test_same_again(void **state)
{
    struct fixture *f = *state;
    struct choices *one = choices_new(), *other = choices_new();
    struct minimise_result first, second;

    f->seed = 0;
    find_world(f);
    assert_int_equal(minimise(one, run, on_progress, f, &first), MINIMISE_LEAST);
    assert_int_equal(minimise(other, run, on_progress, f, &second), MINIMISE_LEAST);
    assert_int_equal(first.after.hash, second.after.hash);
    assert_int_equal(first.worlds, second.worlds);
    choices_free(one);
    choices_free(other);
}

/* Minimises the next world, with @trick played on the minimiser. */
static enum minimise_outcome minimise_first(struct fixture *f, bool *trick,
                                            struct minimise_result *r)
{
    struct choices *choices = choices_new();
    enum minimise_outcome end;

    f->seed = 0;
    find_world(f);
    *trick = true;
    end = minimise(choices, run, on_progress, f, r);
    *trick = false;
    choices_free(choices);
    return end;
}

/* A violation of another invariant with the same number does not count. */
static void test_decoy(void **state)
{
    struct fixture *f = *state;
    struct minimise_result r;

    assert_int_equal(minimise_first(f, &f->decoy, &r), MINIMISE_LEAST);
    assert_same_kind(&r);
}

static void test_no_violation(void **state)
{
    struct fixture *f = *state;
    struct choices *choices = choices_new();
    struct world_result result;
    struct minimise_result r;

    f->seed = 0;
    do {
        f->seed++;
        run(f, NULL, &result);
    } while (*result.violation);
    assert_int_equal(minimise(choices, run, on_progress, f, &r), MINIMISE_NOTHING);
    choices_free(choices);
}

static void test_not_replayed(void **state)
{
    struct fixture *f = *state;
    struct minimise_result r;

    assert_int_equal(minimise_first(f, &f->once, &r), MINIMISE_DIVERGED);
    f->done = false;
    assert_non_null(strstr(r.before.violation, ": after "));
}

static void test_lines(void **state)
{
    struct choices *choices = choices_new();

    (void)state;
    assert_true(choices_parse(choices, "t=5 1 #2 strike_link cut, agent-1 ack\n"));
    assert_false(choices_parse(choices, "strike_link cut, agent-1 ack"));
    assert_false(choices_parse(choices, "t=5 1 strike_link cut"));
    choices_free(choices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),        cmocka_unit_test(test_followed),
        cmocka_unit_test(test_no_violation), cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_decoy),
        cmocka_unit_test(test_not_replayed), cmocka_unit_test(test_moments),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
