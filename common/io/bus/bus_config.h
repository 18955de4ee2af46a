// SPDX-License-Identifier: Apache-2.0
/*
 * Settings of a bus: a copy of them, with defaults
 *
 * Used by bus.c alone.
 */
#pragma once

#include "io/bus/bus.h"

/* Copies settings and their texts; those that are 0 have their defaults. Return: 0 or -ENOMEM;
 * bus_config_deinit() is due in either case. */
int bus_config_copy(struct bus_config *to, const struct bus_config *from);

void bus_config_deinit(struct bus_config *config);
