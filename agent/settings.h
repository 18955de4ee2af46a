// SPDX-License-Identifier: Apache-2.0
/*
 * Settings: the machine's own copy of its configuration
 */
#pragma once

#include "agent/agent.h"

/* Copies @from with all that it points to. Return: 0 or -ENOMEM; in any case settings_free() frees
 * @to. */
int settings_copy(struct agent_config *to, const struct agent_config *from);
void settings_free(struct agent_config *config);

/* Return: the settings of this actor; never NULL: all 0 if the config does not list it. */
const struct agent_actor *settings_actor(const struct agent_config *config, const char *name);
