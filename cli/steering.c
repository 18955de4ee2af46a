// SPDX-License-Identifier: Apache-2.0
/*
 * Steering: gives one command to a job, and prints the answer
 *
 * Called by steer.c and bulk.c.
 */
#include "cli/steering.h"

#include <stdio.h>

#include "cli/view.h"
#include "client/control.h"
#include "client/text.h"
#include "model/json.h"

/*
 * A command names the seq of the status on which the user has decided (if_seq), so that a command
 * that arrives late changes nothing. But seq also grows with every reply, so a busy job would
 * refuse every command. What the user has seen is the turn: if only the seq has changed since, the
 * command is sent again with the new one.
 */
#define PINNED_TRIES 3 /* then it is sent without a seq, at once after a query */

static bool superseded(const Drover__V1__Answer *answer)
{
    return answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED;
}

static int ask(struct session *s, const struct steering *steering, const char *job, uint64_t if_seq,
               int64_t deadline, struct wire_message *answer)
{
    const struct args *args = steering->args;
    Drover__V1__Control m = steering->message;
    char id[ID_TOKEN_LEN + 1];

    control_init(&m, job, id);
    m.if_seq = if_seq;
    m.reason = (char *)(args->reason ? args->reason : "");
    return control_ask(s, &m, deadline, answer);
}

/* Return: why the command is not valid any more for the job as it was @seen; NULL if it is. @now:
 * the present status; NULL if there is no such job. */
static const char *not_as_seen(const struct args *args, const Drover__V1__JobStatus *seen,
                               const Drover__V1__JobStatus *now)
{
    if (!now)
        return "the job has been forgotten meanwhile";
    if (now->turn != seen->turn)
        return "the job has been turned or changed meanwhile";
    if (args->phase && now->phase != args->phase)
        return "the job has left that phase meanwhile";
    return NULL;
}

/* Queries the job after a command was superseded. *stands is set to whether the command is still
 * valid; then *seq is set to the present seq, otherwise the reason to @answer. Return: as
 * session_ask(). */
static int query_again(struct session *s, const struct args *args,
                       const Drover__V1__JobStatus *seen, int64_t deadline,
                       struct wire_message *answer, uint64_t *seq, bool *stands)
{
    CLEANUP(wire_free) struct wire_message now = {0};
    const char *why;
    int r = control_query(s, seen->job_id, deadline, &now);

    if (r)
        return r;
    why = not_as_seen(args, seen, now.answer->status);
    *stands = !why;
    if (why)
        return text_set(&answer->answer->reason, why);
    *seq = now.answer->status->seq;
    return 0;
}

int steering_ask(struct session *s, const struct steering *steering,
                 const Drover__V1__JobStatus *seen, int64_t deadline, struct wire_message *answer)
{
    uint64_t seq = seen->seq;
    bool stands = true;

    for (int tries = 1;; tries++) {
        int r = ask(s, steering, seen->job_id, seq, deadline, answer);

        if (r || !superseded(answer->answer) || tries > PINNED_TRIES)
            return r;
        r = query_again(s, steering->args, seen, deadline, answer, &seq, &stands);
        if (r == 0 && !stands)
            return 0;
        wire_free(answer);
        if (r)
            return r;
        if (tries == PINNED_TRIES)
            seq = 0;
    }
}

void steering_print(const struct steering *steering, const Drover__V1__Answer *answer)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const struct args *args = steering->args;
    bool changed = answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;

    if (args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        json_from_message(&answer->base, &out);
    else
        view_text(&out, answer->job_id, 0);
    if (args->output == OUTPUT_TABLE)
        buf_printf(&out, " %s", changed ? steering->done : steering->unchanged);
    puts(buf_str(&out));
}
