// SPDX-License-Identifier: Apache-2.0
/*
 * Manual: the man pages, the completion for bash, the sample configuration and the list of
 * failpoints
 *
 * All are made from the tables of commands, settings and failpoints. Called by main(), for the
 * commands config, completion, manual and failpoints.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "io/config/config.h"
#include "io/failpoint.h"

static const struct {
    int code;
    const char *text;
} EXITS[] = {
    {CLI_OK, "done; for run, watch and wait: the job succeeded"},
    {CLI_ERROR, "an error, or a job that was rejected"},
    {CLI_USAGE, "wrong command line"},
    {CLI_JOB_FAILED, "run, watch, wait: the job ended as FAILED, COMPENSATION_FAILED or KILLED"},
    {CLI_JOB_UNDONE, "run, watch, wait: the job ended as CANCELLED or COMPENSATED"},
    {CLI_NOT_FOUND, "there is no such job or workflow"},
    {CLI_CONFLICT, "the id is taken by another job, or the job's state forbids the command"},
    {CLI_UNREACHABLE, "the broker cannot be reached, or refuses"},
    {CLI_TIMED_OUT, "timed out"},
    {CLI_INTERRUPTED, "interrupted"},
};

void cli_exit_help(struct buf *out)
{
    buf_puts(out, "\nExit status:\n");
    for (size_t i = 0; i < array_size(EXITS); i++)
        buf_printf(out, "  %3d  %s\n", EXITS[i].code, EXITS[i].text);
}

static void print(struct buf *out)
{
    fputs(buf_str(out), stdout);
}

/* ---- the man page drover(1), in the language of scdoc ---- */

static const char DESCRIPTION[] =
    "*drover* talks to RabbitMQ: it publishes to the exchanges of Drover's protocol and takes\n"
    "the answers by direct reply-to. It needs no access to the store, but for *--from-store*.\n"
    "\n"
    "What was asked for goes to standard output, everything else to standard error. On a terminal\n"
    "lists are tables; *-o json* and *-o jsonl* print the protocol's own messages: Receipt for\n"
    "submit, JobStatus for list, get, run, watch and wait, HistoryEntry for history, Answer for\n"
    "cancel and the other commands; with *jsonl*, run and watch print a JobEvent for every "
    "change.\n";

static const char ENVIRONMENT[] =
    "*DROVER\\_URL*\n"
    "\tAs *--url*. Where neither is given, the address comes from the configuration.\n"
    "\n"
    "*DROVER\\_RABBITMQ\\_\\_URI* and other settings\n"
    "\tWin over the file; see *drover.cfg*(5).\n"
    "\n"
    "*NO\\_COLOR*, *TERM*\n"
    "\tNo colours where NO\\_COLOR is not empty. With TERM=dumb neither colours nor redrawing.\n";

static const char EXAMPLES[] =
    "Run a workflow and see what comes of it:\n"
    "\n"
    "\tdrover run --workflow order --input '{\"article\": 17}' --label customer=4711\n"
    "\n"
    "Submit so that a retry is harmless:\n"
    "\n"
    "\tdrover submit --id order-17 --workflow order@3 --input @order.json\n"
    "\n"
    "Wait for all jobs of a customer that are still under way:\n"
    "\n"
    "\tdrover list -p processing -l customer=4711 -o id | xargs drover wait\n"
    "\n"
    "Hold all orders, twenty a second, and say why:\n"
    "\n"
    "\tdrover pause --where -w order -p processing --rps 20 -r 'the bank is shut'\n"
    "\n"
    "Try a recorded workflow a thousand times faster:\n"
    "\n"
    "\tdrover import --scale 0.001 montage.json | drover run -\n";

static bool at_line_start(const struct buf *out)
{
    return out->len > 0 && strchr("\n\t", out->data[out->len - 1]);
}

/* Appends a text with all that scdoc would take for markup escaped, also at the start of a line. */
static void put_plain(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\_*<>#.", *text) || (at_line_start(out) && strchr("-`[|];", *text)))
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

static void put_option(struct buf *out, const struct command_option *o)
{
    if (o->letter)
        buf_printf(out, "*-%c*, ", o->letter);
    buf_printf(out, "*--%s*", o->name);
    if (o->argument) {
        buf_puts(out, " _");
        put_plain(out, o->argument);
        buf_putc(out, '_');
    }
    buf_puts(out, "\n\t");
    put_plain(out, o->help);
    buf_puts(out, "\n\n");
}

static bool is_common(const struct command_option *o)
{
    const struct command_option *common;

    for (size_t n = 0; (common = command_option_at(NULL, n)); n++)
        if (common == o)
            return true;
    return false;
}

static void put_command(struct buf *out, const struct command *c)
{
    const struct command_option *o;

    buf_printf(out, "## drover %s", c->name);
    buf_puts(out, *c->operands ? " " : "");
    put_plain(out, c->operands);
    buf_puts(out, "\n\n");
    put_plain(out, c->summary);
    buf_puts(out, ".\n");
    if (*c->help) {
        buf_putc(out, '\n');
        put_plain(out, c->help);
    }
    buf_putc(out, '\n');
    for (size_t n = 0; (o = command_option_at(c, n)); n++)
        if (!is_common(o))
            put_option(out, o);
}

static void put_exits(struct buf *out)
{
    for (size_t i = 0; i < array_size(EXITS); i++) {
        buf_printf(out, "*%d*\n\t", EXITS[i].code);
        put_plain(out, EXITS[i].text);
        buf_puts(out, "\n\n");
    }
}

static void put_manual(struct buf *out)
{
    const struct command *c;
    const struct command_option *o;

    buf_puts(out, "drover(1)\n\n# NAME\n\n"
                  "drover - submit, follow, find, inspect and cancel Drover jobs\n\n"
                  "# SYNOPSIS\n\n*drover* _COMMAND_ [_OPTIONS_] [_OPERANDS_]\n\n# DESCRIPTION\n\n");
    buf_puts(out, DESCRIPTION);
    buf_puts(out, "\n# COMMANDS\n\n");
    for (size_t n = 0; (c = command_at(n)); n++)
        put_command(out, c);
    buf_puts(out,
             "# OPTIONS\n\nOptions may stand before and after operands; *--* ends them. Beside "
             "those above, commands take where it makes sense:\n\n");
    for (size_t n = 0; (o = command_option_at(NULL, n)); n++)
        put_option(out, o);
    buf_puts(out, "# EXIT STATUS\n\n");
    put_exits(out);
    buf_puts(out, "# ENVIRONMENT\n\n");
    buf_puts(out, ENVIRONMENT);
    buf_puts(out, "\n# EXAMPLES\n\n");
    buf_puts(out, EXAMPLES);
    buf_puts(out, "\n# SEE ALSO\n\n*drover.cfg*(5)\n");
}

int cli_manual(const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (strcmp(args->operands[0], "drover") == 0) {
        put_manual(&out);
        print(&out);
    } else if (strcmp(args->operands[0], "drover.cfg") == 0) {
        config_manual(stdout);
    } else {
        cli_complain("there is no manual of %s", args->operands[0]);
        return CLI_NOT_FOUND;
    }
    return CLI_OK;
}

int cli_config(const struct args *args)
{
    config_sample(stdout);
    return CLI_OK;
}

int cli_failpoints(const struct args *args)
{
    struct failpoint_info point;

    for (size_t n = 0; failpoint_at(n, &point); n++)
        printf("%-32s  %s\n", point.name, point.what);
    return CLI_OK;
}

/* ---- completion ---- */

static void put_words(struct buf *out, const struct command *command)
{
    const struct command_option *o;

    for (size_t n = 0; (o = command_option_at(command, n)); n++) {
        buf_printf(out, " --%s", o->name);
        if (o->letter)
            buf_printf(out, " -%c", o->letter);
    }
}

/* Appends the completion of the arguments of options: their words, or a file. */
static void put_arguments(struct buf *out)
{
    const struct command *c;
    const struct command_option *o;
    CLEANUP(buf_deinit) struct buf seen = {0};

    for (size_t k = 0; (c = command_at(k)); k++) {
        for (size_t n = 0; (o = command_option_at(c, n)); n++) {
            CLEANUP(buf_deinit) struct buf name = {0};

            buf_printf(&name, " --%s ", o->name);
            if (!o->argument || strstr(buf_str(&seen), buf_str(&name)))
                continue;
            buf_puts(&seen, buf_str(&name));
            buf_printf(out, "    --%s", o->name);
            if (o->letter)
                buf_printf(out, " | -%c", o->letter);
            buf_puts(out, ")\n        COMPREPLY=(");
            if (o->words) {
                buf_puts(out, "$(compgen -W '");
                for (const char *const *w = o->words; *w; w++)
                    buf_printf(out, "%s%s", w == o->words ? "" : " ", *w);
                buf_puts(out, "' -- \"$word\")");
            } else if (strstr(o->argument, "FILE")) {
                buf_puts(out, "$(compgen -f -- \"$word\")");
            }
            buf_puts(out, ")\n        return\n        ;;\n");
        }
    }
}

static void put_commands(struct buf *out)
{
    const struct command *c;

    for (size_t k = 0; (c = command_at(k)); k++) {
        buf_printf(out, "    '%s') options='", c->name);
        put_words(out, c);
        buf_puts(out, " --help' ;;\n");
    }
}

static void put_names(struct buf *out, bool second)
{
    const struct command *c;
    const char *before = "";

    for (size_t k = 0; (c = command_at(k)); k++) {
        size_t len = strcspn(c->name, " ");
        const char *space = c->name[len] ? c->name + len : NULL;

        if (second && space)
            buf_printf(out, "%s", space);
        else if (!second && (strncmp(before, c->name, len) != 0 || before[len] != ' '))
            buf_printf(out, " %.*s", (int)len, c->name);
        before = c->name;
    }
}

static void put_completion(struct buf *out)
{
    buf_puts(out, "# Completion of drover(1) for bash, made by `drover completion bash`\n"
                  "_drover()\n{\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} command= options= i\n"
                  "    COMPREPLY=()\n"
                  "    case ${COMP_WORDS[COMP_CWORD - 1]} in\n");
    put_arguments(out);
    buf_puts(out,
             "    esac\n"
             "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "        case ${COMP_WORDS[i]} in\n"
             "        -*) ;;\n"
             "        *)\n"
             "            command=${COMP_WORDS[i]}\n"
             "            if [ \"$command\" = workflow ] && [ $((i + 1)) -lt $COMP_CWORD ]; then\n"
             "                command=\"workflow ${COMP_WORDS[i + 1]}\"\n"
             "            fi\n"
             "            break\n"
             "            ;;\n"
             "        esac\n"
             "    done\n"
             "    case $command in\n"
             "    '' | help) options='");
    put_names(out, false);
    buf_puts(out, " --help --version' ;;\n    workflow) options='");
    put_names(out, true);
    buf_puts(out, "' ;;\n    completion) options='bash' ;;\n"
                  "    manual) options='drover drover.cfg' ;;\n");
    put_commands(out);
    buf_puts(out, "    esac\n"
                  "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                  "    case $command in\n"
                  "    submit | run | import | 'workflow validate')\n"
                  "        [[ $word = -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
                  "        ;;\n"
                  "    esac\n"
                  "}\n"
                  "complete -o filenames -F _drover drover\n");
}

int cli_completion(const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (strcmp(args->operands[0], "bash") != 0) {
        cli_complain("there is completion for bash only");
        return CLI_NOT_FOUND;
    }
    put_completion(&out);
    print(&out);
    return CLI_OK;
}
