// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: how a supervisor finds out that the broker has lost messages, and has that recorded
 *
 * Each test gives the machine its events, and the answers of the store, one at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/store_ops.h"
#include "model/store_schema.h"
#include "supervisor/supervisor.h"

#define PARTITIONS 2
#define NOTHING_EXPIRES 1000000 /* the lease factor with which no dispatch expires */
#define MINUTE 60000

struct asked {
    uint64_t id; /* 0: answered */
    const char *function;
    uint32_t partition;
    int64_t factor;   /* of expire */
    char cursor[200]; /* of lost, as the next two */
    int64_t age, at;
};

struct world {
    struct supervisor *machine;
    int64_t now;
    struct asked asked[64]; /* store calls without an answer */
    unsigned markers;       /* that were published */
    uint64_t marker;        /* the id of the last one */
    unsigned lines;         /* of a single round */
};

static int64_t number(struct bytes text)
{
    int64_t n;

    assert_true(bytes_to_i64(text, &n));
    return n;
}

static void on_call(struct world *w, const struct effect *e)
{
    struct asked *free = w->asked;

    while (free->id)
        assert_true(++free < w->asked + array_size(w->asked));
    *free =
        (struct asked){.id = e->id, .function = e->store.function, .partition = e->store.partition};
    if (strcmp(e->store.function, "expire") == 0)
        free->factor = number(e->store.args[AT_EXPIRE_LEASE_FACTOR]);
    if (strcmp(e->store.function, "lost") == 0) {
        struct bytes cursor = e->store.args[AT_LOST_CURSOR];

        free->age = number(e->store.args[AT_LOST_AGE]);
        free->at = number(e->store.args[AT_LOST_AT]);

        assert_true(bytes_is(e->store.args[AT_LOST_ACTOR], "*"));
        assert_true(cursor.len < sizeof(free->cursor));
        if (cursor.len > 0)
            memcpy(free->cursor, cursor.data, cursor.len);
    }
}

static void on_publish(struct world *w, const struct effect *e)
{
    assert_string_equal(e->publish.exchange, SUPERVISOR_MARKER_NAME);
    assert_true(e->publish.transient); /* a restart has to lose it ... */
    assert_true(e->publish.bound);     /* ... and the bus must not send it after one */
    assert_true(e->publish.mandatory);
    assert_int_equal(e->publish.body.len, 0);
    w->markers++;
    w->marker = e->id;
}

static void feed(struct world *w, struct supervisor_event event)
{
    struct effects out = {0};

    event.now = w->now;
    supervisor_step(w->machine, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        if (out.items[i].type == EFFECT_STORE)
            on_call(w, &out.items[i]);
        else if (out.items[i].type == EFFECT_PUBLISH)
            on_publish(w, &out.items[i]);
        else
            w->lines++;
    }
    effects_deinit(&out);
}

/* The call of a function without an answer; NULL: there is none. */
static struct asked *find(struct world *w, const char *function, uint32_t partition)
{
    struct asked *found = NULL;

    for (size_t i = 0; i < array_size(w->asked); i++) {
        struct asked *a = &w->asked[i];

        if (a->id && a->partition == partition && strcmp(a->function, function) == 0 &&
            (!found || a->id > found->id))
            found = a;
    }
    return found;
}

static void answer(struct world *w, struct asked *asked, const char *const *items, uint32_t n)
{
    struct bytes values[8];
    const struct store_answer a = {STORE_OK, values, n};
    uint64_t id = asked->id;

    for (uint32_t i = 0; i < n; i++)
        values[i] = bytes_str(items[i]);
    asked->id = 0;
    feed(w, (struct supervisor_event){.type = SUPERVISOR_ANSWER, .id = id, .answer = &a});
}

static void answer_lost(struct world *w, uint32_t partition, const char *cursor)
{
    struct asked *asked = find(w, "lost", partition);

    assert_non_null(asked);
    answer(w, asked, (const char *const[]){"1700000000000", cursor}, 2);
}

/* The lease factor of the next expire of a partition. */
static int64_t next_factor(struct world *w, uint32_t partition)
{
    struct asked *asked = find(w, "expire", partition);
    static const char *const nothing[] = {"1700000000000", "0", "0", "0", "0", "0"};

    if (asked)
        answer(w, asked, nothing, array_size(nothing));
    w->now += 1000;
    feed(w, (struct supervisor_event){.type = SUPERVISOR_TICK});
    asked = find(w, "expire", partition);
    assert_non_null(asked);
    return asked->factor;
}

static void start(struct world *w, struct supervisor_config config)
{
    struct rng rng;

    rng_seed(&rng, 1);
    config.name = "test";
    config.period_ms = 1000;
    config.lease_ms = 5000;
    config.retention_ms = config.sweep_ms = 1000 * MINUTE;
    assert_int_equal(supervisor_new(&w->machine, &config, &rng), 0);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .store = {PARTITIONS, "run"}});
    feed(w, (struct supervisor_event){.type = SUPERVISOR_QUEUE, .queue = {.consumers = 1}});
}

static void inspect(struct world *w, bool there)
{
    feed(w, (struct supervisor_event){.type = SUPERVISOR_MARKER, .marker = there});
}

static void settle_marker(struct world *w, enum bus_outcome outcome)
{
    feed(w, (struct supervisor_event){
                .type = SUPERVISOR_OUTCOME, .id = w->marker, .outcome = outcome});
}

/* The marker was missing, all is recorded, and the broker has the new one. */
static void lose_all(struct world *w)
{
    inspect(w, false);
    for (uint32_t i = 0; i < PARTITIONS; i++)
        answer_lost(w, i, "");
    settle_marker(w, BUS_CONFIRMED);
}

/* ---- tests ---- */

/* The store is of another build: it is asked again, and the marker waits. */
static void test_answer_that_is_broken(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_deinit) struct buf cursor = {0};

    buf_printf(&cursor, "%0*d", OPS_LOST_CURSOR, 0);
    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    for (uint32_t i = 0; i < PARTITIONS; i++)
        answer_lost(w, i, i == 0 ? buf_str(&cursor) : "");
    assert_int_equal(w->markers, 0);
    w->now += 1000;
    feed(w, (struct supervisor_event){.type = SUPERVISOR_TICK});
    answer_lost(w, 0, "");
    assert_int_equal(w->markers, 1);
}

/* Nothing expires until the marker was seen, or is there again. It is published when each partition
 * has recorded the loss, to the last piece. */
static void test_marker(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
    inspect(w, false);
    assert_string_equal(find(w, "lost", 0)->cursor, "");
    answer_lost(w, 0, "");
    answer_lost(w, 1, "17 j");
    assert_int_equal(w->markers, 0);
    assert_string_equal(find(w, "lost", 1)->cursor, "17 j");
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 1);
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(next_factor(w, 0), 0);
    inspect(w, true);
    assert_null(find(w, "lost", 0));
    assert_int_equal(w->markers, 1);
}

static void test_marker_that_is_there(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, true);
    assert_null(find(w, "lost", 0));
    assert_int_equal(next_factor(w, 0), 0);
}

static void test_no_marker(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){0});
    assert_int_equal(next_factor(w, 0), 0);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    assert_int_equal(next_factor(w, 0), 0);
}

/* As soon as the broker has the marker again expire is called, to name what was lost. */
static void test_expire_at_once(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    assert_int_equal(next_factor(w, 1), NOTHING_EXPIRES);
    answer(w, find(w, "expire", 1), (const char *const[]){"17", "0", "0", "0", "0", "0"}, 6);
    assert_null(find(w, "expire", 1));
    lose_all(w);
    assert_non_null(find(w, "expire", 1));
    assert_int_equal(find(w, "expire", 1)->factor, 0);
}

/* What was recorded before the connection was lost does not count: the broker may have been
 * restarted once more. */
static void test_marker_of_another_connection(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    answer_lost(w, 0, "");
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 0);
    lose_all(w);
    assert_int_equal(w->markers, 1);
    assert_int_equal(next_factor(w, 0), 0);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
}

static void store_up(struct world *w, const char *run)
{
    feed(w, (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .store = {PARTITIONS, run}});
}

/* A store that is up again may have lost its last writes, and with them that of the loss. */
static void test_loss_that_the_store_forgets(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    answer_lost(w, 0, "");
    store_up(w, "1");
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 0);
    answer_lost(w, 0, "");
    assert_int_equal(w->markers, 1);
    store_up(w, "2"); /* before the broker has confirmed the marker */
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 2);
    settle_marker(w, BUS_CONFIRMED);
    w->now += MINUTE / 2;
    store_up(w, "3");
    assert_non_null(find(w, "lost", 0));
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    settle_marker(w, BUS_CONFIRMED);
    w->now += 2 * MINUTE;
    store_up(w, "4");
    assert_null(find(w, "lost", 0));
}

static uint64_t losses(struct world *w)
{
    struct supervisor_stats stats;

    supervisor_stats(w->machine, &stats);
    return stats.losses;
}

/* It is recorded again as it was: what was sent again since is not sent once more. */
static void test_loss_is_recorded_as_it_was(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    assert_int_equal(find(w, "lost", 1)->age, 0);
    assert_int_equal(find(w, "lost", 1)->at, 0);
    w->now += 700; /* the store is slow, and then another one */
    answer_lost(w, 0, "");
    store_up(w, "1");
    assert_int_equal(find(w, "lost", 0)->at, 1700000000000);
    assert_int_equal(find(w, "lost", 1)->at, 0);
    assert_int_equal(find(w, "lost", 1)->age, 700);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(losses(w), 1);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    w->now += 7000;
    inspect(w, true); /* that of this supervisor */
    store_up(w, "2");
    assert_int_equal(find(w, "lost", 0)->at, 1700000000000);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(losses(w), 1);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    inspect(w, false); /* another loss */
    assert_int_equal(find(w, "lost", 0)->at, 0);
    assert_int_equal(find(w, "lost", 0)->age, 0);
}

/* A supervisor that has only seen the marker does not know when it was published: then what is sent
 * again is what was sent before it has seen it, and only if that was moments ago. */
static void test_loss_that_another_one_has_found(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, true);
    w->now += 4000;
    store_up(w, "1");
    assert_int_equal(find(w, "lost", 0)->at, 0);
    assert_int_equal(find(w, "lost", 0)->age, 4000);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(losses(w), 0);
    w->now += 2000;
    store_up(w, "2");
    assert_null(find(w, "lost", 0));
}

/* While it is recorded again the marker, which is still there, says nothing. The same server needs
 * no second record. */
static void test_marker_while_it_is_recorded_again(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    lose_all(w);
    store_up(w, "run");
    assert_null(find(w, "lost", 0));
    store_up(w, "another");
    inspect(w, true);
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 2);
    settle_marker(w, BUS_CONFIRMED);
    assert_int_equal(next_factor(w, 0), 0);
}

/* The store came up while the broker was away: it is recorded again once that is back. */
static void test_store_up_while_the_broker_is_away(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    lose_all(w);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    store_up(w, "another");
    assert_null(find(w, "lost", 0));
    inspect(w, true);
    assert_non_null(find(w, "lost", 0));
    assert_int_equal(next_factor(w, 0), NOTHING_EXPIRES);
}

/* It is published again, more and more rarely; the loss is not recorded again for that. */
static void test_marker_that_is_not_taken(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    for (unsigned tries = 1, pause = 500; tries < 15; tries++) {
        assert_int_equal(w->markers, tries);
        settle_marker(w, BUS_RETURNED);
        w->now += pause - 1;
        inspect(w, false);
        assert_int_equal(w->markers, tries);
        w->now++;
        inspect(w, false);
        pause = pause < 150000 ? 2 * pause : 300000;
    }
    assert_null(find(w, "lost", 0));
    inspect(w, true); /* that of another supervisor */
    inspect(w, false);
    assert_non_null(find(w, "lost", 0)); /* at once, also after all that */
}

/* Over a connection that the broker closes for the marker the loss is recorded again, as rarely. */
static void test_marker_that_costs_the_connection(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    answer_lost(w, 0, "");
    answer_lost(w, 1, "");
    settle_marker(w, BUS_NACKED);
    feed(w, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN});
    w->now += 499;
    inspect(w, false);
    assert_null(find(w, "lost", 0));
    w->now++;
    inspect(w, false);
    assert_non_null(find(w, "lost", 0));
}

/* Another supervisor has recorded the loss and published the marker. */
static void test_marker_of_another_supervisor(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true});
    inspect(w, false);
    answer_lost(w, 0, "");
    inspect(w, true);
    answer_lost(w, 1, "");
    assert_int_equal(w->markers, 0);
    assert_int_equal(next_factor(w, 0), 0);
}

/* A single round says why nothing expires, and leaves the rest to the daemons. */
static void test_one_round(void **state)
{
    struct world *w = *state;

    start(w, (struct supervisor_config){.marker = true, .once = true});
    inspect(w, false);
    assert_null(find(w, "lost", 0));
    assert_int_equal(w->lines, 1);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->now = 1000;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    supervisor_free(w->machine);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answer_that_is_broken),
        TEST(test_marker),
        TEST(test_marker_that_is_there),
        TEST(test_no_marker),
        TEST(test_expire_at_once),
        TEST(test_marker_of_another_connection),
        TEST(test_loss_that_the_store_forgets),
        TEST(test_loss_is_recorded_as_it_was),
        TEST(test_loss_that_another_one_has_found),
        TEST(test_marker_while_it_is_recorded_again),
        TEST(test_store_up_while_the_broker_is_away),
        TEST(test_marker_that_is_not_taken),
        TEST(test_marker_that_costs_the_connection),
        TEST(test_marker_of_another_supervisor),
        TEST(test_one_round),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
