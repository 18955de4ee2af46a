// SPDX-License-Identifier: Apache-2.0
/*
 * Why: a reason code and a sentence for each step that is not where the job wants it (command why)
 *
 * Asks for the status of the job, and makes sentences from it and from what why_facts.c finds out.
 * If no scheduler answers, only that is reported. Called by command_run.c.
 */
#include "cli/why.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "client/job_status.h"

static void why_deinit(struct why *why)
{
    for (size_t i = 0; why->job && why->steps && i < why->job->n_steps; i++) {
        buf_deinit(&why->steps[i].names);
        buf_deinit(&why->steps[i].sentence);
    }
    free(why->steps);
    free(why->queues);
    buf_deinit(&why->sentence);
}

/* Reports that the schedulers have not answered. */
static void say_schedulers(struct why *why, const struct session_queue *control)
{
    why->code = control->consumers == 0 ? "NO_SCHEDULER" : "NO_ANSWER";
    buf_puts(&why->sentence, control->consumers == 0
                                 ? "the schedulers are not consuming"
                                 : "the schedulers consume, and do not answer: is the store up?");
    buf_printf(&why->sentence, "; waiting: %" PRIu32 " in `drover.control`", control->messages);
    if (session_inspect(why->session, "drover.replies", why->deadline, &why->replies) == 0)
        buf_printf(&why->sentence, ", %" PRIu32 " in `drover.replies`", why->replies.messages);
    why_print(why);
}

/* Return: the exit code. */
static int explain(struct why *why)
{
    int r = why_facts_find(why);

    if (r)
        return cli_session_problem(why->session, r);
    why->code = why_reason_job(why->job, &why->sentence);
    for (size_t i = 0; i < why->job->n_steps; i++)
        why->steps[i].code = why_reason_step(why, why->job->steps[i], &why->steps[i]);
    why_print(why);
    return CLI_OK;
}

/* Return: the exit code. */
static int ask_store(struct why *why, struct wire_message *answer)
{
    int r = job_status_read(why->session, why->args->operands[0], false, why->deadline, answer);

    return r ? cli_session_problem(why->session, r) : cli_answer_exit(answer->answer);
}

/* Asks the schedulers, or reports what is wrong with them. Return: the exit code. */
static int ask_schedulers(struct why *why, struct wire_message *answer)
{
    struct session_queue control;
    int r = session_inspect(why->session, "drover.control", why->deadline, &control);

    if (r)
        return cli_session_problem(why->session, r);
    if (control.consumers == 0) {
        say_schedulers(why, &control);
        return CLI_UNREACHABLE;
    }
    r = job_status_read(why->session, why->args->operands[0], false, why->deadline, answer);
    if (r == SESSION_E_TIMEOUT) {
        why->deadline = SESSION_FOREVER; /* an inspection has a time limit of its own */
        say_schedulers(why, &control);
    }
    return r ? cli_session_problem(why->session, r) : cli_answer_exit(answer->answer);
}

static int ask(struct why *why, struct wire_message *answer)
{
    int r = why->args->from_store ? ask_store(why, answer) : ask_schedulers(why, answer);

    why->job = r ? NULL : answer->answer->status;
    return why->job ? explain(why) : r;
}

int cli_why(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    struct why why = {.args = args, .deadline = connect_deadline(args, CONNECT_ANSWER_MS)};
    int r = connect_session(args, &s);

    if (r)
        return r;
    why.session = s;
    r = ask(&why, &answer);
    why_deinit(&why);
    return r;
}
