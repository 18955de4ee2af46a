// SPDX-License-Identifier: Apache-2.0
/*
 * The bus against a real RabbitMQ: acks, and consumers that stop or are cancelled
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "bus/bus_world.h"

/* Begins a bus that keeps its deliveries: 1 to n, which it submits. */
static void begin_keeping(struct world *w, struct probe *p, int n)
{
    p->keep = true;
    begin_plain(w, p, true);
    submit_numbers(p, 1, n);
    until(w, p->n_kept == n);
}

static void shuffle(struct rng *rng, struct bus_delivery **d, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(rng, (uint64_t)i + 1);
        struct bus_delivery *swapped = d[i];

        d[i] = d[j];
        d[j] = swapped;
    }
}

/* 1000 messages, at most 100 unacknowledged, acknowledged in any order, a few at a time. */
static void test_acks_out_of_order(void **state)
{
    struct world *w = *state;
    const int n = 1000;
    struct rng rng;

    rng_seed(&rng, 7);
    w->a.keep = true;
    begin_plain(w, &w->a, true);
    submit_numbers(&w->a, 1, n);
    while (w->a.n_delivered < n || w->a.n_kept > 0) {
        int expected = n - w->a.n_delivered + w->a.n_kept;
        int acks;

        if (expected > 100)
            expected = 100;
        until(w, w->a.n_kept == expected);
        shuffle(&rng, w->a.kept, w->a.n_kept);
        acks = 1 + (int)rng_below(&rng, (uint64_t)w->a.n_kept);
        for (int i = 0; i < acks; i++) {
            struct bus_delivery *d = w->a.kept[--w->a.n_kept];

            bus_ack(w->a.bus, d->handle);
            bus_delivery_free(d);
        }
    }
    assert_int_equal(w->a.n_seen, n);
    assert_int_equal(w->a.downs, 0);
    shut(w, &w->a);

    /* Nothing is left: the first delivery to the next consumer is new. */
    begin_plain(w, &w->b, true);
    submit_number(&w->b, n + 1);
    until(w, w->b.n_outcomes == 1 && w->b.n_delivered > 0);
    assert_int_equal(w->b.seen[n + 1], 1);
    assert_int_equal(w->b.n_delivered, 1);
}

/* An ack that no other one follows is sent all the same. */
static void test_ack_alone(void **state)
{
    static const char until_empty[] =
        "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"%s\">>, queue, "
        "<<\"drover.submit\">>)), "
        "F = fun F(N) -> case rabbit_amqqueue:info(Q, [messages]) of [{messages, 0}] -> ok; "
        "_ when N > 0 -> timer:sleep(20), F(N - 1) end end, F(500)";
    struct world *w = *state;

    begin_keeping(w, &w->a, 1);
    bus_ack(w->a.bus, w->a.kept[0]->handle);
    evaluate(w, until_empty, w->vhost);
}

static void one_by_one(struct world *w)
{
    for (int i = 1; i <= 10; i++) {
        submit_number(&w->a, i);
        until(w, w->a.n_outcomes == i && w->a.n_seen == i);
    }
}

static int n_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));)
        n += task->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* The loop drives both connections, and no thread helps it. The host is a number: for a name libuv
 * starts threads. */
static void test_loop_drives_connections(void **state)
{
    struct world *w = *state;
    const int before = n_threads();

    begin_plain(w, &w->a, true);
    w->a.ack_all = true;
    submit_numbers(&w->a, 1, 1000);
    until(w, w->a.n_outcomes == 1000 && w->a.n_seen == 1000);
    assert_int_equal(n_threads(), before);
}

/* An ack of a delivery whose connection is lost does nothing, to the old connection or the new one.
 */
static void test_old_acks_are_void(void **state)
{
    struct world *w = *state;
    const int n = 10;

    begin_keeping(w, &w->a, n);
    ctl(w, "close_all_connections", "-p", w->vhost, "test");
    until(w, w->a.n_kept == 2 * n);
    for (int i = 0; i < n; i++)
        bus_ack(w->a.bus, w->a.kept[i]->handle);
    shut(w, &w->a);
    w->b.keep = true;
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept == n);
    assert_int_equal(w->b.n_seen, n);
}

/* Deliveries that were prefetched and not acknowledged are given back at close; others are not. */
static void test_close_gives_back(void **state)
{
    struct world *w = *state;
    const int n = 48, acked = n / 4;

    begin_keeping(w, &w->a, n);
    for (int i = 0; i < n; i += 4)
        bus_ack(w->a.bus, w->a.kept[i]->handle);
    shut(w, &w->a);
    w->b.keep = true;
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept >= n - acked);
    for (int i = 0; i < w->b.n_kept; i++)
        assert_true(w->b.kept[i]->redelivered && atoi(w->b.kept[i]->message_id) % 4 != 1);
}

/* Some deliveries are given back among others that are acknowledged, while the bus consumes
 * nothing; later it consumes again. */
static void test_requeue(void **state)
{
    struct world *w = *state;

    begin_keeping(w, &w->a, 4);
    bus_consume(w->a.bus, false);
    bus_requeue(w->a.bus, w->a.kept[1]->handle);
    bus_requeue(w->a.bus, w->a.kept[3]->handle);
    bus_ack(w->a.bus, w->a.kept[0]->handle);
    bus_ack(w->a.bus, w->a.kept[2]->handle);
    w->b.keep = true;
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept == 2);
    for (int i = 0; i < 2; i++)
        assert_true(w->b.kept[i]->redelivered && atoi(w->b.kept[i]->message_id) == 2 * (i + 1));
    bus_consume(w->a.bus, true);
    shut(w, &w->b);
    until(w, w->a.n_kept == 6);
    assert_int_equal(w->a.downs, 0);
}

static void test_stop_consuming(void **state)
{
    struct world *w = *state;

    begin_plain(w, &w->a, true);
    submit_number(&w->a, 1);
    until(w, w->a.n_delivered == 1);
    bus_consume(w->a.bus, false);
    begin_plain(w, &w->b, true);
    submit_numbers(&w->b, 2, 100);
    /* The cancel may come after the first messages, but the later ones all go to the other bus. */
    until(w, w->a.n_seen + w->b.n_seen == 100);
    submit_numbers(&w->b, 101, 200);
    until(w, w->a.n_seen + w->b.n_seen == 200);
    for (int i = 101; i <= 200; i++)
        assert_int_equal(w->b.seen[i], 1);
}

/* The queue is deleted under its consumer: it is declared and consumed again. */
static void test_consumer_cancelled(void **state)
{
    struct world *w = *state;

    begin_plain(w, &w->a, true);
    ctl(w, "delete_queue", "-p", w->vhost, "drover.submit");
    until(w, w->a.ups == 2);
    assert_non_null(strstr(w->a.why, "drover.submit"));
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_seen == 1);
}

static void go_on_consuming(uv_check_t *check)
{
    uv_check_stop(check);
    bus_consume(check->data, true);
}

/* Blocks the loop. */
static void delete_submit_queue(const struct world *w)
{
    static const char delete[] =
        "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"%s\">>, queue, "
        "<<\"drover.submit\">>)), "
        "{ok, _} = rabbit_amqqueue:delete(Q, false, false, <<\"test\">>), ok";
    char expression[300], command[600];

    snprintf(expression, sizeof(expression), delete, w->vhost);
    snprintf(command, sizeof(command), "%s '%s'", required("DROVER_TEST_EVALUATE"), expression);
    assert_int_equal(system(command), 0);
}

/* A call that comes while the connection is given up does not keep it open. */
static void test_consume_while_reconnecting(void **state)
{
    struct world *w = *state;
    uv_check_t check;

    w->a.ack_all = true;
    begin_plain(w, &w->a, true);
    one_by_one(w);
    delete_submit_queue(w);
    uv_check_init(&w->loop, &check);
    check.data = w->a.bus;
    uv_check_start(&check, go_on_consuming);
    until(w, w->a.ups == 2);
    uv_close((uv_handle_t *)&check, NULL);
    shut(w, &w->a);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_acks_out_of_order),
        bus_test(test_ack_alone),
        bus_test(test_loop_drives_connections),
        bus_test(test_old_acks_are_void),
        bus_test(test_close_gives_back),
        bus_test(test_requeue),
        bus_test(test_stop_consuming),
        bus_test(test_consumer_cancelled),
        bus_test(test_consume_while_reconnecting),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
