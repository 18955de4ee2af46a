// SPDX-License-Identifier: Apache-2.0
/*
 * Sentinels: what one answers, and which of several answers counts
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/store/sentinel.h"

#define ADDRESS "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n"
#define EPOCH "*4\r\n$4\r\nname\r\n$1\r\np\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n"

/* ---- one Sentinel ---- */

/* Return: what a Sentinel says by these replies, the last of which completes it. */
static struct sentinel_answer hear(const struct sentinel_config *config, const char *replies)
{
    CLEANUP(buf_deinit) struct buf command = {0};
    const struct resp_reply *reply;
    struct resp_reader reader;
    struct sentinel_talk talk;
    bool complete = false;

    sentinel_ask(&talk, config, true, &command);
    assert_int_equal(resp_init(&reader), 0);
    assert_int_equal(resp_feed(&reader, replies, strlen(replies)), 0);
    while (resp_next(&reader, &reply) == 0 && reply) {
        assert_false(complete);
        complete = sentinel_hear(&talk, reply);
    }
    assert_true(complete);
    resp_deinit(&reader);
    return talk.answer;
}

static void expect_refusal(const char *replies, const char *part)
{
    const struct sentinel_answer answer =
        hear(&(struct sentinel_config){.master_name = "p"}, replies);

    assert_int_equal(answer.kind, SENTINEL_REFUSES);
    if (!strstr(answer.why, part))
        fail_msg("'%s' does not say '%s'", answer.why, part);
}

static void test_primary(void **state)
{
    const struct sentinel_config login = {"p", "u", "w"};
    struct sentinel_answer answer =
        hear(&(struct sentinel_config){.master_name = "p"}, ADDRESS EPOCH);

    assert_int_equal(answer.kind, SENTINEL_NAMES);
    assert_string_equal(answer.primary.host, "10.0.0.1");
    assert_int_equal(answer.primary.port, 6379);
    assert_int_equal(answer.primary.epoch, 7);
    answer = hear(&login, "+OK\r\n" ADDRESS EPOCH);
    assert_int_equal(answer.kind, SENTINEL_NAMES);
    answer = hear(&login, "-WRONGPASS no\r\n-NOAUTH no\r\n-NOAUTH no\r\n");
    assert_int_equal(answer.kind, SENTINEL_REFUSES);
    assert_non_null(strstr(answer.why, "set redis.sentinel_user and redis.sentinel_password"));
}

/* The first question on a connection logs in, the next ones do not. */
static void test_questions(void **state)
{
    static const char asked[] =
        "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$1\r\np\r\n"
        "*3\r\n$8\r\nSENTINEL\r\n$6\r\nMASTER\r\n$1\r\np\r\n";
    CLEANUP(buf_deinit) struct buf command = {0};
    const struct sentinel_config login = {"p", "u", "w"}, word = {"p", NULL, "w"};
    struct sentinel_talk talk;

    sentinel_ask(&talk, &login, false, &command);
    assert_string_equal(buf_str(&command), asked);
    buf_clear(&command);
    sentinel_ask(&talk, &login, true, &command);
    assert_non_null(strstr(buf_str(&command), "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\nw\r\n*3"));
    buf_clear(&command);
    sentinel_ask(&talk, &word, true, &command);
    assert_non_null(strstr(buf_str(&command), "*2\r\n$4\r\nAUTH\r\n$1\r\nw\r\n*3"));
}

static void test_refusals(void **state)
{
    expect_refusal("*-1\r\n-ERR No such master with that name\r\n",
                   "knows no primary p: set redis.");
    expect_refusal("-NOAUTH no\r\n-NOAUTH no\r\n", "set redis.sentinel_password");
    expect_refusal("-NOPERM no\r\n-NOPERM no\r\n", "needs +sentinel|get-master-addr-by-name");
    expect_refusal("-ERR unknown command 'SENTINEL'\r\n-ERR unknown command 'SENTINEL'\r\n",
                   "is no Sentinel: point redis.host at Sentinels");
    expect_refusal("-IDONTKNOW\r\n" EPOCH, "does not tell the primary: IDONTKNOW");
    expect_refusal("*2\r\n$0\r\n\r\n$4\r\n6379\r\n" EPOCH, "without an address");
    expect_refusal("*2\r\n$2\r\na \r\n$1\r\n1\r\n" EPOCH, "without an address");
    expect_refusal("*2\r\n$1\r\na\r\n$1\r\n0\r\n" EPOCH, "without an address");
    expect_refusal("*2\r\n$1\r\na\r\n$5\r\n65536\r\n" EPOCH, "without an address");
    expect_refusal("*2\r\n$1\r\na\r\n$1\r\nb\r\n" EPOCH, "without an address");
    expect_refusal(ADDRESS "*0\r\n", "does not tell the epoch");
    expect_refusal(ADDRESS "*2\r\n$12\r\nconfig-epoch\r\n$2\r\n-1\r\n", "does not tell the epoch");
    expect_refusal(ADDRESS "*2\r\n$12\r\nconfig-epoch\r\n$1\r\nx\r\n", "does not tell the epoch");
}

/* ---- several ---- */

/* What a Sentinel says: a host and an epoch; NULL: it is silent. */
struct said {
    const char *host;
    int64_t epoch;
};

static struct sentinel_primary primary_of(struct said said)
{
    struct sentinel_primary primary = {.port = 1, .epoch = said.epoch};

    snprintf(primary.host, sizeof(primary.host), "%s", said.host ? said.host : "");
    return primary;
}

static bool choose(struct sentinel_choice *choice, const struct said *said, size_t n, bool round)
{
    struct sentinel_answer answers[5] = {0};

    for (size_t i = 0; i < n; i++) {
        answers[i].kind = said[i].host ? SENTINEL_NAMES : SENTINEL_SILENT;
        answers[i].primary = primary_of(said[i]);
    }
    return sentinel_choose(choice, answers, n, round);
}

static void expect_known(const struct sentinel_choice *choice, const char *host, int64_t epoch)
{
    assert_string_equal(choice->known.host, host);
    assert_int_equal(choice->known.epoch, epoch);
}

/* host: "" for none. */
static void expect_choice(const struct said *said, size_t n, struct said known, const char *host,
                          int64_t epoch)
{
    struct sentinel_choice choice = {.known = primary_of(known)};
    bool other = strcmp(choice.known.host, host) != 0;

    assert_int_equal(choose(&choice, said, n, false), other);
    expect_known(&choice, host, epoch);
}

#define SAID(...)                                                                                  \
    (const struct said[]){__VA_ARGS__},                                                            \
        sizeof((const struct said[]){__VA_ARGS__}) / sizeof(struct said)
#define CHOICE(known, host, epoch, ...) expect_choice(SAID(__VA_ARGS__), known, host, epoch)

static const struct said none = {NULL, 0};

static void test_highest_epoch(void **state)
{
    CHOICE(none, "", 0, {NULL, 0}, {NULL, 0}, {NULL, 0});
    CHOICE(none, "a", 0, {NULL, 0}, {"a", 0}, {NULL, 0});
    CHOICE(none, "b", 3, {"a", 2}, {"b", 3}, {NULL, 0});
    CHOICE(((struct said){"a", 2}), "b", 3, {"a", 2}, {"b", 3}, {"a", 2});
    CHOICE(((struct said){"a", 2}), "a", 3, {"a", 3}, {"a", 2}, {NULL, 0});
    CHOICE(((struct said){"a", 2}), "b", 3, {NULL, 0}, {NULL, 0}, {"b", 3});
}

/* The known primary stays while no Sentinel knows better. */
static void test_cut_off(void **state)
{
    CHOICE(((struct said){"b", 3}), "b", 3, {NULL, 0}, {NULL, 0}, {NULL, 0});
    CHOICE(((struct said){"b", 3}), "b", 3, {"a", 2}, {NULL, 0}, {NULL, 0});
    CHOICE(((struct said){"b", 3}), "b", 3, {"a", 2}, {"a", 2}, {"b", 3});
    CHOICE(((struct said){"b", 3}), "b", 3, {"a", 2}, {"a", 2}, {NULL, 0}, {NULL, 0});
}

static void test_one_epoch(void **state)
{
    CHOICE(none, "b", 1, {"a", 1}, {"b", 1}, {"b", 1});
    CHOICE(none, "a", 1, {"a", 1}, {"b", 1}, {NULL, 0});
    CHOICE(((struct said){"a", 1}), "a", 1, {"b", 1}, {"b", 1}, {"a", 1});
    CHOICE(((struct said){"c", 1}), "c", 1, {"a", 1}, {"b", 1}, {"b", 1});
}

/* Says the same for all rounds but the last one. */
static void say(struct sentinel_choice *choice, const struct said *said, size_t n)
{
    const struct sentinel_primary before = choice->known;

    for (int i = 1; i < SENTINEL_ROUNDS; i++) {
        assert_false(choose(choice, said, n, false));
        assert_false(choose(choice, said, n, true));
        expect_known(choice, before.host, before.epoch);
    }
}

/* All Sentinels, or most of them, were configured anew, and begin with a low epoch. */
static void test_configured_anew(void **state)
{
    struct sentinel_choice choice = {.known = primary_of((struct said){"b", 3})};

    say(&choice, SAID({"a", 0}, {"a", 0}, {NULL, 0}));
    assert_true(choose(&choice, SAID({"a", 0}, {"a", 0}, {NULL, 0}), true));
    expect_known(&choice, "a", 0);
    assert_false(choose(&choice, SAID({"a", 0}, {"a", 0}, {NULL, 0}), true));
    assert_true(choose(&choice, SAID({"a", 0}, {"a", 0}, {"c", 1}), false)); /* as ever */
    expect_known(&choice, "c", 1);
}

/* A majority for one primary is needed, not for one epoch, and in each round. */
static void test_no_majority(void **state)
{
    struct sentinel_choice choice = {.known = primary_of((struct said){"b", 3})};

    say(&choice, SAID({"a", 0}, {"c", 0}, {NULL, 0}));
    assert_false(choose(&choice, SAID({"a", 0}, {"c", 0}, {NULL, 0}), true));
    say(&choice, SAID({"a", 0}, {"a", 0}, {NULL, 0}));
    assert_false(choose(&choice, SAID({"a", 0}, {"b", 3}, {"b", 3}), true));
    say(&choice, SAID({"a", 0}, {"a", 0}, {NULL, 0}));
}

/* A Sentinel that has a higher epoch than the others, and is wrong. */
static void test_wrong_sentinel(void **state)
{
    struct sentinel_choice choice = {.known = primary_of((struct said){"a", 2})};

    assert_true(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), false));
    say(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}));
    assert_true(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), true));
    expect_known(&choice, "a", 2);
    assert_false(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), false));
    assert_false(choose(&choice, SAID({"a", 2}, {NULL, 0}, {"x", 9}), true));
    assert_true(choose(&choice, SAID({"a", 2}, {"b", 3}, {"x", 9}), true)); /* a failover */
    expect_known(&choice, "b", 3);
    assert_false(choose(&choice, SAID({"b", 3}, {"b", 3}, {"b", 3}), false)); /* it is mended */
    assert_true(choose(&choice, SAID({"b", 3}, {"b", 3}, {"c", 4}), false));
    expect_known(&choice, "c", 4);
}

/* The choice ignores the wrong Sentinel also after that was silent, and after a failover in its
 * group, until a majority has reached the epoch that was rejected. */
static void test_wrong_sentinel_again(void **state)
{
    struct sentinel_choice choice = {.known = primary_of((struct said){"a", 2})};

    assert_true(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), false));
    say(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}));
    assert_true(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), true));
    assert_false(choose(&choice, SAID({"a", 2}, {"a", 2}, {NULL, 0}), true));
    assert_false(choose(&choice, SAID({"a", 2}, {"a", 2}, {"x", 9}), true));
    assert_false(choose(&choice, SAID({"a", 2}, {"a", 2}, {"y", 10}), true));
    expect_known(&choice, "a", 2);
    assert_true(choose(&choice, SAID({"b", 9}, {"b", 9}, {NULL, 0}), true));
    expect_known(&choice, "b", 9);
    assert_true(choose(&choice, SAID({"c", 10}, {"b", 9}, {"b", 9}), true));
    expect_known(&choice, "c", 10);
}

/* One with the same epoch as the others: it was the first that was heard. */
static void test_wrong_sentinel_of_one_epoch(void **state)
{
    struct sentinel_choice choice = {0};

    assert_true(choose(&choice, SAID({NULL, 0}, {NULL, 0}, {"x", 0}), false));
    say(&choice, SAID({"a", 0}, {"a", 0}, {"x", 0}));
    assert_true(choose(&choice, SAID({"a", 0}, {"a", 0}, {"x", 0}), true));
    expect_known(&choice, "a", 0);
    assert_false(choose(&choice, SAID({NULL, 0}, {NULL, 0}, {"x", 0}), true));
    expect_known(&choice, "a", 0);
}

/* A process that begins believes the majority. */
static void test_wrong_sentinel_at_first(void **state)
{
    struct sentinel_choice choice = {0};

    assert_true(choose(&choice, SAID({"x", 9}, {"a", 2}, {"a", 2}), false));
    expect_known(&choice, "a", 2);
    assert_false(choose(&choice, SAID({"x", 9}, {"a", 2}, {"a", 2}), false));
    expect_known(&choice, "a", 2);
}

static void test_same_address(void **state)
{
    const struct sentinel_primary a = {"a", 1, 1}, a_later = {"a", 1, 2}, b = {"b", 1, 1},
                                  port = {"a", 2, 1};

    assert_true(sentinel_is_same(&a, &a_later));
    assert_false(sentinel_is_same(&a, &b));
    assert_false(sentinel_is_same(&a, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primary),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_highest_epoch),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_one_epoch),
        cmocka_unit_test(test_configured_anew),
        cmocka_unit_test(test_no_majority),
        cmocka_unit_test(test_wrong_sentinel),
        cmocka_unit_test(test_wrong_sentinel_again),
        cmocka_unit_test(test_wrong_sentinel_of_one_epoch),
        cmocka_unit_test(test_wrong_sentinel_at_first),
        cmocka_unit_test(test_same_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
