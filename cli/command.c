// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/parse.h"
#include "io/tree.h"

/* -- Tables ------------------------------------------------------------------------------------ */

enum group {
    GROUP_ALL = 1 << 0,
    GROUP_BROKER = 1 << 1,
    GROUP_OUTPUT = 1 << 2,
    GROUP_SUBMIT = 1 << 3,
    GROUP_DATA = 1 << 4,
    GROUP_REASON = 1 << 5,
    GROUP_IMPORT = 1 << 6,
};

static const struct command COMMANDS[] = {
    {
        .name = "submit",
        .operands = "[FILE|-]",
        .summary = "Submit jobs and wait until they are recorded",
        .help = "FILE holds job objects in JSON, one after another; - is standard input. Without\n"
                "FILE, --workflow says what to run. The options that describe the job apply to\n"
                "what is in FILE too. A submission is repeated until it is answered: the id makes\n"
                "that safe, and a command that timed out can be run again with the same --id.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_SUBMIT,
        .max_operands = 1,
        .run = cli_submit,
    },
    {
        .name = "run",
        .operands = "[FILE|-]",
        .summary = "Submit one job and follow it to its end",
        .help = "Takes what `submit` takes. On a terminal the steps are a list that is redrawn,\n"
                "elsewhere every change is a line. The exit code tells how the job ended.\n"
                "Interrupting it leaves the job running: the same command with the same --id\n"
                "follows it again. With -o jsonl every change is a JobEvent, with -o json the\n"
                "last status is printed.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_SUBMIT | GROUP_DATA,
        .max_operands = 1,
        .run = cli_run,
    },
    {
        .name = "get",
        .operands = "JOB",
        .summary = "Show a job and its steps",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_DATA,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_get,
    },
    {
        .name = "cancel",
        .operands = "JOB",
        .summary = "Stop a job: no step begins any more",
        .help = "Returns when the command is recorded; the job ends once the steps in flight have\n"
                "answered or expired. What is done stays done: this version does not undo.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_cancel,
    },
    {
        .name = "import",
        .operands = "FILE...",
        .summary = "Turn recorded workflows into jobs for `submit`",
        .help = "FILE holds {name, steps: [{name, depends_on, runtime}]} in JSON, or an array of\n"
                "these. Prints a job object a line. Each step sleeps for its runtime, which is in\n"
                "seconds, times --scale.\n",
        .groups = GROUP_IMPORT,
        .min_operands = 1,
        .max_operands = INT32_MAX,
        .run = cli_import,
    },
    {
        .name = "version",
        .operands = "",
        .summary = "Print the version",
        .help = "",
        .run = cli_version,
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "Explain a command",
        .help = "",
        .max_operands = 1,
        .run = cli_help,
    },
};

enum kind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_DURATION,
    KIND_MOMENT,
    KIND_FACTOR,
    KIND_LABEL,
    KIND_OUTPUT,
};

/* What a value must be, where anything can be wrong with it. */
static const char *const WANTED[] = {
    [KIND_DURATION] = "a duration such as 500ms, 30s or 5m",
    [KIND_MOMENT] = "a time such as 2026-01-31T12:00:00Z or +10m",
    [KIND_FACTOR] = "a number from 0 to 1000000000",
    [KIND_LABEL] = "NAME=VALUE, or one too many",
    [KIND_OUTPUT] = "table, json, jsonl or id",
};

struct option_row {
    const char *name;
    char letter;          /* 0 for none */
    const char *argument; /* NULL for a flag */
    enum kind kind;
    size_t offset; /* in struct args */
    enum group group;
    const char *help;
};

#define TO(member) offsetof(struct args, member)

static const struct option_row OPTIONS[] = {
    {"workflow", 'w', "NAME[@V]", KIND_TEXT, TO(workflow), GROUP_SUBMIT,
     "a registered workflow; the newest version unless V is given"},
    {"id", 'i', "ID", KIND_TEXT, TO(id), GROUP_SUBMIT, "the job's id; default: a new one"},
    {"input", 0, "TEXT|@FILE", KIND_TEXT, TO(input), GROUP_SUBMIT,
     "the job's input: JSON where it is that, else text or bytes"},
    {"label", 'l', "NAME=VALUE", KIND_LABEL, TO(labels), GROUP_SUBMIT, "may be given many times"},
    {"start-at", 0, "TIME", KIND_MOMENT, TO(start_at), GROUP_SUBMIT,
     "not before; 2026-01-31T12:00:00Z or +10m"},
    {"complete-by", 0, "TIME", KIND_MOMENT, TO(complete_by), GROUP_SUBMIT,
     "told to the agents; this version does not act on it"},
    {"data", 'd', NULL, KIND_FLAG, TO(data), GROUP_DATA, "also the input, results and errors"},
    {"reason", 'r', "TEXT", KIND_TEXT, TO(reason), GROUP_REASON, "for the job's history"},
    {"actor", 'a', "NAME", KIND_TEXT, TO(actor), GROUP_IMPORT,
     "the actor of every step; default: demo"},
    {"scale", 's', "FACTOR", KIND_FACTOR, TO(scale), GROUP_IMPORT,
     "times the runtime; default: 1; 0: no sleep at all"},
    {"output", 'o', "FORMAT", KIND_OUTPUT, TO(output), GROUP_OUTPUT,
     "table (default), json, jsonl or id"},
    {"no-color", 0, NULL, KIND_FLAG, TO(no_color), GROUP_OUTPUT, "as the variable NO_COLOR"},
    {"url", 'u', "URL", KIND_TEXT, TO(url), GROUP_BROKER,
     "amqp://user:password@host:port/vhost; default: $DROVER_URL"},
    {"config", 'c', "FILE", KIND_TEXT, TO(config), GROUP_BROKER,
     "where the broker's address stands, unless a URL is given"},
    {"timeout", 't', "DURATION", KIND_DURATION, TO(timeout_ms), GROUP_BROKER,
     "give up after; 30s by default, but run follows for ever"},
    {"verbose", 'v', NULL, KIND_FLAG, TO(verbose), GROUP_BROKER,
     "log what happens on the connection"},
    {"help", 'h', NULL, KIND_FLAG, TO(help), GROUP_ALL, "explain the command"},
    {"version", 'V', NULL, KIND_FLAG, TO(version), GROUP_ALL, "print the version"},
};

#define N_OPTIONS array_size(OPTIONS)
#define HINT_SIZE 80   /* of an unknown word and what is near it */
#define FACTOR_MAX 1e9 /* of --scale */
#define CODE_BASE 256  /* getopt's codes for our rows, above every letter */

/* -- Did you mean ------------------------------------------------------------------------------ */

static void unknown_command(const char *word, struct problem *problem)
{
    struct nearest nearest = nearest_to(word);
    char hint[HINT_SIZE];

    for (size_t i = 0; i < array_size(COMMANDS); i++)
        nearest_try(&nearest, COMMANDS[i].name);
    problem_set(problem, "", "there is no command %s%s", word,
                nearest_text(&nearest, hint, sizeof(hint)));
}

/* @word as it was typed: "--nmae=x", "-x". */
static void unknown_option(const char *word, struct problem *problem)
{
    char name[HINT_SIZE], known[HINT_SIZE], hint[HINT_SIZE];
    struct nearest nearest = nearest_to(name);

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        snprintf(known, sizeof(known), "--%s", OPTIONS[i].name);
        nearest_try(&nearest, known);
    }
    problem_set(problem, "", "there is no option %s%s", name,
                nearest_text(&nearest, hint, sizeof(hint)));
}

/* -- Parsing ----------------------------------------------------------------------------------- */

static bool take_output(const char *text, enum output *out)
{
    static const char *const words[] = {
        [OUTPUT_TABLE] = "table",
        [OUTPUT_JSON] = "json",
        [OUTPUT_JSONL] = "jsonl",
        [OUTPUT_ID] = "id",
    };

    for (size_t i = 0; i < array_size(words); i++) {
        if (strcmp(words[i], text) == 0) {
            *out = (enum output)i;
            return true;
        }
    }
    return false;
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

/* Return: false where @text is not what the option wants. */
static bool take_value(const struct option_row *o, const char *text, int64_t now, struct args *args)
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
    case KIND_MOMENT:
        return parse_moment(text, now, to) && *(int64_t *)to > 0;
    case KIND_FACTOR:
        return take_factor(text, to);
    case KIND_LABEL:
        return take_label(text, args);
    case KIND_OUTPUT:
        return take_output(text, to);
    }
    return false;
}

/* getopt's view of the table. */
struct getopt_tables {
    struct option longs[N_OPTIONS + 1];
    char letters[2 * N_OPTIONS + 2];
};

static void getopt_tables(struct getopt_tables *t)
{
    size_t n = 0;

    t->letters[n++] = ':'; /* a missing argument is told apart from an unknown option */
    for (size_t i = 0; i < N_OPTIONS; i++) {
        t->longs[i] = (struct option){
            .name = OPTIONS[i].name,
            .has_arg = OPTIONS[i].argument ? required_argument : no_argument,
            .val = CODE_BASE + (int)i,
        };
        if (!OPTIONS[i].letter)
            continue;
        t->letters[n++] = OPTIONS[i].letter;
        if (OPTIONS[i].argument)
            t->letters[n++] = ':';
    }
    t->letters[n] = '\0';
    t->longs[N_OPTIONS] = (struct option){0};
}

/* NULL for what is no option of ours. */
static const struct option_row *option_of(int code)
{
    if (code >= CODE_BASE)
        return &OPTIONS[code - CODE_BASE];
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (OPTIONS[i].letter && OPTIONS[i].letter == code)
            return &OPTIONS[i];
    return NULL;
}

/* What getopt did not want. */
static void getopt_problem(const char *word, struct problem *problem)
{
    char letter[] = {'-', (char)optopt, '\0'};

    if (optopt >= CODE_BASE)
        problem_set(problem, "", "--%s takes no value", OPTIONS[optopt - CODE_BASE].name);
    else
        unknown_option(optopt ? letter : word, problem);
}

/* Takes every option there is, and notes which rows were used. */
static int options_parse(int argc, char **argv, int64_t now, struct args *args, bool *used,
                         struct problem *problem)
{
    struct getopt_tables t;
    int code;

    getopt_tables(&t);
    optind = 0; /* begin anew, whatever was parsed before */
    opterr = 0;
    while ((code = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1) {
        const struct option_row *o = option_of(code);

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
        used[o - OPTIONS] = true;
    }
    return 0;
}

static int operands_check(const struct args *args, struct problem *problem)
{
    const struct command *c = args->command;

    if (args->n_operands >= c->min_operands && args->n_operands <= c->max_operands)
        return 0;
    problem_set(problem, "", "usage: drover %s%s%s", c->name, *c->operands ? " " : "", c->operands);
    return COMMAND_E_USAGE;
}

static int groups_check(const struct args *args, const bool *used, struct problem *problem)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (used[i] && !(OPTIONS[i].group & (args->command->groups | GROUP_ALL))) {
            problem_set(problem, "", "`%s` takes no option --%s", args->command->name,
                        OPTIONS[i].name);
            return COMMAND_E_USAGE;
        }
    }
    return 0;
}

static int command_take(const char *name, struct args *args, struct problem *problem)
{
    args->command = command_find(name);
    if (args->command)
        return 0;
    unknown_command(name, problem);
    return COMMAND_E_USAGE;
}

int command_parse(int argc, char **argv, int64_t now, struct args *args, struct problem *problem)
{
    bool used[N_OPTIONS] = {false};
    int r;

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
    r = command_take(argv[optind], args, problem);
    if (r)
        return r;
    args->operands = argv + optind + 1;
    args->n_operands = argc - optind - 1;
    r = groups_check(args, used, problem);
    return r || args->help ? r : operands_check(args, problem);
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < array_size(COMMANDS); i++)
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

/* -- Help -------------------------------------------------------------------------------------- */

static void option_help(const struct option_row *o, struct buf *out)
{
    size_t begin = out->len;

    if (o->letter)
        buf_printf(out, "  -%c, ", o->letter);
    else
        buf_puts(out, "      ");
    buf_printf(out, "--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    buf_printf(out, "%*s%s\n", (int)(begin + 30 > out->len ? begin + 30 - out->len : 1), "",
               o->help);
}

static void options_help(unsigned groups, struct buf *out)
{
    buf_puts(out, "\nOptions:\n");
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (OPTIONS[i].group & groups)
            option_help(&OPTIONS[i], out);
}

static void overview(struct buf *out)
{
    buf_puts(out, "usage: drover COMMAND [OPTIONS]\n\n"
                  "Drives multi-step jobs to the state somebody asked for.\n\nCommands:\n");
    for (size_t i = 0; i < array_size(COMMANDS); i++)
        buf_printf(out, "  %-10s%s\n", COMMANDS[i].name, COMMANDS[i].summary);
    options_help(GROUP_ALL | GROUP_BROKER | GROUP_OUTPUT, out);
    buf_puts(out, "\n`drover help COMMAND` explains a command, man drover everything.\n");
}

void command_help(const struct command *command, struct buf *out)
{
    if (!command) {
        overview(out);
        return;
    }
    buf_printf(out, "usage: drover %s%s%s [OPTIONS]\n\n%s.\n", command->name,
               *command->operands ? " " : "", command->operands, command->summary);
    if (*command->help)
        buf_printf(out, "\n%s", command->help);
    options_help(command->groups | GROUP_ALL, out);
}
