// SPDX-License-Identifier: Apache-2.0
/*
 * The store against a real Redis, with a library of its own
 *
 * The tests share one server on a port of its own, which some of them kill; each test begins with
 * an empty one. A second connection, `admin`, acts as an operator, in clear text. With
 * DROVER_TEST_TLS=1 the stores connect by TLS.
 */
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/store/store.h"
#include "io/tls.h"

#define PATIENCE_MS 20000

/* ---- the server ---- */

static struct {
    char folder[64];
    int port;
    int tls_port;            /* 0: none */
    struct tls_context *tls; /* NULL: stores connect in clear text */
    pid_t pid;
    redisContext *admin;
} redis;

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* @tls_port: another one, for TLS; 0: none */
static pid_t redis_spawn(int port, int tls_port)
{
    const char *chosen = getenv("DROVER_TEST_STORE_SERVER"); /* as in tests/lib/servers.py */
    const char *program = chosen ? chosen : "redis-server";
    const char *tls_option = tls_port ? "--tls-port" : NULL; /* NULL: there are no more words */
    char port_text[8], tls_port_text[8], socket_name[16], log_name[16];
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(port_text, sizeof(port_text), "%d", port);
    snprintf(tls_port_text, sizeof(tls_port_text), "%d", tls_port);
    snprintf(socket_name, sizeof(socket_name), "%d.sock", port);
    snprintf(log_name, sizeof(log_name), "%d.log", port);
    execlp(program, program, "--bind", "127.0.0.1", "--port", port_text, "--dir", redis.folder,
           "--unixsocket", socket_name, "--logfile", log_name, "--save", "", "--appendonly", "no",
           tls_option, tls_port_text, "--tls-ca-cert-file", "ca.pem", "--tls-cert-file",
           "server.pem", "--tls-key-file", "server.key", "--tls-auth-clients", "optional",
           (char *)NULL);
    _exit(127);
}

static redisContext *redis_admin(int port)
{
    int64_t deadline = clock_monotonic_ms() + PATIENCE_MS;
    redisContext *admin = redisConnect("127.0.0.1", port);

    while (admin->err && clock_monotonic_ms() < deadline) {
        redisFree(admin);
        usleep(5000);
        admin = redisConnect("127.0.0.1", port);
    }
    assert_int_equal(admin->err, 0);
    return admin;
}

static void redis_start(void)
{
    redis.pid = redis_spawn(redis.port, redis.tls_port);
    redis.admin = redis_admin(redis.port);
}

static void redis_end(void)
{
    kill(redis.pid, SIGKILL);
    waitpid(redis.pid, NULL, 0);
    redisFree(redis.admin);
}

/* Runs a command that must succeed. Returns its integer; its text goes to out, unless that is NULL.
 */
static long long ask(redisContext *admin, char *out, size_t size, const char *format, ...)
{
    redisReply *reply;
    long long integer;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(admin, format, args);
    va_end(args);
    assert_string_equal(admin->errstr, "");
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    if (out)
        snprintf(out, size, "%s", reply->str ? reply->str : "");
    integer = reply->integer;
    freeReplyObject(reply);
    return integer;
}

#define admin(...) ask(redis.admin, NULL, 0, __VA_ARGS__)
#define admin_text(out, ...) ask(redis.admin, (out), sizeof(out), __VA_ARGS__)

static long long reads_of_server(void)
{
    char text[8192];

    admin_text(text, "INFO stats");
    return atoll(strstr(text, "total_reads_processed:") + strlen("total_reads_processed:"));
}

/* ---- a library to call ---- */

static const char *library(int build)
{
    static char text[1024];

    snprintf(text, sizeof(text),
             "#!lua name=drover1\n"
             "local BUILD = %d\n"
             "local function reg(name, f, flags)\n"
             "  redis.register_function{function_name = 'drover1_' .. name, callback = f,\n"
             "    flags = flags}\n"
             "end\n"
             "reg('version', function() return tostring(BUILD) end, {'no-writes'})\n"
             "reg('echo', function(k, a) return a end, {'no-writes'})\n"
             "reg('key', function(k) return k end, {'no-writes'})\n"
             "reg('mixed', function() return {1, {'two', {3}}, false, ''} end, {'no-writes'})\n"
             "reg('count', function(k) return redis.call('INCR', k[1] .. 'n') end, {})\n"
             "reg('fail', function() return redis.error_reply('BROKEN on purpose') end, {})\n",
             build);
    return text;
}

/* ---- the store under test ---- */

struct fixture {
    uv_loop_t loop;
    uv_timer_t guard;
    struct store *store;
    struct store_config config;
    int ups, downs, refusals, batches;
    char why[512];
    bool closed;
};

struct calls {
    int answered;
    int results[STORE_UNKNOWN + 1];
    char last[256]; /* items of the last answer, each in brackets */
};

static void on_up(void *ctx)
{
    ((struct fixture *)ctx)->ups++;
}

static void on_down(void *ctx, const char *why)
{
    struct fixture *f = ctx;

    f->downs++;
    snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_refused(void *ctx, const char *why)
{
    struct fixture *f = ctx;

    f->refusals++;
    snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_batch_end(void *ctx)
{
    ((struct fixture *)ctx)->batches++;
}

static const struct store_callbacks callbacks = {on_up, on_down, on_refused, on_batch_end};

static void on_answer(void *ctx, const struct store_answer *answer)
{
    struct calls *c = ctx;
    CLEANUP(buf_deinit) struct buf text = {0};

    c->answered++;
    c->results[answer->result]++;
    for (uint32_t i = 0; i < answer->n; i++)
        buf_printf(&text, "[%.*s]", (int)answer->items[i].len, (const char *)answer->items[i].data);
    snprintf(c->last, sizeof(c->last), "%s", buf_str(&text));
}

static void on_closed(void *ctx)
{
    ((struct fixture *)ctx)->closed = true;
}

static void on_guard(uv_timer_t *guard)
{
    fail_msg("waited too long");
}

#define run_until(f, condition)                                                                    \
    do {                                                                                           \
        uv_timer_start(&(f)->guard, on_guard, PATIENCE_MS, 0);                                     \
        while (!(condition))                                                                       \
            uv_run(&(f)->loop, UV_RUN_ONCE);                                                       \
        uv_timer_stop(&(f)->guard);                                                                \
    } while (0)

static void open_store(struct fixture *f)
{
    assert_int_equal(store_new(&f->store, &f->loop, &f->config, &callbacks, f), 0);
}

static void close_store(struct fixture *f)
{
    f->closed = false;
    store_close(f->store, on_closed);
    run_until(f, f->closed);
    f->store = store_free(f->store);
}

static void expect_up(struct fixture *f)
{
    int before = f->ups;

    if (!f->store)
        open_store(f);
    run_until(f, f->ups > before);
    assert_true(store_up(f->store));
}

static void expect_refused(struct fixture *f, const char *part)
{
    int before = f->refusals;

    if (!f->store)
        open_store(f);
    run_until(f, f->refusals > before);
    assert_false(store_up(f->store));
    if (!strstr(f->why, part))
        fail_msg("'%s' does not say '%s'", f->why, part);
}

static void call(struct fixture *f, struct calls *c, const char *function, const char *argument)
{
    struct bytes arg = bytes_str(argument);

    assert_int_equal(store_call(f->store, 3, function, &arg, argument ? 1 : 0, on_answer, c), 0);
}

static struct calls call_and_wait(struct fixture *f, const char *function, const char *argument)
{
    struct calls c = {0};

    call(f, &c, function, argument);
    assert_int_equal(c.answered, 0);
    run_until(f, c.answered > 0);
    return c;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->guard);
    f->config = (struct store_config){
        .host = "127.0.0.1",
        .port = redis.tls ? redis.tls_port : redis.port,
        .tls = redis.tls,
        .reconnect_min_ms = 5,
        .reconnect_max_ms = 50,
        .library = library(1),
    };
    admin("FLUSHALL");
    admin("FUNCTION FLUSH");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->store)
        close_store(f);
    uv_close((uv_handle_t *)&f->guard, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* ---- calls ---- */

static void test_calls(void **state)
{
    struct fixture *f = *state;
    struct bytes args[] = {bytes_str("a\r\nb"), BYTES_EMPTY, bytes_str("$5\r\n")};
    struct calls c = {0};
    struct store_stats stats;

    expect_up(f);
    store_stats(f->store, &stats);
    assert_true((stats.tls_expiry > 0) == (redis.tls != NULL));
    assert_int_equal(store_partitions(f->store), 16);
    assert_int_equal(store_call(f->store, 0, "echo", args, 3, on_answer, &c), 0);
    run_until(f, c.answered == 1);
    assert_string_equal(c.last, "[a\r\nb][][$5\r\n]");
    assert_string_equal(call_and_wait(f, "echo", NULL).last, "");
    assert_string_equal(call_and_wait(f, "key", NULL).last, "[drover:{p3}:]");
    assert_string_equal(call_and_wait(f, "mixed", NULL).last, "[1][two][3][][]");
    c = call_and_wait(f, "fail", NULL);
    assert_int_equal(c.results[STORE_ERROR], 1);
    assert_string_equal(c.last, "[BROKEN on purpose]");
    assert_true(store_up(f->store));
}

static void test_large_values(void **state)
{
    struct fixture *f = *state;
    size_t len = (size_t)8 * 1024 * 1024;
    char *text = malloc(len + 1);
    struct calls c = {0};

    memset(text, 'x', len);
    text[len] = '\0';
    expect_up(f);
    call(f, &c, "echo", text);
    call(f, &c, "echo", text);
    free(text);
    run_until(f, c.answered == 2);
    assert_int_equal(c.results[STORE_OK], 2);
}

static void test_calls_of_an_iteration_leave_together(void **state)
{
    struct fixture *f = *state;
    struct calls c = {0};
    long long reads;

    expect_up(f);
    reads = reads_of_server();
    f->batches = 0;
    for (int i = 0; i < 200; i++)
        call(f, &c, "count", NULL);
    run_until(f, c.answered == 200);
    assert_string_equal(c.last, "[200]");
    assert_int_equal(c.results[STORE_OK], 200);
    assert_true(reads_of_server() - reads <= 4);
    assert_true(f->batches >= 1 && f->batches <= 4);
}

/* Calls of a later iteration, too, which are made while the first ones are in flight. */
static void test_each_call_has_its_answer(void **state)
{
    enum {
        ROUNDS = 3,
        EACH = 50
    };
    struct fixture *f = *state;
    struct calls c[ROUNDS * EACH] = {0};
    char words[ROUNDS * EACH][16], expected[24];

    expect_up(f);
    for (int i = 0; i < ROUNDS * EACH; i++) {
        snprintf(words[i], sizeof(words[i]), "%d", i);
        call(f, &c[i], "echo", words[i]);
        if (i % EACH == EACH - 1)
            uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    run_until(f, c[ROUNDS * EACH - 1].answered > 0);
    for (int i = 0; i < ROUNDS * EACH; i++) {
        snprintf(expected, sizeof(expected), "[%d]", i);
        assert_int_equal(c[i].answered, 1);
        assert_string_equal(c[i].last, expected);
    }
}

static void test_before_up_is_unknown(void **state)
{
    struct fixture *f = *state;

    open_store(f);
    assert_int_equal(store_partitions(f->store), 0);
    assert_int_equal(call_and_wait(f, "echo", "x").results[STORE_UNKNOWN], 1);
    assert_int_equal(f->batches, 1);
}

static void test_out_of_memory(void **state)
{
    struct fixture *f = *state;

    expect_up(f);
    admin("CONFIG SET maxmemory 1");
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_OOM], 1);
    admin("CONFIG SET maxmemory 0");
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_OK], 1);
    assert_int_equal(f->downs, 0);
}

/* ---- connections that end ---- */

static void test_killed_during_a_call(void **state)
{
    struct fixture *f = *state;
    struct calls c = {0};

    expect_up(f);
    kill(redis.pid, SIGSTOP);
    for (int i = 0; i < 50; i++)
        call(f, &c, "count", NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    redis_end();
    run_until(f, c.answered == 50);
    assert_int_equal(c.results[STORE_UNKNOWN], 50);
    assert_int_equal(store_partitions(f->store), 16);
    assert_int_equal(f->downs, 1);
    redis_start();
    expect_up(f);
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_OK], 1);
    assert_int_equal(c.answered, 50);
    assert_int_equal(f->downs, 1);
}

static void test_no_answer_in_time(void **state)
{
    struct fixture *f = *state;
    struct calls c;

    f->config.call_timeout_ms = 200;
    expect_up(f);
    admin("CLIENT PAUSE 500 ALL");
    c = call_and_wait(f, "count", NULL);
    assert_int_equal(c.results[STORE_UNKNOWN], 1);
    assert_string_equal(f->why, "Redis does not answer in time");
    expect_up(f);
    assert_int_equal(call_and_wait(f, "echo", "x").results[STORE_OK], 1);
    assert_int_equal(f->downs, 1);
}

/* The process stands still until after the deadline of its calls. The store reads the answers that
 * have come before it gives up the connection. */
static void test_answers_that_waited(void **state)
{
    struct fixture *f = *state;
    struct calls c = {0};

    f->config.call_timeout_ms = 2000;
    expect_up(f);
    kill(redis.pid, SIGSTOP);
    waitpid(redis.pid, NULL, WUNTRACED);
    for (int i = 0; i < 3; i++)
        call(f, &c, "count", NULL);
    for (int i = 0; i < 3; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT); /* sends them */
    kill(redis.pid, SIGCONT);
    admin("PING");       /* Redis has read the calls before it */
    usleep(2100 * 1000); /* longer than call_timeout_ms */
    run_until(f, c.answered == 3);
    assert_int_equal(c.results[STORE_OK], 3);
    assert_int_equal(f->downs, 0);
}

static void test_frozen_during_the_store_check(void **state)
{
    struct fixture *f = *state;

    f->config.call_timeout_ms = 100;
    kill(redis.pid, SIGSTOP);
    open_store(f);
    for (int64_t until = clock_monotonic_ms() + 300; clock_monotonic_ms() < until;)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->ups + f->downs + f->refusals, 0);
    kill(redis.pid, SIGCONT);
    expect_up(f);
}

static void test_client_killed(void **state)
{
    struct fixture *f = *state;
    int downs = 0;

    expect_up(f);
    while (downs < 3) {
        admin("CLIENT KILL TYPE normal SKIPME yes");
        run_until(f, f->downs > downs);
        downs = f->downs;
        expect_up(f);
    }
}

static void test_server_comes_late(void **state)
{
    struct fixture *f = *state;

    redis_end();
    open_store(f);
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    redis_start();
    expect_up(f);
    assert_int_equal(f->refusals, 0);
}

static void greet_as_ssh(uv_poll_t *poll, int status, int events)
{
    int *listener = poll->data, guest = accept(*listener, NULL, NULL);

    assert_int_equal(write(guest, "SSH-2.0-OpenSSH\r\n", 17), 17);
    close(guest);
}

static void test_something_else_answers(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct fixture *f = *state;
    uv_poll_t poll = {.data = &listener};

    f->config.port = free_port();
    address.sin_port = htons((uint16_t)f->config.port);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 8), 0);
    uv_poll_init(&f->loop, &poll, listener);
    uv_poll_start(&poll, UV_READABLE, greet_as_ssh);
    open_store(f);
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->ups, 0);
    uv_close((uv_handle_t *)&poll, NULL);
    close_store(f);
    close(listener);
}

static void test_close_answers_open_calls(void **state)
{
    struct fixture *f = *state;
    struct calls c = {0};

    expect_up(f);
    admin("CLIENT PAUSE 500 ALL");
    for (int i = 0; i < 10; i++)
        call(f, &c, "count", NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    call(f, &c, "count", NULL);
    assert_int_equal(c.answered, 0);
    close_store(f);
    assert_int_equal(c.answered, 11);
    assert_int_equal(c.results[STORE_UNKNOWN], 11);
    assert_int_equal(f->downs, 0);
}

static void test_close_at_any_moment(void **state)
{
    struct fixture *f = *state;

    for (int iterations = 0; iterations < 30; iterations++) {
        open_store(f);
        for (int i = 0; i < iterations; i++)
            uv_run(&f->loop, UV_RUN_NOWAIT);
        close_store(f);
    }
}

/* ---- refusals, and their end ---- */

static void test_refuses_login(void **state)
{
    struct fixture *f = *state;

    admin("CONFIG SET requirepass secret");
    expect_refused(f, "Redis wants a login: set redis.password");
    admin("CONFIG SET requirepass %s", "");
    expect_up(f);
    close_store(f);

    admin("ACL SETUSER drover on >right ~drover:* +@all -config");
    f->config.user = "drover";
    f->config.password = "wrong";
    expect_refused(f, "Redis refuses the login: set redis.user and redis.password");
    close_store(f);
    f->config.password = "right";
    expect_up(f);
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_OK], 1);
    admin("ACL DELUSER drover");
}

static void test_refuses_eviction(void **state)
{
    struct fixture *f = *state;

    admin("CONFIG SET maxmemory-policy allkeys-lru");
    expect_refused(f, "maxmemory-policy is allkeys-lru");
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->refusals, 1);
    admin("CONFIG SET maxmemory-policy noeviction");
    expect_up(f);
}

/* Strict durability: it is refused until all settings are right. */
static void test_strict(void **state)
{
    struct fixture *f = *state;

    f->config.strict = true;
    expect_refused(f, "redis.durability is strict, and appendonly is no: set appendonly yes");
    admin("CONFIG SET appendonly yes");
    expect_refused(f, "appendfsync is everysec: set appendfsync always in Redis, or");
    admin("CONFIG SET appendfsync always");
    expect_up(f);
    close_store(f);
    f->config.replicas = 1;
    expect_refused(f, "redis.replicas is 1, min-replicas-to-write 0: set min-replicas-to-write 1");
    close_store(f);
    admin("ACL SETUSER narrow on >narrow ~* &* +@all -config -wait");
    f->config.user = f->config.password = "narrow";
    expect_refused(f, "its user needs +config|get");
    admin("ACL SETUSER narrow +config|get");
    admin("CONFIG SET min-replicas-to-write 1");
    expect_refused(f, "its user needs +wait");
    admin("CONFIG SET min-replicas-to-write 0");
    admin("CONFIG SET appendfsync everysec");
    admin("CONFIG SET appendonly no");
    admin("ACL DELUSER narrow");
}

static bool is_followed(void)
{
    char text[8192];

    admin_text(text, "INFO replication");
    return strstr(text, "state=online") != NULL;
}

/* An answer comes when the replica has the writes. If that takes too long the result is unknown. */
static void test_replicas(void **state)
{
    struct fixture *f = *state;
    struct calls calls = {0};
    int port = free_port();
    pid_t pid = redis_spawn(port, 0);
    redisContext *replica = redis_admin(port);
    int64_t deadline = clock_monotonic_ms() + PATIENCE_MS;

    ask(replica, NULL, 0, "REPLICAOF 127.0.0.1 %d", redis.port);
    while (!is_followed() && clock_monotonic_ms() < deadline)
        usleep(5000);
    admin("CONFIG SET appendonly yes appendfsync always min-replicas-to-write 1");
    f->config.strict = true;
    f->config.replicas = 1;
    f->config.call_timeout_ms = 4000;
    expect_up(f);
    for (int i = 0; i < 5; i++)
        call(f, &calls, "count", NULL);
    run_until(f, calls.answered == 5);
    assert_int_equal(calls.results[STORE_OK], 5);
    assert_string_equal(calls.last, "[5]");
    kill(pid, SIGSTOP);
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_UNKNOWN], 1);
    assert_true(store_up(f->store));
    kill(pid, SIGCONT);
    assert_string_equal(call_and_wait(f, "count", NULL).last, "[7]");
    close_store(f);
    admin("CONFIG SET appendonly no appendfsync everysec min-replicas-to-write 0");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    redisFree(replica);
}

static void test_refuses_replica(void **state)
{
    struct fixture *f = *state;

    admin("REPLICAOF 127.0.0.1 1");
    expect_refused(f, "is a replica of 127.0.0.1:1: point redis.host at the primary");
    admin("REPLICAOF NO ONE");
    expect_up(f);
    admin("REPLICAOF 127.0.0.1 1");
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_UNKNOWN], 1);
    assert_int_equal(f->downs, 1);
    expect_refused(f, "is a replica");
    admin("REPLICAOF NO ONE");
    expect_up(f);
    assert_string_equal(call_and_wait(f, "count", NULL).last, "[1]");
}

static void test_refuses_foreign_namespace(void **state)
{
    struct fixture *f = *state;

    admin("SET drover:meta something");
    expect_refused(f, "key drover:meta belongs to another program");
    admin("DEL drover:meta");
    expect_up(f);
    close_store(f);
    admin("DEL drover:meta");
    admin("HSET drover:meta owner me");
    expect_refused(f, "key drover:meta belongs to another program");
    assert_int_equal(admin("HLEN drover:meta"), 1);
    admin("HSET drover:meta product drover schema 2 partitions 8");
    expect_refused(f, "have data version 2, this build knows 1");
    admin("HSET drover:meta schema 1 partitions none");
    expect_refused(f, "field partitions of key drover:meta is 'none'");
    admin("HSET drover:meta partitions 8");
    expect_up(f);
    assert_int_equal(store_partitions(f->store), 8);
}

static void test_refuses_database(void **state)
{
    struct fixture *f = *state;

    f->config.database = 99;
    expect_refused(f, "database 99 cannot be used: set redis.database");
    close_store(f);
    f->config.database = 2;
    expect_up(f);
    assert_int_equal(admin("EXISTS drover:meta"), 0);
}

static void test_refuses_foreign_library(void **state)
{
    struct fixture *f = *state;

    admin("FUNCTION LOAD %s",
          "#!lua name=drover1\nredis.register_function('other', function() return 1 end)");
    expect_refused(f, "library drover1 cannot be loaded");
    admin("FUNCTION DELETE drover1");
    expect_up(f);
}

/* ---- namespaces and libraries ---- */

static void test_meta_record(void **state)
{
    struct fixture *f = *state;
    char text[64];

    f->config.prefix = "shop:";
    f->config.partitions = 5;
    expect_up(f);
    assert_int_equal(admin_text(text, "HGET shop:meta partitions"), 0);
    assert_string_equal(text, "5");
    admin_text(text, "HGET shop:meta product");
    assert_string_equal(text, "drover");
    assert_string_equal(call_and_wait(f, "key", NULL).last, "[shop:{p3}:]");
}

static void test_two_at_first_start(void **state)
{
    struct fixture *f = *state, other = {.config = f->config};

    uv_loop_init(&other.loop);
    uv_timer_init(&other.loop, &other.guard);
    f->config.partitions = 4;
    other.config.partitions = 8;
    open_store(f);
    open_store(&other);
    while (!store_up(f->store) || !store_up(other.store)) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        uv_run(&other.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(store_partitions(f->store), store_partitions(other.store));
    assert_int_equal(f->refusals + other.refusals, 0);
    call_and_wait(f, "count", NULL);
    assert_string_equal(call_and_wait(&other, "count", NULL).last, "[2]");
    close_store(&other);
    uv_close((uv_handle_t *)&other.guard, NULL);
    uv_run(&other.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&other.loop), 0);
}

static void expect_build(struct fixture *f, int ours, const char *then)
{
    f->config.library = library(ours);
    expect_up(f);
    assert_string_equal(call_and_wait(f, "version", NULL).last, then);
    close_store(f);
}

static void test_newest_build_stays(void **state)
{
    struct fixture *f = *state;

    expect_build(f, 3, "[3]");
    expect_build(f, 2, "[3]");
    expect_build(f, 7, "[7]");
    expect_build(f, 3, "[7]");
}

static void test_library_lost(void **state)
{
    struct fixture *f = *state;

    expect_up(f);
    admin("FUNCTION FLUSH");
    assert_int_equal(call_and_wait(f, "count", NULL).results[STORE_UNKNOWN], 1);
    expect_up(f);
    assert_string_equal(call_and_wait(f, "count", NULL).last, "[1]");
}

static void test_built_in_library(void **state)
{
    struct fixture *f = *state;

    f->config.library = NULL;
    expect_up(f);
    assert_int_equal(call_and_wait(f, "version", NULL).results[STORE_OK], 1);
}

/* There is no TLS over it. */
static void test_unix_socket(void **state)
{
    struct fixture *f = *state;
    char path[128];

    snprintf(path, sizeof(path), "%s/%d.sock", redis.folder, redis.port);
    f->config.host = NULL;
    f->config.tls = NULL;
    f->config.socket_path = path;
    expect_up(f);
    assert_int_equal(call_and_wait(f, "echo", "x").results[STORE_OK], 1);
}

static void test_name_of_several_addresses(void **state)
{
    struct fixture *f = *state;

    f->config.host = "localhost";
    expect_up(f);
}

/* ---- all of them ---- */

/* Makes the certificates of the server, and the context of the stores. Return: whether that worked.
 */
static bool prepare_tls(void)
{
    char command[1024], ca[80];
    const struct tls_files files = {.ca_file = ca, .cert_file = "", .key_file = ""};
    struct problem problem;

    snprintf(command, sizeof(command),
             "/usr/bin/python3 -B %s %s --server server=localhost,127.0.0.1 >/dev/null", AUTHORITY,
             redis.folder);
    snprintf(ca, sizeof(ca), "%s/ca.pem", redis.folder);
    redis.tls_port = free_port();
    return system(command) == 0 && tls_context_new(&redis.tls, &files, &problem) == 0;
}

static int start_all(void **state)
{
    const char *tls = getenv("DROVER_TEST_TLS"); /* as in tests/lib/servers.py */

    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    snprintf(redis.folder, sizeof(redis.folder), "/tmp/drover-store-XXXXXX");
    if (!mkdtemp(redis.folder))
        return -1;
    if (tls && strcmp(tls, "1") == 0 && !prepare_tls())
        return -1;
    redis.port = free_port();
    redis_start();
    return 0;
}

static int end_all(void **state)
{
    char command[128];

    redis_end();
    redis.tls = tls_context_free(redis.tls);
    snprintf(command, sizeof(command), "rm -r %s", redis.folder);
    return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    int failed = 0;

    const struct CMUnitTest tests[] = {
        TEST(test_calls),
        TEST(test_large_values),
        TEST(test_calls_of_an_iteration_leave_together),
        TEST(test_each_call_has_its_answer),
        TEST(test_before_up_is_unknown),
        TEST(test_out_of_memory),
        TEST(test_killed_during_a_call),
        TEST(test_no_answer_in_time),
        TEST(test_answers_that_waited),
        TEST(test_frozen_during_the_store_check),
        TEST(test_client_killed),
        TEST(test_server_comes_late),
        TEST(test_something_else_answers),
        TEST(test_close_answers_open_calls),
        TEST(test_close_at_any_moment),
        TEST(test_refuses_login),
        TEST(test_refuses_eviction),
        TEST(test_strict),
        TEST(test_replicas),
        TEST(test_refuses_replica),
        TEST(test_refuses_foreign_namespace),
        TEST(test_refuses_database),
        TEST(test_refuses_foreign_library),
        TEST(test_meta_record),
        TEST(test_two_at_first_start),
        TEST(test_newest_build_stays),
        TEST(test_library_lost),
        TEST(test_built_in_library),
        TEST(test_unix_socket),
        TEST(test_name_of_several_addresses),
    };

    if (argc == 1)
        return cmocka_run_group_tests(tests, start_all, end_all);
    for (int i = 1; i < argc; i++) {
        cmocka_set_test_filter(argv[i]);
        failed += cmocka_run_group_tests(tests, start_all, end_all);
    }
    return failed;
}
