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

static const struct bus_message to_sculptor = {
    .exchange = "drover.tasks",
    .key = "sculptor",
    .actor = "sculptor",
    .mandatory = true,
};

/* By another process: afterwards its queue may be deleted. */
static void make_known(struct world *w, const char *actor)
{
    const struct bus_config config = config_of(w, NULL);
    struct bus_message m = to_sculptor;
    struct probe other = {0};

    m.key = m.actor = actor;
    begin(w, &other, &config);
    publish(&other, 1, m);
    until(w, other.n_outcomes == 1);
    assert_int_equal(other.losses, 0); /* it was not known before */
    shut(w, &other);
}

/* The exchange of an actor is there, and its queue was deleted. */
static void make_deleted(struct world *w, const char *actor)
{
    char queue[64];

    make_known(w, actor);
    snprintf(queue, sizeof(queue), "drover.task.%s", actor);
    ctl(w, "delete_queue", "-p", w->vhost, queue);
}

/* The queue was deleted: that is reported, and messages to this actor wait until the loss is
 * recorded, the others do not. */
static void test_task_queue_was_deleted(void **state)
{
    struct world *w = *state;

    make_deleted(w, "sculptor");
    w->b.keeps_lost = true;
    begin_plain(w, &w->b, true);
    publish(&w->b, 1, to_sculptor);
    submit_number(&w->b, 2);
    publish(&w->b, 3, to_sculptor);
    until(w, w->b.outcomes[2] == 1 && w->b.losses == 1);
    assert_string_equal(w->b.lost, "sculptor");
    submit_number(&w->b, 4);
    until(w, w->b.outcomes[4] == 1);
    assert_int_equal(w->b.outcomes[1] + w->b.outcomes[3], 0);
    bus_declare(w->b.bus, "sculptor");
    until(w, w->b.n_outcomes == 4);
    assert_confirmed(&w->b, 4);
    assert_int_equal(w->b.downs, 0);

    begin_plain(w, &w->a, false); /* it is there for another process */
    publish(&w->a, 1, to_sculptor);
    until(w, w->a.n_outcomes == 1);
    assert_confirmed(&w->a, 1);
    assert_int_equal(w->a.losses, 0);
    assert_int_equal(w->b.losses, 1);
}

/* The bus ends although a message waits for a queue that is not there. */
static void test_end_without_queue(void **state)
{
    struct world *w = *state;

    make_deleted(w, "sculptor");
    w->b.keeps_lost = true;
    begin_plain(w, &w->b, true);
    publish(&w->b, 1, to_sculptor);
    until(w, w->b.losses == 1);
    close_bus(w, &w->b, 100);
    assert_int_equal(w->b.n_outcomes, 0);
}

/* The vhost has as many queues as it may: what was lost is reported once, and messages come back.
 */
static void test_deleted_queue_cannot_be_declared(void **state)
{
    struct world *w = *state;
    const int n = 4;

    make_deleted(w, "sculptor");
    begin_plain(w, &w->b, true);
    ctl(w, "set_vhost_limits", "-p", w->vhost, "{\"max-queues\": 1}");
    for (int i = 1; i <= n; i++) {
        publish(&w->b, i, to_sculptor);
        until(w, w->b.n_outcomes == i);
        assert_int_equal(w->b.outcome[i], BUS_RETURNED);
    }
    assert_int_equal(w->b.losses, 1);
    assert_int_equal(w->b.refusals, 1);
    assert_int_equal(w->b.downs, 0);
    ctl(w, "clear_vhost_limits", "-p", w->vhost);
}

/* A loss that cannot be recorded holds nothing up for ever. */
static void test_loss_is_not_recorded(void **state)
{
    struct world *w = *state;
    const struct bus_config config = config_of(w, &task_queue);

    make_deleted(w, "sculptor");
    make_deleted(w, "painter");
    w->a.keeps_lost = w->b.keeps_lost = true;
    begin(w, &w->a, &config);
    begin_plain(w, &w->b, false);
    publish(&w->b, 1, to_sculptor);
    publish(&w->b, 2, to_sculptor);
    until(w, w->a.ups == 1 && w->b.n_outcomes == 2);
    assert_confirmed(&w->b, 2);
    assert_int_equal(w->a.losses, 1);
    assert_int_equal(w->b.losses, 1);
}

/* A process whose queue is deleted reports that, and does not make it anew before the loss is
 * recorded. */
static void test_consumed_task_queue_is_deleted(void **state)
{
    struct world *w = *state;
    const struct bus_config config = config_of(w, &task_queue);
    const struct bus_message m = {
        .exchange = "drover.tasks", .key = "painter", .message_id = "1", .mandatory = true};

    w->a.ack_all = true;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    assert_int_equal(w->a.losses, 0); /* its actor was not known */
    w->a.keeps_lost = true;
    begin_plain(w, &w->b, true);
    ctl(w, "delete_queue", "-p", w->vhost, task_queue.name);
    until(w, w->a.losses == 1 && w->a.downs == 1);
    assert_string_equal(w->a.lost, "painter");
    publish(&w->b, 1, m);
    until(w, w->b.n_outcomes == 1);
    assert_int_equal(w->b.outcome[1], BUS_RETURNED);
    assert_int_equal(w->a.ups, 1);
    bus_declare(w->a.bus, "painter");
    until(w, w->a.ups == 2);
    publish(&w->b, 2, m);
    until(w, w->b.n_outcomes == 2 && w->a.n_seen == 1);
    assert_int_equal(w->b.outcome[2], BUS_CONFIRMED);
    assert_int_equal(w->a.losses, 1);
}

/* How many of its two connections are set up. */
static uint64_t connects(const struct probe *p)
{
    struct bus_stats stats;

    bus_stats(p->bus, &stats);
    return stats.connects;
}

/* The queue was deleted while nobody consumed it. */
static void test_task_queue_to_consume_was_deleted(void **state)
{
    struct world *w = *state;
    const struct bus_config config = config_of(w, &task_queue);

    make_deleted(w, "painter");
    w->a.keeps_lost = true;
    begin(w, &w->a, &config);
    until(w, w->a.losses == 1 && connects(&w->a) == 2);
    assert_int_equal(w->a.ups, 0);
    bus_declare(w->a.bus, "painter");
    until(w, w->a.ups == 1);
    assert_int_equal(w->a.losses, 1);
    assert_int_equal(w->a.refusals, 0);
}

/* Only a process that consumes it declares it, and not before its loss is recorded. */
static void test_reply_queue_is_deleted(void **state)
{
    struct world *w = *state;
    const struct bus_config config = config_of(w, &reply_queue);
    int64_t seen = -1;

    w->a.keeps_lost = true;
    begin_plain(w, &w->b, false);
    for (int i = 1; i <= 2; i++) {
        if (i == 1)
            begin(w, &w->a, &config);
        else
            ctl(w, "delete_queue", "-p", w->vhost, reply_queue.name);
        until(w, w->a.losses == i);
        assert_string_equal(w->a.lost, "*");
        bus_inspect(w->b.bus, reply_queue.name, on_inspection, &seen);
        until(w, seen == 0); /* there is no such queue */
        assert_int_equal(w->a.ups, i - 1);
        bus_declare(w->a.bus, w->a.lost);
        until(w, w->a.ups == i);
    }
}

/* A process without the right to declare reports a queue that is not there once, until it is. */
static void test_loss_without_right_to_declare(void **state)
{
    struct world *w = *state;
    struct bus_config consumes = config_of(w, &task_queue), publishes = config_of(w, NULL);
    const struct bus_message m = {
        .exchange = "drover.tasks", .key = "painter", .actor = "painter", .mandatory = true};

    declare_queue(w, &task_queue);
    declare_queue(w, &reply_queue);
    consumes.declare = publishes.declare = false;
    begin(w, &w->a, &consumes);
    begin(w, &w->b, &publishes);
    until(w, w->a.ups == 1 && w->b.ups == 1);
    for (int i = 1; i <= 2; i++) {
        int returned = w->b.n_outcomes;

        ctl(w, "delete_queue", "-p", w->vhost, task_queue.name);
        for (int k = 1; k <= 2; k++) {
            publish(&w->b, returned + k, m);
            until(w, w->b.n_outcomes == returned + k);
            assert_int_equal(w->b.outcome[returned + k], BUS_RETURNED);
        }
        until(w, w->b.losses == i && w->a.losses == i);
        until(w, w->a.refusals >= 2 * i); /* it tries again */
        declare_queue(w, &task_queue);
        until(w, w->a.ups == i + 1);
        publish(&w->b, returned + 3, m);
        until(w, w->b.n_outcomes == returned + 3);
        assert_int_equal(w->b.outcome[returned + 3], BUS_CONFIRMED);
        assert_int_equal(w->b.losses, i);
        assert_int_equal(w->a.losses, i);
    }
}

/* The queue exists with other arguments: this is reported once a connection, and messages are sent
 * all the same. */
static void test_task_queue_of_another_kind(void **state)
{
    struct world *w = *state;
    static const char *const queues[] = {"drover.submit", "drover.control", "drover.expired",
                                         "drover.dead"};
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

    declare_queue(w, &reply_queue); /* and the rest of the topology */
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
        bus_test(test_task_queue_was_deleted),
        bus_test(test_deleted_queue_cannot_be_declared),
        bus_test(test_loss_is_not_recorded),
        bus_test(test_end_without_queue),
        bus_test(test_consumed_task_queue_is_deleted),
        bus_test(test_task_queue_to_consume_was_deleted),
        bus_test(test_reply_queue_is_deleted),
        bus_test(test_loss_without_right_to_declare),
        bus_test(test_task_queue_of_another_kind),
        bus_test(test_refusals),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
