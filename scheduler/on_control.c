// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control: finds out what it asks for, and answers a Query or drives a job
 *
 * Query and History ask about one job, ListJobs about many, ListWorkflows about workflows; Resend
 * is about all jobs. Recover and Notify come from supervisors. All others are commands about one
 * job: steer.c. Called by on_delivery.c.
 */
#include "scheduler/on_control.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/access.h"
#include "scheduler/alert_cause.h"
#include "scheduler/allowance.h"
#include "scheduler/answer.h"
#include "scheduler/definition.h"
#include "scheduler/history.h"
#include "scheduler/list_jobs.h"
#include "scheduler/list_workflows.h"
#include "scheduler/notification.h"
#include "scheduler/state.h"
#include "scheduler/steer.h"
#include "scheduler/transition.h"

/* ---- Query ---- */

struct query_op {
    struct op op;
    bool data_prepaid; /* ALLOWANCE_DATA was spent in advance */
};

static struct query_op *query_of(struct op *op)
{
    return container_of(op, struct query_op, op);
}

static void query_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__Query *q = op->item->message.control->query;
    uint32_t most = q->max_steps && q->max_steps < WIRE_PAGE_MAX ? q->max_steps : WIRE_PAGE_MAX;

    ops_inspect_job(s->out, op_call_id(s, op), op->partition, op->job, q->from_step, most,
                    q->with_data, access_owner(s->access, op->item->user));
}

static void query_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct query_op *query = query_of(op);
    struct ops_reader from = *r;
    struct ops_job job;
    const struct workflow *w;

    if (query->data_prepaid)
        allowance_give_back(s, op->item->user, ALLOWANCE_DATA);
    query->data_prepaid = false;
    if (!answer_read_job(s, op, r, &job))
        return;
    w = definition_find(s, op->definition.digest);
    if (w)
        answer_status(s, op, &job, w);
    else
        definition_load(s, op, &from, query_answered);
}

static void query(struct scheduler *s, struct item *item, const Drover__V1__Control *m)
{
    struct query_op *query = op_new(s, item, m->job_id, sizeof(*query), NULL);

    query->data_prepaid = m->query->with_data; /* so that not many are answered at a time */
    if (query->data_prepaid)
        allowance_spend(s, item->user, ALLOWANCE_DATA);
    op_call(s, &query->op, query_call, query_answered);
    op_unref(s, &query->op);
}

/* ---- Recover ---- */

/* Drives a job, and first of all the steps that a supervisor has found due. */
struct recover_op {
    struct transition_op transition;
    uint32_t n_steps;
    uint32_t steps[OPS_BUDGET];
};

static void recover_call(struct scheduler *s, struct op *op)
{
    const struct recover_op *recover = container_of(op, struct recover_op, transition.op);

    nonces_next(&s->nonces, op->nonce);
    ops_drive(s->out, op_call_id(s, op), op->partition, op->job, op->nonce, s->name,
              op->call_repeated, recover->steps, recover->n_steps);
    op->call_repeated = false;
}

static void recover_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_answered(s, op, r, transition_publish);
}

static void recover(struct scheduler *s, struct item *item, const Drover__V1__Control *m)
{
    struct recover_op *recover = op_new(s, item, m->job_id, sizeof(*recover), NULL);
    struct op *op = &recover->transition.op;
    size_t n = m->recover->n_steps < OPS_BUDGET ? m->recover->n_steps : OPS_BUDGET;

    s->stats.recovered++;
    op->call_repeated = item->redelivered;
    recover->n_steps = (uint32_t)n;
    if (n > 0)
        memcpy(recover->steps, m->recover->steps, n * sizeof(*recover->steps));
    op_call(s, op, recover_call, recover_answered);
    op_unref(s, op);
}

static void notify(struct scheduler *s, struct item *item, const Drover__V1__Control *m)
{
    if (m->notify->torn)
        alert_cause_corrupt(s, item, m->job_id, m->issued_at);
    else
        notification_asked(s, item, m->job_id, m->notify->seq);
}

void on_control(struct scheduler *s, struct item *item)
{
    const Drover__V1__Control *m = item->message.control;

    log_debug("control", LOG_S("job", m->job_id), LOG_I("command", m->command_case));
    switch (m->command_case) {
    case DROVER__V1__CONTROL__COMMAND_QUERY:
        query(s, item, m);
        break;
    case DROVER__V1__CONTROL__COMMAND_RECOVER:
        recover(s, item, m);
        break;
    case DROVER__V1__CONTROL__COMMAND_NOTIFY:
        notify(s, item, m);
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_JOBS:
        list_jobs(s, item);
        break;
    case DROVER__V1__CONTROL__COMMAND_HISTORY:
        history(s, item);
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS:
        list_workflows(s, item);
        break;
    case DROVER__V1__CONTROL__COMMAND_RESEND:
        loss_resend(s, item);
        break;
    default:
        steer(s, item);
        break;
    }
}
