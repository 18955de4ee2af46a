// SPDX-License-Identifier: Apache-2.0
/*
 * The bus against a real RabbitMQ: queues that it inspects and declares, and refusals
 */
#include <string.h>

#include "bus/bus_world.h"

static const struct bus_queue task_queue = {
    .name = "drover.task.painter", .actor = "painter", .source = FROM_TASKS};

static void on_inspection(void *ctx, uint32_t messages, uint32_t consumers)
{
    *(int64_t *)ctx = (int64_t)messages << 32 | consumers;
}

static void test_inspect(void **state)
{
    struct world *w = *state;
    int64_t seen = -1;

    begin_plain(w, &w->a, true);
    bus_inspect(w->a.bus, "drover.submit", on_inspection, &seen);
    until(w, seen == 1);
    bus_inspect(w->a.bus, "drover.nothing", on_inspection, &seen);
    until(w, seen == 0);
    assert_int_equal(w->a.downs, 0);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_seen == 1);
}

/* The second question replaces the first one, also when the answer to the first comes after it. */
static void test_inspections_that_overlap(void **state)
{
    struct world *w = *state;
    int64_t first = -1, second = -1;

    find_broker(w);
    begin_plain(w, &w->a, true);
    bus_inspect(w->a.bus, "drover.submit", on_inspection, &second);
    until(w, second == 1); /* the side channel is open */
    freeze(w);
    bus_inspect(w->a.bus, "drover.submit", on_inspection, &first);
    for (int i = 0; i < 3; i++)
        uv_run(&w->loop, UV_RUN_NOWAIT); /* sends it */
    bus_inspect(w->a.bus, "drover.nothing", on_inspection, &second);
    thaw(w);
    until(w, second != 1);
    assert_int_equal(second, 0);
    assert_int_equal(first, -1);
}

/* Unacknowledged deliveries count against the prefetch; other messages wait at the broker. */
static void test_prefetch(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, &submit_queue);
    const int n = 10;
    int64_t seen = -1;

    begin_plain(w, &w->b, false);
    submit_settled(w, &w->b, n);
    config.prefetch = 3;
    w->a.keep = true;
    begin(w, &w->a, &config);
    for (int kept = 3; kept <= n; kept++) {
        until(w, w->a.n_kept >= kept);
        bus_inspect(w->b.bus, "drover.submit", on_inspection, &seen);
        until(w, seen >= 0);
        assert_int_equal(seen, (int64_t)(n - kept) << 32 | 1);
        seen = -1;
        bus_ack(w->a.bus, w->a.kept[kept - 3]->handle);
    }
}

/* For an actor that is new to this connection the queue is declared between other messages. */
static void test_task_queue_is_declared(void **state)
{
    struct world *w = *state;
    const struct bus_message m = {
        .exchange = "drover.tasks",
        .key = "sculptor",
        .actor = "sculptor",
        .mandatory = true,
    };

    begin_plain(w, &w->b, true);
    submit_number(&w->b, 1);
    until(w, w->b.n_outcomes == 1 && w->b.n_seen == 1);
    publish(&w->b, 2, m);
    submit_number(&w->b, 3);
    until(w, w->b.n_outcomes == 3);
    assert_confirmed(&w->b, 3);
}

/* The queue exists with other arguments: this is reported once a connection, and messages are sent
 * all the same. */
static void test_task_queue_of_another_kind(void **state)
{
    struct world *w = *state;
    static const char *const queues[] = {"drover.submit", "drover.replies", "drover.control",
                                         "drover.expired", "drover.dead"};
    const struct bus_config classic = config_of(w, &task_queue);
    struct bus_config quorum = config_of(w, NULL);
    const struct bus_message m = {
        .exchange = "drover.tasks",
        .key = "painter",
        .actor = "painter",
        .mandatory = true,
    };

    begin(w, &w->a, &classic);
    until(w, w->a.ups == 1);
    begin_plain(w, &w->b, false);
    shut(w, &w->b);
    for (size_t i = 0; i < array_size(queues); i++)
        ctl(w, "delete_queue", "-p", w->vhost, queues[i]);
    quorum.quorum = true;
    begin(w, &w->b, &quorum);
    for (int i = 1; i <= 3; i++)
        publish(&w->b, i, m);
    until(w, w->b.n_outcomes == 3 && w->a.n_seen == 3);
    assert_confirmed(&w->b, 3);
    assert_int_equal(w->b.refusals, 1);
    assert_non_null(strstr(w->b.why, "queue drover.task.painter"));
    assert_int_equal(w->b.downs, 0);
}

/* Begins with a configuration that the broker refuses with these words. */
static void assert_refused(struct world *w, const struct bus_config *config, const char *words)
{
    struct probe *p = &w->b;

    memset(p, 0, sizeof(*p));
    begin(w, p, config);
    until(w, p->refusals >= 2); /* it tries again */
    assert_int_equal(p->ups, 0);
    if (!strstr(p->why, words))
        fail_msg("'%s' does not say '%s'", p->why, words);
    assert_true(close_bus(w, p, 10000) < TOO_LONG_MS);
}

static void test_refusals(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);

    config.password = "wrong";
    assert_refused(w, &config, "ACCESS_REFUSED");
    config = config_of(w, NULL);
    config.vhost = "nowhere";
    assert_refused(w, &config, "vhost nowhere");
    config = config_of(w, NULL);
    config.declare = false;
    assert_refused(w, &config, "exchange drover.submit");

    begin_plain(w, &w->a, false); /* it declares the topology */
    begin(w, &w->b, &config);
    until(w, w->b.ups == 1);
    shut(w, &w->b);
    config.queues = &task_queue;
    config.n_queues = 1;
    assert_refused(w, &config, "queue drover.task.painter");
    ctl(w, "clear_permissions", "-p", w->vhost, config.user);
    config = config_of(w, NULL);
    assert_refused(w, &config, "vhost");
    set_rights(w, ".*", ".*", ".*");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_inspect),
        bus_test(test_inspections_that_overlap),
        bus_test(test_prefetch),
        bus_test(test_task_queue_is_declared),
        bus_test(test_task_queue_of_another_kind),
        bus_test(test_refusals),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
