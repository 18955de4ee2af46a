// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing a command line
 */
#pragma once

#include "base/status.h"
#include "cli/command.h"

enum {
    COMMAND_E_USAGE = 1,
};

/**
 * command_parse() - parse a command line
 * @argv: is reordered: options first
 * @now:  Unix ms, for times that are given relative to it
 *
 * Options may be anywhere; "--" ends them. args->command is NULL if none was named, which is valid
 * with --help and --version only.
 *
 * Return: 0, or COMMAND_E_USAGE; then the reason of @problem is a sentence for a person.
 */
int command_parse(int argc, char **argv, int64_t now, struct args *args, struct problem *problem);
