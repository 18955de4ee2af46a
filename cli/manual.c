// SPDX-License-Identifier: Apache-2.0
/*
 * Manual: the man pages, the sample configuration and the list of failpoints (commands manual,
 * config and failpoints)
 *
 * All are made from the tables of commands, settings and failpoints. Called by command_run.c.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command_option.h"
#include "cli/command_run.h"
#include "cli/exit_text.h"
#include "io/config/config.h"
#include "io/failpoint.h"

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
    "\tTake precedence over the configuration file; see *drover.cfg*(5).\n"
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

/* Appends a text. Escapes all characters that scdoc would treat as markup, including those that are
 * special at the start of a line. */
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
    const struct exit_text *e;

    for (size_t n = 0; (e = exit_text_at(n)); n++) {
        buf_printf(out, "*%d*\n\t", e->code);
        put_plain(out, e->text);
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
    buf_puts(out, "# OPTIONS\n\nOptions may stand before and after operands; *--* ends them. "
                  "Besides the options above, commands accept these where they apply:\n\n");
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
        fputs(buf_str(&out), stdout);
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
