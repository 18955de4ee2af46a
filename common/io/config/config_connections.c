// SPDX-License-Identifier: Apache-2.0
/*
 * Connections: the configuration of bus and store, from the settings
 *
 * See io/config/config_connections.h.
 */
#include "io/config/config_connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/hosts.h"
#include "io/tls.h"
#include "model/wire.h"

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

/* Return: 0, -ENOMEM, or CONFIG_E_INVALID. */
static int load_tls(struct config_tls *tls, const char *group, struct problem *problem)
{
    const struct tls_files files = {tls->ca_file, tls->cert_file, tls->key_file};
    struct problem inner = {0};
    char path[sizeof(inner.field)];
    int r = tls->on ? tls_context_new(&tls->context, &files, &inner) : 0;

    if (r <= 0)
        return r;
    snprintf(path, sizeof(path), "%s.%.32s", group, inner.field);
    problem_set(problem, path, "%s", inner.reason);
    return CONFIG_E_INVALID;
}

/* Clear text beyond this machine must be wanted. Of a name only its addresses tell where it leads:
 * then the stream checks them when it connects. */
static int check_clear(const char *group, const struct config_tls *tls, const char *list,
                       struct problem *problem)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    char path[64], why[512];
    int r = tls->on || tls->insecure ? 0 : hosts_parse(&hosts, list, 1);

    if (r)
        return r < 0 ? r : 0; /* the fault of the list is reported with its setting */
    for (size_t i = 0; i < hosts.n; i++) {
        if (!hosts_is_remote_number(hosts.list[i].name))
            continue;
        snprintf(path, sizeof(path), "%s.host", group);
        hosts_clear_refused(why, sizeof(why), hosts.list[i].name, group);
        problem_set(problem, path, "%s", why);
        return CONFIG_E_INVALID;
    }
    return 0;
}

int config_secure_bus(struct config *config, struct problem *problem)
{
    int r = check_clear("rabbitmq", &config->rabbitmq.tls, config->rabbitmq.host, problem);

    return r ? r : load_tls(&config->rabbitmq.tls, "rabbitmq", problem);
}

int config_secure_store(struct config *config, struct problem *problem)
{
    int r = *config->redis.socket
                ? 0
                : check_clear("redis", &config->redis.tls, config->redis.host, problem);

    return r ? r : load_tls(&config->redis.tls, "redis", problem);
}

/* Without memory the path keeps its old text, and is named as one that differs. */
static void take_path(const char **to, const char *from)
{
    char *copy = strdup(from);

    if (!copy)
        return;
    free((void *)*to);
    *to = copy;
}

static void take_tls(struct config_tls *to, const struct config_tls *from)
{
    if (!to->context || !from->context)
        return;
    tls_context_take(to->context, from->context);
    take_path(&to->ca_file, from->ca_file);
    take_path(&to->cert_file, from->cert_file);
    take_path(&to->key_file, from->key_file);
}

void config_take_tls(struct config *to, struct config *from)
{
    take_tls(&to->rabbitmq.tls, &from->rabbitmq.tls);
    take_tls(&to->redis.tls, &from->redis.tls);
}

/* The queues, as rabbitmq.replication says, or its predecessors. */
static void set_queues(struct bus_config *bus, const struct config *config)
{
    const int replication = config->rabbitmq.replication, type = config->rabbitmq.queue_type,
              steps = config->rabbitmq.step_messages;
    const bool several = strchr(config->rabbitmq.host, ',');
    const bool none = replication == CONFIG_REPLICATION_NONE;

    const bool any =
        replication == CONFIG_REPLICATION_AUTO && type == CONFIG_QUEUES_AUTO && !several;
    /* a process that may not declare does not see what type they have */
    const bool chooses = any && steps != CONFIG_PERSISTENT && config->rabbitmq.declare;

    bus->quorum = !none && !chooses && type != CONFIG_CLASSIC;
    bus->as_found = any;
    bus->cached = !bus->quorum && (none || chooses || steps == CONFIG_TRANSIENT) && !several;
    bus->marker = bus->cached;
}

void config_log_queues(const struct config *config)
{
    struct bus_config bus = {0};

    set_queues(&bus, config);
    if (bus.as_found && !config->rabbitmq.declare)
        log_info("queues_assumed", LOG_S("type", "quorum"),
                 LOG_S("what", "rabbitmq.replication none is faster on one node"));
    if (config->rabbitmq.step_messages == CONFIG_TRANSIENT && !bus.cached)
        log_warn("transient_ignored",
                 LOG_S("what", "on one node set rabbitmq.replication to none in place of "
                               "rabbitmq.step_messages"));
}

struct bus_config config_bus(const struct config *config, const char *service)
{
    struct bus_config bus = {
        .host = config->rabbitmq.host,
        .port = (int)config->rabbitmq.port,
        .spread = config->name,
        .insecure = config->rabbitmq.tls.insecure,
        .external = config->rabbitmq.tls.login == CONFIG_CERTIFICATE,
        .tls = config->rabbitmq.tls.context,
        .tls_name = or_null(config->rabbitmq.tls.server_name),
        .vhost = config->rabbitmq.vhost,
        .user = config->rabbitmq.user,
        .password = config->rabbitmq.password,
        .name = service,
        .heartbeat_s = (int)(config->rabbitmq.heartbeat_ms / 1000),
        .declare = config->rabbitmq.declare,
        .max_message_bytes = WIRE_MESSAGE_MAX,
        .prefetch = (uint16_t)config->rabbitmq.prefetch,
    };

    set_queues(&bus, config);
    return bus;
}

struct store_config config_store(const struct config *config)
{
    return (struct store_config){
        .host = config->redis.host,
        .socket_path = or_null(config->redis.socket),
        .master_name = or_null(config->redis.master_name),
        .sentinel_user = or_null(config->redis.sentinel_user),
        .sentinel_password = or_null(config->redis.sentinel_password),
        .port = (int)config->redis.port,
        .insecure = config->redis.tls.insecure,
        .tls = config->redis.tls.context,
        .tls_name = or_null(config->redis.tls.server_name),
        .user = or_null(config->redis.user),
        .password = or_null(config->redis.password),
        .database = (int)config->redis.database,
        .prefix = config->redis.prefix,
        .partitions = (uint32_t)config->redis.partitions,
        .strict = config->redis.durability == CONFIG_STRICT,
        .replicas = (unsigned)config->redis.replicas,
        .call_timeout_ms = (int)config->redis.call_timeout_ms,
    };
}
