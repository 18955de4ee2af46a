// SPDX-License-Identifier: Apache-2.0
/*
 * Command line: what all commands of `drover` use: complaints and exit codes
 *
 * A command asks schedulers by the broker; with --from-store it reads the store; both by the client
 * library. Results go to standard output, everything else to standard error.
 */
#pragma once

#include <stdio.h>

#include "cli/command.h"
#include "client/session.h"

/* Exit codes; exit_text.c has their descriptions. */
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
