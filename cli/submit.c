// SPDX-License-Identifier: Apache-2.0
/*
 * Submit: submits jobs and prints their receipts (command submit)
 *
 * Called by command_run.c.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/load.h"
#include "cli/view.h"
#include "client/submit.h"
#include "model/json.h"

static void put_receipt(const Drover__V1__Receipt *m, enum output output, struct buf *out)
{
    switch (output) {
    case OUTPUT_TABLE:
        view_receipt(m, out);
        break;
    case OUTPUT_ID:
        view_text(out, m->job_id, 0);
        buf_putc(out, '\n');
        break;
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        json_from_message(&m->base, out);
        buf_putc(out, '\n');
        break;
    }
}

/* With --output id, the receipt of a job that was refused goes to standard error instead. */
static void print_receipt(const Drover__V1__Receipt *m, enum output output)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    bool taken = cli_receipt_exit(m) == CLI_OK;

    put_receipt(m, output == OUTPUT_ID && !taken ? OUTPUT_TABLE : output, &out);
    fputs(buf_str(&out), output == OUTPUT_ID && !taken ? stderr : stdout);
    fflush(stdout); /* so that a reader sees each job when it is recorded */
}

/* Submits all jobs; the first one that is refused decides the exit code. */
static int submit_all(struct session *s, const struct jobs *jobs, const struct args *args)
{
    int64_t deadline = connect_deadline(args, CONNECT_ANSWER_MS);
    int exit_code = CLI_OK;

    for (size_t i = 0; i < jobs->n; i++) {
        CLEANUP(wire_free) struct wire_message receipt = {0};
        int r = submit_job(s, jobs->items[i], deadline, &receipt);

        if (r) {
            cli_complain("job %s is not known to be recorded; its id makes it safe to submit again",
                         jobs->items[i]->job_id);
            return cli_session_problem(s, r);
        }
        print_receipt(receipt.receipt, args->output);
        if (exit_code == CLI_OK)
            exit_code = cli_receipt_exit(receipt.receipt);
    }
    return exit_code;
}

int cli_submit(const struct args *args)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    CLEANUP(session_free) struct session *s = NULL;
    struct problem problem = {0};
    int r = load_jobs(args, &jobs, &problem);

    if (r)
        return load_complain(r, &problem);
    r = connect_session(args, &s);
    return r ? r : submit_all(s, &jobs, args);
}
