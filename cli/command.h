// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: the table of commands, and what is parsed for them
 *
 * There is one row for each command. The parser, hints ("did you mean"), help, completion and the
 * man page read it. command_run.c knows which function carries out which command; all of these
 * functions read struct args.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/wire.h"

#define COMMAND_SETTINGS_MAX 32 /* options --set */

enum output {
    OUTPUT_TABLE,
    OUTPUT_JSON,
    OUTPUT_JSONL,
    OUTPUT_ID,
};

struct command {
    const char *name;     /* one word, or two: "workflow list" */
    const char *operands; /* for the usage line; "" for none */
    const char *summary;  /* one line, for the list of commands */
    const char *help;     /* paragraphs after the usage line */
    unsigned groups;      /* of the options that it takes: enum command_group */
    int min_operands;
    int max_operands;
};

/* The parsed command line. Texts point into argv; what was not given is zero, scale is 1. */
struct args {
    const struct command *command;
    char **operands;
    int n_operands;
    bool help;
    bool version;

    const char *url;
    const char *config;
    int64_t timeout_ms; /* 0 for the default of the command */
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

    Drover__V1__Phase phase; /* UNSPECIFIED for any */
    Drover__V1__Need needs;  /* UNSPECIFIED for any */
    const char *error_class;
    bool group;
    int64_t since;
    int64_t before;
    int64_t limit;
    bool where;
    int64_t rps; /* commands per second; 0 for the default */
    bool dry_run;
    bool from_store;
    const char *after;
    bool follow;
};

/* @second: the word after the first, or NULL. @words: set to the number of words that name the
 * command. Return: NULL if there is no such command. */
const struct command *command_find(const char *first, const char *second, int *words);

/* Return: the n-th command; NULL after the last one. */
const struct command *command_at(size_t n);
