// SPDX-License-Identifier: Apache-2.0
/*
 * Table of settings: each with its type, range, default and text
 *
 * Called by the other files of configuration. OPERATIONS.md has its tables from here.
 */
#include "io/config/config_table.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "io/address.h"
#include "io/config/config.h"
#include "io/config/config_tree.h"
#include "io/hosts.h"
#include "io/store/store.h"

static_assert(STORE_PARTITIONS_MAX == 1024, "the range of redis.partitions, which people read");

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define PREFIX_MAX 128 /* bytes */

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

/* Colons are part of an IPv6 address, which has two at least. */
static const char *server_name_fault(const char *text)
{
    const char *colon = strchr(text, ':');

    if (*text == '\0')
        return NULL;
    if (strpbrk(text, ",[") || (colon && !strchr(colon + 1, ':')))
        return "must be one host, without a port";
    return hosts_fault(*text == '.' ? "a b" : text);
}

static const char *listen_fault(const char *text)
{
    struct address address;

    return *text ? address_parse(text, &address) : NULL;
}

#define AT(member) offsetof(struct config, member)
#define DAEMONS (CONFIG_SCHEDULER | CONFIG_AGENT | CONFIG_SUPERVISOR)
#define ALL (DAEMONS | CONFIG_CLI)
#define STORE_USERS (CONFIG_SCHEDULER | CONFIG_SUPERVISOR)
#define STORE_READERS (STORE_USERS | CONFIG_CLI) /* --from-store */

static const char *const logins[] = {"password", "certificate", NULL};
static const char *const replications[] = {"auto", "none", "quorum", NULL};
static const char *const queue_types[] = {"auto", "quorum", "classic", NULL};
static const char *const step_messages[] = {"auto", "persistent", "transient", NULL};
static const char *const durabilities[] = {"fast", "strict", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "json", NULL};
static const char *const identities[] = {"off", "required", NULL};
static const char *const replies[] = {"any", "by_actor", NULL};
static const char *const definitions[] = {"any", "registered", NULL};

/* clang-format off */
const struct setting config_settings[] = {
    {"name", SETTING_TEXT, DAEMONS, AT(name), "", .fault = name_fault,
     .text = "of this process among its like; default: <host name>-<pid>"},
    {"drain_timeout", SETTING_DURATION, DAEMONS, AT(drain_timeout_ms), "25s", 100, HOUR,
     .text = "how long a stop may take before the process just ends"},

    {"rabbitmq.uri", SETTING_SECRET, ALL, AT(rabbitmq.uri), "",
     .text = "amqp://user:password@host:port/vhost, or amqps:// for TLS; its parts go before the "
             "settings below"},
    {"rabbitmq.host", SETTING_TEXT, ALL, AT(rabbitmq.host), "127.0.0.1", .fault = hosts_fault,
     .text = "where the broker is; several nodes with a comma between them, as in a,b:5673,[::1]"},
    {"rabbitmq.port", SETTING_INTEGER, ALL, AT(rabbitmq.port), "0", 0, UINT16_MAX,
     .text = "its AMQP port; 0: 5672, or 5671 with TLS"},
    {"rabbitmq.tls", SETTING_BOOLEAN, ALL, AT(rabbitmq.tls.on), "false",
     .text = "encrypt, and verify the certificate of the broker"},
    {"rabbitmq.vhost", SETTING_TEXT, ALL, AT(rabbitmq.vhost), "/", .fault = given_fault,
     .text = "virtual host"},
    {"rabbitmq.user", SETTING_TEXT, ALL, AT(rabbitmq.user), "guest",
     .text = "who logs in"},
    {"rabbitmq.password", SETTING_SECRET, ALL, AT(rabbitmq.password), "guest",
     .text = "with what password"},
    {"rabbitmq.login", SETTING_WORD, ALL, AT(rabbitmq.tls.login), "password", .words = logins,
     .text = "certificate: the broker takes the user from cert_file (EXTERNAL)"},
    {"rabbitmq.ca_file", SETTING_TEXT, ALL, AT(rabbitmq.tls.ca_file), "",
     .text = "authorities that sign the broker's certificate (PEM); else those of the system"},
    {"rabbitmq.cert_file", SETTING_TEXT, ALL, AT(rabbitmq.tls.cert_file), "",
     .text = "certificate of this process and its chain (PEM), for brokers that want one"},
    {"rabbitmq.key_file", SETTING_TEXT, ALL, AT(rabbitmq.tls.key_file), "",
     .text = "its private key (PEM), which others must not be able to read"},
    {"rabbitmq.server_name", SETTING_TEXT, ALL, AT(rabbitmq.tls.server_name), "",
     .fault = server_name_fault,
     .text = "for which the broker's certificate must be; else the host that is connected to"},
    {"rabbitmq.insecure", SETTING_BOOLEAN, ALL, AT(rabbitmq.tls.insecure), "false",
     .text = "allow clear text to hosts other than this one: passwords and jobs can be read and "
             "changed on the way"},
    {"rabbitmq.heartbeat", SETTING_DURATION, ALL, AT(rabbitmq.heartbeat_ms), "10s", SECOND, HOUR,
     .fault = heartbeat_fault,
     .text = "a connection silent for twice this is given up; whole seconds"},
    {"rabbitmq.prefetch", SETTING_INTEGER, CONFIG_SCHEDULER, AT(rabbitmq.prefetch), "256", 1,
     UINT16_MAX,
     .text = "messages of each queue that a scheduler works on at a time"},
    {"rabbitmq.replication", SETTING_WORD, ALL, AT(rabbitmq.replication), "auto",
     .words = replications,
     .text = "none: classic queues on one node, without a disk for requests and replies; quorum: "
             "quorum queues; auto: quorum if rabbitmq.host names several hosts, or "
             "rabbitmq.declare is false; else none, but quorum queues that exist are kept"},
    {"rabbitmq.queue_type", SETTING_WORD, ALL, AT(rabbitmq.queue_type), "auto",
     .words = queue_types,
     .text = "replaced by rabbitmq.replication: quorum is quorum; classic is none with persistent "
             "requests and replies, unless rabbitmq.step_messages says transient"},
    {"rabbitmq.step_messages", SETTING_WORD, ALL, AT(rabbitmq.step_messages), "auto",
     .words = step_messages,
     .text = "replaced by rabbitmq.replication: persistent writes requests and replies to disk"},
    {"rabbitmq.declare", SETTING_BOOLEAN, ALL, AT(rabbitmq.declare), "true",
     .text = "declare exchanges and queues; else they must be there"},

    {"redis.uri", SETTING_SECRET, STORE_READERS, AT(redis.uri), "",
     .text = "redis://user:password@host:port/database, or rediss:// for TLS; "
             "redis+sentinel://user:password@sentinel,sentinel/name/database with Sentinels; its "
             "parts go before the settings below"},
    {"redis.host", SETTING_TEXT, STORE_READERS, AT(redis.host), "127.0.0.1", .fault = hosts_fault,
     .text = "where Redis or Valkey is; several servers with a comma between them, as in "
             "a,b:6380,[::1]: the primary of them is used; with redis.master_name the Sentinels"},
    {"redis.port", SETTING_INTEGER, STORE_READERS, AT(redis.port), "0", 0, UINT16_MAX,
     .text = "its port; 0: 6379, or 26379 for Sentinels"},
    {"redis.master_name", SETTING_TEXT, STORE_READERS, AT(redis.master_name), "",
     .text = "of the primary, as the Sentinels know it; empty without Sentinels"},
    {"redis.sentinel_user", SETTING_TEXT, STORE_READERS, AT(redis.sentinel_user), "",
     .text = "who logs in at the Sentinels, where these have users"},
    {"redis.sentinel_password", SETTING_SECRET, STORE_READERS, AT(redis.sentinel_password), "",
     .text = "with what password"},
    {"redis.tls", SETTING_BOOLEAN, STORE_READERS, AT(redis.tls.on), "false",
     .text = "encrypt, and verify the certificate of Redis"},
    {"redis.socket", SETTING_TEXT, STORE_READERS, AT(redis.socket), "",
     .text = "path of its unix socket, instead of host and port"},
    {"redis.user", SETTING_TEXT, STORE_READERS, AT(redis.user), "",
     .text = "who logs in, where Redis has users"},
    {"redis.password", SETTING_SECRET, STORE_READERS, AT(redis.password), "",
     .text = "with what password"},
    {"redis.ca_file", SETTING_TEXT, STORE_READERS, AT(redis.tls.ca_file), "",
     .text = "authorities that sign the certificate of Redis (PEM); else those of the system"},
    {"redis.cert_file", SETTING_TEXT, STORE_READERS, AT(redis.tls.cert_file), "",
     .text = "certificate of this process and its chain (PEM), where Redis wants one"},
    {"redis.key_file", SETTING_TEXT, STORE_READERS, AT(redis.tls.key_file), "",
     .text = "its private key (PEM), which others must not be able to read"},
    {"redis.server_name", SETTING_TEXT, STORE_READERS, AT(redis.tls.server_name), "",
     .fault = server_name_fault,
     .text = "for which the certificate of Redis must be; else the host that is connected to"},
    {"redis.insecure", SETTING_BOOLEAN, STORE_READERS, AT(redis.tls.insecure), "false",
     .text = "allow clear text to hosts other than this one: passwords and jobs can be read and "
             "changed on the way"},
    {"redis.database", SETTING_INTEGER, STORE_READERS, AT(redis.database), "0", 0, INT_MAX,
     .text = "number of the database"},
    {"redis.prefix", SETTING_TEXT, STORE_READERS, AT(redis.prefix), "drover:",
     .fault = prefix_fault,
     .text = "what the names of all keys begin with"},
    {"redis.partitions", SETTING_INTEGER, STORE_USERS, AT(redis.partitions), "16", 1,
     1024,
     .text = "of a new store; an existing one keeps its number"},
    {"redis.durability", SETTING_WORD, STORE_USERS, AT(redis.durability), "fast",
     .words = durabilities,
     .text = "strict: nothing is confirmed that a power cut of Redis could lose"},
    {"redis.replicas", SETTING_INTEGER, STORE_USERS, AT(redis.replicas), "0", 0, 16,
     .text = "with strict: how many replicas must have what is confirmed"},
    {"redis.loss_window", SETTING_DURATION, CONFIG_SCHEDULER, AT(redis.loss_window_ms), "0s", 0,
     HOUR,
     .text = "what a failover may lose: a scheduler remembers for so long the jobs that it has "
             "accepted, to name those that are lost; 0s: 10s, or 60s with several hosts or "
             "Sentinels"},
    {"redis.call_timeout", SETTING_DURATION, STORE_READERS, AT(redis.call_timeout_ms), "10s", 100,
     HOUR,
     .text = "a connection without an answer for this long is given up"},

    {"log.level", SETTING_WORD, ALL, AT(log.level), "info", .words = levels,
     .text = "what is less important is not logged"},
    {"log.format", SETTING_WORD, ALL, AT(log.format), "text", .words = formats,
     .text = "of the log lines on standard error"},

    {"security.dumpable", SETTING_BOOLEAN, DAEMONS, AT(security.dumpable), "false",
     .text = "debuggers and other processes of its user may read its memory; core files are "
             "written"},

    {"security.identity", SETTING_WORD, CONFIG_SCHEDULER, AT(security.identity), "off",
     .words = identities,
     .text = "required: a job belongs to the user that has submitted it, by the property user_id"},
    {"security.replies", SETTING_WORD, CONFIG_SCHEDULER, AT(security.replies), "any",
     .words = replies,
     .text = "by_actor: those by drover.replies, which do not show their actor, are refused"},
    {"security.operators", SETTING_TEXT, CONFIG_SCHEDULER, AT(security.operators), "",
     .text = "users who may ask about and command all jobs: names with a space between them"},
    {"security.supervisors", SETTING_TEXT, CONFIG_SCHEDULER, AT(security.supervisors),
     "drover-supervisor",
     .text = "users whose Recover and Notify count: names with a space between them"},
    {"security.submitters", SETTING_TREE, CONFIG_SCHEDULER,
     .text = "list of groups: who may submit, what, and where answers go; else every user may"},

    {"health.listen", SETTING_TEXT, DAEMONS, AT(health.listen), "", .fault = listen_fault,
     .text = "HOST:PORT or [IPV6]:PORT where /livez, /readyz and /metrics are served; port 0: any"},
    {"health.pulse", SETTING_DURATION, DAEMONS, AT(health.pulse_ms), "5s", 100, MINUTE,
     .text = "how often a message to itself proves that a daemon consumes"},
    {"health.stall", SETTING_DURATION, DAEMONS, AT(health.stall_ms), "60s", 0, DAY,
     .text = "a connected daemon exits when none comes back for this long; 0: never"},

    {"scheduler.workflows", SETTING_TEXT, CONFIG_SCHEDULER, AT(scheduler.workflows), "",
     .text = "folder whose *.cfg are registered at start"},
    {"scheduler.alert_command", SETTING_TEXT, CONFIG_SCHEDULER, AT(scheduler.alert_command), "",
     .text = "program that gets alerts on standard input, each a JobEvent in JSON"},
    {"scheduler.alert_interval", SETTING_DURATION, CONFIG_SCHEDULER,
     AT(scheduler.alert_interval_ms), "1m",
     SECOND, DAY,
     .text = "of alerts of one cause within this time alert_command and the log get the first, and "
             "at its end the last with a count"},
    {"scheduler.json_actors", SETTING_TEXT, CONFIG_SCHEDULER, AT(scheduler.json_actors), "",
     .fault = names_fault,
     .text = "actors that get their requests in JSON: names with a space between them"},
    {"scheduler.definitions", SETTING_WORD, CONFIG_SCHEDULER, AT(scheduler.definitions), "any",
     .words = definitions,
     .text = "registered: a Submit names a registered workflow, and brings no definition along"},
    {"scheduler.horizon", SETTING_DURATION, CONFIG_SCHEDULER, AT(scheduler.horizon_ms), "400d", 0,
     36500 * DAY,
     .text = "how far ahead the start of a job may be; 0: as far as one likes"},
    {"scheduler.bad_replies", SETTING_INTEGER, CONFIG_SCHEDULER, AT(scheduler.bad_replies), "500",
     0,
     1000000,
     .text = "replies that no step waits for, and likewise Progress, that the agents of an actor "
             "may send each second; 0: any number"},
    {"scheduler.declared_actors", SETTING_INTEGER, CONFIG_SCHEDULER,
     AT(scheduler.declared_actors), "100",
     0, 100000,
     .text = "task queues that a scheduler declares for actors which its workflows do not name"},
    {"scheduler.full_at", SETTING_INTEGER, CONFIG_SCHEDULER, AT(scheduler.full_at), "90", 1, 100,
     .text = "percent of Redis' maxmemory from which on no new job is taken"},

    {"supervisor.period", SETTING_DURATION, CONFIG_SUPERVISOR, AT(supervisor.period_ms), "1s", 50,
     MINUTE,
     .text = "the longest time between two checks at what is due"},
    {"supervisor.lease", SETTING_DURATION, CONFIG_SUPERVISOR, AT(supervisor.lease_ms), "5s",
     SECOND, HOUR,
     .text = "how long the lead of a partition outlives its supervisor"},
    {"supervisor.election", SETTING_BOOLEAN, CONFIG_SUPERVISOR, AT(supervisor.election), "true",
     .text = "share the partitions among supervisors; false: each looks after all"},
    {"supervisor.retention", SETTING_DURATION, CONFIG_SUPERVISOR, AT(supervisor.retention_ms), "7d",
     SECOND, 3650 * DAY,
     .text = "how long a settled job is kept"},
    {"supervisor.sweep", SETTING_DURATION, CONFIG_SUPERVISOR, AT(supervisor.sweep_ms), "10m",
     SECOND, DAY,
     .text = "how often every unfinished job is checked"},

    {"agent.concurrency", SETTING_INTEGER, CONFIG_AGENT, AT(agent.concurrency), "4", 1, 10000,
     .text = "requests an agent works on at a time, shared evenly among its actors"},
    {"agent.consumer_timeout", SETTING_DURATION, CONFIG_AGENT, AT(agent.consumer_timeout_ms),
     "30m", 0,
     365 * DAY,
     .text = "the broker's; a lease of half of it or longer is acknowledged early; 0: it has none"},
    {"agent.actors", SETTING_TREE, CONFIG_AGENT,
     .text = "list of groups: which actors the agent serves, and how"},
};
/* clang-format on */

const size_t config_n_settings = array_size(config_settings);

const struct setting *config_find(const char *path)
{
    for (size_t i = 0; i < config_n_settings; i++) {
        if (strcmp(path, config_settings[i].path) == 0)
            return &config_settings[i];
    }
    return NULL;
}

bool config_is_group(const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < config_n_settings; i++) {
        if (strncmp(path, config_settings[i].path, len) == 0 && config_settings[i].path[len] == '.')
            return true;
    }
    return false;
}

void config_variable(const struct setting *s, char out[CONFIG_VARIABLE_SIZE])
{
    char *to = stpcpy(out, CONFIG_ENVIRONMENT);

    for (const char *from = s->path; *from; from++) {
        *to++ = (char)(*from == '.' ? '_' : toupper((unsigned char)*from));
        if (*from == '.')
            *to++ = '_';
    }
    *to = '\0';
}

const char *config_duration_text(int64_t ms, char *out, size_t size)
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
