// SPDX-License-Identifier: Apache-2.0
/*
 * Command line: complaints and exit codes
 *
 * See cli/cli.h. Called by all files of cli that complain.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/terminal.h"
#include "cli/view.h"

void cli_complain(const char *format, ...)
{
    va_list ap;

    fflush(stdout); /* so that the order is right if both are the same terminal */
    fputs("drover: ", stderr);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int cli_problem(int error, const struct problem *problem)
{
    if (!*problem->reason)
        cli_complain("%s", strerror(-error));
    else if (*problem->field)
        cli_complain("%s: %s", problem->field, problem->reason);
    else
        cli_complain("%s", problem->reason);
    return CLI_ERROR;
}

int cli_session_problem(const struct session *s, int error)
{
    switch (error) {
    case SESSION_E_UNREACHABLE:
        cli_complain("%s", session_why(s));
        return CLI_UNREACHABLE;
    case SESSION_E_TIMEOUT:
        cli_complain("%s", session_why(s));
        return CLI_TIMED_OUT;
    case SESSION_E_INTERRUPTED:
        cli_complain("interrupted");
        return CLI_INTERRUPTED;
    case SESSION_E_TOO_LARGE:
        cli_complain("%s", session_why(s));
        return CLI_ERROR;
    default:
        cli_complain("%s", strerror(-error));
        return CLI_ERROR;
    }
}

int cli_stop_following(const struct session *s, int error, const char *job, bool seen)
{
    if (seen && error == SESSION_E_TIMEOUT) {
        cli_complain("timed out; job %s has not ended, see: drover get %s", job, job);
        return CLI_TIMED_OUT;
    }
    if (seen && error == SESSION_E_INTERRUPTED) {
        cli_complain("detached; job %s still runs, see: drover get %s", job, job);
        return CLI_INTERRUPTED;
    }
    return cli_session_problem(s, error);
}

int cli_answer_exit(const Drover__V1__Answer *answer)
{
    CLEANUP(buf_deinit) struct buf reason = {0}, job = {0};

    view_text(&reason, answer->reason, 0);
    view_text(&job, answer->job_id, 0);
    switch (answer->code) {
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE:
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED:
        return CLI_OK;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB:
        cli_complain("there is no job %s", buf_str(&job));
        return CLI_NOT_FOUND;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW:
        cli_complain("%s", buf_str(&reason));
        return CLI_NOT_FOUND;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_WRONG_STATE:
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED:
        cli_complain("refused: %s", buf_str(&reason));
        return CLI_CONFLICT;
    default:
        cli_complain("%s: %s", view_word(&drover__v1__answer_code__descriptor, (int)answer->code),
                     buf_str(&reason));
        return CLI_ERROR;
    }
}

bool cli_color(const struct args *args, FILE *to)
{
    return view_color_wanted(terminal_is(to), args->no_color, getenv("NO_COLOR"), getenv("TERM"));
}

int cli_outcome_exit(Drover__V1__Outcome outcome)
{
    switch (outcome) {
    case DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED:
        return CLI_OK;
    case DROVER__V1__OUTCOME__OUTCOME_COMPENSATED:
    case DROVER__V1__OUTCOME__OUTCOME_CANCELLED:
        return CLI_JOB_UNDONE;
    default:
        return CLI_JOB_FAILED;
    }
}

int cli_receipt_exit(const Drover__V1__Receipt *receipt)
{
    switch (receipt->code) {
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED:
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY:
        return CLI_OK;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CONFLICT:
        return CLI_CONFLICT;
    default:
        return CLI_ERROR;
    }
}
