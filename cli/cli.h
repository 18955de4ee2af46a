// SPDX-License-Identifier: Apache-2.0
/*
 * Command line: what its commands share
 *
 * Talks to the broker; with --from-store to the store. One command, one process, one thread: a
 * command runs top to bottom and waits inside session_ask(). What it found goes to stdout,
 * everything else to stderr.
 */
#pragma once

#include <stdio.h>

#include "cli/command.h"

/* Exit codes; manual.c says them to people. */
enum cli_exit {
    CLI_OK = 0, /* done; for run, watch and wait: the job succeeded */
    CLI_ERROR = 1,
    CLI_USAGE = 2,
    CLI_JOB_FAILED = 3,
    CLI_JOB_UNDONE = 4, /* cancelled or compensated */
    CLI_NOT_FOUND = 5,
    CLI_CONFLICT = 6,
    CLI_UNREACHABLE = 7,
    CLI_TIMED_OUT = 124,   /* as timeout(1) does */
    CLI_INTERRUPTED = 130, /* as a shell does: 128 + SIGINT */
};

#define CLI_RETRY_LATER_MS 1000 /* before what a scheduler would not take now is sent again */

/* The commands. Return: the exit code. */
int cli_submit(const struct args *args);
int cli_run(const struct args *args);
int cli_get(const struct args *args);
int cli_why(const struct args *args);
int cli_watch(const struct args *args);
int cli_wait(const struct args *args);
int cli_list(const struct args *args);
int cli_history(const struct args *args);
int cli_set_desired(const struct args *args);
int cli_cancel(const struct args *args);
int cli_kill(const struct args *args);
int cli_pause(const struct args *args);
int cli_resume(const struct args *args);
int cli_acknowledge(const struct args *args);
int cli_retry(const struct args *args);
int cli_resolve(const struct args *args);
int cli_migrate(const struct args *args);
int cli_workflow_list(const struct args *args);
int cli_workflow_show(const struct args *args);
int cli_workflow_validate(const struct args *args);
int cli_config(const struct args *args);
int cli_completion(const struct args *args);
int cli_manual(const struct args *args);
int cli_import(const struct args *args);
int cli_failpoints(const struct args *args);
int cli_version(const struct args *args);
int cli_help(const struct args *args);

/* What the exit codes mean, a line each. */
void cli_exit_help(struct buf *out);

/* Prints "drover: ..." and a newline on stderr. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complains of a problem, or of @error where nobody recorded one. Return: the exit code. */
int cli_problem(int error, const struct problem *problem);

/* The exit code for how a job ended. */
int cli_outcome(Drover__V1__Outcome outcome);

/* What people read of @to goes to a terminal that takes colours, and they are wanted. */
bool cli_color(const struct args *args, FILE *to);
