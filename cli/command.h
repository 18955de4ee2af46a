// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: the tables of commands and options, and all that is made of them
 *
 * There is one row for each command and for each option. Parsing, hints ("did you mean"), help,
 * completion and the man page read the same rows (the last two in manual.c). Called by main(),
 * cli.c and manual.c; all commands read struct args.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "model/wire.h"

#define COMMAND_SETTINGS_MAX 32 /* options --set */

enum output {
    OUTPUT_TABLE,
    OUTPUT_JSON,
    OUTPUT_JSONL,
    OUTPUT_ID,
};

struct args;

struct command {
    const char *name;     /* one word, or two: "workflow list" */
    const char *operands; /* for the usage line; "" for none */
    const char *summary;  /* one line, for the list of commands */
    const char *help;     /* paragraphs after the usage line */
    unsigned groups;      /* of the options that it takes */
    int min_operands;
    int max_operands;
    int (*run)(const struct args *args); /* returns the exit code */
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

/* An option as help, completion and the man page show it. */
struct command_option {
    const char *name;
    char letter;          /* 0 for none */
    const char *argument; /* NULL for a flag */
    const char *help;
    const char *const *words; /* values of the argument, NULL-terminated; NULL for any value */
};

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

/* @second: the word after the first, or NULL. @words: set to the number of words that name the
 * command. Return: NULL if there is no such command. */
const struct command *command_find(const char *first, const char *second, int *words);

/* Return: the n-th command; the n-th option that @command takes (NULL: that all commands take);
 * NULL after the last one. */
const struct command *command_at(size_t n);
const struct command_option *command_option_at(const struct command *command, size_t n);

/* Appends the help of a command; NULL for the overview. */
void command_help(const struct command *command, struct buf *out);
