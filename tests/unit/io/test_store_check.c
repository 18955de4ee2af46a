// SPDX-License-Identifier: Apache-2.0
/*
 * The store check, written as a conversation with Redis, and how replies pass through the parser
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/store/resp.h"
#include "io/store/store_check.h"

#define INFO_REST                                                                                  \
    "redis_mode:standalone\r\nrole:master\r\nloading:0\r\naof_enabled:1\r\n"                       \
    "maxmemory_policy:noeviction\r\n"
#define INFO_GOOD "# Server\r\nredis_version:7.0.15\r\n" INFO_REST

static const char library[] = "#!lua name=drover1\nlocal BUILD = 5\n";

/* ---- the parser ---- */

/* @text: the items of the reply in brackets, "!" before those of an error. */
static void expect_reply(const struct resp_reply *reply, const char *text)
{
    CLEANUP(buf_deinit) struct buf found = {0};

    buf_puts(&found, reply->error ? "!" : "");
    for (uint32_t i = 0; i < reply->n; i++) {
        assert_int_equal(reply->items[i].data[reply->items[i].len], '\0');
        buf_printf(&found, "[%s]", (const char *)reply->items[i].data);
    }
    assert_string_equal(buf_str(&found), text);
}

static const char stream[] = "+OK\r\n*3\r\n$1\r\na\r\n:-7\r\n*2\r\n$-1\r\n$3\r\nb\r\n\r\n"
                             "*0\r\n-OOM no\r\n$-1\r\n*-1\r\n*1\r\n-inner\r\n";
static const char *const replies[] = {"[OK]", "[a][-7][][b\r\n]", "", "![OOM no]", "[]",
                                      "[]",   "[inner]"};

static void test_replies_in_pieces_of_any_size(void **state)
{
    for (size_t piece = 1; piece < sizeof(stream); piece++) {
        const struct resp_reply *reply;
        struct resp_reader r;
        size_t n = 0;

        assert_int_equal(resp_init(&r), 0);
        for (size_t at = 0; at < sizeof(stream) - 1; at += piece) {
            size_t left = sizeof(stream) - 1 - at;

            assert_int_equal(resp_feed(&r, stream + at, left < piece ? left : piece), 0);
            while (resp_next(&r, &reply) == 0 && reply)
                expect_reply(reply, replies[n++]);
        }
        assert_int_equal(n, array_size(replies));
        resp_deinit(&r);
    }
}

static void test_invalid_replies(void **state)
{
    static const char *const bad[] = {"SSH-2.0-OpenSSH\r\n", "HTTP/1.1 400 Bad Request\r\n"};
    const struct resp_reply *reply;

    for (size_t i = 0; i < array_size(bad); i++) {
        struct resp_reader r;

        assert_int_equal(resp_init(&r), 0);
        assert_int_equal(resp_feed(&r, bad[i], strlen(bad[i])), 0);
        assert_int_equal(resp_next(&r, &reply), -EPROTO);
        assert_null(reply);
        resp_deinit(&r);
    }
}

static void test_commands(void **state)
{
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n";
    CLEANUP(buf_deinit) struct buf out = {0};

    resp_command(&out, 3);
    resp_puts(&out, "SET");
    resp_put(&out, "a\r\n\0b", 5);
    resp_put(&out, NULL, 0);
    assert_int_equal(out.len, sizeof(expected) - 1);
    assert_memory_equal(out.data, expected, out.len);
}

/* ---- the store check ---- */

/* The reply of Redis to the next command that begins with this word; used once. */
struct line {
    const char *command;
    const char *reply; /* as it is from "+", "-", ":" or "*"; else one string */
};

struct talk {
    struct store_check_config config;
    struct store_check check;
    struct resp_reader reader;
    const struct line *lines;
    char commands[256]; /* the first words of all commands, a space behind each */
};

static const struct resp_reply *pass(struct talk *t, const char *text, size_t len)
{
    const struct resp_reply *reply;

    assert_int_equal(resp_feed(&t->reader, text, len), 0);
    assert_int_equal(resp_next(&t->reader, &reply), 0);
    assert_non_null(reply);
    return reply;
}

static const char *reply_of(struct talk *t, const char *command)
{
    static const struct line usual[] = {{"INFO", INFO_GOOD},
                                        {"EVAL", "*3\r\n+drover\r\n+1\r\n+16"},
                                        {"FCALL", "5"},
                                        {"HMGET", "*3\r\n+drover\r\n+1\r\n+16"},
                                        {"FCALL_RO", "5"}};

    if (t->lines && t->lines->command && strcmp(command, t->lines->command) == 0)
        return t->lines++->reply;
    for (size_t i = 0; i < array_size(usual); i++) {
        if (strcmp(command, usual[i].command) == 0)
            return usual[i].reply;
    }
    return "+OK";
}

/* Takes the command from @wire and puts the reply of Redis in its place. */
static void answer(struct talk *t, struct buf *wire)
{
    /* A command is itself an array of strings. */
    const struct resp_reply *command = pass(t, (const char *)wire->data, wire->len);
    size_t used = strlen(t->commands);
    const char *reply;

    snprintf(t->commands + used, sizeof(t->commands) - used, "%s ",
             (const char *)command->items[0].data);
    reply = reply_of(t, (const char *)command->items[0].data);
    buf_clear(wire);
    if (strchr("+-:*", reply[0]))
        buf_printf(wire, "%s\r\n", reply);
    else
        buf_printf(wire, "$%zu\r\n%s\r\n", strlen(reply), reply);
}

static enum store_check_verdict converse(struct talk *t)
{
    CLEANUP(buf_deinit) struct buf wire = {0};
    enum store_check_verdict verdict;

    assert_int_equal(resp_init(&t->reader), 0);
    t->config.prefix = "drover:";
    t->config.partitions = 16;
    t->config.library = t->config.library ? t->config.library : library;
    verdict = store_check_begin(&t->check, &t->config, &wire);
    while (verdict == STORE_CHECK_ASK) {
        CLEANUP(buf_deinit) struct buf reply = wire;

        wire = (struct buf){0};
        answer(t, &reply);
        verdict = store_check_reply(&t->check, pass(t, (const char *)reply.data, reply.len), &wire);
    }
    resp_deinit(&t->reader);
    return verdict;
}

static struct talk expect_passed(const struct line *lines, const char *commands)
{
    struct talk t = {.lines = lines};

    if (converse(&t) != STORE_CHECK_PASSED)
        fail_msg("%s", t.check.why);
    assert_string_equal(t.commands, commands);
    return t;
}

static void expect_refused(const char *command, const char *reply, const char *part)
{
    const struct line lines[] = {{command, reply}, {0}};
    struct talk t = {.lines = lines};

    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    if (!strstr(t.check.why, part))
        fail_msg("'%s' does not say '%s'", t.check.why, part);
}

static void test_checks_passed(void **state)
{
    const struct line no_library[] = {{"FCALL", "-ERR Function not found"}, {0}};
    const struct line older[] = {{"FCALL", "4"}, {0}};
    const struct line newer[] = {{"FCALL", "6"}, {0}};
    struct talk t = expect_passed(NULL, "INFO EVAL FCALL ");

    assert_int_equal(t.check.partitions, 16);
    assert_string_equal(t.check.warning, "");
    t = expect_passed(no_library, "INFO EVAL FCALL FUNCTION ");
    assert_int_equal(t.check.build, 5);
    expect_passed(older, "INFO EVAL FCALL FUNCTION ");
    t = expect_passed(newer, "INFO EVAL FCALL ");
    assert_int_equal(t.check.build, 6);
    t = (struct talk){.config = {.user = "u", .password = "p", .database = 3}};
    assert_int_equal(converse(&t), STORE_CHECK_PASSED);
    assert_string_equal(t.commands, "AUTH SELECT INFO EVAL FCALL ");
}

/* Where another server may become the primary a replica is waited for. */
static void replica_among_several(void)
{
    const struct line lines[] = {
        {"INFO", "redis_version:7.0.0\r\nrole:slave\r\nmaster_host:a\r\nmaster_port:1\r\n"}, {0}};
    struct talk t = {.lines = lines, .config = {.has_choice = true}};

    assert_int_equal(converse(&t), STORE_CHECK_WAIT);
    assert_string_equal(t.check.why,
                        "this Redis is a replica of a:1: redis.host has to name the primary, too");
    t = (struct talk){.lines = lines, .config = {.has_choice = true, .sentinels = true}};
    assert_int_equal(converse(&t), STORE_CHECK_WAIT);
    assert_string_equal(t.check.why, "this Redis is a replica of a:1: ask each Sentinel SENTINEL "
                                     "MASTER, one of them is wrong");
}

static void test_servers(void **state)
{
    const struct line valkey[] = {
        {"INFO", "redis_version:6.9\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n" INFO_REST},
        {0}};
    const struct line forgetful[] = {
        {"INFO", "redis_version:7.2.0\r\naof_enabled:0\r\nmaxmemory_policy:noeviction\r\n"}, {0}};
    const struct line silent[] = {{"INFO", "redis_version:10.0.0\r\n"}, {0}};

    expect_passed(valkey, "INFO EVAL FCALL ");
    assert_non_null(
        strstr(expect_passed(forgetful, "INFO EVAL FCALL ").check.warning, "set appendonly yes"));
    assert_non_null(
        strstr(expect_passed(silent, "INFO EVAL FCALL ").check.warning, "must be noeviction"));
    expect_refused("INFO", "redis_version:6.2.14\r\n" INFO_REST, "Redis is version 6.2.14: Drover");
    expect_refused("INFO", "nothing", "Redis is version unknown");
    expect_refused("INFO", "redis_version:7.0.0\r\nredis_mode:cluster\r\n",
                   "runs in cluster mode: point redis.host at a standalone primary");
    expect_refused("INFO", "redis_version:7.0.0\r\nredis_mode:sentinel\r\n",
                   "this is a Sentinel: set redis.master_name");
    expect_refused("INFO", "redis_version:7.2.4\r\nserver_mode:cluster\r\nvalkey_version:8.1.1\r\n",
                   "runs in cluster mode");
    expect_refused("INFO",
                   "redis_version:7.0.0\r\nrole:slave\r\nmaster_host:a\r\nmaster_port:1\r\n",
                   "is a replica of a:1");
    expect_refused("INFO", "redis_version:7.0.0\r\nmaxmemory_policy:volatile-lru\r\n",
                   "maxmemory-policy is volatile-lru");
    expect_refused("INFO", "-NOAUTH Authentication required.", "set redis.password");
    expect_refused("INFO", "-NOPERM no", "its user needs +info");
    replica_among_several();
}

/* Another store than the one that answered before. */
static void another_store(void)
{
    const struct line lines[] = {{"EVAL", "*3\r\n+drover\r\n+1\r\n+8"}, {0}};
    struct talk t = {.lines = lines, .config = {.known = 16}};

    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    assert_non_null(strstr(t.check.why, "has 8 partitions, but had 16 at an earlier connection"));
    t = (struct talk){.config = {.known = 16}};
    assert_int_equal(converse(&t), STORE_CHECK_PASSED);
}

static void test_meta(void **state)
{
    expect_refused("EVAL", "-WRONGTYPE no", "belongs to another program");
    expect_refused("EVAL", "*3\r\n$-1\r\n$-1\r\n$-1", "belongs to another program");
    expect_refused("EVAL", "*3\r\n+droves\r\n+1\r\n+16", "belongs to another program");
    expect_refused("EVAL", "*3\r\n+drover\r\n+2\r\n+16", "have data version 2, this build knows 1");
    expect_refused("EVAL", "*3\r\n+drover\r\n+1\r\n+0", "field partitions of key drover:meta is");
    another_store();
    expect_refused("EVAL", "-NOPERM no eval", "cannot be read or made: NOPERM no eval");
    expect_refused("EVAL", ":1", "belongs to another program");
}

static void expect_strict(const char *settings, unsigned replicas, const char *part)
{
    const struct line lines[] = {{"CONFIG", settings}, {0}};
    struct talk t = {.lines = lines, .config = {.strict = true, .replicas = replicas}};
    enum store_check_verdict verdict = converse(&t);

    if (!part)
        assert_int_equal(verdict, STORE_CHECK_PASSED);
    else if (verdict != STORE_CHECK_REFUSED || !strstr(t.check.why, part))
        fail_msg("'%s' does not say '%s'", t.check.why, part);
}

static void test_strict_durability(void **state)
{
    static const char good[] = "*4\r\n+min-replicas-to-write\r\n+2\r\n+appendfsync\r\n+always";
    const struct line no_wait[] = {{"CONFIG", good}, {"WAIT", "-NOPERM no"}, {0}};
    const struct line no_file[] = {
        {"INFO", "redis_version:7.2.0\r\naof_enabled:0\r\nmaxmemory_policy:noeviction\r\n"}, {0}};
    struct talk t = {.lines = no_wait, .config = {.strict = true, .replicas = 2}};

    expect_strict(good, 0, NULL);
    expect_strict(good, 2, NULL);
    expect_strict(good, 3, "min-replicas-to-write 2: set min-replicas-to-write 3");
    expect_strict("*2\r\n+appendfsync\r\n+no", 0, "appendfsync is no: set appendfsync always");
    expect_strict("*0", 0, "appendfsync is :");
    expect_strict("-NOPERM no", 0, "its user needs +config|get (NOPERM no)");
    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    assert_non_null(strstr(t.check.why, "needs +wait"));
    assert_string_equal(t.commands, "INFO CONFIG WAIT ");
    t = (struct talk){.lines = no_file, .config = {.strict = true}};
    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    assert_non_null(strstr(t.check.why, "is strict, and appendonly is no"));
}

/* A daemon whose user may call the functions but not load them waits until another daemon loads
 * them. */
static void test_load_rights(void **state)
{
    const struct line lines[] = {
        {"FCALL", "4"}, {"FUNCTION", "-NOPERM this user has no permissions"}, {0}};
    struct talk t = {.lines = lines};

    assert_int_equal(converse(&t), STORE_CHECK_WAIT);
    assert_non_null(strstr(t.check.why, "waits for a scheduler or supervisor"));
}

static void test_library(void **state)
{
    const struct line race[] = {{"FCALL", "-ERR Function not found"},
                                {"FUNCTION", "-ERR Library 'drover1' already exists"},
                                {"FCALL", "5"},
                                {0}};
    const struct line foreign[] = {{"FCALL", "-ERR Function not found"},
                                   {"FUNCTION", "-ERR Library 'drover1' already exists"},
                                   {"FCALL", "-ERR Function not found"},
                                   {"FUNCTION", "-ERR Library 'drover1' already exists"},
                                   {0}};
    struct talk t = {.lines = foreign};

    expect_passed(race, "INFO EVAL FCALL FUNCTION FCALL ");
    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    assert_string_equal(t.commands, "INFO EVAL FCALL FUNCTION FCALL FUNCTION ");
    expect_refused("FCALL", "+what?", "library drover1 in Redis is not Drover's");
    expect_refused("FCALL", "-NOPERM no", "functions cannot be called: NOPERM no");
    t = (struct talk){.config = {.library = "#!lua name=drover1\n"}};
    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
}

/* A client that only reads creates nothing, and refuses a store that it cannot read. */
static void expect_not_read(const char *command, const char *reply, const char *part)
{
    const struct line lines[] = {{command, reply}, {0}};
    struct talk t = {.lines = lines, .config = {.read_only = true}};

    assert_int_equal(converse(&t), STORE_CHECK_REFUSED);
    if (!strstr(t.check.why, part))
        fail_msg("'%s' does not say '%s'", t.check.why, part);
}

static void test_read_only(void **state)
{
    struct talk t = {.config = {.read_only = true}};

    assert_int_equal(converse(&t), STORE_CHECK_PASSED);
    assert_string_equal(t.commands, "INFO HMGET FCALL_RO ");
    assert_int_equal(t.check.partitions, 16);
    expect_not_read("HMGET", "*3\r\n$-1\r\n$-1\r\n$-1", "no Drover under prefix drover:");
    expect_not_read("FCALL_RO", "4", "needs build 5 of the library, Redis has build 4");
    expect_not_read("FCALL_RO", "6", "needs build 5 of the library, Redis has build 6");
    expect_not_read("FCALL_RO", "-ERR Function not found", "Redis has build 0");
}

static void test_loading(void **state)
{
    const struct line lines[] = {
        {"INFO", "redis_version:7.0.0\r\nloading:1\r\nmaxmemory_policy:allkeys-lru\r\n"}, {0}};
    const struct line later[] = {{"EVAL", "-LOADING Redis is loading"}, {0}};
    struct talk t = {.lines = lines};

    assert_int_equal(converse(&t), STORE_CHECK_WAIT);
    t = (struct talk){.lines = later};
    assert_int_equal(converse(&t), STORE_CHECK_WAIT);
    assert_string_equal(t.check.why, "Redis is still loading its data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies_in_pieces_of_any_size),
        cmocka_unit_test(test_invalid_replies),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_checks_passed),
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_strict_durability),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_load_rights),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_loading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
