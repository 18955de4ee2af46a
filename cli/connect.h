// SPDX-License-Identifier: Apache-2.0
/*
 * Connecting: makes a session from options, environment and configuration
 */
#pragma once

#include "cli/command.h"
#include "client/session.h"

#define CONNECT_ANSWER_MS 30000 /* how long a command waits for an answer without --timeout */

/* Return: 0 with a session for the caller; or the exit code after a complaint. */
int connect_session(const struct args *args, struct session **out);

/* Return: the monotonic ms at which a command gives up: after --timeout; without it, after
 * @default_ms, or never (SESSION_FOREVER) if @default_ms is 0. */
int64_t connect_deadline(const struct args *args, int64_t default_ms);
