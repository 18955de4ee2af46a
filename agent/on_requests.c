// SPDX-License-Identifier: Apache-2.0
/*
 * ON Requests, ON ProgressAnswers: deliveries of the agent's machine; agent.c calls it
 *
 * A suspect waits (suspects.c). Of
 * any other Requests message each good request becomes a run; if one is bad, the whole message also
 * goes out as a dead letter. A ProgressAnswer that says `wanted = false` stops its run.
 */
#include <string.h>

#include "agent/machine.h"
#include "base/log.h"

/* ---- requests ---- */

/* Makes a run of each good request. Return: NULL, or INVALID; then @problem is that of the first
 * bad request. */
static const char *run_good(struct agent *a, struct delivery *delivery, struct problem *problem)
{
    const Drover__V1__Requests *m = delivery->message.requests;
    struct problem latest = {0};
    size_t bad = 0;

    for (size_t i = 0; i < m->n_requests; i++) {
        if (wire_check_request(m, i, &latest) == 0)
            run_new(a, delivery, m->requests[i]);
        else if (bad++ == 0)
            *problem = latest;
    }
    a->stats.requests += m->n_requests;
    return bad > 0 ? "INVALID" : NULL;
}

void requests_begin(struct agent *a, struct delivery *delivery, const struct bus_delivery *d)
{
    struct problem problem = {0};
    const char *bad;

    recent_add(&a->bodies, d->body);
    bad = delivery_decode(WIRE_REQUESTS, d, &delivery->message, &problem);
    if (!bad)
        bad = run_good(a, delivery, &problem);
    if (bad)
        dead_letter(a, delivery, d,
                    effects_printf(a->out, "%s%s%s%s%s", bad, *problem.field ? " " : "",
                                   problem.field, *problem.reason ? " " : "", problem.reason));
    delivery_settle(a, delivery);
    delivery_drop(delivery);
}

void on_requests(struct agent *a, const struct bus_delivery *d)
{
    struct delivery *delivery = delivery_new(a, d);

    if (suspect(a, d))
        suspect_new(a, delivery, d);
    else
        requests_begin(a, delivery, d);
}

/* ---- answers to Progress ---- */

static void on_answer(struct agent *a, const Drover__V1__ProgressAnswer *answer)
{
    struct run *run;

    if (answer->wanted)
        return;
    HASH_FIND(by_token, a->runs_by_token, answer->token, strlen(answer->token), run);
    if (run)
        run_unwanted(a, run);
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
