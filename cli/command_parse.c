// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing a command line: operands, options, and hints for unknown words
 *
 * Called by main().
 */
#include "cli/command_parse.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_option.h"
#include "cli/parse.h"
#include "io/config/config_tree.h"

#define HINT_SIZE 80   /* bytes of an unknown word, or of a hint */
#define FACTOR_MAX 1e9 /* of --scale */
#define COUNT_MAX 1000000
#define CODE_BASE 256 /* the code of getopt for the first option, above every letter */

/* What a value of a kind must be, for complaints; kinds without one accept any value. */
static const char *const WANTED[] = {
    [KIND_DURATION] = "a duration such as 500ms, 30s or 5m",
    [KIND_TIME] = "a time such as 2026-01-31T12:00:00Z, +10m or -2h",
    [KIND_FACTOR] = "a number from 0 to 1000000000",
    [KIND_LABEL] = "NAME=VALUE, or one too many",
    [KIND_SETTING] = "FIELD=VALUE, or one too many",
    [KIND_OUTPUT] = "table, json, jsonl or id",
    [KIND_PHASE] = "pending, processing, processed or error",
    [KIND_NEED] = "attention, parked, deadline or ended",
    [KIND_COUNT] = "a number from 1 to 1000000",
};

/* ---- hints ---- */

static void unknown_command(const char *first, const char *second, struct problem *problem)
{
    char word[HINT_SIZE], hint[2 * HINT_SIZE];
    struct nearest nearest = nearest_to(word);
    size_t len = strlen(first);
    const struct command *c;
    CLEANUP(buf_deinit) struct buf family = {0}; /* second words: of `workflow` list, show, … */

    for (size_t i = 0; (c = command_at(i)); i++)
        if (strncmp(c->name, first, len) == 0 && c->name[len] == ' ')
            buf_printf(&family, "%s%s", family.len > 0 ? ", " : "", c->name + len + 1);
    snprintf(word, sizeof(word), "%s%s%s", first, family.len > 0 && second ? " " : "",
             family.len > 0 && second ? second : "");
    for (size_t i = 0; (c = command_at(i)); i++)
        nearest_try(&nearest, c->name);
    if (family.len > 0 && !second)
        problem_set(problem, "", "%s what? %s", word, buf_str(&family));
    else
        problem_set(problem, "", "there is no command %s%s", word,
                    nearest_text(&nearest, hint, sizeof(hint)));
}

/* @word: as typed, such as "--nmae=x" or "-x". */
static void unknown_option(const char *word, struct problem *problem)
{
    char name[HINT_SIZE], known[HINT_SIZE], hint[HINT_SIZE];
    struct nearest nearest = nearest_to(name);
    const struct command_option *o;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; (o = command_option_row(i)); i++) {
        snprintf(known, sizeof(known), "--%s", o->name);
        nearest_try(&nearest, known);
    }
    problem_set(problem, "", "there is no option %s%s", name,
                nearest_text(&nearest, hint, sizeof(hint)));
}

/* ---- values ---- */

/* Return: the index of @text in @words; -1 if it is not among them. */
static int take_word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

static bool take_output(const char *text, const char *const *words, enum output *out)
{
    int at = take_word(text, words);

    *out = at >= 0 ? (enum output)at : OUTPUT_TABLE;
    return at >= 0;
}

static bool take_phase(const char *text, const char *const *words, Drover__V1__Phase *out)
{
    int at = take_word(text, words);

    *out = at >= 0 ? (Drover__V1__Phase)(at + DROVER__V1__PHASE__PHASE_PENDING)
                   : DROVER__V1__PHASE__PHASE_UNSPECIFIED;
    return at >= 0;
}

static bool take_need(const char *text, const char *const *words, Drover__V1__Need *out)
{
    int at = take_word(text, words);

    *out = at >= 0 ? (Drover__V1__Need)(at + DROVER__V1__NEED__NEED_ATTENTION)
                   : DROVER__V1__NEED__NEED_UNSPECIFIED;
    return at >= 0;
}

static bool take_count(const char *text, int64_t *out)
{
    return bytes_to_i64(bytes_str(text), out) && *out >= 1 && *out <= COUNT_MAX;
}

static bool take_factor(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return *text != '\0' && *end == '\0' && *out >= 0 && *out <= FACTOR_MAX;
}

static bool take_label(const char *text, struct args *args)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || args->n_labels == WIRE_LABELS_MAX)
        return false;
    args->labels[args->n_labels++] = text;
    return true;
}

static bool take_setting(const char *text, struct args *args)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || args->n_settings == array_size(args->settings))
        return false;
    args->settings[args->n_settings++] = text;
    return true;
}

/* Return: false if @text is not a value of the kind of the option. */
static bool take_value(const struct command_option *o, const char *text, int64_t now,
                       struct args *args)
{
    void *to = (char *)args + o->offset;

    switch (o->kind) {
    case KIND_FLAG:
        *(bool *)to = true;
        return true;
    case KIND_TEXT:
        *(const char **)to = text;
        return true;
    case KIND_DURATION:
        return parse_duration(text, to) && *(int64_t *)to > 0;
    case KIND_TIME:
        return parse_moment(text, now, to) && *(int64_t *)to > 0;
    case KIND_FACTOR:
        return take_factor(text, to);
    case KIND_LABEL:
        return take_label(text, args);
    case KIND_SETTING:
        return take_setting(text, args);
    case KIND_OUTPUT:
        return take_output(text, o->words, to);
    case KIND_PHASE:
        return take_phase(text, o->words, to);
    case KIND_NEED:
        return take_need(text, o->words, to);
    case KIND_COUNT:
        return take_count(text, to);
    }
    return false;
}

/* ---- options ---- */

/* The table of options in the form that getopt_long() takes. */
struct getopt_tables {
    struct option longs[COMMAND_OPTIONS_MAX + 1];
    char letters[2 * COMMAND_OPTIONS_MAX + 2];
};

static void getopt_tables(struct getopt_tables *t)
{
    const struct command_option *o;
    size_t i, n = 0;

    t->letters[n++] = ':'; /* so that a missing argument is reported as ':', not '?' */
    for (i = 0; (o = command_option_row(i)); i++) {
        t->longs[i] = (struct option){
            .name = o->name,
            .has_arg = o->argument ? required_argument : no_argument,
            .val = CODE_BASE + (int)i,
        };
        if (!o->letter)
            continue;
        t->letters[n++] = o->letter;
        if (o->argument)
            t->letters[n++] = ':';
    }
    t->letters[n] = '\0';
    t->longs[i] = (struct option){0};
}

/* Return: the option for a code of getopt, and its number; NULL if there is none. */
static const struct command_option *option_of(int code, size_t *n)
{
    const struct command_option *o;

    *n = code >= CODE_BASE ? (size_t)(code - CODE_BASE) : 0;
    while ((o = command_option_row(*n)) && code < CODE_BASE && o->letter != code)
        ++*n;
    return o;
}

/* Reports a word that getopt has refused. */
static void getopt_problem(const char *word, struct problem *problem)
{
    char letter[] = {'-', (char)optopt, '\0'};

    if (optopt >= CODE_BASE)
        problem_set(problem, "", "--%s takes no value",
                    command_option_row((size_t)(optopt - CODE_BASE))->name);
    else
        unknown_option(optopt ? letter : word, problem);
}

/* Reads all options, and sets @used for each row that was given. */
static int options_parse(int argc, char **argv, int64_t now, struct args *args, bool *used,
                         struct problem *problem)
{
    struct getopt_tables t;
    int code;

    getopt_tables(&t);
    optind = 0; /* so that getopt begins anew if it was used before */
    opterr = 0;
    while ((code = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1) {
        size_t n;
        const struct command_option *o = option_of(code, &n);

        if (code == ':') {
            problem_set(problem, "", "%s needs a value", argv[optind - 1]);
            return COMMAND_E_USAGE;
        }
        if (!o) {
            getopt_problem(argv[optind - 1], problem);
            return COMMAND_E_USAGE;
        }
        if (!take_value(o, optarg, now, args)) {
            problem_set(problem, "", "--%s: '%s' is not %s", o->name, optarg, WANTED[o->kind]);
            return COMMAND_E_USAGE;
        }
        used[n] = true;
    }
    return 0;
}

/* ---- what fits together ---- */

/* Requires a filter with --where, so that a forgotten word does not mean all jobs. */
static int where_check(const struct args *args, struct problem *problem)
{
    bool filtered = args->phase || args->workflow || args->n_labels || args->since ||
                    args->before || args->needs || args->error_class || args->actor;
    bool bulk = args->command->groups & GROUP_BULK;

    if (args->workflow && !*args->workflow) /* from a shell variable that is not set */
        problem_set(problem, "", "--workflow: '' is no name");
    else if (bulk && args->where && !filtered)
        problem_set(problem, "",
                    "--where needs --phase, --needs, --error-class, --actor, --workflow, --label, "
                    "--since or --before");
    else if (bulk && !args->where && (filtered || args->limit || args->rps || args->dry_run))
        problem_set(problem, "", "options that say which jobs go with --where");
    else
        return 0;
    return COMMAND_E_USAGE;
}

static int operands_check(const struct args *args, struct problem *problem)
{
    const struct command *c = args->command;
    int n = args->n_operands + args->where; /* --where replaces JOB */

    if (n >= c->min_operands && n <= c->max_operands)
        return where_check(args, problem);
    problem_set(problem, "", "usage: drover %s%s%s", c->name, *c->operands ? " " : "", c->operands);
    return COMMAND_E_USAGE;
}

static int groups_check(const struct args *args, const bool *used, struct problem *problem)
{
    const struct command_option *o;

    for (size_t i = 0; (o = command_option_row(i)); i++) {
        if (used[i] && !(o->groups & (args->command->groups | GROUP_ALL))) {
            problem_set(problem, "", "`%s` takes no option --%s", args->command->name, o->name);
            return COMMAND_E_USAGE;
        }
    }
    return 0;
}

/* ---- the line ---- */

static int command_take(char **words, int n, struct args *args, int *used, struct problem *problem)
{
    args->command = command_find(words[0], n > 1 ? words[1] : NULL, used);
    if (args->command)
        return 0;
    unknown_command(words[0], n > 1 ? words[1] : NULL, problem);
    return COMMAND_E_USAGE;
}

int command_parse(int argc, char **argv, int64_t now, struct args *args, struct problem *problem)
{
    bool used[COMMAND_OPTIONS_MAX] = {false};
    int r, words = 0;

    *args = (struct args){.scale = 1};
    r = options_parse(argc, argv, now, args, used, problem);
    if (r)
        return r;
    if (optind >= argc && (args->help || args->version))
        return 0;
    if (optind >= argc) {
        problem_set(problem, "", "what should be done?");
        return COMMAND_E_USAGE;
    }
    r = command_take(argv + optind, argc - optind, args, &words, problem);
    if (r)
        return r;
    args->operands = argv + optind + words;
    args->n_operands = argc - optind - words;
    r = groups_check(args, used, problem);
    return r || args->help ? r : operands_check(args, problem);
}
