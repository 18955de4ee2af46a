// SPDX-License-Identifier: Apache-2.0
/*
 * Help: the help of commands
 */
#pragma once

#include "base/str.h"
#include "cli/command.h"

/* Appends the help of a command; NULL for the overview. */
void help_text(const struct command *command, struct buf *out);
