// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: the table of commands and options, and everything made from it
 *
 * One row a command, one row an option: parsing, "did you mean", help, completion and the man page
 * read the same rows (the last two in manual.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "model/wire.h"

#define COMMAND_SETTINGS_MAX 32 /* --set */

enum output {
    OUTPUT_TABLE,
    OUTPUT_JSON,
    OUTPUT_JSONL,
    OUTPUT_ID,
};

struct args;

struct command {
    const char *name;     /* one word, or two: "workflow list" */
    const char *operands; /* as in the usage line; "" for none */
    const char *summary;  /* one line, in the list of commands */
    const char *help;     /* paragraphs below the usage line */
    unsigned groups;      /* of options it takes */
    int min_operands;
    int max_operands;
    int (*run)(const struct args *args); /* returns the exit code */
};

/* What the command line said. Text points into argv; what was not given is zero. */
struct args {
    const struct command *command;
    char **operands;
    int n_operands;
    bool help;
    bool version;

    const char *url;
    const char *config;
    int64_t timeout_ms; /* 0: the command's default */
    bool verbose;
    enum output output;
    bool no_color;

    const char *workflow;
    const char *id;
    const char *input;
    int64_t start_at;
    int64_t complete_by;
    const char *labels[WIRE_LABELS_MAX];
    size_t n_labels;

    bool data;
    const char *reason;
    const char *settings[COMMAND_SETTINGS_MAX];
    size_t n_settings;
    bool begin_anew;

    const char *actor;
    double scale;

    Drover__V1__Phase phase; /* UNSPECIFIED: any */
    Drover__V1__Need needs;  /* likewise */
    const char *error_class;
    bool group;
    int64_t since;
    int64_t before;
    int64_t limit;
    bool where;
    int64_t rps; /* 0: the default */
    bool dry_run;
    bool from_store;
    const char *after;
    bool follow;
};

/* An option, for whoever writes about it. */
struct command_option {
    const char *name;
    char letter;          /* 0 for none */
    const char *argument; /* NULL for a flag */
    const char *help;
    const char *const *words; /* what the argument can be, NULL-terminated; NULL: anything */
};

enum {
    COMMAND_E_USAGE = 1,
};

/**
 * command_parse() - read a command line
 * @argv: reordered: options first
 * @now:  unix ms, for times given relative to it
 *
 * Options may stand anywhere; "--" ends them. args->command is NULL where none was named, which is
 * good with --help and --version only.
 *
 * Return: 0, or COMMAND_E_USAGE with @problem's reason a sentence for people.
 */
int command_parse(int argc, char **argv, int64_t now, struct args *args, struct problem *problem);

/* @second: the word behind the first, or NULL; *words is how many of them name the command.
 * Return: NULL where there is none. */
const struct command *command_find(const char *first, const char *second, int *words);

/* The n-th command for people, and the n-th option that @command takes, or all of them take with
 * NULL; NULL behind the last. */
const struct command *command_at(size_t n);
const struct command_option *command_option_at(const struct command *command, size_t n);

/* What `drover help` and `drover help NAME` print; NULL: the overview. */
void command_help(const struct command *command, struct buf *out);
