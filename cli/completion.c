// SPDX-License-Identifier: Apache-2.0
/*
 * Completion: the completion for bash (command completion)
 *
 * It is made from the tables of commands and options. Called by command_run.c.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command_option.h"
#include "cli/command_run.h"

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
    fputs(buf_str(&out), stdout);
    return CLI_OK;
}
