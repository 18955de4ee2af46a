// SPDX-License-Identifier: Apache-2.0
/*
 * Settings of a bus: a copy of them, with defaults
 *
 * See io/bus/bus_config.h.
 */
#include "io/bus/bus_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONFIRM_MS 300000    /* quorum queues confirm again when a majority has come back */
#define PULSE_AGAIN_MS 60000 /* a pulse that is refused costs a connection */

void bus_config_deinit(struct bus_config *config)
{
    free((void *)config->host);
    free((void *)config->spread);
    free((void *)config->vhost);
    free((void *)config->user);
    free((void *)config->password);
    free((void *)config->name);
}

static int default_of(int value, int otherwise)
{
    return value ? value : otherwise;
}

int bus_config_copy(struct bus_config *to, const struct bus_config *from)
{
    *to = *from;
    to->host = strdup(from->host);
    to->spread = strdup(from->spread ? from->spread : "");
    to->vhost = strdup(from->vhost);
    to->user = strdup(from->user);
    to->password = strdup(from->password);
    to->name = strdup(from->name);
    if (!to->host || !to->spread || !to->vhost || !to->user || !to->password || !to->name)
        return -ENOMEM;
    to->heartbeat_s = default_of(from->heartbeat_s, 10);
    to->connect_timeout_ms = default_of(from->connect_timeout_ms, 5000);
    to->reconnect_min_ms = default_of(from->reconnect_min_ms, 100);
    to->reconnect_max_ms = default_of(from->reconnect_max_ms, 2500);
    to->confirm_ms = default_of(from->confirm_ms, CONFIRM_MS);
    to->max_unconfirmed = default_of(from->max_unconfirmed, 1024);
    to->pulse_again_ms = default_of(from->pulse_again_ms, PULSE_AGAIN_MS);
    return 0;
}
