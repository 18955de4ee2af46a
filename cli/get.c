// SPDX-License-Identifier: Apache-2.0
/*
 * Get: prints the status of a job (command get)
 *
 * Called by command_run.c.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/job_status.h"
#include "model/json.h"

static void print(const Drover__V1__JobStatus *status, const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    switch (args->output) {
    case OUTPUT_TABLE:
        view_job(status, cli_color(args, stdout), &out);
        break;
    case OUTPUT_ID:
        view_text(&out, status->job_id, 0);
        buf_putc(&out, '\n');
        break;
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        json_from_message(&status->base, &out);
        buf_putc(&out, '\n');
        break;
    }
    fputs(buf_str(&out), stdout);
}

int cli_get(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    int64_t deadline = connect_deadline(args, CONNECT_ANSWER_MS);
    int r = connect_session(args, &s);

    if (r)
        return r;
    r = job_status_read(s, args->operands[0], args->data, deadline, &answer);
    if (r)
        return cli_session_problem(s, r);
    r = cli_answer_exit(answer.answer);
    if (r == CLI_OK && answer.answer->status)
        print(answer.answer->status, args);
    return r;
}
