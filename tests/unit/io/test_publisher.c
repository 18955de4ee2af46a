// SPDX-License-Identifier: Apache-2.0
/*
 * Publisher: how many messages are on the wire, and which, over a link without a stream
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/bus/publisher.h"

#define WINDOW 3
#define BOUND "bound" /* exchange of the messages that are bound to their connection */

static const struct hosts hosts = {.list = {{"127.0.0.1", 1}}, .n = 1};
static const struct bus_config config = {
    .heartbeat_s = 10,
    .connect_timeout_ms = 1000,
    .max_unconfirmed = WINDOW,
    .confirm_ms = 3600 * 1000,
};

struct world {
    uv_loop_t loop;
    struct publisher publisher;
};

static void ignore_change(void *owner)
{
    /* The tests look after each step. */
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct link *link = &w->publisher.link;

    uv_loop_init(&w->loop);
    publisher_init(&w->publisher);
    link_init(link, &w->loop, &config, &publisher_role, ignore_change, NULL);
    link->hosts = &hosts;
    link->frame_max = FRAME_MAX;
    link->heartbeat_ms = 10000;
    link->state = LINK_UP;
    *state = w;
    return 0;
}

static void drop(struct list *messages)
{
    struct list *node;

    while ((node = list_pop(messages)))
        free(list_entry(node, struct outgoing, node));
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct link *link = &w->publisher.link;

    link_abandon(link);
    drop(&w->publisher.waiting);
    drop(&link->settled);
    uv_close((uv_handle_t *)&link->timer, NULL);
    uv_close((uv_handle_t *)&link->tick, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    publisher_deinit(&w->publisher);
    uv_loop_close(&w->loop);
    free(w);
    return 0;
}

/* Gives the publisher @n messages to an exchange. */
static void hand_in(struct world *w, const char *exchange, int n)
{
    struct list messages;

    list_init(&messages);
    for (int i = 0; i < n; i++) {
        struct outgoing *m = calloc(1, sizeof(*m));

        m->message = (struct bus_message){
            .exchange = exchange,
            .key = "key",
            .bound = strcmp(exchange, BOUND) == 0,
        };
        list_init(&m->open);
        list_append(&messages, &m->node);
    }
    publisher_take(&w->publisher, &messages);
}

/* Likewise; then it sends those that may leave. */
static void publish(struct world *w, const char *exchange, int n)
{
    hand_in(w, exchange, n);
    assert_int_equal(publisher_role.send(&w->publisher.link), 0);
}

/* The broker answers the method behind the first message. */
static void answer(struct world *w)
{
    static const uint8_t qos_ok[] = {1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 11, 0xce};

    assert_int_equal(link_input(&w->publisher.link, bytes_of(qos_ok, sizeof(qos_ok))), 0);
    assert_int_equal(publisher_role.send(&w->publisher.link), 0);
}

static void test_first_message_is_alone(void **state)
{
    struct world *w = *state;

    publish(w, "drover.tasks", WINDOW + 2);
    assert_int_equal(w->publisher.n_wire, 1);
    answer(w);
    assert_int_equal(w->publisher.n_wire, WINDOW);
}

/* While nothing is confirmed, and others wait. */
static void test_pulse_passes_a_full_window(void **state)
{
    struct world *w = *state;
    const struct list *last;

    publish(w, "drover.tasks", WINDOW + 2);
    answer(w);
    publish(w, BUS_PULSE_EXCHANGE, 1);
    last = w->publisher.wire.prev;
    assert_int_equal(w->publisher.n_wire, WINDOW + 1);
    assert_string_equal(list_entry(last, struct outgoing, node)->message.exchange,
                        BUS_PULSE_EXCHANGE);
    publish(w, "drover.tasks", 1);
    assert_int_equal(w->publisher.n_wire, WINDOW + 1);
}

static unsigned count(const struct list *messages, const char *exchange)
{
    unsigned n = 0;

    list_foreach(it, messages)
        n += strcmp(list_entry(it, struct outgoing, node)->message.exchange, exchange) == 0;
    return n;
}

/* Once its connection is lost, such a message is refused: sent, or waiting; so is one that comes
 * before there is another connection. Others wait for that. */
static void test_bound(void **state)
{
    struct world *w = *state;
    struct publisher *p = &w->publisher;

    publish(w, BOUND, 1);
    answer(w);
    publish(w, "drover.tasks", WINDOW);
    publish(w, BOUND, 1);
    assert_int_equal(count(&p->wire, BOUND), 1);
    assert_int_equal(count(&p->waiting, BOUND), 1);
    p->link.state = LINK_WAITING;
    publisher_role.lost(&p->link);
    assert_int_equal(count(&p->waiting, BOUND), 0);
    assert_int_equal(count(&p->link.settled, BOUND), 2);
    assert_int_equal(count(&p->waiting, "drover.tasks"), WINDOW);
    assert_int_equal(count(&p->link.settled, "drover.tasks"), 0);
    hand_in(w, BOUND, 1);
    assert_int_equal(count(&p->waiting, BOUND), 0);
    assert_int_equal(count(&p->link.settled, BOUND), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_message_is_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pulse_passes_a_full_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
