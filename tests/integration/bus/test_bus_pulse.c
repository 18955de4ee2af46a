// SPDX-License-Identifier: Apache-2.0
/*
 * The pulse of the bus against a real RabbitMQ
 */
#include <string.h>

#include "bus/bus_world.h"

#define AGAIN_MS 200 /* between two tries after a refusal */

static void begin_with_pulse(struct world *w, bool declare, int again_ms)
{
    struct bus_config config = config_of(w, &submit_queue);

    config.prefetch = 1;
    config.pulse = true;
    config.pulse_again_ms = again_ms;
    config.declare = declare;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
}

static bool pulses_come_back(const struct probe *p)
{
    struct bus_stats stats;

    bus_stats(p->bus, &stats);
    return stats.pulse;
}

static void send_pulse(struct world *w, struct probe *p)
{
    int before = p->pulses;

    assert_true(pulses_come_back(p));
    assert_int_equal(bus_pulse(p->bus), 0);
    until(w, p->pulses == before + 1);
}

/* Pulses do not count against the prefetch, are not handed over as deliveries, and are never
 * acknowledged, because the broker would close the channel over that. */
static void test_pulse(void **state)
{
    struct world *w = *state;
    struct probe *p = &w->a;
    struct bus_stats stats;
    const int n = 100;

    p->keep = true;
    begin_with_pulse(w, true, 0);
    submit_number(p, 1);
    until(w, p->n_kept == 1);
    for (int i = 0; i < 300; i++)
        send_pulse(w, p); /* more than the initial size of the ring of tags */
    assert_int_equal(p->n_delivered, 1);
    p->keep = false;
    bus_ack(p->bus, p->kept[0]->handle);
    for (int i = 2; i <= n; i++) {
        submit_number(p, i);
        bus_pulse(p->bus);
    }
    until(w, p->n_seen == n && p->n_outcomes == n && p->pulses == 300 + n - 1);
    send_pulse(w, p);
    bus_stats(p->bus, &stats);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.delivered, n);
    assert_int_equal(stats.acked, n);
    shut(w, p);
    begin_plain(w, &w->b, true);
    submit_number(&w->b, n + 1);
    until(w, w->b.n_delivered > 0);
    assert_int_equal(w->b.seen[n + 1], 1); /* no message was before it */
}

/* Work that comes as soon as a bus is up has its pulses: the queues are consumed after the pulse
 * queue is declared. */
static void test_pulse_from_the_first(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 10; i++) {
        begin_with_pulse(w, true, 0);
        send_pulse(w, &w->a);
        shut(w, &w->a);
        w->a.ups = 0;
    }
}

/* A bus that consumes nothing has no queue for pulses. */
static void test_pulse_without_queue(void **state)
{
    struct world *w = *state;
    struct bus_stats stats;

    begin_plain(w, &w->a, false);
    assert_false(pulses_come_back(&w->a));
    assert_int_equal(bus_pulse(w->a.bus), 0);
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.published, 0);
}

/* Each connection has a queue of its own. */
static void test_pulse_after_loss(void **state)
{
    struct world *w = *state;

    begin_with_pulse(w, true, 0);
    for (int ups = 1; ups <= 3; ups++) {
        send_pulse(w, &w->a);
        ctl(w, "close_all_connections", "--vhost", w->vhost, "test");
        until(w, w->a.ups > ups);
    }
    until(w, pulses_come_back(&w->a));
    send_pulse(w, &w->a);
}

/* Expects that the bus works without pulses: it is up, deliveries come, no pulse is sent. */
static void assert_no_pulse(struct world *w, struct probe *p)
{
    assert_false(pulses_come_back(p));
    assert_int_equal(bus_pulse(p->bus), 0);
    submit_number(p, 1);
    until(w, p->n_outcomes == 1 && p->n_seen == 1);
    assert_confirmed(p, 1);
    assert_int_equal(p->pulses, 0);
}

/* One of the three rights is missing. */
static void begin_without(struct world *w, int right, int again_ms)
{
    static const char others[] = "^(?!drover[.]pulse[.]).*";

    set_rights(w, right == 0 ? others : ".*", right == 1 ? others : ".*",
               right == 2 ? others : ".*");
    memset(&w->a, 0, sizeof(w->a));
    w->a.ack_all = true;
    begin_with_pulse(w, true, again_ms);
}

static void test_pulse_refused(void **state)
{
    struct world *w = *state;

    for (int right = 0; right < 3; right++) {
        begin_without(w, right, 0);
        assert_int_equal(w->a.refusals, 1);
        assert_non_null(strstr(w->a.why, "ACCESS_REFUSED"));
        assert_no_pulse(w, &w->a);
        assert_int_equal(w->a.downs, 0);
        shut(w, &w->a);
    }
}

/* Another program declares the topology, without this exchange. */
static void test_pulse_without_exchange(void **state)
{
    struct world *w = *state;

    declare_queue(w, &reply_queue);
    begin_plain(w, &w->b, false);
    evaluate(w,
             "rabbit_exchange:delete(rabbit_misc:r(<<\"%s\">>, exchange, <<\"drover.pulse\">>), "
             "false, <<\"test\">>)",
             w->vhost);
    begin_with_pulse(w, false, AGAIN_MS);
    assert_true(w->a.refusals > 0);
    assert_non_null(strstr(w->a.why, "NOT_FOUND"));
    assert_no_pulse(w, &w->a);
    shut(w, &w->b);
    begin_plain(w, &w->b, false); /* it declares the exchange */
    until(w, pulses_come_back(&w->a));
    send_pulse(w, &w->a);
    assert_int_equal(w->a.downs, 0);
}

/* The user may use the queue, but not the exchange: each pulse costs the connection, so the bus
 * stops sending them. */
static void test_pulse_not_writable(void **state)
{
    struct world *w = *state;

    begin_with_pulse(w, true, 0);
    send_pulse(w, &w->a);
    w->a.pulses = 0;
    set_rights(w, ".*", "^(?!drover[.]pulse$).*", ".*");
    ctl(w, "close_all_connections", "--vhost", w->vhost, "test"); /* the broker caches rights */
    until(w, w->a.ups == 2);
    for (int lost = 2; lost <= 4; lost++) {
        bus_pulse(w->a.bus);
        until(w, w->a.downs == lost && w->a.ups == lost + 1);
    }
    assert_no_pulse(w, &w->a);
    assert_int_equal(w->a.downs, 4);
}

/* Whichever right was missing: once it is granted, pulses come back without a new connection. */
static void test_pulse_refused_and_granted(void **state)
{
    struct world *w = *state;

    for (int right = 0; right < 3; right++) {
        begin_without(w, right, AGAIN_MS);
        until(w, w->a.refusals == 3); /* it tries again, and works meanwhile */
        assert_no_pulse(w, &w->a);
        set_rights(w, ".*", ".*", ".*");
        until(w, pulses_come_back(&w->a));
        send_pulse(w, &w->a);
        submit_number(&w->a, 2);
        until(w, w->a.n_seen == 2);
        assert_int_equal(w->a.downs, 0);
        shut(w, &w->a);
    }
}

static void test_pulse_writable_again(void **state)
{
    struct world *w = *state;
    int refused;

    set_rights(w, ".*", "^(?!drover[.]pulse$).*", ".*");
    begin_with_pulse(w, true, AGAIN_MS);
    for (refused = 0; refused < 5; refused++) { /* the last two only as often as it tries again */
        until(w, pulses_come_back(&w->a));
        bus_pulse(w->a.bus);
        until(w, w->a.downs == refused + 1 && w->a.ups == refused + 2);
    }
    set_rights(w, ".*", ".*", ".*");
    until(w, pulses_come_back(&w->a));
    send_pulse(w, &w->a);
    assert_int_equal(w->a.downs, refused);
}

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_pulse),
        bus_test(test_pulse_from_the_first),
        bus_test(test_pulse_without_queue),
        bus_test(test_pulse_after_loss),
        bus_test(test_pulse_refused),
        bus_test(test_pulse_without_exchange),
        bus_test(test_pulse_not_writable),
        bus_test(test_pulse_refused_and_granted),
        bus_test(test_pulse_writable_again),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
