// SPDX-License-Identifier: Apache-2.0
/*
 * Job status: asks for the status of a job page after page
 *
 * See client/job_status.h. Called by wait.c and clients.
 */
#include "client/job_status.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/control.h"

/* Steps of a page with data: this many of the largest results and errors, and the input, which is
 * on every page, fit into one message. */
#define DATA_PAGE 10
static_assert(DATA_PAGE * (WIRE_RESULT_MAX + WIRE_ERROR_DETAILS_MAX + 4 * WIRE_KIB) +
                      WIRE_INPUT_MAX + 64 * WIRE_KIB <=
                  WIRE_MESSAGE_MAX,
              "a page with data fits a message");

static int ask_page(struct session *s, const char *job, bool with_data, uint32_t from,
                    int64_t deadline, struct wire_message *answer)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Query query = DROVER__V1__QUERY__INIT;
    char id[ID_TOKEN_LEN + 1];

    control_init(&m, job, id);
    query.from_step = from;
    query.max_steps = with_data ? DATA_PAGE : WIRE_PAGE_MAX;
    query.with_data = with_data;
    m.command_case = DROVER__V1__CONTROL__COMMAND_QUERY;
    m.query = &query;
    return control_ask(s, &m, deadline, answer);
}

/* Moves the steps of @from to the end of @to. Return: 0 or -ENOMEM. */
static int move_steps(Drover__V1__JobStatus *to, Drover__V1__JobStatus *from)
{
    Drover__V1__StepStatus **steps =
        reallocarray(to->steps, to->n_steps + from->n_steps + 1, sizeof(*steps));

    if (!steps)
        return -ENOMEM;
    to->steps = steps;
    if (from->n_steps > 0)
        memcpy(steps + to->n_steps, from->steps, from->n_steps * sizeof(*steps));
    to->n_steps += from->n_steps;
    from->n_steps = 0;
    return 0;
}

/* Adds the next page; *more is set to whether it had steps. */
static int add_page(struct session *s, const char *job, bool with_data, int64_t deadline,
                    Drover__V1__JobStatus *status, bool *more)
{
    CLEANUP(wire_free) struct wire_message page = {0};
    uint32_t from = status->steps[status->n_steps - 1]->index + 1;
    int r = ask_page(s, job, with_data, from, deadline, &page);

    if (r)
        return r;
    *more = page.answer->status && page.answer->status->n_steps > 0;
    return *more ? move_steps(status, page.answer->status) : 0;
}

uint32_t job_status_steps(const Drover__V1__JobStatus *status)
{
    return status->steps_total < WIRE_STEPS_MAX ? status->steps_total : WIRE_STEPS_MAX;
}

int job_status_read(struct session *s, const char *job, bool with_data, int64_t deadline,
                    struct wire_message *answer)
{
    Drover__V1__JobStatus *status;
    bool more = true;
    int r = ask_page(s, job, with_data, 0, deadline, answer);

    if (r)
        return r;
    status = answer->answer->status;
    while (r == 0 && more && status && status->n_steps > 0 &&
           status->n_steps < job_status_steps(status))
        r = add_page(s, job, with_data, deadline, status, &more);
    if (r)
        wire_free(answer);
    return r;
}

bool job_status_has_ended(const Drover__V1__JobStatus *status)
{
    return status->outcome != DROVER__V1__OUTCOME__OUTCOME_UNSPECIFIED;
}
