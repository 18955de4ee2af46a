// SPDX-License-Identifier: Apache-2.0
/*
 * Command line: what all commands of `drover` use
 *
 * A command asks schedulers by the broker; with --from-store it reads the store. It is one process
 * with one thread: it runs from top to bottom and waits in session_ask(). Results go to standard
 * output, everything else to standard error. Called by the files of cli.
 */
#pragma once

#include <stdio.h>

#include "cli/command.h"
#include "client/session.h"

/* Exit codes; manual.c has their descriptions. */
enum cli_exit {
    CLI_OK = 0, /* done; of run, watch and wait: the job has succeeded */
    CLI_ERROR = 1,
    CLI_USAGE = 2,
    CLI_JOB_FAILED = 3,
    CLI_JOB_UNDONE = 4, /* the job was cancelled or compensated */
    CLI_NOT_FOUND = 5,
    CLI_CONFLICT = 6,
    CLI_UNREACHABLE = 7,
    CLI_TIMED_OUT = 124,   /* as of timeout(1) */
    CLI_INTERRUPTED = 130, /* as of a shell: 128 + SIGINT */
};

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

/* Appends a line for each exit code. */
void cli_exit_help(struct buf *out);

/* Prints "drover: ..." and a newline on stderr. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complains of @problem, or of the negative errno @error if no problem was recorded. Return: the
 * exit code. */
int cli_problem(int error, const struct problem *problem);

/* Complains of what session_ask() or session_wait() has returned. Return: the exit code. */
int cli_session_problem(const struct session *s, int error);

/* For a command that stops following @job because session_ask() or session_wait() has returned
 * @error. Complains; if @seen, a status has shown that the job has not ended, and the complaint
 * says so. Return: the exit code. */
int cli_stop_following(const struct session *s, int error, const char *job, bool seen);

/* Complains unless the code of the answer is DONE or UNCHANGED. Return: the exit code. */
int cli_answer_exit(const Drover__V1__Answer *answer);

/* Return: the exit code for the outcome of a job. */
int cli_outcome_exit(Drover__V1__Outcome outcome);

/* Return: the exit code for a receipt. */
int cli_receipt_exit(const Drover__V1__Receipt *receipt);

/* Whether output to @to is coloured: it is a terminal with colours, and the user wants them. */
bool cli_color(const struct args *args, FILE *to);
