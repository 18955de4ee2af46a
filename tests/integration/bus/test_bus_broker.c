// SPDX-License-Identifier: Apache-2.0
/*
 * The bus while a real RabbitMQ is away, silent or frozen
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bus/bus_world.h"

/* The broker closes all connections during the traffic, twice: nothing is lost. */
static void test_connections_closed(void **state)
{
    struct world *w = *state;
    const int n = 3000;
    int sent = 0;

    begin_plain(w, &w->a, true);
    for (int round = 1; round <= 2; round++) {
        uv_process_t process;
        int64_t status;
        int ups = w->a.ups;
        int start = sent;

        program_start(w, &process, &status, required("DROVER_TEST_RABBITMQCTL"),
                      WORDS("close_all_connections", "-p", w->vhost, "in the midst"));
        while (w->a.ups == ups) {
            /* There is always something in flight. */
            if (sent < n * round / 2 && sent - w->a.n_outcomes < 200)
                submit_number(&w->a, ++sent);
            else
                until(w, sent - w->a.n_outcomes < 200 || w->a.ups > ups);
            if (sent == n * round / 2)
                until(w, w->a.ups > ups);
            uv_run(&w->loop, UV_RUN_NOWAIT);
        }
        assert_true(sent > start);
        until(w, status == 0);
        assert_int_equal(w->a.downs, round);
        assert_non_null(strstr(w->a.why, "in the midst"));
    }
    submit_numbers(&w->a, sent + 1, n);
    until(w, w->a.n_outcomes >= n && w->a.n_seen >= n);
    assert_confirmed(&w->a, n);
}

/* The broker stops and starts again: messages published meanwhile arrive. */
static void test_broker_away(void **state)
{
    struct world *w = *state;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    ctl(w, "stop_app");
    until(w, w->a.downs == 1);
    submit_numbers(&w->a, 1, 10);
    bus_stats(w->a.bus, &stats);
    assert_false(stats.up);
    ctl(w, "start_app");
    until(w, w->a.ups == 2 && w->a.n_outcomes == 10 && w->a.n_seen == 10);
    assert_confirmed(&w->a, 10);
}

/* A confirmed message survives a restart of the broker, and is not published again. */
static void test_persistent(void **state)
{
    struct world *w = *state;
    const int n = 10;

    begin_plain(w, &w->a, false);
    submit_numbers(&w->a, 1, n);
    shut(w, &w->a);
    assert_confirmed(&w->a, n);
    ctl(w, "stop_app");
    ctl(w, "start_app");
    begin_plain(w, &w->b, true);
    until(w, w->b.n_seen == n);
}

/* A listener that accepts connections and never sends anything. */
static void test_silent_peer(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    int fd = listen_anywhere(&config.port);

    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_true(close_bus(w, &w->a, 200) < TOO_LONG_MS);
    assert_int_equal(w->a.n_outcomes, 0);
    close(fd);
}

static bool says(const struct probe *p, const char *words)
{
    char why[512];

    bus_why(p->bus, why, sizeof(why));
    return strstr(why, words) != NULL;
}

/* A listener that says nothing is given up, and tried again. */
static void test_silent_broker(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    struct bus_stats stats;
    int fd = listen_anywhere(&config.port);

    config.connect_timeout_ms = 100;
    begin(w, &w->a, &config);
    until(w, says(&w->a, w->tls ? "does not answer the TLS handshake" : "login: no answer"));
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.connects, 0);
    shut(w, &w->a);
    close(fd);
}

/* What answers in clear text is no broker of this protocol: the text tells what it may be instead.
 */
static void assert_no_broker(struct world *w, struct bytes greeting, const char *words)
{
    struct bus_config config = clear_config_of(w, NULL);
    int fd = listen_anywhere(&config.port);
    int client;

    w->a.refusals = 0;
    begin(w, &w->a, &config);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    client = accept(fd, NULL, NULL);
    assert_int_equal(write(client, greeting.data, greeting.len), greeting.len);
    until(w, w->a.refusals > 0);
    if (!says(&w->a, words))
        fail_msg("'%s' does not say '%s'", w->a.why, words);
    close(client);
    shut(w, &w->a);
    close(fd);
}

static void test_no_broker(void **state)
{
    static const uint8_t alert[] = {0x15, 3, 3, 0, 2, 2, 70};

    assert_no_broker(*state, bytes_of(alert, sizeof(alert)), "expects TLS at this port");
    assert_no_broker(*state, bytes_of("AMQP\0\1\0\0", 8), "does not speak AMQP 0-9-1");
    assert_no_broker(*state, bytes_str("HTTP/1.1 400 Bad Request\r\n"), "no broker");
}

/* The bus gives up a server that greets with another method than connection.start, here in clear
 * text, and names the method. */
static void assert_out_of_place(struct world *w, struct bytes frame, const char *words)
{
    struct bus_config config = clear_config_of(w, NULL);
    int fd = listen_anywhere(&config.port);
    int client;

    begin(w, &w->a, &config);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    client = accept(fd, NULL, NULL);
    assert_int_equal(write(client, frame.data, frame.len), frame.len);
    until(w, says(&w->a, words));
    close(client);
    shut(w, &w->a);
    close(fd);
}

static void test_out_of_place(void **state)
{
    static const uint8_t ack[] = {1, 0, 1, 0, 0, 0, 13, 0, 60, 0,   80,
                                  0, 0, 0, 0, 0, 0, 0,  1, 0,  0xce};
    static const uint8_t tune[] = {1,  0, 0, 0, 0, 0, 12, 0, 10, 0,
                                   30, 0, 9, 0, 1, 0, 0,  0, 0,  0xce};
    static const uint8_t unknown[] = {1, 0, 0, 0, 0, 0, 4, 0, 99, 0, 1, 0xce};

    assert_out_of_place(*state, bytes_of(ack, sizeof(ack)), "AMQP_BASIC_ACK_METHOD out of place");
    assert_out_of_place(*state, bytes_of(tune, sizeof(tune)),
                        "AMQP_CONNECTION_TUNE_METHOD out of place");
    assert_out_of_place(*state, bytes_of(unknown, sizeof(unknown)),
                        "an unknown method out of place");
}

/* A list of hosts, of which the last one is the broker: the process begins with the first. */
static void begin_with_hosts(struct world *w, const char *others)
{
    struct bus_config config = config_of(w, NULL);
    char list[128];

    snprintf(list, sizeof(list), "%s,localhost:%d", others, config.port);
    config.host = list;
    config.spread = "process 0"; /* by its hash */
    config.reconnect_min_ms = config.reconnect_max_ms = 60000;
    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    assert_confirmed(&w->a, 1);
    shut(w, &w->a);
}

/* Where one host cannot be reached, or says nothing, the next one is tried at once: there is no
 * pause before all were tried. A name may have several addresses. */
static void test_several_hosts(void **state)
{
    struct world *w = *state;
    char others[64];
    int silent_port, closed_port;
    int silent = listen_anywhere(&silent_port);

    close(listen_anywhere(&closed_port));
    snprintf(others, sizeof(others), "127.0.0.1:%d,127.0.0.1:%d", closed_port, closed_port);
    begin_with_hosts(w, others);
    memset(w->a.outcomes, 0, sizeof(w->a.outcomes));
    w->a.n_outcomes = 0;
    snprintf(others, sizeof(others), "127.0.0.1:%d", silent_port);
    begin_with_hosts(w, others);
    close(silent);
}

static bool accepts(int listener)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};

    return poll(&ready, 1, 0) == 1;
}

/* Lets the next client log in, in clear text: answers what it has not asked yet. */
static int let_log_in(int listener)
{
    static const uint8_t start[] = {1,   0,   0, 0, 0, 0, 28,  0,   10,  0,   10,  0,
                                    9,   0,   0, 0, 0, 0, 0,   0,   5,   'P', 'L', 'A',
                                    'I', 'N', 0, 0, 0, 5, 'e', 'n', '_', 'U', 'S', 0xce};
    static const uint8_t tune[] = {1,  0, 0, 0, 0, 0, 12, 0, 10, 0,
                                   30, 0, 2, 0, 2, 0, 0,  0, 0,  0xce};
    static const uint8_t open_ok[] = {1, 0, 0, 0, 0, 0, 5, 0, 10, 0, 41, 0, 0xce};
    int client = accept(listener, NULL, NULL);

    assert_int_equal(write(client, start, sizeof(start)), sizeof(start));
    assert_int_equal(write(client, tune, sizeof(tune)), sizeof(tune));
    assert_int_equal(write(client, open_ok, sizeof(open_ok)), sizeof(open_ok));
    return client;
}

/* A node that waits for others of its cluster lets log in, and answers nothing more: it is left as
 * soon as one that says nothing at all. */
static void test_host_that_only_lets_log_in(void **state)
{
    struct world *w = *state;
    struct bus_config config = clear_config_of(w, NULL);
    char list[64];
    int port, listener = listen_anywhere(&port), client;

    snprintf(list, sizeof(list), "127.0.0.1:%d,localhost:%d", port, config.port);
    config.host = list;
    config.spread = "process 0";
    config.connect_timeout_ms = INT_MAX;
    begin(w, &w->a, &config);
    until(w, accepts(listener));
    client = let_log_in(listener);
    until(w, w->a.ups == 1);
    assert_true(says(&w->a, "channel: no answer"));
    close(client);
    close(listener);
}

/* The process stands still for longer than an answer may take, at each step of a login: what the
 * broker has sent meanwhile counts. */
static void test_process_that_stands_still(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);

    config.connect_timeout_ms = 500;
    begin(w, &w->a, &config);
    for (int i = 0; i < 50 && w->a.ups == 0; i++) {
        usleep(600000);
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(w->a.ups, 1);
    assert_false(says(&w->a, "no answer"));
}

/* A host that has said nothing any more is left out of the next round: it would only be waited for
 * again. */
static void test_silent_host_is_left(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    char list[64];
    int port, other = listen_anywhere(&port);

    find_broker(w);
    snprintf(list, sizeof(list), "localhost:%d,127.0.0.1:%d", config.port, port);
    config.host = list;
    config.spread = "process 0";
    config.heartbeat_s = 1;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    while (accepts(other)) /* it was tried before, if the look-up of a name took long */
        close(accept(other, NULL, NULL));
    freeze(w);
    until(w, accepts(other));
    assert_true(says(&w->a, "no heartbeat of the broker"));
    thaw(w);
    close(other);
    until(w, w->a.ups == 2);
}

/* The broker closes all connections of the test; then the bus is up again. */
static void lose_connection(struct world *w)
{
    int ups = w->a.ups;

    evaluate(
        w,
        "[rabbit_networking:close_connection(Pid, <<\"test\">>) || "
        "Pid <- rabbit_networking:connections(), "
        "[{vhost, <<\"%s\">>}] <- [catch rabbit_networking:connection_info(Pid, [vhost])]], ok",
        w->vhost);
    until(w, w->a.ups > ups);
}

/* A silent host is left as soon after a lost connection as at first. */
static void test_silent_host_after_a_connection(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    char list[64];
    int port, silent = listen_anywhere(&port);

    snprintf(list, sizeof(list), "127.0.0.1:%d,localhost:%d", port, config.port);
    config.host = list;
    config.spread = "process 0";
    config.connect_timeout_ms = INT_MAX;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    lose_connection(w);
    close(silent);
}

/* A host that only lets log in is left; once a connection has lasted, the bus begins with its own
 * host again. */
static void test_own_host_again(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    char list[64];

    snprintf(list, sizeof(list), "localhost:%d,127.0.0.1:%d", config.port, config.port);
    config.host = list;
    config.spread = "process 0";
    config.reconnect_min_ms = 10;
    config.reconnect_max_ms = 2000;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    do { /* again if it was so slow that the second connection lasted, too */
        lose_connection(w);
        lose_connection(w);
        let_pass(w, 2500);
        lose_connection(w);
    } while (says(&w->a, "localhost"));
    lose_connection(w);
    assert_true(says(&w->a, "localhost port"));
}

static uint64_t refused(const struct probe *p)
{
    struct bus_stats stats;

    bus_stats(p->bus, &stats);
    return stats.refused;
}

/* Clear text does not leave this machine. Another host is good, so nothing is reported. */
static void test_clear_text(void **state)
{
    struct world *w = *state;
    struct bus_config config = clear_config_of(w, NULL);
    char list[] = "192.0.2.1,localhost:00000";

    snprintf(list, sizeof(list), "192.0.2.1,localhost:%d", config.port);
    config.host = list;
    config.spread = "process 0";
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    assert_true(says(&w->a, "192.0.2.1 is no loopback address"));
    assert_int_equal(refused(&w->a), 1);
    lose_connection(w); /* nor does that report it: the other host is good */
    assert_int_equal(w->a.refusals, 0);
}

/* A bus with nothing to do keeps its connections by heartbeats. */
static void test_heartbeats(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w, &submit_queue);

    config.heartbeat_s = 1;
    begin(w, &w->a, &config);
    until(w, w->a.ups == 1);
    let_pass(w, 5000); /* the broker gives a silent client up after three seconds at most */
    assert_int_equal(w->a.downs, 0);
}

/* The broker stops answering. An idle bus notices it, and so does one that is in send(). Messages
 * on the wire are sent again; if no queue takes them then, that says nothing about the first time.
 */
static void test_frozen_broker(void **state)
{
    struct world *w = *state;
    const int n = 20;
    struct bus_config config = config_of(w, NULL);

    find_broker(w);
    config.heartbeat_s = 1;
    config.connect_timeout_ms = 1000;
    begin(w, &w->b, &config);
    config.queues = &submit_queue;
    config.n_queues = 1;
    begin(w, &w->a, &config);
    submit_number(&w->b, 1);
    until(w, w->a.ups == 1 && w->b.ups == 1 && w->b.n_outcomes == 1);
    freeze(w);
    publish_number(&w->b, n + 1, "drover.submit", "nowhere");
    publish_large(&w->b, 2, n, 4 << 20);
    until(w, w->a.downs == 1 && w->b.downs == 1);
    thaw(w);
    until(w, w->a.ups == 2 && w->b.n_outcomes == n + 1 && w->a.n_seen == n);
    assert_confirmed(&w->b, n);
    assert_int_equal(w->b.outcome[n + 1], BUS_NACKED);
    publish_number(&w->b, n + 2, "drover.submit", "nowhere");
    until(w, w->b.n_outcomes == n + 2);
    assert_int_equal(w->b.outcome[n + 2], BUS_RETURNED);
}

/* The broker sends heartbeats over the connections and reads nothing: they are given up as well,
 * and what was on the wire is sent again. With TLS the broker reads up to a hundred buffers
 * ahead of the process that stands still here, so they are made small. */
static void test_broker_reads_nothing(void **state)
{
    static const char readers[] =
        "[Pid || Pid <- rabbit_networking:connections(), [{vhost, <<\"%s\">>}] <- "
        "[catch rabbit_networking:connection_info(Pid, [vhost])]]";
    struct world *w = *state;
    struct bus_config config = config_of(w, NULL);
    const int n = 6;
    char pids[256];

    config.heartbeat_s = 1;
    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    snprintf(pids, sizeof(pids), readers, w->vhost);
    evaluate(w,
             "[ok = inet:setopts(Port, [{buffer, 4096}]) || Port <- erlang:ports(), "
             "{ok, {_, %d}} <- [catch inet:sockname(Port)]], "
             "[sys:suspend(Pid) || Pid <- %s], ok",
             config.port, pids);
    publish_large(&w->a, 2, n, 4 << 20);
    until(w, w->a.downs == 1);
    assert_non_null(strstr(w->a.why, "the broker reads nothing"));
    evaluate(w, "[catch sys:resume(Pid) || Pid <- rabbit_networking:connections()], ok");
    until(w, w->a.n_outcomes == n);
    assert_confirmed(&w->a, n);
}

static pid_t frozen;

static void on_alarm(int signal)
{
    kill(frozen, SIGCONT);
}

/* More data than the socket takes while the broker reads nothing for a moment: the loop does not
 * wait, and nothing is lost. */
static void test_full_socket(void **state)
{
    struct world *w = *state;
    const size_t size = 8000000;
    uint8_t *body = calloc(1, size);
    const struct bus_message m = {
        .exchange = "drover.submit", .key = "submit", .body = bytes_of(body, size)};
    int64_t began;

    assert_non_null(body);
    find_broker(w);
    w->a.keep = true;
    begin_plain(w, &w->a, true);
    submit_number(&w->a, 1);
    until(w, w->a.n_kept == 1 && w->a.n_outcomes == 1);
    freeze(w);
    frozen = w->broker;
    signal(SIGALRM, on_alarm); /* in case the loop waits */
    alarm(2 * TOO_LONG_MS / 1000);
    began = clock_monotonic_ms();
    assert_int_equal(bus_publish(w->a.bus, &m, 0), 0);
    assert_int_equal(bus_publish(w->a.bus, &m, 0), 0);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_true(clock_monotonic_ms() - began < TOO_LONG_MS);
    alarm(0);
    thaw(w);
    until(w, w->a.n_kept == 3);
    for (int i = 1; i < 3; i++)
        assert_true(bytes_equal(w->a.kept[i]->body, m.body));
    assert_int_equal(w->a.downs, 0);
    free(body);
}

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bus_test(test_connections_closed),
        bus_test(test_broker_away),
        bus_test(test_persistent),
        bus_test(test_silent_peer),
        bus_test(test_silent_broker),
        bus_test(test_no_broker),
        bus_test(test_out_of_place),
        bus_test(test_several_hosts),
        bus_test(test_clear_text),
        bus_test(test_heartbeats),
        bus_test(test_frozen_broker),
        bus_test(test_broker_reads_nothing),
        bus_test(test_full_socket),
        bus_test(test_host_that_only_lets_log_in),
        bus_test(test_process_that_stands_still),
        bus_test(test_silent_host_is_left),
        bus_test(test_silent_host_after_a_connection),
        bus_test(test_own_host_again),
    };

    return run_cases(argc, argv, tests, array_size(tests));
}
