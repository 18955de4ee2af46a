// SPDX-License-Identifier: Apache-2.0
/*
 * Exit codes: their descriptions
 *
 * Called by help.c and manual.c.
 */
#include "cli/exit_text.h"

#include "cli/cli.h"

static const struct exit_text EXITS[] = {
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

const struct exit_text *exit_text_at(size_t n)
{
    return n < array_size(EXITS) ? &EXITS[n] : NULL;
}
