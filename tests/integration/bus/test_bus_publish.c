// SPDX-License-Identifier: Apache-2.0
/*
 * The bus against a real RabbitMQ: messages, and the outcome of each publish
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bus/bus_world.h"

static const struct bus_queue expired_queue = {.name = "drover.expired", .source = FROM_EXPIRED};

#define LONG_AFTER_MS 10100 /* more than a message that is sent alone has */

static void test_round_trip(void **state)
{
    struct world *w = *state;
    const struct bus_message m = {
        .exchange = "drover.submit",
        .key = "submit",
        .body = bytes_of("a\0b", 3),
        .content_type = "application/protobuf",
        .type = "drover.v1.Submit",
        .message_id = "1",
        .correlation_id = "correlation",
        .reply_to = "answers",
        .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        .job = "job",
        .step = "step",
        .reason = "reason",
        .attempt = 3,
        .mandatory = true,
    };
    struct bus_stats stats;
    struct bus_delivery *d;

    w->a.keep = true;
    begin_plain(w, &w->a, true);
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.waiting, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_kept == 1);
    assert_confirmed(&w->a, 1);
    assert_true(w->a.batches > 0);
    d = w->a.kept[0];
    assert_int_equal(d->source, FROM_SUBMIT);
    assert_true(bytes_equal(d->body, m.body));
    assert_false(d->redelivered || d->oversize);
    assert_string_equal(d->content_type, m.content_type);
    assert_string_equal(d->message_id, m.message_id);
    assert_string_equal(d->correlation_id, m.correlation_id);
    assert_string_equal(d->reply_to, m.reply_to);
    assert_string_equal(d->traceparent, m.traceparent);
    assert_string_equal(d->user_id, "");
    bus_ack(w->a.bus, d->handle);
    bus_stats(w->a.bus, &stats);
    assert_true(stats.up && !stats.blocked);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.published, 1);
    assert_int_equal(stats.confirmed, 1);
    assert_int_equal(stats.delivered, 1);
    assert_int_equal(stats.acked, 1);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.oldest_unconfirmed, 0);
    assert_true((stats.tls_expiry > 0) == (w->tls != NULL));
}

/* Body lengths around the frame size, an empty body, and more than a socket can hold; without any
 * property. */
static void test_bodies(void **state)
{
    struct world *w = *state;
    static const size_t sizes[] = {0, 1, 131063, 131064, 131065, 262128, 262129, 8000000, 8000000};
    uint8_t *body = malloc(sizes[array_size(sizes) - 1]);

    assert_non_null(body);
    for (size_t i = 0; i < sizes[array_size(sizes) - 1]; i++)
        body[i] = (uint8_t)(i * 31 >> 3);
    w->a.keep = true;
    begin_plain(w, &w->a, true);
    for (size_t i = 0; i < array_size(sizes); i++) {
        struct bus_message m = {
            .exchange = "drover.submit", .key = "submit", .body = bytes_of(body, sizes[i])};

        assert_int_equal(bus_publish(w->a.bus, &m, 0), 0);
    }
    until(w, w->a.n_kept == array_size(sizes));
    for (size_t i = 0; i < array_size(sizes); i++)
        assert_true(bytes_equal(w->a.kept[i]->body, bytes_of(body, sizes[i])));
    assert_string_equal(w->a.kept[0]->message_id, "");
    free(body);
}

/* Each third message has no queue: exactly these must be returned. */
static void test_return(void **state)
{
    struct world *w = *state;
    const int n = 300;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, "drover.submit", i % 3 ? "submit" : "nowhere");
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 3);
    assert_outcomes(&w->a, n, 3, BUS_RETURNED);
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.returned, n / 3);
}

/* A full queue refuses new messages: the broker sends a nack for each, between confirms. */
static void test_nack(void **state)
{
    struct world *w = *state;
    int n = 0;

    begin_plain(w, &w->a, false);
    ctl(w, "set_policy", "-p", w->vhost, "full", "^drover.submit$",
        "{\"max-length\":3,\"overflow\":\"reject-publish\"}");
    do {
        submit_number(&w->a, ++n);
        until(w, w->a.n_outcomes == n);
    } while (n < MAX_MESSAGES / 2 && w->a.outcome[n] == BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[n], BUS_NACKED);
    publish_number(&w->a, n + 1, "drover.control", "control");
    submit_number(&w->a, n + 2);
    publish_number(&w->a, n + 3, "drover.control", "control");
    until(w, w->a.n_outcomes == n + 3);
    assert_int_equal(w->a.outcome[n + 1], BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[n + 2], BUS_NACKED);
    assert_int_equal(w->a.outcome[n + 3], BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 0);
}

/* Fills drover.submit by the other bus until it refuses messages. */
static void fill(struct world *w)
{
    int n = 0;

    begin_plain(w, &w->b, false);
    ctl(w, "set_policy", "-p", w->vhost, "full", "^drover.submit$",
        "{\"max-length\":3,\"overflow\":\"reject-publish\"}");
    do {
        submit_number(&w->b, ++n);
        until(w, w->b.n_outcomes == n);
    } while (n < MAX_MESSAGES / 2 && w->b.outcome[n] == BUS_CONFIRMED);
    assert_int_equal(w->b.outcome[n], BUS_NACKED);
}

/* A message to where nothing was confirmed over this connection is refused, perhaps by the fault of
 * the connection: it goes over another one, and no other message is sent twice for that. */
static void test_nack_over_one_connection(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    const int n = 20;

    fill(w);
    config.reconnect_min_ms = config.reconnect_max_ms = 5000;
    begin(w, &w->a, &config);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, i % 2 ? "drover.control" : "drover.submit",
                       i % 2 ? "control" : "submit");
    until(w, w->a.downs == 1);
    evaluate(w, "ok = rabbit_policy:delete(<<\"%s\">>, <<\"full\">>, <<\"test\">>)", w->vhost);
    until(w, w->a.n_outcomes == n);
    assert_confirmed(&w->a, n);
    for (int i = 1; i <= n; i++)
        assert_int_equal(w->a.downs_before[i], i % 2 ? 0 : 1);
}

/* A queue without a leader refuses over the next connections, too, until it has one. */
static void test_nack_over_three_connections(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    int64_t began;

    fill(w);
    config.reconnect_min_ms = config.reconnect_max_ms = 1;
    begin(w, &w->a, &config);
    began = clock_monotonic_ms();
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    assert_int_equal(w->a.outcome[1], BUS_NACKED);
    assert_int_equal(w->a.downs, 3);
    assert_true(clock_monotonic_ms() - began >= 250 + 500); /* the pauses */
}

/* While a message waits for its next connection the others go on. */
static void test_others_pass_a_refused_one(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    int downs, n = 1;

    fill(w);
    config.reconnect_min_ms = config.reconnect_max_ms = 1;
    begin(w, &w->a, &config);
    submit_number(&w->a, n);
    until(w, w->a.ups == 2);
    do { /* again if it was so slow that the next connection was due */
        downs = w->a.downs;
        publish_number(&w->a, ++n, "drover.control", "control");
        until(w, w->a.outcomes[n] == 1);
    } while (w->a.downs_before[n] != downs && w->a.outcomes[1] == 0);
    assert_int_equal(w->a.outcomes[1], 0);
    assert_int_equal(w->a.outcome[n], BUS_CONFIRMED);
}

/* Where another connection does not help a message is refused, and few of them are made. */
static void test_nack_over_each_connection(void **state)
{
    struct world *w = *state;
    const int n = 200;

    fill(w);
    begin_plain(w, &w->a, false);
    for (int i = 1; i <= n; i++) {
        submit_number(&w->a, i);
        until(w, w->a.n_outcomes == i);
        assert_int_equal(w->a.outcome[i], BUS_NACKED);
    }
    assert_in_range(w->a.downs, 1, 10);
}

/* The broker closes the channel over one message: it is refused, and the others arrive. */
static void test_missing_exchange(void **state)
{
    struct world *w = *state;
    const int n = 60;

    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, i % 20 ? "drover.submit" : "drover.nothing", "submit");
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 20);
    assert_outcomes(&w->a, n, 20, BUS_NACKED);
}

/* The broker stands still, and then closes the channel over the first message that it reads. One
 * that was sent long after that is not to blame. */
static void test_innocent_message(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);

    config.heartbeat_s = 3600;
    config.confirm_ms = 3600 * 1000;
    begin(w, &w->a, &config);
    submit_settled(w, &w->a, 1);
    find_broker(w);
    freeze(w);
    publish_number(&w->a, 2, "drover.nothing", "submit");
    let_pass(w, LONG_AFTER_MS);
    submit_number(&w->a, 3);
    let_pass(w, 1);
    thaw(w);
    until(w, w->a.n_outcomes == 3);
    assert_int_equal(w->a.outcome[2], BUS_NACKED);
    assert_int_equal(w->a.outcome[3], BUS_CONFIRMED);
}

/* RabbitMQ 3.10 closes the connection over this address: the message is refused, the others arrive,
 * and the next one to that address costs nothing. Other versions drop it. */
static void test_address_that_closes_the_connection(void **state)
{
    struct world *w = *state;
    const char key[] = "amq.rabbitmq.reply-to.!!!!.key";
    const int n = 60;
    int downs;

    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, i % 20 ? "drover.submit" : "", i % 20 ? "submit" : key);
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 20);
    downs = w->a.downs;
    assert_true(downs <= 3);
    assert_outcomes(&w->a, n, 20, downs > 0 ? BUS_NACKED : BUS_CONFIRMED);
    publish_number(&w->a, n + 1, "", key);
    publish_number(&w->a, n + 2, "drover.submit", "submit");
    until(w, w->a.n_outcomes == n + 2);
    assert_int_equal(w->a.outcome[n + 1], w->a.outcome[n]);
    assert_int_equal(w->a.downs, downs);
}

/* The address of a process at the unknown node "reply@<n>"; n has two digits. */
static const char *invented(char *out, int n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t process[] = {131,
                               88,
                               119,
                               8,
                               'r',
                               'e',
                               'p',
                               'l',
                               'y',
                               '@',
                               (uint8_t)('0' + n / 10),
                               (uint8_t)('0' + n % 10),
                               0,
                               0,
                               3,
                               9,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               1};
    char *at = stpcpy(out, "amq.rabbitmq.reply-to.");

    for (size_t i = 0; i < sizeof(process); i += 3) {
        uint32_t three = (uint32_t)(process[i] << 16 | process[i + 1] << 8 | process[i + 2]);

        for (int shift = 18; shift >= 0; shift -= 6)
            *at++ = digits[three >> shift & 63];
    }
    stpcpy(at, ".a2V5");
    return out;
}

/* Two closings within one iteration of the loop are one on_down(), but two connects. */
static int connects_of(const struct probe *p)
{
    struct bus_stats stats;

    bus_stats(p->bus, &stats);
    return (int)stats.connects;
}

/* RabbitMQ 3.10 closes the connection over each of them. One sender costs two connections at most,
 * and the messages of others arrive. */
static void test_invented_addresses(void **state)
{
    struct world *w = *state;
    const int n = 60;
    char key[100];
    int before, closings;

    begin_plain(w, &w->a, true);
    before = connects_of(&w->a);
    for (int i = 1; i <= n; i++) {
        if (i % 3)
            submit_number(&w->a, i);
        else
            publish_direct(&w->a, i, invented(key, i), "mallory");
    }
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 3);
    closings = connects_of(&w->a) - before;
    assert_true(closings == 0 || closings == 2);
    assert_outcomes(&w->a, n, 3, closings > 0 ? BUS_NACKED : BUS_CONFIRMED);
    publish_direct(&w->a, n + 1, invented(key, 61), "mallory");
    until(w, w->a.n_outcomes == n + 1);
    assert_int_equal(connects_of(&w->a), before + closings);
    publish_direct(&w->a, n + 2, invented(key, 62), "eve");
    submit_number(&w->a, n + 3);
    until(w, w->a.n_outcomes == n + 3);
    assert_int_equal(connects_of(&w->a), before + 2 * closings);
    assert_int_equal(w->a.outcome[n + 3], BUS_CONFIRMED);
}

static void test_closing_flushes(void **state)
{
    struct world *w = *state;
    const int n = 2000;

    begin_plain(w, &w->a, false);
    submit_numbers(&w->a, 1, n);
    shut(w, &w->a);
    assert_confirmed(&w->a, n);
}

static void test_direct_reply(void **state)
{
    struct world *w = *state;
    const struct bus_message question = {
        .exchange = "drover.replies",
        .key = "reply",
        .reply_to = "amq.rabbitmq.reply-to",
        .correlation_id = "17",
        .mandatory = true,
    };
    struct bus_config server = config_of(w, &reply_queue);
    struct bus_config client = config_of(w, NULL);
    struct bus_message answer = {.exchange = "", .body = bytes_str("yes"), .mandatory = true};

    client.direct_reply = true;
    client.direct_source = FROM_DIRECT;
    w->a.keep = w->b.keep = true;
    begin(w, &w->a, &server);
    begin(w, &w->b, &client);
    until(w, w->a.ups == 1);
    assert_int_equal(bus_publish(w->b.bus, &question, 1), 0);
    until(w, w->a.n_kept == 1);
    assert_int_equal(w->a.kept[0]->source, FROM_REPLIES);
    answer.key = w->a.kept[0]->reply_to;
    answer.correlation_id = w->a.kept[0]->correlation_id;
    assert_int_equal(bus_publish(w->a.bus, &answer, 1), 0);
    until(w, w->b.n_kept == 1 && w->a.n_outcomes == 1 && w->b.n_outcomes == 1);
    assert_confirmed(&w->a, 1);
    assert_int_equal(w->b.kept[0]->source, FROM_DIRECT);
    assert_int_equal(w->b.kept[0]->handle, 0);
    assert_string_equal(w->b.kept[0]->correlation_id, "17");
    assert_true(bytes_is(w->b.kept[0]->body, "yes"));
    bus_ack(w->b.bus, w->b.kept[0]->handle); /* must do nothing */
}

static void test_oversize(void **state)
{
    struct world *w = *state;
    static const uint8_t body[300000] = {1, 2, 3};
    const struct bus_message m = {
        .exchange = "drover.submit", .key = "submit", .body = bytes_of(body, sizeof(body))};
    struct bus_config config = config_of(w, &submit_queue);

    config.max_message_bytes = 200000;
    w->a.keep = true;
    begin(w, &w->a, &config);
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    submit_number(&w->a, 2);
    until(w, w->a.n_kept == 2);
    assert_true(w->a.kept[0]->oversize);
    assert_true(bytes_equal(w->a.kept[0]->body, bytes_of(body, 200000)));
    assert_false(w->a.kept[1]->oversize);
    assert_true(bytes_is(w->a.kept[1]->body, "2"));
}

/* The actor has no agent: the broker dead-letters an expired message. The first publish declares
 * the queue. */
static void test_expiration(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, &expired_queue);
    struct bus_message m = {
        .exchange = "drover.tasks",
        .key = "nobody",
        .actor = "nobody",
        .message_id = "1",
        .expires = true,
        .mandatory = true,
    };

    w->a.keep = true;
    begin(w, &w->a, &config);
    m.not_after = clock_monotonic_ms() + 1000; /* even a busy machine has sent it by then */
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    until(w, w->a.n_outcomes == 1 && w->a.n_kept == 1);
    assert_confirmed(&w->a, 1);
    assert_int_equal(w->a.kept[0]->source, FROM_EXPIRED);
    assert_string_equal(w->a.kept[0]->message_id, "1");
}

static void test_not_after(void **state)
{
    struct world *w = *state;
    struct bus_message m = {.exchange = "drover.submit", .key = "submit", .message_id = "1"};

    begin_plain(w, &w->a, true);
    m.not_after = clock_monotonic_ms() - 1;
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    submit_number(&w->a, 2);
    until(w, w->a.n_outcomes == 2 && w->a.n_delivered == 1);
    assert_int_equal(w->a.outcome[1], BUS_UNSENT);
    assert_int_equal(w->a.outcome[2], BUS_CONFIRMED);
    assert_int_equal(w->a.seen[2], 1);
}

/* A message that has waited too long is not sent before the caller was asked; one sent earlier is.
 */
static void test_ask_after(void **state)
{
    struct world *w = *state;
    struct bus_message m = {.exchange = "drover.submit", .key = "submit", .message_id = "1"};

    begin_plain(w, &w->a, true);
    m.ask_after = clock_monotonic_ms() - 1;
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    m.message_id = "2";
    m.ask_after = clock_monotonic_ms() + 3600 * 1000;
    assert_int_equal(bus_publish(w->a.bus, &m, 2), 0);
    until(w, w->a.n_outcomes == 2 && w->a.n_delivered == 1);
    assert_int_equal(w->a.outcome[1], BUS_WAITED);
    assert_int_equal(w->a.outcome[2], BUS_CONFIRMED);
    assert_int_equal(w->a.seen[2], 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_round_trip),
        bus_test(test_bodies),
        bus_test(test_return),
        bus_test(test_nack),
        bus_test(test_nack_over_one_connection),
        bus_test(test_nack_over_three_connections),
        bus_test(test_others_pass_a_refused_one),
        bus_test(test_nack_over_each_connection),
        bus_test(test_missing_exchange),
        bus_test(test_innocent_message),
        bus_test(test_address_that_closes_the_connection),
        bus_test(test_closing_flushes),
        bus_test(test_invented_addresses),
        bus_test(test_direct_reply),
        bus_test(test_oversize),
        bus_test(test_expiration),
        bus_test(test_not_after),
        bus_test(test_ask_after),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
