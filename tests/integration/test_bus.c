// SPDX-License-Identifier: Apache-2.0
/*
 * The bus against a real RabbitMQ: messages, acks, queues, and refusals
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bus_world.h"

static const struct bus_queue reply_queue = {.name = "drover.replies", .source = FROM_REPLIES};
static const struct bus_queue expired_queue = {.name = "drover.expired", .source = FROM_EXPIRED};
static const struct bus_queue task_queue = {
    .name = "drover.task.painter", .actor = "painter", .source = FROM_TASKS};

/* --- messages --------------------------------------------------------------------------------- */

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
    publish_number(&w->a, n + 1, "drover.replies", "reply");
    submit_number(&w->a, n + 2);
    publish_number(&w->a, n + 3, "drover.replies", "reply");
    until(w, w->a.n_outcomes == n + 3);
    assert_int_equal(w->a.outcome[n + 1], BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[n + 2], BUS_NACKED);
    assert_int_equal(w->a.outcome[n + 3], BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 0);
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

/* --- acks ------------------------------------------------------------------------------------- */

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

/* Sends ten messages. The first may still pass through the threads; after that the loop drives. */
static void one_by_one(struct world *w)
{
    for (int i = 1; i <= 10; i++) {
        submit_number(&w->a, i);
        until(w, w->a.n_outcomes == i && w->a.n_seen == i);
    }
}

/* Returns how often a thread of this process has gone to sleep. */
static long sleeps_of(const char *name)
{
    char path[300], line[300];
    long sleeps = -1;
    DIR *tasks = opendir("/proc/self/task");

    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        bool is_it = false;
        FILE *status;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        status = fopen(path, "r");
        while (status && fgets(line, sizeof(line), status)) {
            if (strncmp(line, "Name:\t", 6) == 0)
                is_it = strncmp(line + 6, name, strlen(name)) == 0;
            if (is_it)
                (void)sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
        }
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

/* With a large enough stack the loop drives the connections, and their threads sleep. */
static void test_loop_drives_connections(void **state)
{
    struct world *w = *state;
    struct rlimit stack;
    long publisher, consumer;

    assert_int_equal(getrlimit(RLIMIT_STACK, &stack), 0);
    begin_plain(w, &w->a, true);
    w->a.ack_all = true;
    one_by_one(w);
    publisher = sleeps_of("bus-publish");
    consumer = sleeps_of("bus-consume");
    assert_true(publisher > 0 && consumer > 0);
    submit_numbers(&w->a, 11, 1000);
    until(w, w->a.n_outcomes == 1000 && w->a.n_seen == 1000);
    if (stack.rlim_cur >= 8 << 20) {
        assert_int_equal(sleeps_of("bus-publish"), publisher);
        assert_int_equal(sleeps_of("bus-consume"), consumer);
    } else {
        assert_true(sleeps_of("bus-publish") > publisher && sleeps_of("bus-consume") > consumer);
    }
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

/* --- queues ----------------------------------------------------------------------------------- */

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

/* --- refusals --------------------------------------------------------------------------------- */

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

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_round_trip),
        bus_test(test_bodies),
        bus_test(test_return),
        bus_test(test_nack),
        bus_test(test_missing_exchange),
        bus_test(test_address_that_closes_the_connection),
        bus_test(test_closing_flushes),
        bus_test(test_invented_addresses),
        bus_test(test_direct_reply),
        bus_test(test_oversize),
        bus_test(test_expiration),
        bus_test(test_not_after),
        bus_test(test_ask_after),
        bus_test(test_acks_out_of_order),
        bus_test(test_ack_alone),
        bus_test(test_loop_drives_connections),
        bus_test(test_old_acks_are_void),
        bus_test(test_close_gives_back),
        bus_test(test_requeue),
        bus_test(test_stop_consuming),
        bus_test(test_inspect),
        bus_test(test_prefetch),
        bus_test(test_consumer_cancelled),
        bus_test(test_consume_while_reconnecting),
        bus_test(test_task_queue_is_declared),
        bus_test(test_task_queue_of_another_kind),
        bus_test(test_refusals),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
