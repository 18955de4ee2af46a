// SPDX-License-Identifier: Apache-2.0
/*
 * Wait: waits until jobs have ended, in the order in which they are named (command wait)
 *
 * It asks for the status repeatedly, so that it does not depend on events, which may get lost.
 * Called by main().
 */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/view.h"
#include "client/control.h"
#include "model/json.h"

#define POLL_MIN_MS 100
#define POLL_MAX_MS 1000
#define LOOK_MS 10000 /* for one status; then it asks again */

static void print(const Drover__V1__JobStatus *status, const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0}, failure = {0};

    if (args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        json_from_message(&status->base, &out);
    else
        view_text(&out, status->job_id, 0);
    if (args->output == OUTPUT_TABLE) {
        view_failure(status, &failure);
        buf_printf(&out, " %s%s%s", view_job_state(status), failure.len > 0 ? ": " : "",
                   buf_str(&failure));
    }
    puts(buf_str(&out));
    fflush(stdout);
}

static bool ended(const struct wire_message *answer)
{
    const Drover__V1__JobStatus *status = answer->answer->status;

    return !status || status->outcome != DROVER__V1__OUTCOME__OUTCOME_UNSPECIFIED;
}

/* Return: as session_ask(); on 0 the job has ended, or there is no such job. *seen is set to
 * whether a status has shown that it had not ended. */
static int wait_for(struct session *s, const char *job, int64_t deadline,
                    struct wire_message *answer, bool *seen)
{
    int64_t interval = POLL_MIN_MS;

    *seen = false;
    for (;;) {
        int64_t now = clock_monotonic_ms(), limit = now + LOOK_MS;
        int r = control_query(s, job, limit < deadline ? limit : deadline, answer);

        if (r == 0 && ended(answer))
            return 0;
        if (r == 0) {
            *seen = true;
            wire_free(answer);
        }
        now = clock_monotonic_ms();
        if (r && (r != SESSION_E_TIMEOUT || now >= deadline))
            return r;
        if (now >= deadline)
            return SESSION_E_TIMEOUT;
        if (session_wait(s, now + interval < deadline ? now + interval : deadline))
            return SESSION_E_INTERRUPTED;
        interval = interval * 3 / 2 < POLL_MAX_MS ? interval * 3 / 2 : POLL_MAX_MS;
    }
}

static int wait_one(struct session *s, const char *job, const struct args *args, int64_t deadline)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool seen;
    int r = wait_for(s, job, deadline, &answer, &seen);

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
    int64_t deadline = cli_deadline(args, 0);
    int first = CLI_OK, r = cli_connect(args, &s);

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
