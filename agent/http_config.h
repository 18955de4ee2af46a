// SPDX-License-Identifier: Apache-2.0
/*
 * Settings of the handler http: reads and checks an action
 *
 * Used by agent_config.c.
 */
#pragma once

#include "agent/http_request.h"
#include "io/config/config_tree.h"

/* Reads ca_file, cert_file, key_file and insecure, where they are there; @security owns the texts.
 * Return: 0, -ENOMEM, or CONFIG_E_INVALID with @problem set. */
int http_config_security(struct http_security *security, const config_setting_t *group,
                         struct problem *problem);

/**
 * http_config_read() - read an action
 * @out: the caller frees it and its texts, also after a failure
 * @actors: counts where the action has no setting of its own
 *
 * Return: 0, -ENOMEM, or CONFIG_E_INVALID with @problem set.
 */
int http_config_read(struct http_action **out, const struct http_security *actors,
                     const config_setting_t *group, struct problem *problem);
