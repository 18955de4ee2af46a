// SPDX-License-Identifier: Apache-2.0
/*
 * Vitals and their output: when a pulse is missed, when a process is ready, the text of metrics,
 * addresses
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "io/address.h"
#include "io/daemon/metrics.h"
#include "io/daemon/vitals.h"

/* ---- addresses ---- */

static void expect_address(const char *text, const char *host, const char *port)
{
    struct address a;
    const char *fault = address_parse(text, &a);

    if (fault)
        fail_msg("%s: %s", text, fault);
    assert_string_equal(a.host, host);
    assert_string_equal(a.port, port);
}

static void expect_no_address(const char *text, const char *part)
{
    struct address a;
    const char *fault = address_parse(text, &a);

    if (!fault || !strstr(fault, part))
        fail_msg("'%s': '%s' does not say '%s'", text, fault ? fault : "", part);
}

static void test_addresses(void **state)
{
    char longest[ADDRESS_HOST_MAX + 4];
    struct address a;

    expect_address("127.0.0.1:8080", "127.0.0.1", "8080");
    expect_address("localhost:0", "localhost", "0");
    expect_address("[::]:65535", "::", "65535");
    expect_address("[fe80::1%eth0]:80", "fe80::1%eth0", "80");
    memset(longest, 'a', sizeof(longest));
    strcpy(longest + ADDRESS_HOST_MAX, ":1");
    assert_null(address_parse(longest, &a));
    assert_int_equal(strlen(a.host), ADDRESS_HOST_MAX);
}

static void test_invalid_addresses(void **state)
{
    static const char *const shapes[] = {"",        "8080",   ":8080",   "localhost",  "::1:80",
                                         "[::1]80", "[]:80",  "[::1",    "[::1:80",    "::1]:80",
                                         "a b:80",  "a\n:80", "[\n]:80", "\xc3\xa4:80"};
    static const char *const ports[] = {"a:",  "a:65536", "a:-1", "a:-0",
                                        "a:x", "a:1x",    "a: 1", "a:99999999999999999999"};
    char too_long[ADDRESS_HOST_MAX + 4];

    for (size_t i = 0; i < array_size(shapes); i++)
        expect_no_address(shapes[i], "must be HOST:PORT");
    for (size_t i = 0; i < array_size(ports); i++)
        expect_no_address(ports[i], "a port from 0 to 65535");
    memset(too_long, 'a', sizeof(too_long));
    strcpy(too_long + ADDRESS_HOST_MAX + 1, ":1");
    expect_no_address(too_long, "must be HOST:PORT");
}

/* ---- metrics ---- */

struct figures {
    uint64_t jobs, waiting, longest_us, wait_ms;
};

#define AT(member) offsetof(struct figures, member)

static const struct metric table[] = {
    {"jobs", METRIC_COUNTER, AT(jobs), "jobs done"},
    {"waiting", METRIC_GAUGE, AT(waiting), "jobs that wait"},
    {"longest_us", METRIC_GAUGE, AT(longest_us), "the longest iteration"},
    {"wait_ms", METRIC_COUNTER, AT(wait_ms), "all waits together"},
};
static const struct metric_set set = {"worker", table, array_size(table)};
static const struct figures figures = {UINT64_MAX, 0, 1500, 61001};

static void test_metrics_text(void **state)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    metrics_print(&out, &set, "worker_", "agent", &figures);
    assert_string_equal(buf_str(&out),
                        "# HELP drover_worker_jobs_total jobs done\n"
                        "# TYPE drover_worker_jobs_total counter\n"
                        "drover_worker_jobs_total{role=\"agent\"} 18446744073709551615\n"
                        "# HELP drover_worker_waiting jobs that wait\n"
                        "# TYPE drover_worker_waiting gauge\n"
                        "drover_worker_waiting{role=\"agent\"} 0\n"
                        "# HELP drover_worker_longest_seconds the longest iteration\n"
                        "# TYPE drover_worker_longest_seconds gauge\n"
                        "drover_worker_longest_seconds{role=\"agent\"} 0.001500\n"
                        "# HELP drover_worker_wait_seconds_total all waits together\n"
                        "# TYPE drover_worker_wait_seconds_total counter\n"
                        "drover_worker_wait_seconds_total{role=\"agent\"} 61.001\n");
}

static double value_of(struct buf *page, const char *name)
{
    char needle[128];
    const char *line;

    snprintf(needle, sizeof(needle), "\n%s ", name);
    line = strstr(buf_str(page), needle);
    if (!line)
        fail_msg("there is no %s", name);
    return strtod(line + strlen(needle), NULL);
}

static void test_process_metrics(void **state)
{
    CLEANUP(buf_deinit) struct buf before = {0}, after = {0};
    int fds[2];

    metrics_print_process(&before, "agent", 1795279313639);
    assert_int_equal(pipe(fds), 0);
    metrics_print_process(&after, "agent", 1795279313639);
    close(fds[0]);
    close(fds[1]);
    assert_non_null(strstr(buf_str(&before), "\ndrover_build_info{version=\"" DROVER_VERSION
                                             "\",role=\"agent\"} 1\n"));
    assert_non_null(strstr(buf_str(&before), "\nprocess_start_time_seconds 1795279313.639\n"));
    assert_true(value_of(&before, "process_resident_memory_bytes") > 100000);
    assert_true(value_of(&after, "process_cpu_seconds_total") >=
                value_of(&before, "process_cpu_seconds_total"));
    assert_true(value_of(&after, "process_open_fds") - value_of(&before, "process_open_fds") == 2);
    assert_true(value_of(&after, "process_max_fds") >= value_of(&after, "process_open_fds"));
}

static void test_metrics_log(void **state)
{
    struct log_config config = {.service = "test", .level = LOG_INFO};
    char line[512];
    ssize_t n;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    config.fd = fds[1];
    log_init(&config);
    metrics_log(&set, &figures);
    log_set_level(LOG_WARN);
    metrics_log(&set, &figures);
    close(fds[1]);
    n = read(fds[0], line, sizeof(line) - 1);
    close(fds[0]);
    assert_true(n > 0);
    line[n] = '\0';
    assert_non_null(strstr(line, " worker jobs=-1 waiting=0 longest_us=1500 wait_ms=61001\n"));
    assert_int_equal(strcspn(line, "\n"), n - 1); /* one line only */
}

/* ---- the pulse ---- */

static struct pulse pulse_of(int64_t period_ms, int64_t stall_ms)
{
    return (struct pulse){.period_ms = period_ms, .stall_ms = stall_ms};
}

static void test_pulse_stalls(void **state)
{
    struct pulse p = pulse_of(5000, 60000);

    pulse_restart(&p);
    assert_false(pulse_tick(&p, true)); /* a pulse came */
    for (int i = 1; i < 12; i++) {
        assert_false(pulse_tick(&p, true));
        assert_int_equal(p.missed, i);
    }
    assert_true(pulse_tick(&p, true));
}

static void test_pulse_comes_back(void **state)
{
    struct pulse p = pulse_of(5000, 15000);

    for (int round = 0; round < 10; round++) {
        pulse_restart(&p);
        assert_int_equal(p.missed, 0);
        for (int i = 0; i < 3; i++)
            assert_false(pulse_tick(&p, true));
        assert_int_equal(p.missed, 2);
    }
    assert_true(pulse_tick(&p, true));
}

/* Down, blocked or draining: the count begins again afterwards. */
static void test_pulse_not_expected(void **state)
{
    struct pulse p = pulse_of(1000, 3000);

    assert_false(pulse_tick(&p, true));
    assert_false(pulse_tick(&p, true));
    for (int i = 0; i < 100; i++)
        assert_false(pulse_tick(&p, false));
    assert_false(pulse_tick(&p, true));
    assert_false(pulse_tick(&p, true));
    assert_true(pulse_tick(&p, true));
}

static void test_pulse_never_stalls(void **state)
{
    struct pulse p = pulse_of(1000, 0);

    for (int i = 0; i < 1000; i++)
        assert_false(pulse_tick(&p, true));
    assert_int_equal(p.missed, 1000);
}

/* ---- ready ---- */

static const struct vitals good = {
    .broker_up = 1, .store_up = 1, .has_store = true, .pulse_came = true, .pulse_age_ms = 17999};

static void expect_reasons(struct vitals v, const char *reasons)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    assert_int_equal(vitals_reasons(&v, &out), *reasons == '\0');
    assert_string_equal(buf_str(&out), reasons);
}

#define BUT(...)                                                                                   \
    ({                                                                                             \
        struct vitals v = good;                                                                    \
        __VA_ARGS__;                                                                               \
        v;                                                                                         \
    })

static void test_ready(void **state)
{
    expect_reasons(good, "");
    expect_reasons(BUT(v.has_store = false, v.store_up = 0), "");
    expect_reasons(BUT(v.pulse_missed = PULSES_MISSED_MAX - 1), "");
}

static void test_reasons(void **state)
{
    expect_reasons(BUT(v.broker_up = 0), "broker: not connected\n");
    expect_reasons(BUT(v.broker_up = 0, v.pulse_came = false, v.pulse_missed = 9),
                   "broker: not connected\n");
    expect_reasons(BUT(v.broker_blocked = 1),
                   "broker: takes no messages, a memory or disk alarm\n");
    expect_reasons(BUT(v.pulse_refused = true),
                   "pulse: refused by the broker, see bus_refused in the log\n");
    expect_reasons(BUT(v.pulse_came = false), "pulse: none has come back yet\n");
    expect_reasons(BUT(v.pulse_missed = PULSES_MISSED_MAX), "pulse: none has come back for 17 s\n");
    expect_reasons(BUT(v.store_up = 0), "store: not connected\n");
    expect_reasons(BUT(v.draining = true), "draining: told to end\n");
    expect_reasons(BUT(v.draining = true, v.store_up = 0, v.broker_up = 0),
                   "draining: told to end\nstore: not connected\nbroker: not connected\n");
}

/* A role without a store has the same figures, except those of the store. */
static void test_vitals_metrics(void **state)
{
    struct metric_set with = vitals_metrics(true), without = vitals_metrics(false);

    assert_true(with.n <= METRICS_MAX);
    for (size_t i = 0; i < with.n; i++)
        assert_int_equal(strncmp(with.metrics[i].name, "store_", 6) == 0, i >= without.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_invalid_addresses),
        cmocka_unit_test(test_metrics_text),
        cmocka_unit_test(test_process_metrics),
        cmocka_unit_test(test_metrics_log),
        cmocka_unit_test(test_pulse_stalls),
        cmocka_unit_test(test_pulse_comes_back),
        cmocka_unit_test(test_pulse_not_expected),
        cmocka_unit_test(test_pulse_never_stalls),
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_vitals_metrics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
