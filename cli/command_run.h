// SPDX-License-Identifier: Apache-2.0
/*
 * The functions that carry out commands
 */
#pragma once

#include "cli/command.h"

/* Carries out the command of a command line, --help or --version. Return: the exit code. */
int command_run(const struct args *args);

/* Carries out one command. Return: the exit code. */
typedef int command_function(const struct args *args);

/* Return: the function of a command; NULL if command_run.c has none, which is a bug. */
command_function *command_run_function(const struct command *command);

/* submit.c */
int cli_submit(const struct args *args);

/* follow.c */
int cli_run(const struct args *args);
int cli_watch(const struct args *args);

/* get.c */
int cli_get(const struct args *args);

/* why.c */
int cli_why(const struct args *args);

/* wait.c */
int cli_wait(const struct args *args);

/* list.c */
int cli_list(const struct args *args);

/* history.c */
int cli_history(const struct args *args);

/* steer.c */
int cli_set_desired(const struct args *args);
int cli_cancel(const struct args *args);
int cli_kill(const struct args *args);
int cli_pause(const struct args *args);
int cli_resume(const struct args *args);
int cli_acknowledge(const struct args *args);
int cli_retry(const struct args *args);
int cli_resolve(const struct args *args);
int cli_migrate(const struct args *args);

/* resend.c */
int cli_resend(const struct args *args);

/* workflow.c */
int cli_workflow_list(const struct args *args);
int cli_workflow_show(const struct args *args);
int cli_workflow_validate(const struct args *args);

/* import.c */
int cli_import(const struct args *args);

/* completion.c */
int cli_completion(const struct args *args);

/* manual.c */
int cli_manual(const struct args *args);
int cli_config(const struct args *args);
int cli_failpoints(const struct args *args);

/* help.c */
int cli_help(const struct args *args);
int cli_version(const struct args *args);
