// SPDX-License-Identifier: Apache-2.0
/*
 * Connections: the configuration of bus and store, from the settings
 *
 * See io/config/config_connections.h.
 */
#include "io/config/config_connections.h"

#include "model/wire.h"

struct bus_config config_bus(const struct config *config, const char *service)
{
    return (struct bus_config){
        .host = config->rabbitmq.host,
        .port = (int)config->rabbitmq.port,
        .vhost = config->rabbitmq.vhost,
        .user = config->rabbitmq.user,
        .password = config->rabbitmq.password,
        .name = service,
        .heartbeat_s = (int)(config->rabbitmq.heartbeat_ms / 1000),
        .declare = config->rabbitmq.declare,
        .quorum = config->rabbitmq.queue_type == CONFIG_QUORUM,
        .max_message_bytes = WIRE_MESSAGE_MAX,
        .prefetch = (uint16_t)config->rabbitmq.prefetch,
    };
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

struct store_config config_store(const struct config *config)
{
    return (struct store_config){
        .host = config->redis.host,
        .socket_path = or_null(config->redis.socket),
        .port = (int)config->redis.port,
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
