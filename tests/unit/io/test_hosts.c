// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts: lists of servers, where a process begins, and where clear text may go
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <uv.h>

#include "base/str.h"
#include "io/hosts.h"

static void expect_list(const char *text, const char *list)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    CLEANUP(buf_deinit) struct buf read = {0};

    assert_null(hosts_fault(text));
    assert_int_equal(hosts_parse(&hosts, text, 5672), 0);
    for (size_t i = 0; i < hosts.n; i++)
        buf_printf(&read, "%s%s %d", i ? ", " : "", hosts.list[i].name, hosts.list[i].port);
    assert_string_equal(buf_str(&read), list);
}

static void test_describe(void **state)
{
    char text[32];

    hosts_describe(text, sizeof(text), "a", 5672);
    assert_string_equal(text, "a:5672");
    hosts_describe(text, sizeof(text), "::1", 5672);
    assert_string_equal(text, "[::1]:5672");
    hosts_describe(text, sizeof(text), "a,b:7,[::1]:8", 5672);
    assert_string_equal(text, "a:5672,b:7,[::1]:8");
    hosts_describe(text, sizeof(text), "name-of-a-host,name-of-a-second-host,c", 1);
    assert_string_equal(text, "name-of-a-host:1,name-of-a-seco");
    hosts_describe(text, sizeof(text), "a,,b", 1);
    assert_string_equal(text, "a,,b");
}

static void test_lists(void **state)
{
    expect_list("a", "a 5672");
    expect_list("a:1", "a 1");
    expect_list("a,b:65535,c", "a 5672, b 65535, c 5672");
    expect_list("::1", "::1 5672");
    expect_list("[::1]", "::1 5672");
    expect_list("[::1]:7,fe80::1%eth0,10.0.0.1:8", "::1 7, fe80::1%eth0 5672, 10.0.0.1 8");
    expect_list("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
                "1 5672, 2 5672, 3 5672, 4 5672, 5 5672, 6 5672, 7 5672, 8 5672, 9 5672, 10 5672, "
                "11 5672, 12 5672, 13 5672, 14 5672, 15 5672, 16 5672");
}

static void expect_fault(const char *text, const char *part)
{
    struct hosts hosts;
    const char *fault = hosts_fault(text);

    if (!fault || !strstr(fault, part))
        fail_msg("%s: '%s' does not say '%s'", text, fault ? fault : "", part);
    assert_int_equal(hosts_parse(&hosts, text, 5672), HOSTS_E_INVALID);
    assert_int_equal(hosts.n, 0);
    assert_null(hosts.text);
}

static void test_faults(void **state)
{
    char longest[300];

    expect_fault("", "empty name");
    expect_fault("a,", "empty name");
    expect_fault(",a", "empty name");
    expect_fault("a,,b", "empty name");
    expect_fault(":5672", "empty name");
    expect_fault("[]:5672", "empty name");
    expect_fault("a:0", "ports from 1 to 65535");
    expect_fault("a:65536", "ports from 1 to 65535");
    expect_fault("a:", "ports from 1 to 65535");
    expect_fault("a:b", "ports from 1 to 65535");
    expect_fault("a:-1", "ports from 1 to 65535");
    expect_fault("[::1]8080", "[ADDRESS]:PORT");
    expect_fault("[::1", "[ADDRESS]:PORT");
    expect_fault("a b", "names or numbers");
    expect_fault("a/b", "names or numbers");
    expect_fault("u@a", "names or numbers");
    expect_fault("a]", "names or numbers");
    expect_fault("\xc3\xa9", "names or numbers");
    expect_fault("a\x7f", "names or numbers");
    expect_fault("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16");
    memset(longest, 'x', sizeof(longest));
    longest[256] = '\0';
    expect_fault(longest, "255 characters");
    longest[255] = '\0';
    assert_null(hosts_fault(longest));
}

/* Processes spread over the hosts by their names, and each begins with the same one whenever it
 * starts. */
static void test_spread(void **state)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    int begin[3] = {0};
    char name[32];

    assert_int_equal(hosts_parse(&hosts, "a,b,c", 1), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "%d-scheduler", i);
        begin[hosts_place(&hosts, name, 0)]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(begin[i], 70, 130);
    assert_int_equal(hosts_place(&hosts, "x", 0), hosts_place(&hosts, "x", 0));
}

/* Nine numbered processes: three with each host. Should a host fail, its three do not all go to the
 * same one of the others. */
static void test_spread_evenly(void **state)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    int begin[3] = {0}, went[3][3] = {{0}};
    char name[32];

    assert_int_equal(hosts_parse(&hosts, "a,b,c", 1), 0);
    for (int i = 8; i < 17; i++) {
        snprintf(name, sizeof(name), "agent-%d", i);
        begin[hosts_place(&hosts, name, 0)]++;
        went[hosts_place(&hosts, name, 0)][hosts_place(&hosts, name, 1)]++;
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(begin[i], 3);
        assert_int_equal(went[i][i], 0);
        assert_in_range(went[i][(i + 1) % 3], 1, 2);
    }
}

/* However many hosts there are, each is tried once before the first is tried again. */
static void test_order(void **state)
{
    static const char *const lists[] = {"a", "a,b", "a,b,c", "a,b,c,d"};
    char name[32];

    for (size_t n = 1; n <= array_size(lists); n++) {
        CLEANUP(hosts_deinit) struct hosts hosts = {0};

        assert_int_equal(hosts_parse(&hosts, lists[n - 1], 1), 0);
        for (int i = 0; i < 10; i++) {
            unsigned tried = 0;

            snprintf(name, sizeof(name), "agent-%d", i);
            for (size_t nth = 0; nth < n; nth++)
                tried |= 1U << hosts_place(&hosts, name, nth);
            assert_int_equal(tried, (1U << n) - 1);
            assert_int_equal(hosts_place(&hosts, name, n), hosts_place(&hosts, name, 0));
        }
    }
}

static void expect_loopback(const char *host, bool loopback)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool is_v4 = uv_inet_pton(AF_INET, host, &v4.sin_addr) == 0;

    if (!is_v4)
        assert_int_equal(uv_inet_pton(AF_INET6, host, &v6.sin6_addr), 0);
    assert_int_equal(hosts_is_loopback(is_v4 ? (void *)&v4 : (void *)&v6), loopback);
    assert_int_equal(hosts_is_remote_number(host), !loopback);
    assert_int_equal(hosts_is_local_number(host), loopback);
}

static void test_loopback(void **state)
{
    expect_loopback("127.0.0.1", true);
    expect_loopback("127.255.0.9", true);
    expect_loopback("128.0.0.1", false);
    expect_loopback("0.0.0.0", false);
    expect_loopback("10.0.0.1", false);
    expect_loopback("::1", true);
    expect_loopback("::2", false);
    expect_loopback("::ffff:127.0.0.1", true);
    expect_loopback("::ffff:10.0.0.127", false);
    expect_loopback("2001:db8::1", false);
    expect_loopback("0:0:1::1", false);
    expect_loopback("::1:0:0:1", false);
    assert_false(hosts_is_remote_number("localhost"));
    assert_false(hosts_is_remote_number("broker.example"));
    assert_false(hosts_is_local_number("localhost"));
    assert_false(hosts_is_local_number(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_faults),        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_spread_evenly), cmocka_unit_test(test_order),
        cmocka_unit_test(test_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
