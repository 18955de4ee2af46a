// SPDX-License-Identifier: Apache-2.0
/*
 * Help: the help of commands and the version (commands help and version)
 *
 * Called by command_run.c.
 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command_option.h"
#include "cli/command_run.h"
#include "cli/exit_text.h"

static void option_help(const struct command_option *o, struct buf *out)
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

static void options_help(const struct command *command, struct buf *out)
{
    const struct command_option *o;

    buf_puts(out, "\nOptions:\n");
    for (size_t n = 0; (o = command_option_at(command, n)); n++)
        option_help(o, out);
    for (size_t n = 0; command && (o = command_option_at(NULL, n)); n++)
        if (strcmp(o->name, "help") == 0) /* which all commands take */
            option_help(o, out);
}

static void exits_help(struct buf *out)
{
    const struct exit_text *e;

    buf_puts(out, "\nExit status:\n");
    for (size_t n = 0; (e = exit_text_at(n)); n++)
        buf_printf(out, "  %3d  %s\n", e->code, e->text);
}

static void overview(struct buf *out)
{
    const struct command *c;

    buf_puts(out, "usage: drover COMMAND [OPTIONS]\n\n"
                  "Drives multi-step jobs to the state that was asked for.\n\nCommands:\n");
    for (size_t n = 0; (c = command_at(n)); n++)
        buf_printf(out, "  %-19s%s\n", c->name, c->summary);
    options_help(NULL, out);
    exits_help(out);
    buf_puts(out, "\n`drover help COMMAND` explains a command, man drover everything.\n");
}

void help_text(const struct command *command, struct buf *out)
{
    if (!command) {
        overview(out);
        return;
    }
    buf_printf(out, "usage: drover %s%s%s [OPTIONS]\n\n%s.\n", command->name,
               *command->operands ? " " : "", command->operands, command->summary);
    if (*command->help)
        buf_printf(out, "\n%s", command->help);
    options_help(command, out);
}

int cli_version(const struct args *args)
{
    puts("drover " DROVER_VERSION);
    return CLI_OK;
}

int cli_help(const struct args *args)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const struct command *about = args->help ? args->command : NULL;

    if (!args->help && args->n_operands > 0) {
        int words;

        about = command_find(args->operands[0], args->n_operands > 1 ? args->operands[1] : NULL,
                             &words);
        if (!about) {
            cli_complain("there is no command `%s%s%s`", args->operands[0],
                         args->n_operands > 1 ? " " : "",
                         args->n_operands > 1 ? args->operands[1] : "");
            return CLI_USAGE;
        }
    }
    help_text(about, &text);
    fputs(buf_str(&text), stdout);
    return CLI_OK;
}
