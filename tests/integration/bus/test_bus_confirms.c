// SPDX-License-Identifier: Apache-2.0
/*
 * The bus while a real RabbitMQ does not confirm: never, or while it has an alarm
 */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/bus_world.h"

#define CONFIRM_MS 1000 /* after this time a confirm is missing */
#define CHECK_MS 200    /* how often the proxy checks whether it must end */

/* Begins a bus that misses a confirm soon, and waits until one message is confirmed. */
static void begin_confirmed(struct world *w, struct bus_config config)
{
    config.heartbeat_s = 1;
    config.confirm_ms = CONFIRM_MS;
    begin(w, &w->a, &config);
    submit_settled(w, &w->a, 1);
}

/* --- a proxy that withholds confirms ---------------------------------------------------------- */

#define FRAME_HEAD 7
#define FRAME_MAX (FRAME_HEAD + 131072 + 1)

/* A proxy in front of the broker, for one connection at a time, that withholds confirms, or closes
 * the connection over the declaration of a task queue. */
struct proxy {
    int listener;
    int port;
    pthread_t thread;
    _Atomic int withholds; /* how many more to withhold */
    _Atomic bool slow;     /* read from the client 32 KiB at a time, fifty times a second */
    _Atomic size_t taken;  /* bytes from the client */
    _Atomic bool refuses;  /* to have a task queue declared */
    uint8_t kept[64];      /* the last one */
    size_t n_kept;
    _Atomic bool releases; /* send it, and close the connection */
    _Atomic bool released; /* it has done so */
    _Atomic bool ends;
};

static int dial(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)port),
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Whether this is basic.ack on the channel of the publishes. */
static bool is_confirm(const uint8_t *frame, size_t len)
{
    static const uint8_t ack[] = {0, 60, 0, 80};

    return frame[0] == 1 && frame[2] == 1 && len > FRAME_HEAD + sizeof(ack) &&
           memcmp(frame + FRAME_HEAD, ack, sizeof(ack)) == 0;
}

/* Passes on all complete frames. Returns how many bytes are left. */
static size_t pass_frames(struct proxy *proxy, int to, uint8_t *data, size_t len)
{
    size_t from = 0;

    while (len - from >= FRAME_HEAD) {
        const uint8_t *frame = data + from;
        size_t size = (size_t)frame[3] << 24 | (size_t)frame[4] << 16 | (size_t)frame[5] << 8;

        size = FRAME_HEAD + (size | frame[6]) + 1;
        if (len - from < size)
            break;
        if (is_confirm(frame, size) && size <= sizeof(proxy->kept) && proxy->withholds > 0) {
            memcpy(proxy->kept, frame, proxy->n_kept = size);
            proxy->withholds--;
        } else if (write(to, frame, size) < 0) {
            return 0; /* the other end is gone */
        }
        from += size;
    }
    memmove(data, data + from, len - from);
    return len - from;
}

/* Whether these bytes of the client, which writes whole frames, declare a queue over the side
 * channel. */
static bool declares_aside(const uint8_t *bytes, size_t n)
{
    static const uint8_t declare[] = {0, 50, 0, 10}, aside[] = {1, 0, 2};
    const uint8_t *at = memmem(bytes, n, declare, sizeof(declare));

    return at && at - bytes >= FRAME_HEAD && memcmp(at - FRAME_HEAD, aside, sizeof(aside)) == 0;
}

/* Sends connection.close, over queue.declare. */
static void refuse_queue(int client)
{
    static const uint8_t frame[] = {1, 0,    0, 0,   0,   0,   14, 0,  10, 0,  50,
                                    2, 0x12, 3, 'N', 'o', '!', 0,  50, 0,  10, 0xce};

    assert_int_equal(write(client, frame, sizeof(frame)), sizeof(frame));
}

static void pump(struct proxy *proxy, int client, int broker)
{
    static uint8_t frames[2 * FRAME_MAX], bytes[65536];
    struct pollfd fds[] = {{.fd = client, .events = POLLIN}, {.fd = broker, .events = POLLIN}};
    size_t kept = 0;

    while (!proxy->ends && poll(fds, 2, CHECK_MS) >= 0) {
        ssize_t n;

        if (proxy->releases && !proxy->released) {
            assert_int_equal(write(client, proxy->kept, proxy->n_kept), proxy->n_kept);
            return;
        }
        if (fds[0].revents) {
            n = read(client, bytes, proxy->slow ? sizeof(bytes) / 2 : sizeof(bytes));
            if (proxy->slow)
                usleep(20000);
            if (n > 0 && proxy->refuses && declares_aside(bytes, (size_t)n)) {
                refuse_queue(client);
                return;
            }
            if (n <= 0 || write(broker, bytes, (size_t)n) != n)
                return;
            proxy->taken += (size_t)n;
        }
        if (fds[1].revents) {
            if (kept >= sizeof(frames))
                abort(); /* no frame is that large */
            n = read(broker, frames + kept, sizeof(frames) - kept);
            if (n <= 0)
                return;
            kept = pass_frames(proxy, client, frames, kept + (size_t)n);
        }
    }
}

static void *proxy_main(void *context)
{
    struct proxy *proxy = context;
    struct pollfd fd = {.fd = proxy->listener, .events = POLLIN};

    while (!proxy->ends) {
        int client, broker;

        if (poll(&fd, 1, CHECK_MS) <= 0)
            continue;
        client = accept(proxy->listener, NULL, NULL);
        broker = dial(atoi(required("DROVER_TEST_AMQP_PORT")));
        pump(proxy, client, broker);
        close(client);
        close(broker);
        proxy->released = proxy->releases;
    }
    return NULL;
}

static void proxy_start(struct proxy *proxy)
{
    const int little = 65536;

    signal(SIGPIPE, SIG_IGN);
    proxy->ends = proxy->releases = proxy->released = proxy->slow = proxy->refuses = false;
    proxy->withholds = 0;
    proxy->taken = 0;
    proxy->n_kept = 0;
    proxy->listener = listen_anywhere(&proxy->port);
    setsockopt(proxy->listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_main, proxy), 0);
}

static void proxy_end(struct proxy *proxy)
{
    proxy->ends = true;
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
}

/* One bus publishes through the proxy, which reads frames, so in clear text; the other one
 * consumes. Waits until one message is confirmed. */
static void begin_with_proxy(struct world *w, struct proxy *proxy)
{
    struct bus_config config = clear_config_of(w, NULL);

    begin_plain(w, &w->b, true);
    proxy_start(proxy);
    config.host = "127.0.0.1";
    config.port = proxy->port;
    begin_confirmed(w, config);
}

/* --- missing confirms ------------------------------------------------------------------------- */

/* Nothing is confirmed: the bus connects again, and sends the messages again. */
static void test_no_confirms(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */
    const int n = 5;

    begin_with_proxy(w, &proxy);
    proxy.withholds = INT_MAX;
    submit_numbers(&w->a, 2, n);
    until(w, w->a.downs == 1);
    proxy.withholds = 0;
    assert_non_null(strstr(w->a.why, "no confirm of a message to drover.submit submit"));
    until(w, w->a.n_outcomes == n && w->b.n_seen == n);
    assert_confirmed(&w->a, n);
    until(w, w->b.n_delivered > n);
    shut(w, &w->a);
    proxy_end(&proxy);
}

/* One confirm is missing, and those of later messages to this exchange come. Returns after how many
 * ms it counts as missing. */
static uint64_t one_confirm_missing(struct world *w, const char *exchange, const char *key)
{
    static struct proxy proxy; /* its thread outlives a failed test */
    uint64_t began, missed;
    int n = 2;

    begin_with_proxy(w, &proxy);
    proxy.withholds = 1;
    began = uv_now(&w->loop);
    submit_number(&w->a, n);
    until(w, proxy.withholds == 0);
    while (w->a.downs == 0) {
        assert_int_equal(w->a.outcomes[2], 0);
        publish_number(&w->a, ++n, exchange, key);
        until(w, w->a.outcomes[n] == 1 || w->a.downs > 0);
        let_pass(w, 10);
    }
    missed = uv_now(&w->loop) - began;
    assert_true(n > 3);
    until(w, w->a.n_outcomes == n);
    assert_confirmed(&w->a, n);
    assert_int_equal(w->a.downs, 1);
    shut(w, &w->a);
    proxy_end(&proxy);
    return missed;
}

/* The later messages go to the same queue. */
static void test_one_confirm_missing(void **state)
{
    assert_true(one_confirm_missing(*state, "drover.submit", "submit") < 5 * CONFIRM_MS);
}

/* The later messages go another way. The confirm may still come, but the bus waits for a limited
 * time. */
static void test_confirm_missing_on_one_route(void **state)
{
    one_confirm_missing(*state, "", "drover.submit");
}

/* A bus publishes through the proxy, and waits for a confirm as long as it takes. */
static void begin_patient(struct world *w, struct proxy *proxy)
{
    struct bus_config config = clear_config_of(w, NULL);

    proxy_start(proxy);
    config.host = "127.0.0.1";
    config.port = proxy->port;
    config.heartbeat_s = 1;
    config.confirm_ms = INT_MAX;
    begin(w, &w->a, &config);
}

/* The first message of a connection is not confirmed, as by a queue without a leader: the others do
 * not wait for that. */
static void test_first_confirm_missing(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */
    const int n = 5;

    begin_patient(w, &proxy);
    proxy.withholds = 1;
    submit_number(&w->a, 1);
    until(w, proxy.withholds == 0);
    for (int i = 2; i <= n; i++) {
        publish_number(&w->a, i, "drover.control", "control");
        until(w, w->a.outcomes[i] == 1);
    }
    assert_int_equal(w->a.outcomes[1], 0);
    assert_int_equal(w->a.downs, 0);
    close_bus(w, &w->a, 100);
    proxy_end(&proxy);
}

/* --- a queue that cannot be declared ---------------------------------------------------------- */

/* The broker closes the connection over the declaration of a task queue, and would again: over the
 * next one the queue is not declared, and the message to it comes back. */
static void test_closed_over_a_queue(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */
    const struct bus_message m = {
        .exchange = "drover.tasks",
        .key = "painter",
        .actor = "painter",
        .mandatory = true,
    };

    begin_patient(w, &proxy);
    proxy.refuses = true;
    submit_number(&w->a, 1);
    publish(&w->a, 2, m);
    submit_number(&w->a, 3);
    until(w, w->a.n_outcomes == 3);
    assert_int_equal(w->a.outcome[1], BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[2], BUS_RETURNED);
    assert_int_equal(w->a.outcome[3], BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 1);
    shut(w, &w->a);
    proxy_end(&proxy);
}

/* --- a slow line ------------------------------------------------------------------------------ */

/* A large message takes far longer than the broker may read nothing. */
static void test_slow_line(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */

    begin_patient(w, &proxy);
    proxy.slow = true;
    publish_large(&w->a, 1, 1, 12000000);
    until(w, w->a.n_outcomes == 1);
    assert_confirmed(&w->a, 1);
    assert_int_equal(w->a.downs, 0);
    shut(w, &w->a);
    proxy_end(&proxy);
}

/* A confirm and the loss of the connection are read at the same time: the message was confirmed
 * before, and the bus reports them in this order. */
static void test_confirmed_and_lost(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */

    begin_with_proxy(w, &proxy);
    proxy.withholds = 1;
    submit_number(&w->a, 2);
    until(w, proxy.withholds == 0);
    proxy.releases = true;
    while (!proxy.released)
        usleep(1000); /* the loop reads nothing meanwhile */
    until(w, w->a.downs == 1 && w->a.n_outcomes == 2);
    assert_confirmed(&w->a, 2);
    assert_int_equal(w->a.downs_before[2], 0);
    shut(w, &w->a);
    proxy_end(&proxy);
}

/* --- alarms ----------------------------------------------------------------------------------- */

/* An alarm reaches a connection some time after it was set. Submits the next message, from @number
 * on, until one is blocked. Return: its number. */
static int submit_until_blocked(struct world *w, int number)
{
    for (;; number++) {
        int before = w->a.n_outcomes;

        submit_number(&w->a, number);
        until(w, w->a.blocked || w->a.n_outcomes > before);
        if (w->a.blocked)
            return number;
    }
}

/* The publisher is blocked and goes on later; the consumer goes on all the time; the loop never
 * waits. */
static void test_alarm(void **state)
{
    struct world *w = *state;
    const int n = 500;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    submit_settled(w, &w->a, 1);
    set_alarm(w, true);
    watch_iterations(w);
    publish_large(&w->a, 2, n, 100000);
    until(w, w->a.blocked);
    bus_stats(w->a.bus, &stats);
    assert_true(stats.blocked && stats.waiting > 0);
    set_alarm(w, false);
    until(w, !w->a.blocked && w->a.n_outcomes == n && w->a.n_seen == n);
    assert_confirmed(&w->a, n);
    assert_int_equal(w->a.downs, 0);
    assert_true(w->longest_iteration < TOO_LONG_MS);
}

/* A connection that begins in an alarm sends one message, of which the broker tells the alarm. */
static void test_alarm_from_the_start(void **state)
{
    struct world *w = *state;
    static struct proxy proxy; /* its thread outlives a failed test */
    const size_t size = 30000;
    const int n = 10;

    set_alarm(w, true);
    begin_patient(w, &proxy);
    publish_large(&w->a, 1, n, size);
    until(w, w->a.blocked);
    assert_in_range(proxy.taken, size, 2 * size);
    set_alarm(w, false);
    until(w, w->a.n_outcomes == n);
    assert_confirmed(&w->a, n);
    shut(w, &w->a);
    proxy_end(&proxy);
}

/* Deliveries that had arrived before the alarm are handed over one by one as each is acknowledged,
 * not only when the watchdog runs. */
static void test_alarm_drains(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, &submit_queue);
    const int n = 10;

    begin_plain(w, &w->b, false);
    submit_settled(w, &w->b, n);
    config.prefetch = 1;
    config.heartbeat_s = 3600;
    config.confirm_ms = 3600 * 1000;
    w->a.keep = true;
    begin(w, &w->a, &config);
    until(w, w->a.n_kept == 1);
    set_alarm(w, true);
    submit_until_blocked(w, n + 1);
    for (int i = 1; i <= n; i++) {
        until(w, w->a.n_kept == i);
        bus_ack(w->a.bus, w->a.kept[i - 1]->handle);
    }
    assert_true(w->a.blocked);
}

/* A confirm that is late because of an alarm is not missing, not even directly after its end. */
static void test_alarm_takes_long(void **state)
{
    struct world *w = *state;
    int n;

    begin_confirmed(w, config_of(w, NULL));
    set_alarm(w, true);
    n = submit_until_blocked(w, 2);
    let_pass(w, 3 * CONFIRM_MS);
    set_alarm(w, false);
    until(w, w->a.n_outcomes == n);
    assert_confirmed(&w->a, n);
    assert_int_equal(w->a.downs, 0);
}

/* Closes the bus during an alarm, while the thread waits (small messages) or is in send(). */
static void close_in_alarm(struct world *w, int n, size_t size)
{
    begin_plain(w, &w->a, false);
    submit_settled(w, &w->a, 1);
    set_alarm(w, true);
    publish_large(&w->a, 2, n, size);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_true(close_bus(w, &w->a, 500) < 500 + TOO_LONG_MS);
    assert_true(w->a.n_outcomes < n);
    set_alarm(w, false);
}

static void test_close_in_alarm_waiting(void **state)
{
    close_in_alarm(*state, 100, 1000);
}

static void test_close_in_alarm_sending(void **state)
{
    close_in_alarm(*state, 20, 4 << 20);
}

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_no_confirms),
        bus_test(test_one_confirm_missing),
        bus_test(test_confirm_missing_on_one_route),
        bus_test(test_first_confirm_missing),
        bus_test(test_closed_over_a_queue),
        bus_test(test_slow_line),
        bus_test(test_confirmed_and_lost),
        bus_test(test_alarm),
        bus_test(test_alarm_from_the_start),
        bus_test(test_alarm_drains),
        bus_test(test_alarm_takes_long),
        bus_test(test_close_in_alarm_waiting),
        bus_test(test_close_in_alarm_sending),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
