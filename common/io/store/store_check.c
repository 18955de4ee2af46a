// SPDX-License-Identifier: Apache-2.0
/*
 * Store check: the questions to a Redis server, in order, and what each reply must be
 *
 * See io/store/store_check.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "io/store/store.h"
#include "io/store/store_check.h"

#define REDIS_MAJOR_MIN 7 /* functions came with 7.0; every Valkey has them */

#define STRICT "redis.durability is strict, and "

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const char META_SCRIPT[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 then "
    "redis.call('HSET', KEYS[1], 'product', 'drover', 'schema', ARGV[1], 'partitions', ARGV[2]) "
    "end "
    "return redis.call('HMGET', KEYS[1], 'product', 'schema', 'partitions')";

static enum store_check_verdict refuse(struct store_check *e, const char *why, ...)
    __attribute__((format(printf, 2, 3)));

static enum store_check_verdict refuse(struct store_check *e, const char *why, ...)
{
    va_list args;

    va_start(args, why);
    vsnprintf(e->why, sizeof(e->why), why, args);
    va_end(args);
    return STORE_CHECK_REFUSED;
}

/* ---- login and database ---- */

static void ask_login(const struct store_check *e, struct buf *command)
{
    const struct store_check_config *c = e->config;

    resp_command(command, c->user ? 3 : 2);
    resp_puts(command, "AUTH");
    if (c->user)
        resp_puts(command, c->user);
    resp_puts(command, c->password ? c->password : "");
}

static enum store_check_verdict judge_login(struct store_check *e, const struct resp_reply *reply)
{
    if (reply->error)
        return refuse(e, "Redis refuses the login: set redis.user and redis.password (%s)",
                      resp_text(reply));
    return STORE_CHECK_PASSED;
}

static void ask_database(const struct store_check *e, struct buf *command)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", e->config->database);
    resp_command(command, 2);
    resp_puts(command, "SELECT");
    resp_puts(command, number);
}

static enum store_check_verdict judge_database(struct store_check *e,
                                               const struct resp_reply *reply)
{
    if (reply->error)
        return refuse(e, "database %d cannot be used: set redis.database (%s)", e->config->database,
                      resp_text(reply));
    return STORE_CHECK_PASSED;
}

/* ---- INFO: one question, and it needs fewer rights than CONFIG GET and ROLE ---- */

static void ask_info(const struct store_check *e, struct buf *command)
{
    resp_command(command, 1);
    resp_puts(command, "INFO");
}

const char *store_check_info(const char *text, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    out[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            line += len + 1;
            snprintf(out, size, "%.*s", (int)strcspn(line, "\r\n"), line);
            break;
        }
    }
    return out;
}

#define INFO(text, name) store_check_info((text), (name), (char[64]){0}, 64)

static enum store_check_verdict judge_server(struct store_check *e, const char *text)
{
    const char *version = INFO(text, "redis_version");
    const char *mode = INFO(text, "redis_mode"), *valkey_mode = INFO(text, "server_mode");

    mode = mode[0] ? mode : valkey_mode;
    if (INFO(text, "valkey_version")[0] == '\0' && atoi(version) < REDIS_MAJOR_MIN)
        return refuse(e, "Redis is version %s: Drover needs Redis 7.0 or newer, or Valkey",
                      version[0] ? version : "unknown");
    if (strcmp(mode, "sentinel") == 0)
        return refuse(e, "this is a Sentinel: set redis.master_name to the name of its primary");
    if (mode[0] && strcmp(mode, "standalone") != 0)
        return refuse(e, "Redis runs in %s mode: point redis.host at a standalone primary", mode);
    if (strcmp(INFO(text, "role"), "slave") == 0 && e->config->has_choice) {
        refuse(e, "this Redis is a replica of %s:%s: %s", INFO(text, "master_host"),
               INFO(text, "master_port"),
               e->config->sentinels ? "ask each Sentinel SENTINEL MASTER, one of them is wrong"
                                    : "redis.host has to name the primary, too");
        return STORE_CHECK_WAIT;
    }
    if (strcmp(INFO(text, "role"), "slave") == 0)
        return refuse(e, "this Redis is a replica of %s:%s: point redis.host at the primary",
                      INFO(text, "master_host"), INFO(text, "master_port"));
    return STORE_CHECK_PASSED;
}

static enum store_check_verdict judge_keeping(struct store_check *e, const char *text)
{
    const char *policy = INFO(text, "maxmemory_policy");

    if (policy[0] && strcmp(policy, "noeviction") != 0)
        return refuse(e,
                      "maxmemory-policy is %s, which may delete jobs: set maxmemory-policy "
                      "noeviction in Redis",
                      policy);
    if (!policy[0])
        snprintf(e->warning, sizeof(e->warning),
                 "Redis does not tell its maxmemory-policy: it must be noeviction");
    else if (strcmp(INFO(text, "aof_enabled"), "0") == 0 && e->config->strict)
        return refuse(e, STRICT "appendonly is no: set appendonly yes in Redis");
    else if (strcmp(INFO(text, "aof_enabled"), "0") == 0)
        snprintf(e->warning, sizeof(e->warning),
                 "appendonly is no: a crash of Redis loses jobs; set appendonly yes");
    return STORE_CHECK_PASSED;
}

/* The replication id of a primary that was promoted in this process; "" for one that never was a
 * replica: its id also changes when its first replica comes, and when the last one is gone. */
static const char *promotion_of(const char *text, char *out, size_t size)
{
    const char *before = INFO(text, "master_replid2");

    *out = '\0';
    return before[strspn(before, "0")] ? store_check_info(text, "master_replid", out, size) : out;
}

/* The run of a server ends with its process, and with each promotion: a primary that was a replica
 * for a while has the same run id as before. */
static void read_run(struct store_check *e, const char *text)
{
    char promotion[64];

    snprintf(e->run, sizeof(e->run), "%s.%s", INFO(text, "run_id"),
             promotion_of(text, promotion, sizeof(promotion)));
}

bool store_check_is_same_run(const struct store_check *e, const char *info)
{
    const char *known = strchr(e->run, '.');
    char promotion[64];

    return strcmp(INFO(info, "role"), "slave") != 0 &&
           (!known || strcmp(known + 1, promotion_of(info, promotion, sizeof(promotion))) == 0);
}

static enum store_check_verdict judge_info(struct store_check *e, const struct resp_reply *reply)
{
    enum store_check_verdict verdict;

    if (resp_is_error(reply, "NOAUTH"))
        return refuse(e, "Redis wants a login: set redis.password (%s)", resp_text(reply));
    if (reply->error || reply->n == 0)
        return refuse(e, "Redis does not answer INFO: its user needs +info (%s)", resp_text(reply));
    if (strcmp(INFO(resp_text(reply), "loading"), "1") == 0) {
        refuse(e, "Redis is still loading its data");
        return STORE_CHECK_WAIT;
    }
    read_run(e, resp_text(reply));
    verdict = judge_server(e, resp_text(reply));
    return verdict == STORE_CHECK_PASSED ? judge_keeping(e, resp_text(reply)) : verdict;
}

/* ---- strict durability ---- */

static void ask_settings(const struct store_check *e, struct buf *command)
{
    resp_command(command, 4);
    resp_puts(command, "CONFIG");
    resp_puts(command, "GET");
    resp_puts(command, "appendfsync");
    resp_puts(command, "min-replicas-to-write");
}

/* Return: the value of @name in a reply name, value, name, value …; "" if there is none. */
static const char *value_of(const struct resp_reply *reply, const char *name)
{
    for (uint32_t i = 0; i + 1 < reply->n; i += 2)
        if (bytes_is(reply->items[i], name))
            return (const char *)reply->items[i + 1].data;
    return "";
}

static enum store_check_verdict judge_settings(struct store_check *e,
                                               const struct resp_reply *reply)
{
    const char *appendfsync, *replicas;

    if (reply->error)
        return refuse(e, STRICT "Redis does not tell its settings: its user needs +config|get (%s)",
                      resp_text(reply));
    appendfsync = value_of(reply, "appendfsync");
    replicas = value_of(reply, "min-replicas-to-write");
    if (strcmp(appendfsync, "always") != 0)
        return refuse(e,
                      STRICT "appendfsync is %s: set appendfsync always in Redis, or "
                             "redis.durability fast",
                      appendfsync);
    if (strtoul(replicas, NULL, 10) < e->config->replicas)
        return refuse(e,
                      STRICT "redis.replicas is %u, min-replicas-to-write %s: set "
                             "min-replicas-to-write %u in Redis",
                      e->config->replicas, replicas, e->config->replicas);
    return STORE_CHECK_PASSED;
}

/* Asks only whether the user has the right to WAIT. */
static void ask_wait(const struct store_check *e, struct buf *command)
{
    resp_command(command, 3);
    resp_puts(command, "WAIT");
    resp_puts(command, "0");
    resp_puts(command, "1");
}

static enum store_check_verdict judge_wait(struct store_check *e, const struct resp_reply *reply)
{
    if (reply->error)
        return refuse(e,
                      "redis.replicas is %u, and Redis does not wait for them: its user needs "
                      "+wait (%s)",
                      e->config->replicas, resp_text(reply));
    return STORE_CHECK_PASSED;
}

/* ---- the meta record ---- */

/* If there is a record the reply has the same form as that of META_SCRIPT. */
static void read_meta(const struct store_check *e, struct buf *command)
{
    CLEANUP(buf_deinit) struct buf key = {0};

    buf_printf(&key, "%smeta", e->config->prefix);
    resp_command(command, 5);
    resp_puts(command, "HMGET");
    resp_put(command, key.data, key.len);
    resp_puts(command, "product");
    resp_puts(command, "schema");
    resp_puts(command, "partitions");
    command->failed |= key.failed;
}

static void make_meta(const struct store_check *e, struct buf *command)
{
    CLEANUP(buf_deinit) struct buf key = {0};
    char partitions[16];

    buf_printf(&key, "%smeta", e->config->prefix);
    snprintf(partitions, sizeof(partitions), "%u", e->config->partitions);
    resp_command(command, 6);
    resp_puts(command, "EVAL");
    resp_puts(command, META_SCRIPT);
    resp_puts(command, "1");
    resp_put(command, key.data, key.len);
    resp_puts(command, TEXT(STORE_SCHEMA));
    resp_puts(command, partitions);
    command->failed |= key.failed;
}

static void ask_meta(const struct store_check *e, struct buf *command)
{
    if (e->config->read_only)
        read_meta(e, command);
    else
        make_meta(e, command);
}

static enum store_check_verdict judge_meta(struct store_check *e, const struct resp_reply *reply)
{
    const char *prefix = e->config->prefix;
    int64_t partitions;

    if (e->config->read_only && !reply->error && reply->n == 3 && reply->items[0].len == 0)
        return refuse(e, "there is no Drover under prefix %s: set redis.prefix", prefix);
    if (resp_is_error(reply, "WRONGTYPE") || (!reply->error && reply->n != 3) ||
        (!reply->error && !bytes_is(reply->items[0], "drover")))
        return refuse(e, "key %smeta belongs to another program: set redis.prefix to a free one",
                      prefix);
    if (reply->error)
        return refuse(e, "key %smeta cannot be read or made: %s", prefix, resp_text(reply));
    if (!bytes_is(reply->items[1], TEXT(STORE_SCHEMA)))
        return refuse(e,
                      "the jobs under prefix %s have data version %s, this build knows " TEXT(
                          STORE_SCHEMA) ": run the Drover that made them, or set redis.prefix",
                      prefix, (const char *)reply->items[1].data);
    if (!bytes_to_i64(reply->items[2], &partitions) || partitions < 1 ||
        partitions > STORE_PARTITIONS_MAX)
        return refuse(e, "field partitions of key %smeta is '%s': restore the number it had",
                      prefix, (const char *)reply->items[2].data);
    if (e->config->known && partitions != e->config->known)
        return refuse(e,
                      "prefix %s has %lld partitions, but had %u at an earlier connection: this is "
                      "another store; set redis.host back, or restart this process",
                      prefix, (long long)partitions, (unsigned)e->config->known);
    e->partitions = (uint32_t)partitions;
    return STORE_CHECK_PASSED;
}

/* ---- the library ---- */

/* Return: the build of the library text; 0 if it has none. */
static int64_t own_build(const struct store_check *e)
{
    static const char line[] = "\nlocal BUILD = ";
    const char *at = strstr(e->config->library, line);

    return at ? strtoll(at + strlen(line), NULL, 10) : 0;
}

static void ask_version(const struct store_check *e, struct buf *command)
{
    CLEANUP(buf_deinit) struct buf key = {0};

    buf_printf(&key, "%s{p0}:", e->config->prefix);
    resp_command(command, 4);
    resp_puts(command, e->config->read_only ? "FCALL_RO" : "FCALL");
    resp_puts(command, STORE_LIBRARY "_version");
    resp_puts(command, "1");
    resp_put(command, key.data, key.len);
    command->failed |= key.failed;
}

/* A read-only process uses only a library of its own build, because answers differ between builds.
 * A daemon also uses a higher build, so that daemons can be replaced one by one; CHANGELOG names
 * the builds for which that is not possible.
 */
static enum store_check_verdict judge_build(struct store_check *e)
{
    if (e->config->read_only && e->build != own_build(e))
        return refuse(e,
                      "this program needs build %lld of the library, Redis has build %lld: "
                      "use the program of the same release as the schedulers",
                      (long long)own_build(e), (long long)e->build);
    return STORE_CHECK_PASSED;
}

static enum store_check_verdict judge_version(struct store_check *e, const struct resp_reply *reply)
{
    e->build = 0;
    if (resp_is_error(reply, "ERR Function not found"))
        return judge_build(e);
    if (reply->error)
        return refuse(e, "functions cannot be called: %s", resp_text(reply));
    if (reply->n != 1 || !bytes_to_i64(reply->items[0], &e->build))
        return refuse(e,
                      "library " STORE_LIBRARY " in Redis is not Drover's: remove it with FUNCTION "
                      "DELETE " STORE_LIBRARY);
    return judge_build(e);
}

static void ask_load(const struct store_check *e, struct buf *command)
{
    resp_command(command, e->build > 0 ? 4 : 3);
    resp_puts(command, "FUNCTION");
    resp_puts(command, "LOAD");
    if (e->build > 0)
        resp_puts(command, "REPLACE");
    resp_puts(command, e->config->library);
}

static enum store_check_verdict judge_load(struct store_check *e, const struct resp_reply *reply)
{
    if (!reply->error) {
        e->build = own_build(e);
        return STORE_CHECK_PASSED;
    }
    if (!e->lost_race && strstr(resp_text(reply), "already exists")) {
        e->lost_race = true;
        return STORE_CHECK_ASK;
    }
    if (resp_is_error(reply, "NOPERM")) {
        refuse(e,
               "library " STORE_LIBRARY " is missing or old, and this user may not load it: waits "
               "for a scheduler or supervisor whose user has +function|load");
        return STORE_CHECK_WAIT;
    }
    return refuse(e, "library " STORE_LIBRARY " cannot be loaded: %s", resp_text(reply));
}

/* ---- the order of the questions ---- */

enum {
    STEP_LOGIN,
    STEP_DATABASE,
    STEP_INFO,
    STEP_SETTINGS,
    STEP_WAIT,
    STEP_META,
    STEP_VERSION,
    STEP_LOAD,
    STEPS_,
};

static const struct {
    void (*ask)(const struct store_check *e, struct buf *command);
    enum store_check_verdict (*judge)(struct store_check *e, const struct resp_reply *reply);
} steps[STEPS_] = {
    [STEP_LOGIN] = {ask_login, judge_login},       [STEP_DATABASE] = {ask_database, judge_database},
    [STEP_INFO] = {ask_info, judge_info},          [STEP_SETTINGS] = {ask_settings, judge_settings},
    [STEP_WAIT] = {ask_wait, judge_wait},          [STEP_META] = {ask_meta, judge_meta},
    [STEP_VERSION] = {ask_version, judge_version}, [STEP_LOAD] = {ask_load, judge_load},
};

static bool is_needed(const struct store_check *e, int step)
{
    switch (step) {
    case STEP_LOGIN:
        return e->config->user || e->config->password;
    case STEP_DATABASE:
        return e->config->database != 0;
    case STEP_SETTINGS:
        return e->config->strict;
    case STEP_WAIT:
        return e->config->replicas > 0;
    case STEP_LOAD:
        return e->build < own_build(e) && !e->config->read_only;
    default:
        return true;
    }
}

/* Appends the command of the first question, from number @step on, that is needed. */
static enum store_check_verdict ask_from(struct store_check *e, int step, struct buf *command)
{
    while (step < STEPS_ && !is_needed(e, step))
        step++;
    e->step = step;
    if (step == STEPS_)
        return STORE_CHECK_PASSED;
    steps[step].ask(e, command);
    return STORE_CHECK_ASK;
}

enum store_check_verdict store_check_begin(struct store_check *e,
                                           const struct store_check_config *config,
                                           struct buf *command)
{
    *e = (struct store_check){.config = config};
    if (own_build(e) <= 0)
        return refuse(e, "the library that came with this program does not say its build");
    return ask_from(e, STEP_LOGIN, command);
}

enum store_check_verdict store_check_reply(struct store_check *e, const struct resp_reply *reply,
                                           struct buf *command)
{
    enum store_check_verdict verdict = steps[e->step].judge(e, reply);

    if (resp_is_error(reply, "LOADING")) {
        refuse(e, "Redis is still loading its data");
        return STORE_CHECK_WAIT;
    }
    if (verdict == STORE_CHECK_PASSED)
        return ask_from(e, e->step + 1, command);
    if (verdict == STORE_CHECK_ASK)
        return ask_from(e, STEP_VERSION, command);
    return verdict;
}
