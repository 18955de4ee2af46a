// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration and workflow files: what is accepted, what is refused, and which place the error
 * names
 */
#include <errno.h>
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
#include "base/str.h"
#include "io/config/config.h"
#include "io/config/config_connections.h"
#include "io/config/config_tree.h"
#include "io/config/workflow_file.h"

static char folder[64]; /* of the group; has the files that the tests write */

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path_of(name);
}

/* @where: without the folder. */
static void expect_problem(const struct problem *problem, const char *where, const char *part)
{
    const char *found = problem->field;

    if (strncmp(found, folder, strlen(folder)) == 0)
        found += strlen(folder) + 1;
    assert_string_equal(found, where);
    if (!strstr(problem->reason, part))
        fail_msg("'%s' does not say '%s'", problem->reason, part);
}

/* ---- configuration ---- */

static struct config *load(const char *text, char *const *environment, const char *set)
{
    const struct config_source source = {
        .file = text ? write_file("drover.cfg", text) : NULL,
        .environ = environment,
        .sets = &set,
        .n_sets = set != NULL,
    };
    struct problem problem = {0};
    struct config *c = NULL;

    if (config_load(&c, &source, &problem) != 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    return c;
}

static void expect_refused(const char *text, char *const *environment, const char *set,
                           const char *where, const char *part)
{
    const struct config_source source = {
        .file = text ? write_file("drover.cfg", text) : NULL,
        .environ = environment,
        .sets = &set,
        .n_sets = set != NULL,
    };
    struct problem problem = {0};
    struct config *c = NULL;

    assert_int_equal(config_load(&c, &source, &problem), CONFIG_E_INVALID);
    assert_null(c);
    expect_problem(&problem, where, part);
}

static void test_defaults(void **state)
{
    CLEANUP(config_free) struct config *c = load(NULL, NULL, NULL);
    char pid[16];

    snprintf(pid, sizeof(pid), "-%d", (int)getpid());
    assert_non_null(strstr(c->name, pid));
    assert_int_equal(c->drain_timeout_ms, 25000);
    assert_string_equal(c->rabbitmq.host, "127.0.0.1");
    assert_int_equal(c->rabbitmq.port, 5672);
    assert_string_equal(c->rabbitmq.vhost, "/");
    assert_string_equal(c->rabbitmq.password, "guest");
    assert_int_equal(c->rabbitmq.heartbeat_ms, 10000);
    assert_int_equal(c->rabbitmq.replication, CONFIG_REPLICATION_AUTO);
    assert_true(c->rabbitmq.declare);
    assert_string_equal(c->redis.socket, "");
    assert_string_equal(c->redis.prefix, "drover:");
    assert_int_equal(c->redis.partitions, 16);
    assert_string_equal(c->health.listen, "");
    assert_int_equal(c->health.pulse_ms, 5000);
    assert_int_equal(c->health.stall_ms, 60000);
    assert_int_equal(c->log.level, LOG_INFO);
    assert_int_equal(c->log.format, LOG_TEXT);
    assert_int_equal(c->supervisor.retention_ms, INT64_C(1000) * 3600 * 24 * 7);
    assert_int_equal(c->agent.concurrency, 4);
    assert_int_equal(config_setting_length(config_root(c)), 0);
}

static void test_file(void **state)
{
    CLEANUP(config_free)
    struct config *c =
        load("name = \"a-1\";\n"
             "rabbitmq = { host = \"broker\"; port = 5673; queue_type = \"classic\";\n"
             " step_messages = \"transient\";\n"
             "             declare = false; password = \"p\"; };\n"
             "log: { level: \"debug\", format: \"json\" };\n"
             "health = { listen = \"[::]:8080\"; pulse = \"100ms\"; stall = 0; };\n"
             "supervisor = { period = 50; lease = \"1500ms\"; election = false; };\n"
             "agent = { concurrency = 8; actors = ( { name = \"x\"; } ); };\n",
             NULL, NULL);
    const config_setting_t *actors = config_setting_lookup(config_root(c), "agent.actors");

    assert_string_equal(c->name, "a-1");
    assert_string_equal(c->rabbitmq.host, "broker");
    assert_int_equal(c->rabbitmq.port, 5673);
    assert_int_equal(c->rabbitmq.queue_type, CONFIG_CLASSIC);
    assert_int_equal(c->rabbitmq.step_messages, CONFIG_TRANSIENT);
    assert_false(c->rabbitmq.declare);
    assert_string_equal(c->rabbitmq.user, "guest");
    assert_int_equal(c->log.level, LOG_DEBUG);
    assert_int_equal(c->log.format, LOG_JSON);
    assert_string_equal(c->health.listen, "[::]:8080");
    assert_int_equal(c->health.pulse_ms, 100);
    assert_int_equal(c->health.stall_ms, 0);
    assert_int_equal(c->supervisor.period_ms, 50);
    assert_int_equal(c->supervisor.lease_ms, 1500);
    assert_false(c->supervisor.election);
    assert_int_equal(c->agent.concurrency, 8);
    assert_int_equal(config_setting_length(actors), 1);
}

static void expect_difference(const char *one, const char *other, const char *expected)
{
    CLEANUP(config_free) struct config *a = load(one, NULL, NULL);
    CLEANUP(config_free) struct config *b = load(other, NULL, NULL);
    CLEANUP(buf_deinit) struct buf found = {0};

    config_difference(a, b, &found);
    assert_string_equal(buf_str(&found), expected);
}

static void test_difference(void **state)
{
    expect_difference("name = \"a\"; agent = { actors = ( { name = \"x\"; tries = 2; } ); };\n",
                      "name = \"a\"; agent = { actors = ( { name = \"x\"; tries = 2; } ); };\n",
                      "");
    expect_difference("name = \"a\"; drain_timeout = 200; log = { level = \"warn\"; };\n",
                      "name = \"b\"; rabbitmq = { password = \"p\"; declare = false; };\n",
                      "name drain_timeout rabbitmq.password rabbitmq.declare log.level");
    expect_difference("agent = { actors = ( { name = \"x\"; tries = 2; } ); };\n",
                      "agent = { actors = ( { name = \"x\"; tries = 3; } ); };\n", "agent.actors");
    expect_difference("agent = { actors = ( { name = \"x\"; } ); };\n",
                      "agent = { actors = ( { nome = \"x\"; } ); };\n", "agent.actors");
    expect_difference("agent = { actors = ( { on = true; } ); };\n",
                      "agent = { actors = ( { on = false; } ); };\n", "agent.actors");
    expect_difference("agent = { actors = ( { of = 1.5; } ); };\n",
                      "agent = { actors = ( { of = 2.5; } ); };\n", "agent.actors");
    expect_difference("agent = { actors = ( { name = \"x\"; } ); };\n", "", "agent.actors");
}

static void test_file_refused(void **state)
{
    expect_refused("rabbitmq = {\n  prot = 1;\n};", NULL, NULL, "drover.cfg:2",
                   "rabbitmq.prot: there is no such setting; did you mean rabbitmq.port?");
    expect_refused("rabitmq = { host = \"x\"; };", NULL, NULL, "drover.cfg:1",
                   "rabitmq: there is no such setting");
    expect_refused("\nzzz = 1;", NULL, NULL, "drover.cfg:2", "zzz: there is no such setting");
    expect_refused("rabbitmq = { port = 65536; };", NULL, NULL, "drover.cfg:1",
                   "rabbitmq.port: '65536' must be an integer from 0 to 65535");
    expect_refused("rabbitmq = { port = \"5672\"; };", NULL, NULL, "drover.cfg:1",
                   "must be an integer");
    expect_refused("rabbitmq = { host = 1; };", NULL, NULL, "drover.cfg:1",
                   "must be a text in quotes");
    expect_refused("rabbitmq = { host = \"\"; };", NULL, NULL, "drover.cfg:1",
                   "must not have an empty name");
    expect_refused("rabbitmq = { host = \"a,,b\"; };", NULL, NULL, "drover.cfg:1",
                   "must not have an empty name");
    expect_refused("redis = { host = \"\"; };", NULL, NULL, "drover.cfg:1",
                   "must not have an empty name");
    expect_refused("redis = { host = \"a,,b\"; };", NULL, NULL, "drover.cfg:1",
                   "must not have an empty name");
    expect_refused("redis = { server_name = \"a,b\"; };", NULL, NULL, "drover.cfg:1",
                   "must be one host");
    expect_refused("redis = { server_name = \"a:1\"; };", NULL, NULL, "drover.cfg:1",
                   "without a port");
    expect_refused("redis = { server_name = \"[::1]\"; };", NULL, NULL, "drover.cfg:1",
                   "without a port");
    expect_refused("redis = { server_name = \".a\"; };", NULL, NULL, "drover.cfg:1",
                   "must be names");
    expect_refused("redis = { uri = \"redis://a/b\"; };", NULL, NULL, "redis.uri",
                   "path must be the number of a database");
    expect_refused("redis = { uri = \"redis+sentinel://a\"; };", NULL, NULL, "redis.uri",
                   "path must be the name of the primary");
    expect_refused("redis = { uri = \"redis+sentinel://a/\"; };", NULL, NULL, "redis.uri",
                   "path must be the name of the primary");
    expect_refused("redis = { uri = \"redis+sentinel://a/p/x\"; };", NULL, NULL, "redis.uri",
                   "path must be the number of a database");
    expect_refused("redis = { uri = \"redis+sentinels://a/p\"; };", NULL, NULL, "redis.uri",
                   "must begin with redis:// or rediss://");
    expect_refused("redis = { uri = \"amqp+sentinel://a/p\"; };", NULL, NULL, "redis.uri",
                   "or with redis+sentinel:// or rediss+sentinel:// for Sentinels");
    expect_refused("redis = { uri = \"redis+cluster://a\"; };", NULL, NULL, "redis.uri",
                   "Redis Cluster cannot be used");
    expect_refused("redis = { master_name = \"p\"; socket = \"/s\"; };", NULL, NULL, "redis.socket",
                   "leave one out");
    expect_refused("redis = { sentinel_user = \"u\"; };", NULL, NULL, "redis.sentinel_user",
                   "set redis.master_name");
    expect_refused("redis = { sentinel_password = \"w\"; };", NULL, NULL, "redis.sentinel_password",
                   "set redis.master_name");
    expect_refused("redis = { master_name = \"p\"; sentinel_user = \"u\"; };", NULL, NULL,
                   "redis.sentinel_user", "needs redis.sentinel_password");
    expect_refused("redis = { host = \"a b\"; };", NULL, NULL, "drover.cfg:1", "must be names");
    expect_refused("rabbitmq = { heartbeat = \"1500ms\"; };", NULL, NULL, "drover.cfg:1",
                   "must be whole seconds");
    expect_refused("rabbitmq = 5;", NULL, NULL, "drover.cfg:1", "must be a group");
    expect_refused("rabbitmq = { queue_type = \"stream\"; };", NULL, NULL, "drover.cfg:1",
                   "'stream' must be one of auto, quorum, classic");
    expect_refused("rabbitmq = { declare = \"yes\"; };", NULL, NULL, "drover.cfg:1",
                   "must be true or false");
    expect_refused("supervisor = { period = \"1 s\"; };", NULL, NULL, "drover.cfg:1",
                   "'1 s' must be a duration from 50ms to 1m");
    expect_refused("supervisor = { period = 0.5; };", NULL, NULL, "drover.cfg:1",
                   "must be a duration");
    expect_refused("supervisor = { period = \"10s\"; };", NULL, NULL, "supervisor.lease",
                   "must be at least twice supervisor.period");
    expect_refused("redis = { durability = \"safe\"; };", NULL, NULL, "drover.cfg:1",
                   "'safe' must be one of fast, strict");
    expect_refused("redis = { replicas = 1; };", NULL, NULL, "redis.replicas",
                   "with redis.durability strict only");
    expect_refused("redis = { prefix = \"a{b}:\"; };", NULL, NULL, "drover.cfg:1",
                   "without spaces and braces");
    expect_refused("health = { listen = \"8080\"; };", NULL, NULL, "drover.cfg:1",
                   "'8080' must be HOST:PORT");
    expect_refused("health = { listen = \"localhost:70000\"; };", NULL, NULL, "drover.cfg:1",
                   "must end in a port from 0 to 65535");
    expect_refused("name = \"two words\";", NULL, NULL, "drover.cfg:1", "must be 1 to 128 of");
    expect_refused("log = { level = \"info\";\n", NULL, NULL, "drover.cfg:2", "syntax error");
    expect_refused("name = \"a\";\nname = \"b\";\n", NULL, NULL, "drover.cfg:2", "duplicate");
}

static void test_file_missing(void **state)
{
    const struct config_source source = {.file = "/nonexistent/drover.cfg"};
    struct problem problem = {0};
    struct config *c = NULL;

    assert_int_equal(config_load(&c, &source, &problem), CONFIG_E_INVALID);
    expect_problem(&problem, "/nonexistent/drover.cfg", "No such file");
}

static void test_included_file(void **state)
{
    struct problem problem = {0};
    struct config *c = NULL;

    write_file("more.cfg", "host = \"elsewhere\";\n");
    c = load("rabbitmq = {\n@include \"more.cfg\"\n};", NULL, NULL);
    assert_string_equal(c->rabbitmq.host, "elsewhere");
    config_free(c);
    write_file("more.cfg", "\nhots = \"elsewhere\";\n");
    expect_refused("rabbitmq = {\n@include \"more.cfg\"\n};", NULL, NULL, "more.cfg:2",
                   "did you mean rabbitmq.host?");
    unlink(path_of("more.cfg"));
    assert_int_equal(problem.field[0], '\0');
}

static void test_precedence_of_sources(void **state)
{
    char *environment[] = {(char[]){"PATH=/bin"}, (char[]){"DROVER_REDIS__PORT=2"},
                           (char[]){"DROVER_NAME=b"}, (char[]){"DROVER_PORT=tcp://1.2.3.4:5"},
                           NULL};
    CLEANUP(config_free)
    struct config *c = load("redis = { port = 1; database = 3; };", environment, "redis.port=4");

    assert_int_equal(c->redis.port, 4);
    assert_int_equal(c->redis.database, 3);
    assert_string_equal(c->name, "b");
    config_free(c);
    c = load("redis = { port = 1; };", environment, NULL);
    assert_int_equal(c->redis.port, 2);
}

static void expect_variable_refused(const char *entry, const char *where, const char *part)
{
    char copy[256], *environment[] = {copy, NULL};

    snprintf(copy, sizeof(copy), "%s", entry);
    expect_refused(NULL, environment, NULL, where, part);
}

static void test_variable_refused(void **state)
{
    expect_variable_refused("DROVER_RABBITMQ__PROT=1", "DROVER_RABBITMQ__PROT",
                            "did you mean DROVER_RABBITMQ__PORT?");
    expect_variable_refused("DROVER_RABBITMQ__PORT=x", "DROVER_RABBITMQ__PORT",
                            "rabbitmq.port: 'x' must be an integer");
    expect_variable_refused("DROVER_RABBITMQ__HOST_FILE=/x", "DROVER_RABBITMQ__HOST_FILE",
                            "there is no such setting");
    expect_variable_refused("DROVER_AGENT__ACTORS=x", "DROVER_AGENT__ACTORS",
                            "can be given in the file only");
}

static void test_secret_from_a_file(void **state)
{
    char variable[192], *environment[] = {variable, NULL};
    CLEANUP(config_free) struct config *c = NULL;

    snprintf(variable, sizeof(variable), "DROVER_REDIS__PASSWORD_FILE=%s",
             write_file("secret", "hush hush\n"));
    c = load(NULL, environment, NULL);
    assert_string_equal(c->redis.password, "hush hush");
    unlink(path_of("secret"));
    expect_refused(NULL, environment, NULL, "DROVER_REDIS__PASSWORD_FILE", "No such file");
}

/* ---- reads that fail ---- */

enum read_failure {
    READ_FAILS,
    READ_INTERRUPTED,
    READ_SHORT,
    READ_FAILURES_,
};

static unsigned reads_left; /* reads until one fails; 0: none does */
static enum read_failure read_failure;

/* NOLINTBEGIN(bugprone-reserved-identifier): the names that --wrap of the linker gives */
ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len);

ssize_t __wrap_read(int fd, void *data, size_t len)
{
    if (reads_left == 0 || --reads_left > 0)
        return __real_read(fd, data, len);
    if (read_failure == READ_SHORT)
        return __real_read(fd, data, 1);
    errno = read_failure == READ_FAILS ? EIO : EINTR;
    return -1;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void expect_read(const struct config_source *source, bool fails)
{
    CLEANUP(config_free) struct config *c = NULL;
    struct problem problem = {0};
    int r = config_load(&c, source, &problem);

    assert_int_equal(r, fails ? CONFIG_E_INVALID : 0);
    if (fails) {
        assert_non_null(strstr(problem.reason, "Input/output error"));
        assert_null(c);
    } else {
        assert_string_equal(c->redis.password, "hush");
        assert_string_equal(c->rabbitmq.host, "elsewhere");
    }
}

/* Whichever read of the configuration or of a secret fails: it is refused with a reason. A short or
 * interrupted read is continued. */
static void test_reads_that_fail(void **state)
{
    char variable[192], *environment[] = {variable, NULL};
    struct config_source source = {.environ = environment};

    snprintf(variable, sizeof(variable), "DROVER_REDIS__PASSWORD_FILE=%s",
             write_file("secret", "hush\n"));
    source.file = write_file("drover.cfg", "rabbitmq = { host = \"elsewhere\"; };");
    for (read_failure = 0; read_failure < READ_FAILURES_; read_failure++) {
        unsigned n = 0;

        do {
            reads_left = ++n;
            expect_read(&source, read_failure == READ_FAILS && n <= 4);
        } while (reads_left == 0);
        assert_true(n > 4); /* two reads of each file, the last one finds its end */
        reads_left = 0;
    }
}

/* A folder can be opened, but not read. */
static void test_secret_that_cannot_be_read(void **state)
{
    char variable[192], *environment[] = {variable, NULL};

    snprintf(variable, sizeof(variable), "DROVER_REDIS__PASSWORD_FILE=%s", folder);
    expect_refused(NULL, environment, NULL, "DROVER_REDIS__PASSWORD_FILE", "Is a directory");
}

/* Only commands read the standard input: here - is an ordinary file name, and nothing is read. */
static void test_standard_input_is_no_file(void **state)
{
    char *environment[] = {"DROVER_REDIS__PASSWORD_FILE=-", NULL};
    const struct config_source source = {.file = "-"};
    struct problem problem = {0};
    struct config *c = NULL;

    read_failure = READ_FAILS;
    reads_left = 1;
    expect_refused(NULL, environment, NULL, "DROVER_REDIS__PASSWORD_FILE", "No such file");
    assert_int_equal(config_load(&c, &source, &problem), CONFIG_E_INVALID);
    expect_problem(&problem, "-", "No such file");
    assert_int_equal(reads_left, 1);
    reads_left = 0;
}

static void test_argument_refused(void **state)
{
    expect_refused(NULL, NULL, "redis.prot=1", "--set", "did you mean redis.port?");
    expect_refused(NULL, NULL, "redis.port", "--set", "must be followed by = and a value");
    expect_refused(NULL, NULL, "agent.actors=1", "--set", "in the file only");
    expect_refused(NULL, NULL, "redis.password=hush", "--set", "DROVER_REDIS__PASSWORD_FILE");
}

static void test_printing_keeps_secrets(void **state)
{
    CLEANUP(config_free)
    struct config *c = load("redis = { password = \"hush\"; };\nname = \"n\";", NULL, NULL);
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    config_print(c, out);
    config_describe(CONFIG_SCHEDULER, out);
    fclose(out);
    assert_null(strstr(text, "hush"));
    assert_non_null(strstr(text, "redis.password = (given)\n"));
    assert_non_null(strstr(text, "name = \"n\"\n"));
    assert_non_null(strstr(text, "supervisor.retention = \"7d\"\n"));
    assert_non_null(strstr(text, "rabbitmq.replication = \"auto\"\n"));
    assert_non_null(strstr(text, "redis.call_timeout     a connection without"));
    assert_null(strstr(text, "agent.actors"));
    free(text);
}

/* What follows from rabbitmq.replication and from the two settings that it replaces. */
static void test_replication(void **state)
{
    static const struct {
        const char *settings;
        bool quorum, as_found, cached, marker;
    } rows[] = {
        {"", false, true, true, true},
        {"declare = false;", true, true, false, false},
        {"declare = false; step_messages = \"transient\";", true, true, false, false},
        {"replication = \"none\";", false, false, true, true},
        {"replication = \"quorum\";", true, false, false, false},
        {"host = \"a,b\";", true, false, false, false},
        {"host = \"a,b\"; replication = \"quorum\";", true, false, false, false},
        {"queue_type = \"quorum\";", true, false, false, false},
        {"queue_type = \"quorum\"; step_messages = \"transient\";", true, false, false, false},
        {"queue_type = \"classic\";", false, false, false, false},
        {"queue_type = \"classic\"; step_messages = \"persistent\";", false, false, false, false},
        {"queue_type = \"classic\"; step_messages = \"transient\";", false, false, true, true},
        {"host = \"a,b\"; queue_type = \"classic\";", false, false, false, false},
        {"host = \"a,b\"; queue_type = \"classic\"; step_messages = \"transient\";", false, false,
         false, false},
        {"step_messages = \"persistent\";", true, true, false, false},
        {"step_messages = \"transient\";", false, true, true, true},
        {"replication = \"none\"; queue_type = \"classic\"; step_messages = \"transient\";", false,
         false, true, true},
        {"replication = \"quorum\"; queue_type = \"quorum\";", true, false, false, false},
    };

    for (size_t i = 0; i < array_size(rows); i++) {
        CLEANUP(buf_deinit) struct buf text = {0};
        CLEANUP(config_free) struct config *c = NULL;
        struct bus_config bus;

        buf_printf(&text, "rabbitmq = { %s insecure = true; };", rows[i].settings);
        c = load(buf_str(&text), NULL, NULL);
        bus = config_bus(c, "test");
        if (bus.quorum != rows[i].quorum || bus.as_found != rows[i].as_found ||
            bus.cached != rows[i].cached || bus.marker != rows[i].marker)
            fail_msg("%s: quorum %d, as_found %d, cached %d, marker %d", rows[i].settings,
                     bus.quorum, bus.as_found, bus.cached, bus.marker);
    }
}

static void test_replication_contradicted(void **state)
{
    expect_refused("rabbitmq = { host = \"a,b\"; replication = \"none\"; insecure = true; };", NULL,
                   NULL, "rabbitmq.replication",
                   "none is for one RabbitMQ node, and rabbitmq.host names several: set quorum");
    expect_refused("rabbitmq = { replication = \"none\"; queue_type = \"quorum\"; };", NULL, NULL,
                   "rabbitmq.queue_type", "contradicts rabbitmq.replication none");
    expect_refused("rabbitmq = { replication = \"quorum\"; queue_type = \"classic\"; };", NULL,
                   NULL, "rabbitmq.queue_type", "contradicts rabbitmq.replication quorum");
    expect_refused("rabbitmq = { replication = \"none\"; step_messages = \"persistent\"; };", NULL,
                   NULL, "rabbitmq.step_messages", "contradicts rabbitmq.replication none");
    expect_refused("rabbitmq = { replication = \"quorum\"; step_messages = \"transient\"; };", NULL,
                   NULL, "rabbitmq.step_messages", "contradicts rabbitmq.replication quorum");
    expect_refused("rabbitmq = { replication = \"three\"; };", NULL, NULL, "drover.cfg:1",
                   "'three' must be one of auto, none, quorum");
}

static void test_uris(void **state)
{
    static const struct {
        const char *uri, *host;
        int port;
        const char *vhost, *user, *password;
    } good[] = {
        {"amqp://h", "h", 5672, "/", "guest", "guest"},
        {"amqp://h:1/", "h", 1, "/", "guest", "guest"},
        {"amqp://u:p@h:65535/v", "h", 65535, "v", "u", "p"},
        {"amqp://u@h", "h", 5672, "/", "u", "guest"},
        {"amqp://u%40x:p%2f%3a@h/%2fv", "h", 5672, "/v", "u@x", "p/:"},
        {"amqp://u:p@w@[::1]:7/v", "::1", 7, "v", "u", "p@w"},
        {"amqps://h", "h", 5671, "/", "guest", "guest"},
        {"amqps://u@h:1/v", "h", 1, "v", "u", "guest"},
        {"amqp://u@a,b:7,[::1]/v", "a,b:7,[::1]", 5672, "v", "u", "guest"},
        {"amqps://a,[::1]:8", "a,[::1]:8", 5671, "/", "guest", "guest"},
    };

    for (size_t i = 0; i < array_size(good); i++) {
        char variable[96];
        char *environment[] = {variable, NULL};
        CLEANUP(config_free) struct config *c = NULL;

        snprintf(variable, sizeof(variable), "DROVER_RABBITMQ__URI=%s", good[i].uri);
        c = load(NULL, environment, NULL);
        assert_string_equal(c->rabbitmq.host, good[i].host);
        assert_int_equal(c->rabbitmq.port, good[i].port);
        assert_int_equal(c->rabbitmq.tls.on, strncmp(good[i].uri, "amqps", 5) == 0);
        assert_string_equal(c->rabbitmq.vhost, good[i].vhost);
        assert_string_equal(c->rabbitmq.user, good[i].user);
        assert_string_equal(c->rabbitmq.password, good[i].password);
    }
}

static void test_uris_of_the_store(void **state)
{
    static const struct {
        const char *uri, *host;
        int port;
        bool tls;
        const char *master_name;
        int database, loss_window_ms;
    } good[] = {
        {"redis://h", "h", 6379, false, "", 0, 10000},
        {"rediss://h:7", "h", 7, true, "", 0, 10000},
        {"redis://a,b:7/2", "a,b:7", 6379, false, "", 2, 60000},
        {"redis+sentinel://h/p", "h", 26379, false, "p", 0, 60000},
        {"redis+sentinel://h:1/p/", "h", 1, false, "p", 0, 60000},
        {"rediss+sentinel://u:w@a,b:7/my%2dp/3", "a,b:7", 26379, true, "my-p", 3, 60000},
    };

    for (size_t i = 0; i < array_size(good); i++) {
        char variable[96];
        char *environment[] = {variable, NULL};
        CLEANUP(config_free) struct config *c = NULL;

        snprintf(variable, sizeof(variable), "DROVER_REDIS__URI=%s", good[i].uri);
        c = load(NULL, environment, NULL);
        assert_string_equal(c->redis.host, good[i].host);
        assert_int_equal(c->redis.port, good[i].port);
        assert_int_equal(c->redis.tls.on, good[i].tls);
        assert_string_equal(c->redis.master_name, good[i].master_name);
        assert_int_equal(c->redis.database, good[i].database);
        assert_int_equal(c->redis.loss_window_ms, good[i].loss_window_ms);
    }
}

static void test_uri_and_settings_of_the_store(void **state)
{
    CLEANUP(config_free)
    struct config *c =
        load("redis = { uri = \"redis://:secret@cache:7000/3\"; prefix = \"x:\"; };", NULL, NULL);

    assert_string_equal(c->redis.host, "cache");
    assert_int_equal(c->redis.port, 7000);
    assert_int_equal(c->redis.database, 3);
    assert_string_equal(c->redis.password, "secret");
    assert_string_equal(c->redis.prefix, "x:");
}

static void test_uris_refused(void **state)
{
    static const char *const bad[] = {
        "h",
        "http://h",
        "amqpss://h",
        "amqp://",
        "amqp://h:x",
        "amqp://h:0",
        "amqp://h:65536",
        "amqp://:1",
        "amqp://h/%2",
        "amqp://h/%zz",
        "amqp://h/%00",
        "amqp:/h",
        "amqp://[::1]8080",
        "amqp://a,,b",
        "amqp://a,b:0",
        "amqp://[::1",
        "amqp://a,b@",
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        CLEANUP(buf_deinit) struct buf set = {0};
        struct problem problem = {0};
        struct config *c = NULL;
        const char *sets[1];

        buf_printf(&set, "rabbitmq.uri=%s", bad[i]);
        sets[0] = buf_str(&set);
        assert_int_equal(
            config_load(&c, &(struct config_source){.sets = sets, .n_sets = 1, .secret_sets = true},
                        &problem),
            CONFIG_E_INVALID);
        assert_string_equal(problem.field, "rabbitmq.uri");
        assert_true(*problem.reason);
    }
}

typedef int (*check)(struct config *config, struct problem *problem);

/* @why: a part of the reason; NULL if the setting is allowed. */
static void expect_clear(check secure, const char *text, const char *field, const char *why)
{
    CLEANUP(config_free) struct config *c = load(text, NULL, NULL);
    struct problem problem = {0};

    if (!why) {
        assert_int_equal(secure(c, &problem), 0);
        return;
    }
    assert_int_equal(secure(c, &problem), CONFIG_E_INVALID);
    expect_problem(&problem, field, why);
}

/* Clear text stays on this machine, of servers that the process connects to. */
static void test_clear_text(void **state)
{
    static const char loopback[] =
        "rabbitmq = { host = \"127.8.9.1,::1,[::ffff:127.0.0.1]:7,a.name\"; };";
    static const char other_store[] = "redis = { host = \"10.0.0.1\"; };";
    const check bus = config_secure_bus, store = config_secure_store;

    expect_clear(bus, loopback, NULL, NULL);
    expect_clear(bus, "rabbitmq = { host = \"10.0.0.1\"; insecure = true; };", NULL, NULL);
    expect_clear(bus, "rabbitmq = { uri = \"amqps://10.0.0.1\"; };", NULL, NULL);
    expect_clear(store, "redis = { host = \"::1\"; };", NULL, NULL);
    expect_clear(store, "redis = { uri = \"rediss://10.0.0.1\"; };", NULL, NULL);
    expect_clear(store, "redis = { host = \"10.0.0.1\"; socket = \"/run/redis.sock\"; };", NULL,
                 NULL);
    expect_clear(bus, "rabbitmq = { host = \"127.0.0.1,10.0.0.1\"; };", "rabbitmq.host",
                 "10.0.0.1 is no loopback address, and clear text can be read and changed on the "
                 "way: use TLS (rabbitmq.tls = true), or add the line insecure = true; to the "
                 "group rabbitmq");
    expect_clear(bus, "rabbitmq = { uri = \"amqp://[2001:db8::1]/\"; };", "rabbitmq.host",
                 "2001:db8::1 is no loopback address");
    expect_clear(bus, "rabbitmq = { host = \"::ffff:10.0.0.1\"; };", "rabbitmq.host",
                 "is no loopback address");
    expect_clear(store, other_store, "redis.host",
                 "add the line insecure = true; to the group redis");
    expect_clear(bus, other_store, NULL, NULL); /* an agent, with a file that it shares */
}

/* TLS that fits together. */
static void test_tls(void **state)
{
    static const char certificate[] =
        "rabbitmq = { tls = true; login = \"certificate\"; cert_file = \"c\"; };";

    config_free(load(certificate, NULL, NULL));
    expect_refused("rabbitmq = { login = \"certificate\"; };", NULL, NULL, "rabbitmq.login",
                   "set tls = true");
    expect_refused("rabbitmq = { tls = true; login = \"certificate\"; };", NULL, NULL,
                   "rabbitmq.login", "needs cert_file");
    expect_refused("rabbitmq = { ca_file = \"a\"; insecure = true; };", NULL, NULL,
                   "rabbitmq.insecure", "certificates are given: set tls = true");
    expect_refused("redis = { server_name = \"a\"; insecure = true; };", NULL, NULL,
                   "redis.insecure", "certificates are given");
    expect_refused("redis = { tls = true; socket = \"/run/redis.sock\"; };", NULL, NULL,
                   "redis.tls", "redis.socket");
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},       {"250", 250},    {"1500ms", 1500}, {"30s", 30000},
                {"5m", 300000}, {"1h", 3600000}, {"7d", 604800000}};
    static const char *const bad[] = {"",
                                      "s",
                                      "-1s",
                                      "1.5s",
                                      "1 s",
                                      "1S",
                                      "1w",
                                      "1h30m",
                                      "99999999999999999999",
                                      "9223372036854775807d"};
    int64_t ms;

    for (size_t i = 0; i < array_size(good); i++) {
        assert_true(duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < array_size(bad); i++)
        assert_false(duration_parse(bad[i], &ms));
}

/* ---- workflow files ---- */

static Drover__V1__Workflow *read_workflow(const char *path)
{
    Drover__V1__Workflow *w = NULL;
    struct problem problem = {0};

    if (workflow_file_read(&w, path, &problem) != 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    return w;
}

static void expect_workflow_refused(const char *text, const char *where, const char *part)
{
    Drover__V1__Workflow *w = NULL;
    struct problem problem = {0};

    assert_int_equal(workflow_file_read(&w, write_file("w.cfg", text), &problem),
                     WORKFLOW_FILE_E_INVALID);
    assert_null(w);
    expect_problem(&problem, where, part);
}

static void expect_payload(const Drover__V1__Payload *p, const char *type, const char *text)
{
    assert_string_equal(p->content_type, type);
    assert_int_equal(p->data.len, strlen(text));
    assert_memory_equal(p->data.data, text, strlen(text));
}

/* Every field that a file can have. */
static const char whole[] =
    "name = \"order\"; version = 3; lock = \"30s\"; wait = 5000; complete_within = \"2d\";\n"
    "on_deadline = \"fail\"; tries = 2;\n"
    "retry = { initial_interval = \"1s\"; backoff_coefficient = 2; maximum_interval = \"1m\";\n"
    "          maximum_attempts = 5; maximum_expiries = 6; jitter = 0.25;\n"
    "          non_retryable = [\"a\", \"b\"]; park_interval = -1; on_permanent = \"park\";\n"
    "          on_exhausted = \"compensate\"; };\n"
    "steps = (\n"
    "  { name = \"one\"; actor = \"x\"; action = \"do\"; lock = \"1m\"; wait = \"2m\";\n"
    "    heartbeat = \"5s\"; waive_revert = true;\n"
    "    arguments = { n = 1; big = 5000000000L; part = 0.1; yes = true; text = \"\\\"q\\\"\";\n"
    "                  list = ( 1, [ 2 ], { } ); };\n"
    "    revert = { action = \"undo\"; actor = \"y\"; arguments = \"plain\"; lock = \"3m\";\n"
    "               wait = \"4m\"; retry = { maximum_attempts = 9; }; }; },\n"
    "  { name = \"two\"; actor = \"x\"; after = [ \"one\" ]; take_none = true;\n"
    "    arguments = \"{\\\"a\\\": null}\"; },\n"
    "  { name = \"three\"; actor = \"x\"; after = ( \"one\", \"two\" ); take = [ \"two\" ];\n"
    "    arguments = [ 1, 2 ]; } );\n";

static void test_workflow(void **state)
{
    Drover__V1__Workflow *w = read_workflow(write_file("w.cfg", whole));
    const Drover__V1__Step *one = w->steps[0], *two = w->steps[1], *three = w->steps[2];

    assert_string_equal(w->name, "order");
    assert_int_equal(w->version, 3);
    assert_int_equal(w->lock_ms, 30000);
    assert_int_equal(w->wait_ms, 5000);
    assert_int_equal(w->complete_within_ms, 2 * 24 * 3600 * 1000);
    assert_int_equal(w->on_deadline, DROVER__V1__RECOURSE__RECOURSE_FAIL);
    assert_int_equal(w->tries, 2);
    assert_int_equal(w->retry->initial_interval_ms, 1000);
    assert_true(w->retry->backoff_coefficient == 2.0);
    assert_int_equal(w->retry->maximum_expiries, 6);
    assert_true(w->retry->jitter == 0.25);
    assert_int_equal(w->retry->n_non_retryable, 2);
    assert_string_equal(w->retry->non_retryable[1], "b");
    assert_int_equal(w->retry->park_interval_ms, -1);
    assert_int_equal(w->retry->on_permanent, DROVER__V1__RECOURSE__RECOURSE_PARK);
    assert_int_equal(w->n_steps, 3);
    assert_string_equal(one->action, "do");
    assert_int_equal(one->heartbeat_ms, 5000);
    assert_true(one->waive_revert);
    expect_payload(one->arguments, "application/json",
                   "{\"n\":1,\"big\":5000000000,\"part\":0.1,\"yes\":true,\"text\":\"\\\"q\\\"\","
                   "\"list\":[1,[2],{}]}");
    expect_payload(one->revert->arguments, "text/plain", "plain");
    assert_int_equal(one->revert->retry->maximum_attempts, 9);
    assert_true(two->take_none);
    expect_payload(two->arguments, "application/json", "{\"a\": null}");
    expect_payload(three->arguments, "application/json", "[1,2]");
    assert_int_equal(three->n_after, 2);
    assert_string_equal(three->take[0], "two");
    drover__v1__workflow__free_unpacked(w, NULL);
}

static void test_workflow_refused(void **state)
{
    const char *name = "name = \"w\"; version = 1;\n";
    CLEANUP(buf_deinit) struct buf text = {0};

#define REFUSED(steps, where, part)                                                                \
    do {                                                                                           \
        buf_clear(&text);                                                                          \
        buf_printf(&text, "%s%s", name, (steps));                                                  \
        expect_workflow_refused(buf_str(&text), (where), (part));                                  \
    } while (0)

    REFUSED("steps = ( { name = \"a\";\n acter = \"x\"; } );", "w.cfg:3",
            "steps[0].acter: there is no such setting; did you mean actor?");
    REFUSED("steps = ( { name = 1; } );", "w.cfg:2", "steps[0].name: must be a text in quotes");
    REFUSED("steps = { name = \"a\"; };", "w.cfg:2", "must be a list");
    REFUSED("steps = ( 1 );", "w.cfg:2", "steps[0]: must be a group");
    REFUSED("steps = ( { after = \"a\"; } );", "w.cfg:2", "steps[0].after: must be an array");
    REFUSED("steps = ( { lock = \"soon\"; } );", "w.cfg:2", "must be a duration such as");
    REFUSED("steps = ( { arguments = 5; } );", "w.cfg:2", "must be a group, a list or a text");
    REFUSED("steps = ( { take_none = 1; } );", "w.cfg:2", "must be true or false");
    REFUSED("retry = { jitter = \"x\"; };", "w.cfg:2", "retry.jitter: must be a number");
    REFUSED("retry = { maximum_attempts = -1; };", "w.cfg:2", "must be an integer from 0");
    REFUSED("retry = { on_permanent = \"give up\"; };", "w.cfg:2",
            "must be one of park, compensate, fail");
    REFUSED("on_deadline = \"unspecified\";", "w.cfg:2", "must be one of");
    REFUSED("steps = ( { name = \"a\"; actor = \"x\"; },\n"
            "{ name = \"b\"; actor = \"x\";\n after = [ \"c\" ]; } );",
            "w.cfg:4", "steps[1].after");
    REFUSED("steps = ( { name = \"a\"; actor = \"x\";\n lock = 1; } );", "w.cfg:3",
            "steps[0].lock");
    REFUSED("steps = ( { name = \"a\";\n", "w.cfg:3", "syntax error");
    REFUSED("", "w.cfg", "");
#undef REFUSED
}

/* A file that is cut off at any byte: the reader ends and frees everything. */
static void test_truncated_workflow(void **state)
{
    char text[sizeof(whole)];

    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        Drover__V1__Workflow *w = NULL;
        struct problem problem = {0};

        snprintf(text, sizeof(text), "%.*s", (int)len, whole);
        if (workflow_file_read(&w, write_file("w.cfg", text), &problem) == 0)
            drover__v1__workflow__free_unpacked(w, NULL);
        else
            assert_int_not_equal(problem.reason[0], '\0');
    }
}

/* Settings as --set takes them. */
static void test_settings_of_a_step(void **state)
{
    static const char *const settings[] = {
        "lock=10m",
        "heartbeat=500",
        "retry.maximum_attempts=9",
        "actor=pay-v2",
        "retry.jitter=-1",
        "revert.retry.on_permanent=park",
        "lock=20m",
        "take_none=true",
        "action=\"a\\\"b\"",
        "name=say \"x\\y\"",
        "retry.non_retryable=[\"NO\", \"NEVER\"]",
    };
    Drover__V1__Step *step = NULL;
    struct problem problem = {0};

    if (workflow_step_read(&step, settings, array_size(settings), &problem) != 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    assert_int_equal(step->lock_ms, 1200000); /* the later one counts */
    assert_int_equal(step->heartbeat_ms, 500);
    assert_string_equal(step->actor, "pay-v2");
    assert_string_equal(step->action, "a\"b");
    assert_string_equal(step->name, "say \"x\\y\"");
    assert_true(step->take_none);
    assert_int_equal(step->retry->maximum_attempts, 9);
    assert_true(step->retry->jitter == -1);
    assert_int_equal(step->retry->n_non_retryable, 2);
    assert_int_equal(step->revert->retry->on_permanent, DROVER__V1__RECOURSE__RECOURSE_PARK);
    drover__v1__step__free_unpacked(step, NULL);
}

static void test_settings_refused(void **state)
{
    static const struct {
        const char *setting, *reason;
    } BAD[] = {
        {"lock", "FIELD=VALUE"},
        {"=5", "FIELD=VALUE"},
        {"lock;x=5", "FIELD=VALUE"},
        {"lock=soon", "duration"},
        {"lock=", "duration"},
        {"lokc=5", "did you mean lock?"},
        {"retry=5", "group"},
        {"retry.tries=5", "no such setting"},
        {"retry..jitter=5", "syntax"},
        {"take_none=5", "true or false"},
        {"retry.on_permanent=explode", "one of park"},
        {"retry.non_retryable=[", "syntax"},
        {"actor=7", "text"},
    };

    for (size_t i = 0; i < array_size(BAD); i++) {
        Drover__V1__Step *step = NULL;
        struct problem problem = {0};

        assert_int_equal(workflow_step_read(&step, &BAD[i].setting, 1, &problem),
                         WORKFLOW_FILE_E_INVALID);
        assert_null(step);
        expect_problem(&problem, BAD[i].setting, BAD[i].reason);
    }
}

static int collect(void *ctx, const char *path, const Drover__V1__Workflow *workflow)
{
    buf_printf(ctx, "%s ", workflow->name);
    return 0;
}

static void test_folder(void **state)
{
    CLEANUP(buf_deinit) struct buf names = {0};

    write_file("b.cfg", "name = \"b\"; version = 1; steps = ( { name = \"s\"; actor = \"x\"; } );");
    write_file("a.cfg", "name = \"a\"; version = 1; steps = ( { name = \"s\"; actor = \"x\"; } );");
    write_file("c.cfg.bak", "?");
    unlink(path_of("w.cfg"));
    unlink(path_of("drover.cfg"));
    assert_int_equal(workflow_files_read(folder, collect, &names), 0);
    assert_string_equal(buf_str(&names), "a b ");
    write_file("aa.cfg", "?");
    buf_clear(&names);
    assert_true(workflow_files_read(folder, collect, &names) < 0);
    assert_string_equal(buf_str(&names), "a b ");
    assert_true(workflow_files_read("/nonexistent", collect, &names) < 0);
}

static void test_examples(void **state)
{
    CLEANUP(buf_deinit) struct buf names = {0};

    assert_int_equal(workflow_files_read(WORKFLOWS, collect, &names), 0);
    assert_string_equal(buf_str(&names), "hello order ");
}

static int make_folder(void **state)
{
    log_init(&(struct log_config){.service = "test", .level = LOG_ERROR, .fd = -1});
    snprintf(folder, sizeof(folder), "/tmp/drover-config-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_file_refused),
        cmocka_unit_test(test_file_missing),
        cmocka_unit_test(test_included_file),
        cmocka_unit_test(test_precedence_of_sources),
        cmocka_unit_test(test_variable_refused),
        cmocka_unit_test(test_secret_from_a_file),
        cmocka_unit_test(test_secret_that_cannot_be_read),
        cmocka_unit_test(test_reads_that_fail),
        cmocka_unit_test(test_standard_input_is_no_file),
        cmocka_unit_test(test_argument_refused),
        cmocka_unit_test(test_printing_keeps_secrets),
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_replication),
        cmocka_unit_test(test_replication_contradicted),
        cmocka_unit_test(test_uris_of_the_store),
        cmocka_unit_test(test_uri_and_settings_of_the_store),
        cmocka_unit_test(test_uris_refused),
        cmocka_unit_test(test_clear_text),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_workflow),
        cmocka_unit_test(test_workflow_refused),
        cmocka_unit_test(test_truncated_workflow),
        cmocka_unit_test(test_settings_of_a_step),
        cmocka_unit_test(test_settings_refused),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_examples),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
