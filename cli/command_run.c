// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: which function carries out which command
 *
 * The table of commands (command.c) does not name these functions, because some of them read the
 * table. Called by main().
 */
#include "cli/command_run.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
    const char *name;
    command_function *run;
} FUNCTIONS[] = {
    {"submit", cli_submit},
    {"run", cli_run},
    {"get", cli_get},
    {"why", cli_why},
    {"watch", cli_watch},
    {"wait", cli_wait},
    {"list", cli_list},
    {"history", cli_history},
    {"set-desired", cli_set_desired},
    {"cancel", cli_cancel},
    {"kill", cli_kill},
    {"pause", cli_pause},
    {"resume", cli_resume},
    {"acknowledge", cli_acknowledge},
    {"retry", cli_retry},
    {"resolve", cli_resolve},
    {"migrate", cli_migrate},
    {"resend", cli_resend},
    {"workflow list", cli_workflow_list},
    {"workflow show", cli_workflow_show},
    {"workflow validate", cli_workflow_validate},
    {"config", cli_config},
    {"completion", cli_completion},
    {"manual", cli_manual},
    {"import", cli_import},
    {"failpoints", cli_failpoints},
    {"version", cli_version},
    {"help", cli_help},
};

command_function *command_run_function(const struct command *command)
{
    for (size_t i = 0; i < array_size(FUNCTIONS); i++)
        if (strcmp(FUNCTIONS[i].name, command->name) == 0)
            return FUNCTIONS[i].run;
    return NULL;
}

int command_run(const struct args *args)
{
    command_function *run;

    if (args->version)
        return cli_version(args);
    if (args->help)
        return cli_help(args);
    run = command_run_function(args->command);
    assert(run);
    return run(args);
}
