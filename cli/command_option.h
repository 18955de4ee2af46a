// SPDX-License-Identifier: Apache-2.0
/*
 * Options: the table of options
 *
 * There is one row for each option. The parser, hints, help, completion and the man page read it.
 */
#pragma once

#include <stddef.h>

#include "cli/command.h"

/* The groups of options that a command takes, as bits. */
enum command_group {
    GROUP_ALL = 1 << 0,
    GROUP_BROKER = 1 << 1,
    GROUP_OUTPUT = 1 << 2,
    GROUP_SUBMIT = 1 << 3,
    GROUP_DATA = 1 << 4,
    GROUP_REASON = 1 << 5,
    GROUP_IMPORT = 1 << 6,
    GROUP_LIST = 1 << 7,
    GROUP_FOLLOW = 1 << 8,
    GROUP_INPUT = 1 << 9,
    GROUP_FILTER = 1 << 10,

    GROUP_BULK = 1 << 11, /* takes --where, for all jobs that the filters find, instead of JOB */
    GROUP_STORE = 1 << 12,
    GROUP_SET = 1 << 13,
    GROUP_BEGIN_ANEW = 1 << 14,
};

#define GROUPS_BULK (GROUP_FILTER | GROUP_BULK)

/* What the value of an option is. */
enum command_kind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_DURATION,
    KIND_TIME,
    KIND_FACTOR,
    KIND_LABEL,
    KIND_SETTING,
    KIND_OUTPUT,
    KIND_PHASE,
    KIND_NEED,
    KIND_COUNT,
};

struct command_option {
    const char *name;
    char letter;          /* 0 for none */
    const char *argument; /* NULL for a flag */
    const char *help;
    enum command_kind kind;
    size_t offset;            /* of the value, in struct args */
    unsigned groups;          /* commands of any of these groups take it */
    const char *const *words; /* values of the argument, NULL-terminated; NULL for any value */
};

#define COMMAND_OPTIONS_MAX 40

/* Return: the n-th option that @command takes (NULL: that all commands take); NULL after the last
 * one. */
const struct command_option *command_option_at(const struct command *command, size_t n);

/* Return: the n-th of all options, COMMAND_OPTIONS_MAX at most; NULL after the last one. */
const struct command_option *command_option_row(size_t n);
