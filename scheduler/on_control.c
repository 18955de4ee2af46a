// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control: finds out what it asks for, and answers a Query or drives a job
 *
 * Query and History ask about one job, ListJobs and ListWorkflows about many. Recover and Notify
 * come from supervisors. All others are commands about one job: steer.c. Called by scheduler.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* ---- Query ---- */

static void query_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__Query *q = op->item->message.control->query;
    uint32_t most = q->max_steps && q->max_steps < WIRE_PAGE_MAX ? q->max_steps : WIRE_PAGE_MAX;

    ops_inspect_job(s->out, op_call_id(s, op), op->partition, op->job, q->from_step, most,
                    q->with_data, access_owner(s->access, op->item->user));
}

static void query_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_job job;
    const struct workflow *w;

    if (op->data_prepaid)
        allowance_give_back(s, op->item->user, ALLOWANCE_DATA);
    op->data_prepaid = false;
    if (!job_read(s, op, r, &job))
        return;
    w = definition_find(s, op->digest);
    if (w)
        status_answer(s, op, &job, w);
    else
        definition_load(s, op, &from, query_answered);
}

/* ---- Recover ---- */

static void recover(struct scheduler *s, struct op *op)
{
    const Drover__V1__Recover *m = op->item->message.control->recover;

    s->stats.recovered++;
    op->again = op->item->redelivered;
    op->n_steps = m->n_steps < OPS_BUDGET ? (uint32_t)m->n_steps : OPS_BUDGET;
    op->steps = or_abort(calloc(op->n_steps + 1, sizeof(*op->steps)));
    if (op->n_steps > 0)
        memcpy(op->steps, m->steps, op->n_steps * sizeof(*op->steps));
    drive(s, op);
}

void on_control(struct scheduler *s, struct item *item)
{
    const Drover__V1__Control *m = item->message.control;
    struct op *op = op_new(s, item, m->job_id);

    log_debug("control", LOG_S("job", m->job_id), LOG_I("command", m->command_case));
    switch (m->command_case) {
    case DROVER__V1__CONTROL__COMMAND_QUERY:
        op->data_prepaid = m->query->with_data; /* so that not many are answered at a time */
        if (op->data_prepaid)
            allowance_spend(s, item->user, ALLOWANCE_DATA);
        op_call(s, op, query_call, query_answered);
        break;
    case DROVER__V1__CONTROL__COMMAND_RECOVER:
        recover(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_NOTIFY:
        if (m->notify->torn)
            alert_corrupt(s, item, m->job_id, m->issued_at);
        else
            notification_new(s, item, m->job_id, m->notify->seq, "");
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_JOBS:
        list_jobs(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_HISTORY:
        history(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS:
        list_workflows(s, op);
        break;
    default:
        steer(s, op);
        break;
    }
    op_unref(s, op);
}
