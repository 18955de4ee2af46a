// SPDX-License-Identifier: Apache-2.0
/*
 * Connections: the configuration of bus and store, from the settings
 *
 * Called by *_io.c of scheduler, agent and supervisor, and by common/client.
 */
#pragma once

#include "io/bus/bus.h"
#include "io/config/config.h"
#include "io/store/store.h"

/* For a process that connects to the broker, or to Redis: refuses clear text to another machine
 * that no setting allows, and reads the files of TLS; before config_bus() and config_store().
 * Return: 0, -ENOMEM, or CONFIG_E_INVALID with @problem set. */
int config_secure_bus(struct config *config, struct problem *problem);
int config_secure_store(struct config *config, struct problem *problem);

/* Has connections that begin from now on use the certificates that @from has read. */
void config_take_tls(struct config *to, struct config *from);

/* The texts of both point into @config. A role adds the queues that it consumes. @service: name of
 * the connection, which the broker shows. */
struct bus_config config_bus(const struct config *config, const char *service);
/* Logs what a person could set better about the queues. */
void config_log_queues(const struct config *config);
struct store_config config_store(const struct config *config);
