// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration: the table of settings, and reading them from file, environment and command line
 *
 * The sample file, the man page and the output of --help and --check-config are made from the same
 * table. See io/config.h.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "io/address.h"
#include "io/config.h"
#include "io/config_actors.h"
#include "io/config_tree.h"
#include "io/file.h"
#include "io/store.h"
#include "io/url.h"

static_assert(STORE_PARTITIONS_MAX == 1024, "the range of redis.partitions, which people read");

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define PATH_SIZE 64     /* longest path of a setting, and its NUL */
#define VARIABLE_SIZE 96 /* the same as a variable: "DROVER_", and each dot is two characters */
#define PREFIX_MAX 128   /* bytes */
#define SECRET_MAX 4096  /* bytes in a file */
#define ENVIRONMENT "DROVER_" /* prefix of Drover's variables */

enum type {
    TEXT,
    SECRET, /* a text that is never printed */
    INTEGER,
    DURATION,
    BOOLEAN,
    WORD, /* one of several words; stored as its index among them */
    TREE, /* neither checked nor stored here: see config_root() */
};

struct setting {
    const char *path;
    enum type type;
    unsigned roles;
    size_t offset;         /* in struct config */
    const char *otherwise; /* the default, as written in a file */
    int64_t min;           /* INTEGER; DURATION in ms */
    int64_t max;
    const char *const *words;           /* WORD: NULL-terminated */
    const char *(*fault)(const char *); /* TEXT, DURATION: what is wrong with a value, or NULL */
    const char *text;
};

static const char *name_fault(const char *name)
{
    if (*name == '\0' || id_name_valid(name, strlen(name)))
        return NULL;
    return "must be 1 to 128 of the characters A-Z a-z 0-9 . _ -";
}

static const char *given_fault(const char *text)
{
    return *text ? NULL : "must not be empty";
}

/* Braces are the hash tag of Redis: that of the partition must be the first one in a key. */
static const char *prefix_fault(const char *prefix)
{
    size_t len = strlen(prefix);

    if (len == 0 || len > PREFIX_MAX)
        return "must be 1 to 128 characters";
    for (size_t i = 0; i < len; i++) {
        if (!isgraph((unsigned char)prefix[i]) || prefix[i] == '{' || prefix[i] == '}')
            return "must be printable ASCII without spaces and braces";
    }
    return NULL;
}

static const char *heartbeat_fault(const char *text)
{
    int64_t ms = 0;

    return duration_parse(text, &ms) && ms % SECOND == 0 ? NULL : "must be whole seconds";
}

static const char *names_fault(const char *names)
{
    for (size_t len; *names; names += len + strspn(names + len, " ")) {
        len = strcspn(names, " ");
        if (!id_name_valid(names, len))
            return "must be names of actors with a space between them";
    }
    return NULL;
}

static const char *listen_fault(const char *text)
{
    struct address address;

    return *text ? address_parse(text, &address) : NULL;
}

#define AT(member) offsetof(struct config, member)
#define DAEMONS (CONFIG_SCHEDULER | CONFIG_AGENT | CONFIG_SUPERVISOR)
#define ALL (DAEMONS | CONFIG_CLI)
#define STEP_WORKERS (CONFIG_SCHEDULER | CONFIG_AGENT)
#define STORE_USERS (CONFIG_SCHEDULER | CONFIG_SUPERVISOR)
#define STORE_READERS (STORE_USERS | CONFIG_CLI) /* --from-store */

static const char *const queue_types[] = {"quorum", "classic", NULL};
static const char *const step_messages[] = {"persistent", "transient", NULL};
static const char *const durabilities[] = {"fast", "strict", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "json", NULL};
static const char *const identities[] = {"off", "required", NULL};
static const char *const replies[] = {"any", "by_actor", NULL};
static const char *const definitions[] = {"any", "registered", NULL};

/* clang-format off */
static const struct setting settings[] = {
    {"name", TEXT, DAEMONS, AT(name), "", .fault = name_fault,
     .text = "of this process among its like; default: <host name>-<pid>"},
    {"drain_timeout", DURATION, DAEMONS, AT(drain_timeout_ms), "25s", 100, HOUR,
     .text = "how long a stop may take before the process just ends"},

    {"rabbitmq.uri", SECRET, ALL, AT(rabbitmq.uri), "",
     .text = "amqp://user:password@host:port/vhost; what it says goes before the next five"},
    {"rabbitmq.host", TEXT, ALL, AT(rabbitmq.host), "127.0.0.1", .fault = given_fault,
     .text = "where the broker is"},
    {"rabbitmq.port", INTEGER, ALL, AT(rabbitmq.port), "5672", 1, UINT16_MAX,
     .text = "its AMQP port"},
    {"rabbitmq.vhost", TEXT, ALL, AT(rabbitmq.vhost), "/", .fault = given_fault,
     .text = "virtual host"},
    {"rabbitmq.user", TEXT, ALL, AT(rabbitmq.user), "guest",
     .text = "who logs in"},
    {"rabbitmq.password", SECRET, ALL, AT(rabbitmq.password), "guest",
     .text = "with what password"},
    {"rabbitmq.heartbeat", DURATION, ALL, AT(rabbitmq.heartbeat_ms), "10s", SECOND, HOUR,
     .fault = heartbeat_fault,
     .text = "a connection silent for twice this is given up; whole seconds"},
    {"rabbitmq.prefetch", INTEGER, CONFIG_SCHEDULER, AT(rabbitmq.prefetch), "256", 1, UINT16_MAX,
     .text = "messages a scheduler works on at a time"},
    {"rabbitmq.queue_type", WORD, ALL, AT(rabbitmq.queue_type), "quorum", .words = queue_types,
     .text = "of the queues that are declared"},
    {"rabbitmq.step_messages", WORD, STEP_WORKERS, AT(rabbitmq.step_messages), "persistent",
     .words = step_messages,
     .text = "transient: classic queues need not write requests and replies to disk"},
    {"rabbitmq.declare", BOOLEAN, ALL, AT(rabbitmq.declare), "true",
     .text = "declare exchanges and queues; else they must be there"},

    {"redis.uri", SECRET, STORE_READERS, AT(redis.uri), "",
     .text = "redis://user:password@host:port/database; what it says goes before what follows"},
    {"redis.host", TEXT, STORE_READERS, AT(redis.host), "127.0.0.1", .fault = given_fault,
     .text = "where Redis or Valkey is"},
    {"redis.port", INTEGER, STORE_READERS, AT(redis.port), "6379", 1, UINT16_MAX,
     .text = "its port"},
    {"redis.socket", TEXT, STORE_READERS, AT(redis.socket), "",
     .text = "path of its unix socket, instead of host and port"},
    {"redis.user", TEXT, STORE_READERS, AT(redis.user), "",
     .text = "who logs in, where Redis has users"},
    {"redis.password", SECRET, STORE_READERS, AT(redis.password), "",
     .text = "with what password"},
    {"redis.database", INTEGER, STORE_READERS, AT(redis.database), "0", 0, INT_MAX,
     .text = "number of the database"},
    {"redis.prefix", TEXT, STORE_READERS, AT(redis.prefix), "drover:", .fault = prefix_fault,
     .text = "what the names of all keys begin with"},
    {"redis.partitions", INTEGER, STORE_USERS, AT(redis.partitions), "16", 1,
     1024,
     .text = "of a new store; an existing one keeps its number"},
    {"redis.durability", WORD, STORE_USERS, AT(redis.durability), "fast", .words = durabilities,
     .text = "strict: nothing is confirmed that a power cut or failover of Redis could lose"},
    {"redis.replicas", INTEGER, STORE_USERS, AT(redis.replicas), "0", 0, 16,
     .text = "with strict: how many replicas must have what is confirmed"},
    {"redis.call_timeout", DURATION, STORE_READERS, AT(redis.call_timeout_ms), "10s", 100, HOUR,
     .text = "a connection without an answer for this long is given up"},

    {"log.level", WORD, ALL, AT(log.level), "info", .words = levels,
     .text = "what is less important is not logged"},
    {"log.format", WORD, ALL, AT(log.format), "text", .words = formats,
     .text = "of the log lines on standard error"},

    {"security.dumpable", BOOLEAN, DAEMONS, AT(security.dumpable), "false",
     .text = "debuggers and other processes of its user may read its memory; core files are written"},

    {"security.identity", WORD, CONFIG_SCHEDULER, AT(security.identity), "off", .words = identities,
     .text = "required: a job belongs to the user that has submitted it, by the property user_id"},
    {"security.replies", WORD, CONFIG_SCHEDULER, AT(security.replies), "any", .words = replies,
     .text = "by_actor: those by drover.replies, of which nobody knows whose they are, are refused"},
    {"security.operators", TEXT, CONFIG_SCHEDULER, AT(security.operators), "",
     .text = "users who may ask about and command all jobs: names with a space between them"},
    {"security.supervisors", TEXT, CONFIG_SCHEDULER, AT(security.supervisors), "drover-supervisor",
     .text = "users whose Recover and Notify count: names with a space between them"},
    {"security.submitters", TREE, CONFIG_SCHEDULER,
     .text = "list of groups: who may submit, what, and where answers go; else every user may"},

    {"health.listen", TEXT, DAEMONS, AT(health.listen), "", .fault = listen_fault,
     .text = "HOST:PORT or [IPV6]:PORT where /livez, /readyz and /metrics are served; port 0: any"},
    {"health.pulse", DURATION, DAEMONS, AT(health.pulse_ms), "5s", 100, MINUTE,
     .text = "how often a message to itself proves that a daemon consumes"},
    {"health.stall", DURATION, DAEMONS, AT(health.stall_ms), "60s", 0, DAY,
     .text = "a connected daemon exits when none comes back for this long; 0: never"},

    {"scheduler.workflows", TEXT, CONFIG_SCHEDULER, AT(scheduler.workflows), "",
     .text = "folder whose *.cfg are registered at start"},
    {"scheduler.alert_command", TEXT, CONFIG_SCHEDULER, AT(scheduler.alert_command), "",
     .text = "program that gets alerts on standard input, each a JobEvent in JSON"},
    {"scheduler.alert_interval", DURATION, CONFIG_SCHEDULER, AT(scheduler.alert_interval_ms), "1m",
     SECOND, DAY,
     .text = "of alerts of one cause within it alert_command and the log get the first, and a count"},
    {"scheduler.json_actors", TEXT, CONFIG_SCHEDULER, AT(scheduler.json_actors), "",
     .fault = names_fault,
     .text = "actors that get their requests in JSON: names with a space between them"},
    {"scheduler.definitions", WORD, CONFIG_SCHEDULER, AT(scheduler.definitions), "any",
     .words = definitions,
     .text = "registered: a Submit names a registered workflow, and brings no definition along"},
    {"scheduler.horizon", DURATION, CONFIG_SCHEDULER, AT(scheduler.horizon_ms), "400d", 0,
     36500 * DAY,
     .text = "how far ahead the start of a job may be; 0: as far as one likes"},
    {"scheduler.bad_replies", INTEGER, CONFIG_SCHEDULER, AT(scheduler.bad_replies), "500", 0,
     1000000,
     .text = "replies a second of an actor's agents that no step waits for, and Progress; 0: any number"},
    {"scheduler.declared_actors", INTEGER, CONFIG_SCHEDULER, AT(scheduler.declared_actors), "100",
     0, 100000,
     .text = "task queues that a scheduler declares for actors which its workflows do not name"},
    {"scheduler.full_at", INTEGER, CONFIG_SCHEDULER, AT(scheduler.full_at), "90", 1, 100,
     .text = "percent of Redis' maxmemory from which on no new job is taken"},

    {"supervisor.period", DURATION, CONFIG_SUPERVISOR, AT(supervisor.period_ms), "1s", 50, MINUTE,
     .text = "the longest time between two checks at what is due"},
    {"supervisor.lease", DURATION, CONFIG_SUPERVISOR, AT(supervisor.lease_ms), "5s", SECOND, HOUR,
     .text = "how long the lead of a partition outlives its supervisor"},
    {"supervisor.election", BOOLEAN, CONFIG_SUPERVISOR, AT(supervisor.election), "true",
     .text = "share the partitions among supervisors; false: each looks after all"},
    {"supervisor.retention", DURATION, CONFIG_SUPERVISOR, AT(supervisor.retention_ms), "7d",
     SECOND, 3650 * DAY,
     .text = "how long a settled job is kept"},
    {"supervisor.sweep", DURATION, CONFIG_SUPERVISOR, AT(supervisor.sweep_ms), "10m", SECOND, DAY,
     .text = "how often every unfinished job is looked at"},

    {"agent.concurrency", INTEGER, CONFIG_AGENT, AT(agent.concurrency), "4", 1, 10000,
     .text = "requests an agent works on at a time, shared evenly among its actors"},
    {"agent.consumer_timeout", DURATION, CONFIG_AGENT, AT(agent.consumer_timeout_ms), "30m", 0,
     365 * DAY,
     .text = "the broker's; a lease of half of it or longer is acknowledged early; 0: it has none"},
    {"agent.actors", TREE, CONFIG_AGENT,
     .text = "list of groups: which actors the agent serves, and how"},
};
/* clang-format on */

struct owner {
    struct config config;
    config_t tree;
};

/* Where a value was given, for the text of a problem. */
struct origin {
    const config_setting_t *setting; /* in a file; NULL if it was given elsewhere: then */
    const char *place;               /* a variable, or "--set" */
    const char *path;                /* of the setting */
};

static int origin_problem(const struct origin *o, struct problem *problem, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

static int origin_problem(const struct origin *o, struct problem *problem, const char *reason, ...)
{
    char text[sizeof(problem->reason)];
    va_list args;

    va_start(args, reason);
    vsnprintf(text, sizeof(text), reason, args);
    va_end(args);
    if (o->setting)
        tree_problem(o->setting, problem, "%s", text);
    else
        problem_set(problem, o->place, "%s: %s", o->path, text);
    return CONFIG_E_INVALID;
}

/* ---- one value ---- */

static void *member(struct config *c, const struct setting *s)
{
    return (char *)c + s->offset;
}

static int set_text(const char **text, const struct setting *s, const char *value,
                    const struct origin *o, struct problem *problem)
{
    const char *fault = s->fault ? s->fault(value) : NULL;
    char *copy;

    if (fault)
        return origin_problem(o, problem, "'%s' %s", value, fault);
    copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free((void *)*text);
    *text = copy;
    return 0;
}

static int set_integer(int64_t *integer, const struct setting *s, const char *value,
                       const struct origin *o, struct problem *problem)
{
    int64_t v;

    if (!bytes_to_i64(bytes_str(value), &v) || v < s->min || v > s->max)
        return origin_problem(o, problem, "'%s' must be an integer from %" PRId64 " to %" PRId64,
                              value, s->min, s->max);
    *integer = v;
    return 0;
}

/* Writes a duration with the largest unit in which it is exact; duration_parse() reads it. */
static const char *duration_text(int64_t ms, char *out, size_t size)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", DAY}, {"h", HOUR}, {"m", MINUTE}, {"s", SECOND}, {"ms", 1}};
    size_t i = 0;

    while (ms % units[i].ms != 0 || ms < units[i].ms) {
        if (++i == array_size(units) - 1)
            break;
    }
    snprintf(out, size, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
    return out;
}

#define DURATION_TEXT(ms) duration_text((ms), (char[32]){0}, 32)

static int set_duration(int64_t *duration, const struct setting *s, const char *value,
                        const struct origin *o, struct problem *problem)
{
    int64_t ms;

    if (!duration_parse(value, &ms) || ms < s->min || ms > s->max)
        return origin_problem(o, problem,
                              "'%s' must be a duration from %s to %s, such as \"1500ms\", \"30s\"",
                              value, DURATION_TEXT(s->min), DURATION_TEXT(s->max));
    if (s->fault && s->fault(value))
        return origin_problem(o, problem, "'%s' %s", value, s->fault(value));
    *duration = ms;
    return 0;
}

static int set_boolean(bool *boolean, const char *value, const struct origin *o,
                       struct problem *problem)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return origin_problem(o, problem, "'%s' must be true or false", value);
    *boolean = value[0] == 't';
    return 0;
}

static int set_word(int *word, const struct setting *s, const char *value, const struct origin *o,
                    struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf known = {0};

    for (int i = 0; s->words[i]; i++) {
        if (strcmp(value, s->words[i]) == 0) {
            *word = i;
            return 0;
        }
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", s->words[i]);
    }
    return origin_problem(o, problem, "'%s' must be one of %s", value, buf_str(&known));
}

static int set(struct config *c, const struct setting *s, const char *value, const struct origin *o,
               struct problem *problem)
{
    switch (s->type) {
    case TEXT:
    case SECRET:
        return set_text(member(c, s), s, value, o, problem);
    case INTEGER:
        return set_integer(member(c, s), s, value, o, problem);
    case DURATION:
        return set_duration(member(c, s), s, value, o, problem);
    case BOOLEAN:
        return set_boolean(member(c, s), value, o, problem);
    case WORD:
        return set_word(member(c, s), s, value, o, problem);
    case TREE:
        break;
    }
    return origin_problem(o, problem, "can be given in the file only");
}

/* ---- finding settings ---- */

static const struct setting *find(const char *path)
{
    for (size_t i = 0; i < array_size(settings); i++) {
        if (strcmp(path, settings[i].path) == 0)
            return &settings[i];
    }
    return NULL;
}

static bool is_group(const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < array_size(settings); i++) {
        if (strncmp(path, settings[i].path, len) == 0 && settings[i].path[len] == '.')
            return true;
    }
    return false;
}

static int unknown(const char *path, const struct origin *o, struct problem *problem)
{
    struct nearest nearest = nearest_to(path);
    char hint[PATH_SIZE + 32];

    for (size_t i = 0; i < array_size(settings); i++)
        nearest_try(&nearest, settings[i].path);
    return origin_problem(o, problem, "there is no such setting%s",
                          nearest_text(&nearest, hint, sizeof(hint)));
}

/* ---- the file ---- */

/* Return: the value as text, as on the command line; NULL if the type does not fit. */
static const char *scalar_text(const struct setting *s, const config_setting_t *node, char *out,
                               size_t size)
{
    switch (config_setting_type(node)) {
    case CONFIG_TYPE_STRING:
        return s->type != INTEGER && s->type != BOOLEAN ? config_setting_get_string(node) : NULL;
    case CONFIG_TYPE_BOOL:
        return s->type != BOOLEAN ? NULL : config_setting_get_bool(node) ? "true" : "false";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(out, size, "%lld", config_setting_get_int64(node));
        return s->type == INTEGER || s->type == DURATION ? out : NULL;
    default:
        return NULL;
    }
}

static int set_from_node(struct config *c, const struct setting *s, const config_setting_t *node,
                         struct problem *problem)
{
    static const char *const forms[] = {
        [TEXT] = "a text in quotes", [SECRET] = "a text in quotes",
        [INTEGER] = "an integer",    [DURATION] = "a duration such as \"30s\"",
        [BOOLEAN] = "true or false", [WORD] = "a word in quotes",
    };
    struct origin origin = {.setting = node};
    char number[24];
    const char *value;

    if (s->type == TREE)
        return 0;
    value = scalar_text(s, node, number, sizeof(number));
    if (!value)
        return origin_problem(&origin, problem, "must be %s", forms[s->type]);
    return set(c, s, value, &origin, problem);
}

/* @at: path of @group, "" for the root. */
static int set_from_group(struct config *c, const config_setting_t *group, const char *at,
                          struct problem *problem)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *node = config_setting_get_elem(group, (unsigned)i);
        struct origin origin = {.setting = node};
        char path[PATH_SIZE];
        const struct setting *s;
        int ret;

        snprintf(path, sizeof(path), "%s%s%s", at, *at ? "." : "", config_setting_name(node));
        s = find(path);
        if (s)
            ret = set_from_node(c, s, node, problem);
        else if (!is_group(path))
            ret = unknown(path, &origin, problem);
        else if (!config_setting_is_group(node))
            ret = origin_problem(&origin, problem, "must be a group { ... }");
        else
            ret = set_from_group(c, node, path, problem);
        if (ret)
            return ret;
    }
    return 0;
}

static int set_from_file(struct owner *o, const char *file, struct problem *problem)
{
    if (tree_read(&o->tree, file, problem) != 0)
        return CONFIG_E_INVALID;
    return set_from_group(&o->config, config_root_setting(&o->tree), "", problem);
}

/* ---- the environment ---- */

/* rabbitmq.host → DROVER_RABBITMQ__HOST */
static void variable_of(const struct setting *s, char out[VARIABLE_SIZE])
{
    char *to = stpcpy(out, ENVIRONMENT);

    for (const char *from = s->path; *from; from++) {
        *to++ = (char)(*from == '.' ? '_' : toupper((unsigned char)*from));
        if (*from == '.')
            *to++ = '_';
    }
    *to = '\0';
}

/* Return: the setting of a variable. *from_file: whether it names a file that holds the value. */
static const struct setting *find_variable(const char *name, bool *from_file)
{
    char variable[VARIABLE_SIZE];

    for (size_t i = 0; i < array_size(settings); i++) {
        size_t len;

        variable_of(&settings[i], variable);
        len = strlen(variable);
        if (strncmp(name, variable, len) != 0)
            continue;
        *from_file = settings[i].type == SECRET && strcmp(name + len, "_FILE") == 0;
        if (name[len] == '\0' || *from_file)
            return &settings[i];
    }
    return NULL;
}

static int unknown_variable(const char *name, struct problem *problem)
{
    char variable[VARIABLE_SIZE], hint[VARIABLE_SIZE + 32];
    struct nearest nearest = nearest_to(name);

    for (size_t i = 0; i < array_size(settings); i++) {
        variable_of(&settings[i], variable);
        nearest_try(&nearest, variable);
    }
    problem_set(problem, name, "there is no such setting%s",
                nearest_text(&nearest, hint, sizeof(hint)));
    return CONFIG_E_INVALID;
}

static int set_from_secret_file(struct config *c, const struct setting *s, const char *file,
                                const struct origin *o, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    char *secret;
    int r = file_read(file, SECRET_MAX, &text, NULL);

    if (r == -EFBIG)
        return origin_problem(o, problem, "%s: longer than %d bytes", file, SECRET_MAX);
    if (r)
        return origin_problem(o, problem, "%s: %s", file, strerror(-r));
    buf_putc(&text, '\0');
    secret = (char *)buf_or_abort(&text).data;
    secret[strcspn(secret, "\r\n")] = '\0';
    return set(c, s, secret, o, problem);
}

/*
 * An unknown variable is an error only if it has two underscores in a row, as settings have:
 * Kubernetes sets DROVER_…_PORT and the like for a service named drover.
 */
static int set_from_variable(struct config *c, const char *entry, struct problem *problem)
{
    char name[VARIABLE_SIZE + sizeof("_FILE")];
    size_t len = strcspn(entry, "=");
    struct origin origin = {.place = name};
    const struct setting *s;
    bool from_file = false;

    snprintf(name, sizeof(name), "%.*s", (int)len, entry);
    s = find_variable(name, &from_file);
    if (!s)
        return strstr(name, "__") ? unknown_variable(name, problem) : 0;
    origin.path = s->path;
    if (from_file)
        return set_from_secret_file(c, s, entry + len + 1, &origin, problem);
    return set(c, s, entry + len + 1, &origin, problem);
}

static int set_from_environment(struct config *c, char *const *environment, struct problem *problem)
{
    for (; environment && *environment; environment++) {
        const char *entry = *environment;
        int ret;

        if (strncmp(entry, ENVIRONMENT, strlen(ENVIRONMENT)) != 0 || !strchr(entry, '='))
            continue;
        ret = set_from_variable(c, entry, problem);
        if (ret)
            return ret;
    }
    return 0;
}

/* ---- the command line ---- */

static int set_from_argument(struct config *c, const char *argument, bool secrets,
                             struct problem *problem)
{
    size_t len = strcspn(argument, "=");
    char path[PATH_SIZE];
    struct origin origin = {.place = "--set", .path = path};
    const struct setting *s;

    snprintf(path, sizeof(path), "%.*s", (int)len, argument);
    if (argument[len] != '=')
        return origin_problem(&origin, problem, "must be followed by = and a value");
    s = find(path);
    if (!s)
        return unknown(path, &origin, problem);
    if (s->type == SECRET && !secrets) {
        char variable[VARIABLE_SIZE];

        variable_of(s, variable);
        return origin_problem(&origin, problem,
                              "is a secret, and arguments are public: set %s, or %s_FILE to the "
                              "name of a file that holds it",
                              variable, variable);
    }
    return set(c, s, argument + len + 1, &origin, problem);
}

/* ---- loading ---- */

static int set_defaults(struct config *c)
{
    const struct origin origin = {.place = "default"};

    for (size_t i = 0; i < array_size(settings); i++) {
        const struct setting *s = &settings[i];
        int ret = s->type == TREE ? 0 : set(c, s, s->otherwise, &origin, NULL);

        assert(ret <= 0);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int default_name(struct config *c)
{
    char host[HOST_NAME_MAX + 1] = "", *name;

    if (c->name[0])
        return 0;
    if (gethostname(host, sizeof(host) - 1) < 0)
        return -errno;
    if (asprintf(&name, "%s-%d", host, (int)getpid()) < 0)
        return -ENOMEM;
    free((void *)c->name);
    c->name = name;
    return 0;
}

/* Moves a part of a URL to a setting, if the URL has that part. */
static void take_part(const char **to, char **part)
{
    if (!*part)
        return;
    free((void *)*to);
    *to = take(*part);
}

static int uri_problem(const char *path, const struct problem *inner, struct problem *problem)
{
    problem_set(problem, path, "%s%s%s", inner->field, *inner->field ? " " : "", inner->reason);
    return CONFIG_E_INVALID;
}

static int take_rabbitmq_uri(struct config *c, struct problem *problem)
{
    CLEANUP(url_deinit) struct url url = {0};
    struct problem inner = {0};
    int ret = *c->rabbitmq.uri ? url_parse(c->rabbitmq.uri, "amqp://", &url, &inner) : 0;

    if (ret)
        return ret < 0 ? ret : uri_problem("rabbitmq.uri", &inner, problem);
    take_part(&c->rabbitmq.host, &url.host);
    take_part(&c->rabbitmq.user, &url.user);
    take_part(&c->rabbitmq.password, &url.password);
    if (url.path && *url.path) /* amqp://host/ does not change it */
        take_part(&c->rabbitmq.vhost, &url.path);
    if (url.port)
        c->rabbitmq.port = url.port;
    return 0;
}

static int take_redis_uri(struct config *c, struct problem *problem)
{
    CLEANUP(url_deinit) struct url url = {0};
    struct problem inner = {0};
    int64_t database = c->redis.database;
    int ret = *c->redis.uri ? url_parse(c->redis.uri, "redis://", &url, &inner) : 0;

    if (ret)
        return ret < 0 ? ret : uri_problem("redis.uri", &inner, problem);
    if (url.path && *url.path &&
        (!bytes_to_i64(bytes_str(url.path), &database) || database < 0 || database > INT_MAX)) {
        problem_set(&inner, "path", "must be the number of a database");
        return uri_problem("redis.uri", &inner, problem);
    }
    take_part(&c->redis.host, &url.host);
    take_part(&c->redis.user, &url.user);
    take_part(&c->redis.password, &url.password);
    c->redis.database = database;
    if (url.port)
        c->redis.port = url.port;
    return 0;
}

static int check_together(const struct config *c, struct problem *problem)
{
    if (c->redis.replicas > 0 && c->redis.durability != CONFIG_STRICT) {
        problem_set(problem, "redis.replicas", "are waited for with redis.durability strict only");
        return CONFIG_E_INVALID;
    }
    if (c->supervisor.lease_ms >= 2 * c->supervisor.period_ms)
        return 0;
    problem_set(problem, "supervisor.lease",
                "must be at least twice supervisor.period, or the lead "
                "is lost between two checks");
    return CONFIG_E_INVALID;
}

static int load(struct owner *o, const struct config_source *source, struct problem *problem)
{
    int ret = set_defaults(&o->config);

    if (ret == 0 && source->file)
        ret = set_from_file(o, source->file, problem);
    if (ret == 0)
        ret = set_from_environment(&o->config, source->environ, problem);
    for (int i = 0; ret == 0 && i < source->n_sets; i++)
        ret = set_from_argument(&o->config, source->sets[i], source->secret_sets, problem);
    if (ret == 0)
        ret = take_rabbitmq_uri(&o->config, problem);
    if (ret == 0)
        ret = take_redis_uri(&o->config, problem);
    if (ret == 0)
        ret = check_together(&o->config, problem);
    return ret == 0 ? default_name(&o->config) : ret;
}

int config_load(struct config **out, const struct config_source *source, struct problem *problem)
{
    struct owner *o = calloc(1, sizeof(*o));
    int ret;

    if (!o)
        return -ENOMEM;
    config_init(&o->tree);
    ret = load(o, source, problem);
    if (ret) {
        config_free(&o->config);
        return ret;
    }
    *out = &o->config;
    return 0;
}

struct config *config_free(struct config *c)
{
    struct owner *o;

    if (!c)
        return NULL;
    for (size_t i = 0; i < array_size(settings); i++) {
        if (settings[i].type == TEXT || settings[i].type == SECRET)
            free(*(char **)member(c, &settings[i]));
    }
    o = container_of(c, struct owner, config);
    config_destroy(&o->tree);
    free(o);
    return NULL;
}

struct config_setting_t *config_root(const struct config *c)
{
    return config_root_setting(&container_of(c, struct owner, config)->tree);
}

static bool differs(const struct config *a, const struct config *b, const struct setting *s)
{
    const void *in_a = (const char *)a + s->offset, *in_b = (const char *)b + s->offset;

    switch (s->type) {
    case TEXT:
    case SECRET:
        return strcmp(*(const char *const *)in_a, *(const char *const *)in_b) != 0;
    case INTEGER:
    case DURATION:
        return *(const int64_t *)in_a != *(const int64_t *)in_b;
    case BOOLEAN:
        return *(const bool *)in_a != *(const bool *)in_b;
    case WORD:
        return *(const int *)in_a != *(const int *)in_b;
    case TREE:
        break;
    }
    return !tree_equal(config_setting_lookup(config_root(a), s->path),
                       config_setting_lookup(config_root(b), s->path));
}

void config_difference(const struct config *a, const struct config *b, struct buf *out)
{
    for (size_t i = 0; i < array_size(settings); i++) {
        if (differs(a, b, &settings[i]))
            buf_printf(out, "%s%s", out->len > 0 ? " " : "", settings[i].path);
    }
}

/* ---- the settings in force, and --help ---- */

static void put_value(const struct setting *s, const void *value, FILE *out)
{
    switch (s->type) {
    case TEXT:
        fprintf(out, "\"%s\"", *(const char *const *)value);
        break;
    case SECRET:
        fputs(**(const char *const *)value ? "(given)" : "(none)", out);
        break;
    case INTEGER:
        fprintf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case DURATION:
        fprintf(out, "\"%s\"", DURATION_TEXT(*(const int64_t *)value));
        break;
    case BOOLEAN:
        fputs(*(const bool *)value ? "true" : "false", out);
        break;
    case WORD:
        fprintf(out, "\"%s\"", s->words[*(const int *)value]);
        break;
    case TREE:
        break;
    }
}

void config_print(const struct config *c, FILE *out)
{
    for (size_t i = 0; i < array_size(settings); i++) {
        const struct setting *s = &settings[i];

        if (s->type == TREE)
            continue;
        fprintf(out, "%s = ", s->path);
        put_value(s, (const char *)c + s->offset, out);
        fputc('\n', out);
    }
}

static void describe_type(const struct setting *s, FILE *out)
{
    switch (s->type) {
    case TEXT:
    case SECRET:
        fprintf(out, *s->otherwise ? "text, default \"%s\"" : "text", s->otherwise);
        break;
    case INTEGER:
        fprintf(out, "%" PRId64 " to %" PRId64 ", default %s", s->min, s->max, s->otherwise);
        break;
    case DURATION:
        fprintf(out, "%s to %s, default %s", DURATION_TEXT(s->min), DURATION_TEXT(s->max),
                s->otherwise);
        break;
    case BOOLEAN:
        fprintf(out, "true or false, default %s", s->otherwise);
        break;
    case WORD:
        for (int i = 0; s->words[i]; i++)
            fprintf(out, "%s%s", i > 0 ? ", " : "", s->words[i]);
        fprintf(out, "; default %s", s->otherwise);
        break;
    case TREE:
        fputs("in the file only", out);
        break;
    }
}

void config_describe(enum config_role role, FILE *out)
{
    for (size_t i = 0; i < array_size(settings); i++) {
        const struct setting *s = &settings[i];

        if (!(s->roles & role))
            continue;
        fprintf(out, "  %-22s %s\n  %-22s (", s->path, s->text, "");
        describe_type(s, out);
        fputs(")\n", out);
    }
}

/* ---- the sample file and the man page ---- */

static void print_roles(const struct setting *s, FILE *out)
{
    static const struct {
        unsigned role;
        const char *name;
    } roles[] = {{CONFIG_SCHEDULER, "scheduler"},
                 {CONFIG_AGENT, "agent"},
                 {CONFIG_SUPERVISOR, "supervisor"},
                 {CONFIG_CLI, "drover"}};
    const char *separator = "";

    for (size_t i = 0; i < array_size(roles); i++) {
        if (s->roles & roles[i].role) {
            fprintf(out, "%s%s", separator, roles[i].name);
            separator = ", ";
        }
    }
}

/* Prints the default as written in a file. */
static void print_default(const struct setting *s, FILE *out)
{
    bool quoted = s->type != INTEGER && s->type != BOOLEAN;

    fprintf(out, quoted ? "\"%s\"" : "%s", s->otherwise);
}

/* Return: the length of the group in a path: "rabbitmq.host" is in "rabbitmq", "name" in none. */
static int group_of(const struct setting *s)
{
    const char *dot = strchr(s->path, '.');

    return dot ? (int)(dot - s->path) : 0;
}

static void sample_setting(const struct setting *s, FILE *out)
{
    int group = group_of(s);
    const char *pad = group > 0 ? "    " : "", *name = s->path + group + (group > 0);
    char variable[VARIABLE_SIZE];

    variable_of(s, variable);
    fprintf(out, "%s# %s (", pad, s->text);
    describe_type(s, out);
    fprintf(out, ")\n%s# ", pad);
    if (s->type == TREE) {
        fprintf(out, "%s = ( ... );\n", name);
        return;
    }
    fprintf(out, "%s%s\n%s# %s = ", variable,
            s->type == SECRET ? "; or the name of a file that holds it, with _FILE behind" : "",
            pad, name);
    print_default(s, out);
    fputs(";\n", out);
}

void config_sample(FILE *out)
{
    const char *open = "";
    int open_len = 0;

    fputs("# Drover's configuration: one file for all roles, each takes what concerns it.\n"
          "# What stands here as a comment is the default. The environment goes before the file,\n"
          "# the command line (--set PATH=VALUE) before that.\n",
          out);
    for (size_t i = 0; i < array_size(settings); i++) {
        const struct setting *s = &settings[i];
        int len = group_of(s);

        if (len != open_len || strncmp(open, s->path, (size_t)len) != 0) {
            fputs(open_len > 0 ? "};\n\n" : "\n", out);
            if (len > 0)
                fprintf(out, "%.*s = {\n", len, s->path);
        } else {
            fputc('\n', out);
        }
        open = s->path;
        open_len = len;
        sample_setting(s, out);
    }
    fputs(open_len > 0 ? "};\n" : "", out);
}

/* Prints a text with all that scdoc would take for markup escaped. */
static void print_plain(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, strchr("\\_*<>#.", *text) ? "\\%c" : "%c", *text);
}

static void manual_setting(const struct setting *s, FILE *out)
{
    char variable[VARIABLE_SIZE];
    char *type = NULL;
    size_t size;
    FILE *memory = open_memstream(&type, &size);

    if (!memory)
        abort();
    describe_type(s, memory);
    fclose(memory);
    variable_of(s, variable);
    fprintf(out, "*%s*\n\t", s->path);
    print_plain(s->text, out);
    fputs(" (", out);
    print_plain(type, out);
    fputs("). Used by ", out);
    print_roles(s, out);
    if (s->type != TREE) {
        fputs(". Variable ", out);
        print_plain(variable, out);
    }
    fputs(".\n\n", out);
    free(type);
}

void config_manual(FILE *out)
{
    fputs(
        "drover.cfg(5)\n\n# NAME\n\ndrover.cfg - configuration of Drover\n\n# DESCRIPTION\n\n"
        "One file in the language of libconfig for all roles, given with *--config*; each takes\n"
        "what concerns it, and checks all of it. A setting that nobody knows is an error.\n"
        "*drover config* prints a file with every setting explained, *--check-config* of a daemon\n"
        "the settings in force.\n\n"
        "A value comes from the last of these that gives one: the default, the file, the\n"
        "environment, the command line (*--set* _PATH_=_VALUE_). The variable of *a.b* is\n"
        "DROVER\\_A\\_\\_B; that of a secret can have \\_FILE behind it, and then names a file\n"
        "that holds the value.\n\n"
        "Durations are \"1500ms\", \"30s\", \"5m\", \"1h\", \"7d\", or an integer of "
        "milliseconds.\n"
        "@include works as libconfig has it, relative to the folder of the file.\n\n"
        "# SETTINGS\n\n",
        out);
    for (size_t i = 0; i < array_size(settings); i++)
        manual_setting(&settings[i], out);
    config_actors_manual(out);
    fputs("# SEE ALSO\n\n*drover*(1)\n", out);
}
