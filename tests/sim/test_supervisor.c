// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisors over one store, steered by hand: who lives, who is frozen, what the store's clock
 * does.
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
#include "model/store_ops.h"
#include "store.h"
#include "supervisor/supervisor.h"

#define PARTITIONS 16
#define SUPERVISORS 5
#define LEASE_MS 5000
#define PERIOD_MS 1000
#define STORE_EPOCH INT64_C(1700000000000)

struct peer {
    struct supervisor *machine; /* NULL: not there */
    int64_t next;               /* when it wants a tick */
    bool frozen;
};

struct world {
    struct simstore *store;
    struct peer peers[SUPERVISORS];
    int64_t now;
    int64_t skew; /* of the store's clock */
};

/* ---- the world around the machines ---- */

static void feed(struct world *w, struct peer *p, struct supervisor_event event);

static void call(struct world *w, struct peer *p, const struct effect *e)
{
    struct store_answer answer;

    simstore_call(w->store, STORE_EPOCH + w->now + w->skew, false, e->store.partition,
                  e->store.function, e->store.args, e->store.n, &answer);
    feed(w, p,
         (struct supervisor_event){.type = SUPERVISOR_ANSWER, .id = e->id, .answer = &answer});
}

static void feed(struct world *w, struct peer *p, struct supervisor_event event)
{
    struct effects out = {0};

    event.now = w->now;
    p->next = supervisor_step(p->machine, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        const struct effect *e = &out.items[i];

        if (e->type == EFFECT_STORE)
            call(w, p, e);
        else
            feed(w, p, (struct supervisor_event){.type = SUPERVISOR_OUTCOME, .id = e->id});
    }
    effects_deinit(&out);
}

static struct peer *first_to_tick(struct world *w)
{
    struct peer *first = NULL;

    for (int i = 0; i < SUPERVISORS; i++) {
        struct peer *p = &w->peers[i];

        if (p->machine && !p->frozen && (!first || p->next < first->next))
            first = p;
    }
    return first;
}

/* Time passes, with the ticks that fall into it. */
static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms;

    for (struct peer *p; (p = first_to_tick(w)) && p->next <= end;) {
        w->now = p->next > w->now ? p->next : w->now;
        feed(w, p, (struct supervisor_event){.type = SUPERVISOR_TICK});
    }
    w->now = end;
}

static void birth(struct world *w, int i)
{
    char name[] = "supervisor-?";
    const struct supervisor_config config = {.name = name,
                                             .period_ms = PERIOD_MS,
                                             .lease_ms = LEASE_MS,
                                             .election = true,
                                             .retention_ms = INT64_C(7) * 24 * 3600 * 1000,
                                             .sweep_ms = 600000};
    struct rng rng;

    name[sizeof(name) - 2] = (char)('0' + i);
    rng_seed(&rng, (uint64_t)(w->now + i));
    assert_int_equal(supervisor_new(&w->peers[i].machine, &config, &rng), 0);
    w->peers[i].frozen = false;
    feed(w, &w->peers[i],
         (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .partitions = PARTITIONS});
    feed(w, &w->peers[i],
         (struct supervisor_event){.type = SUPERVISOR_QUEUE, .queue = {.consumers = 1}});
}

/* Without a word. */
static void death(struct world *w, int i)
{
    w->peers[i].machine = supervisor_free(w->peers[i].machine);
}

/* As on SIGTERM. */
static void goodbye(struct world *w, int i)
{
    feed(w, &w->peers[i], (struct supervisor_event){.type = SUPERVISOR_STOP});
    assert_true(supervisor_idle(w->peers[i].machine));
    death(w, i);
}

static unsigned leads(struct world *w, int i)
{
    struct supervisor_stats stats;

    if (!w->peers[i].machine)
        return 0;
    feed(w, &w->peers[i], (struct supervisor_event){.type = SUPERVISOR_TICK});
    supervisor_stats(w->peers[i].machine, &stats);
    return (unsigned)stats.leading;
}

/* The partitions of @n supervisors are all there are, and nobody has two more than another. */
static void assert_shared(struct world *w, unsigned n)
{
    unsigned sum = 0;

    for (int i = 0; i < SUPERVISORS; i++) {
        unsigned has = leads(w, i);

        sum += has;
        if (w->peers[i].machine && !w->peers[i].frozen)
            assert_in_range(has, PARTITIONS / n, PARTITIONS / n + (PARTITIONS % n ? 1 : 0));
        else
            assert_int_equal(has, 0);
    }
    assert_int_equal(sum, PARTITIONS);
}

/* ---- leads ---- */

static void test_partitions_are_shared(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < SUPERVISORS; i++) {
        birth(w, i);
        pass(w, LEASE_MS);
        assert_shared(w, (unsigned)i + 1);
    }
    pass(w, 100 * LEASE_MS);
    assert_shared(w, SUPERVISORS);
}

static void test_another_takes_over(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3; i++)
        birth(w, i);
    pass(w, LEASE_MS);
    assert_shared(w, 3);
    death(w, 0);
    pass(w, 2 * LEASE_MS);
    assert_shared(w, 2);
    w->peers[1].frozen = true;
    pass(w, 2 * LEASE_MS);
    assert_shared(w, 1);
    w->peers[1].frozen = false;
    birth(w, 0);
    pass(w, LEASE_MS);
    assert_shared(w, 3);
}

/* Nobody waits for the lease of one that says that it goes: each asks every third of a lease. */
static void test_goodbye(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3; i++)
        birth(w, i);
    pass(w, LEASE_MS);
    goodbye(w, 1);
    pass(w, 2 * LEASE_MS / 3 + 100);
    assert_shared(w, 2);
}

/* Those that lived before the store's clock went an hour back, or on, are not waited for. */
static void test_leads_when_the_clock_is_set(void **state)
{
    static const int64_t steps[] = {-3600 * 1000, 3600 * 1000};
    struct world *w = *state;

    for (size_t i = 0; i < array_size(steps); i++) {
        birth(w, 0);
        birth(w, 1);
        pass(w, LEASE_MS);
        assert_shared(w, 2);
        death(w, 0);
        w->skew += steps[i];
        pass(w, 2 * LEASE_MS);
        assert_shared(w, 1);
    }
}

/* ---- life ---- */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->store = simstore_new(SIM_DROVER_LUA);
    simstore_reset(w->store, 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < SUPERVISORS; i++)
        death(w, i);
    simstore_free(w->store);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_partitions_are_shared),
        TEST(test_another_takes_over),
        TEST(test_goodbye),
        TEST(test_leads_when_the_clock_is_set),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
