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

/* The texts of both point into @config. A role adds the queues that it consumes. @service: name of
 * the connection, which the broker shows. */
struct bus_config config_bus(const struct config *config, const char *service);
struct store_config config_store(const struct config *config);
