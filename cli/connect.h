// SPDX-License-Identifier: Apache-2.0
/*
 * Connect: from options and environment to a session
 */
#pragma once

#include "cli/command.h"
#include "cli/session.h"

#define CONNECT_ANSWER_MS 30000 /* how long an answer is waited for, unless --timeout says */

/* Return: 0, or the exit code after a complaint. */
int cli_connect(const struct args *args, struct session **out);

/* The monotonic ms at which a command gives up; @default_ms counts without --timeout. */
int64_t cli_deadline(const struct args *args, int64_t default_ms);
