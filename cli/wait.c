// SPDX-License-Identifier: Apache-2.0
/*
 * Wait: waits until jobs have ended, in the order in which they are named (command wait)
 *
 * Called by command_run.c.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/wait.h"
#include "model/json.h"

static void print(const Drover__V1__JobStatus *status, const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0}, failure = {0};

    if (args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        json_from_message(&status->base, &out);
    else
        view_text(&out, status->job_id, 0);
    if (args->output == OUTPUT_TABLE) {
        view_job_failure(status, &failure);
        buf_printf(&out, " %s%s%s", view_job_state(status), failure.len > 0 ? ": " : "",
                   buf_str(&failure));
    }
    puts(buf_str(&out));
    fflush(stdout);
}

static int wait_one(struct session *s, const char *job, const struct args *args, int64_t deadline)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool seen;
    int r = wait_until_ended(s, job, deadline, &answer, &seen);

    if (r)
        return cli_stop_following(s, r, job, seen);
    r = cli_answer_exit(answer.answer);
    if (r || !answer.answer->status)
        return r;
    print(answer.answer->status, args);
    return cli_outcome_exit(answer.answer->status->outcome);
}

int cli_wait(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    int64_t deadline = connect_deadline(args, 0);
    int first = CLI_OK, r = connect_session(args, &s);

    if (r)
        return r;
    for (int i = 0; i < args->n_operands; i++) {
        r = wait_one(s, args->operands[i], args, deadline);
        if (r == CLI_TIMED_OUT || r == CLI_INTERRUPTED || r == CLI_UNREACHABLE)
            return r;
        if (first == CLI_OK)
            first = r;
    }
    return first;
}
