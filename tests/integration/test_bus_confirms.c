// SPDX-License-Identifier: Apache-2.0
/*
 * The bus while a real RabbitMQ does not confirm: at all, or for as long as it has an alarm
 */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus_world.h"

#define CONFIRM_MS 1000 /* until a confirm counts as missing */
#define LOOK_MS 200     /* between two looks of the miser at whether it is to end */

/* Misses a confirm soon; one message is through. */
static void begin_confirmed(struct world *w, struct bus_config config)
{
    config.heartbeat_s = 1;
    config.confirm_ms = CONFIRM_MS;
    begin(w, &w->a, &config);
    submit_settled(w, &w->a, 1);
}

static void on_passed(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void let_pass(struct world *w, uint64_t ms)
{
    bool passed = false;
    uv_timer_t timer;

    uv_timer_init(&w->loop, &timer);
    timer.data = &passed;
    uv_timer_start(&timer, on_passed, ms, 0);
    until(w, passed);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* --- a broker that keeps confirms ------------------------------------------------------------- */

#define FRAME_HEAD 7
#define FRAME_MAX (FRAME_HEAD + 131072 + 1)

/* A proxy before the broker, for one connection at a time, that keeps confirms to itself. */
struct miser {
    int listener;
    int port;
    pthread_t thread;
    _Atomic int keeps; /* so many more */
    uint8_t kept[64];  /* the last one */
    size_t n_kept;
    _Atomic bool gives; /* what it has kept, and closes the connection ... */
    _Atomic bool gave;  /* ... which it has */
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

/* basic.ack on the channel of the publishes. */
static bool is_confirm(const uint8_t *frame, size_t len)
{
    static const uint8_t ack[] = {0, 60, 0, 80};

    return frame[0] == 1 && frame[2] == 1 && len > FRAME_HEAD + sizeof(ack) &&
           memcmp(frame + FRAME_HEAD, ack, sizeof(ack)) == 0;
}

/* Passes on each frame that is there whole. Return: how much of it is left. */
static size_t pass_frames(struct miser *m, int to, uint8_t *data, size_t len)
{
    size_t from = 0;

    while (len - from >= FRAME_HEAD) {
        const uint8_t *frame = data + from;
        size_t size = (size_t)frame[3] << 24 | (size_t)frame[4] << 16 | (size_t)frame[5] << 8;

        size = FRAME_HEAD + (size | frame[6]) + 1;
        if (len - from < size)
            break;
        if (is_confirm(frame, size) && size <= sizeof(m->kept) && m->keeps > 0) {
            memcpy(m->kept, frame, m->n_kept = size);
            m->keeps--;
        } else if (write(to, frame, size) < 0) {
            return 0; /* who is gone reads nothing more */
        }
        from += size;
    }
    memmove(data, data + from, len - from);
    return len - from;
}

static void pump(struct miser *m, int client, int broker)
{
    static uint8_t frames[2 * FRAME_MAX], bytes[65536];
    struct pollfd fds[] = {{.fd = client, .events = POLLIN}, {.fd = broker, .events = POLLIN}};
    size_t kept = 0;

    while (!m->ends && poll(fds, 2, LOOK_MS) >= 0) {
        ssize_t n;

        if (m->gives && !m->gave) {
            assert_int_equal(write(client, m->kept, m->n_kept), m->n_kept);
            return;
        }
        if (fds[0].revents) {
            n = read(client, bytes, sizeof(bytes));
            if (n <= 0 || write(broker, bytes, (size_t)n) != n)
                return;
        }
        if (fds[1].revents) {
            n = read(broker, frames + kept, sizeof(frames) - kept);
            if (n <= 0)
                return;
            kept = pass_frames(m, client, frames, kept + (size_t)n);
        }
    }
}

static void *miser_main(void *context)
{
    struct miser *m = context;
    struct pollfd fd = {.fd = m->listener, .events = POLLIN};

    while (!m->ends) {
        int client, broker;

        if (poll(&fd, 1, LOOK_MS) <= 0)
            continue;
        client = accept(m->listener, NULL, NULL);
        broker = dial(atoi(required("DROVER_TEST_AMQP_PORT")));
        pump(m, client, broker);
        close(client);
        close(broker);
        m->gave = m->gives;
    }
    return NULL;
}

static void miser_start(struct miser *m)
{
    signal(SIGPIPE, SIG_IGN);
    m->ends = m->gives = m->gave = false;
    m->keeps = 0;
    m->n_kept = 0;
    m->listener = listen_anywhere(&m->port);
    assert_int_equal(pthread_create(&m->thread, NULL, miser_main, m), 0);
}

static void miser_end(struct miser *m)
{
    m->ends = true;
    pthread_join(m->thread, NULL);
    close(m->listener);
}

/* The one bus publishes by way of the miser, the other consumes; one message is through. */
static void begin_with_miser(struct world *w, struct miser *m)
{
    struct bus_config config = config_of(w, NULL);

    begin_plain(w, &w->b, true);
    miser_start(m);
    config.host = "127.0.0.1";
    config.port = m->port;
    begin_confirmed(w, config);
}

/* --- confirms that do not come ---------------------------------------------------------------- */

/* Nothing is confirmed: another connection is tried, and what was sent is sent again. */
static void test_no_confirms(void **state)
{
    struct world *w = *state;
    static struct miser m; /* its thread outlives a test that fails */
    const int n = 5;

    begin_with_miser(w, &m);
    m.keeps = INT_MAX;
    submit_numbers(&w->a, 2, n);
    until(w, w->a.downs == 1);
    m.keeps = 0;
    assert_non_null(strstr(w->a.why, "no confirm of a message to drover.submit submit"));
    until(w, w->a.n_outcomes == n && w->b.n_seen == n);
    assert_confirmed(&w->a, n);
    until(w, w->b.n_delivered > n);
    shut(w, &w->a);
    miser_end(&m);
}

/* One is missing, and those after it come, which go there. Returns after how many ms it was missed.
 */
static uint64_t one_confirm_missing(struct world *w, const char *exchange, const char *key)
{
    static struct miser m; /* its thread outlives a test that fails */
    uint64_t began, missed;
    int n = 2;

    begin_with_miser(w, &m);
    m.keeps = 1;
    began = uv_now(&w->loop);
    submit_number(&w->a, n);
    until(w, m.keeps == 0);
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
    miser_end(&m);
    return missed;
}

/* To the same place: it is missed all the same. */
static void test_one_confirm_missing(void **state)
{
    assert_true(one_confirm_missing(*state, "drover.submit", "submit") < 5 * CONFIRM_MS);
}

/* To another: it may come yet, but is not waited for without a bound. */
static void test_confirm_missing_of_one_place(void **state)
{
    one_confirm_missing(*state, "", "drover.submit");
}

/* Both are read at once: it was confirmed before the connection was lost, and so it is told. */
static void test_confirmed_and_lost(void **state)
{
    struct world *w = *state;
    static struct miser m; /* its thread outlives a test that fails */

    begin_with_miser(w, &m);
    m.keeps = 1;
    submit_number(&w->a, 2);
    until(w, m.keeps == 0);
    m.gives = true;
    while (!m.gave)
        usleep(1000); /* the loop reads nothing meanwhile */
    until(w, w->a.downs == 1 && w->a.n_outcomes == 2);
    assert_confirmed(&w->a, 2);
    assert_int_equal(w->a.downs_before[2], 0);
    shut(w, &w->a);
    miser_end(&m);
}

/* --- alarms ----------------------------------------------------------------------------------- */

/* The publisher is held up and goes on; the consumer drains all the while; the loop never waits. */
static void test_alarm(void **state)
{
    struct world *w = *state;
    const int n = 500;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    submit_settled(w, &w->a, 1);
    set_alarm(w, true);
    watch_turns(w);
    publish_large(&w->a, 2, n, 100000);
    until(w, w->a.blocked);
    bus_stats(w->a.bus, &stats);
    assert_true(stats.blocked && stats.waiting > 0);
    set_alarm(w, false);
    until(w, !w->a.blocked && w->a.n_outcomes == n && w->a.n_seen == n);
    assert_confirmed(&w->a, n);
    assert_int_equal(w->a.downs, 0);
    assert_true(w->longest_turn < TAKES_ITS_TIME_MS);
}

/* What had come before it is delivered, one after another, as each is acknowledged; not only when
 * the watchdog looks. */
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
    submit_number(&w->a, n + 1);
    until(w, w->a.blocked);
    for (int i = 1; i <= n; i++) {
        until(w, w->a.n_kept == i);
        bus_ack(w->a.bus, w->a.kept[i - 1]->handle);
    }
    assert_true(w->a.blocked);
}

/* What an alarm holds up is not missing, nor as soon as it is over. */
static void test_alarm_takes_long(void **state)
{
    struct world *w = *state;

    begin_confirmed(w, config_of(w, NULL));
    set_alarm(w, true);
    submit_number(&w->a, 2);
    until(w, w->a.blocked);
    let_pass(w, 3 * CONFIRM_MS);
    set_alarm(w, false);
    until(w, w->a.n_outcomes == 2);
    assert_confirmed(&w->a, 2);
    assert_int_equal(w->a.downs, 0);
}

/* Closing in an alarm, with the thread waiting (small messages) or in the midst of send(). */
static void close_in_alarm(struct world *w, int n, size_t size)
{
    begin_plain(w, &w->a, false);
    submit_settled(w, &w->a, 1);
    set_alarm(w, true);
    publish_large(&w->a, 2, n, size);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_true(close_bus(w, &w->a, 500) < 500 + TAKES_ITS_TIME_MS);
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
        bus_test(test_confirm_missing_of_one_place),
        bus_test(test_confirmed_and_lost),
        bus_test(test_alarm),
        bus_test(test_alarm_drains),
        bus_test(test_alarm_takes_long),
        bus_test(test_close_in_alarm_waiting),
        bus_test(test_close_in_alarm_sending),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
