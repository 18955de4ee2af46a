// SPDX-License-Identifier: Apache-2.0
/*
 * ON ProgressAnswers: stops the runs that their jobs do not want any more
 *
 * Called by agent.c.
 */
#include "agent/on_answers.h"

#include "agent/running.h"
#include "agent/state.h"
#include "base/log.h"

static void on_answer(struct agent *a, const Drover__V1__ProgressAnswer *answer)
{
    struct run *run;

    if (answer->wanted)
        return;
    run = run_find_token(a, answer->token);
    if (run)
        running_unwanted(a, run);
}

/* These messages have neither ack nor dead letter: a bad one is logged and ignored. */
void on_answers(struct agent *a, const struct bus_delivery *d)
{
    CLEANUP(wire_free) struct wire_message message = {0};
    struct problem problem = {0};
    const char *bad = delivery_decode(WIRE_PROGRESS_ANSWERS, d, &message, &problem);

    if (bad) {
        log_warn("progress_answer_refused", LOG_S("reason", bad), LOG_S("field", problem.field));
        return;
    }
    for (size_t i = 0; i < message.progress_answers->n_answers; i++)
        if (wire_check_progress_answer(message.progress_answers, i, NULL) == 0)
            on_answer(a, message.progress_answers->answers[i]);
}
