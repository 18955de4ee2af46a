// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control: one command about one job, or a question about many.
 */
#include <errno.h>
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
                    q->with_data);
}

static void query_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_job job;
    const struct workflow *w;
    int result = ops_read_job(r, s->out, &job);

    if (result == -EPROTO) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return;
    }
    if (result) {
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                       "there is no such job");
        return;
    }
    memcpy(op->digest, job.definition.data,
           job.definition.len < ID_DIGEST_LEN ? job.definition.len : ID_DIGEST_LEN);
    w = definition_find(s, op->digest);
    if (w)
        status_answer(s, op, &job, w);
    else
        definition_load(s, op, &from, query_answered);
}

/* ---- Cancel ---- */

static void cancel_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__Control *m = op->item->message.control;
    const struct op_steer steer = {.job = op->job,
                                   .command = "cancel",
                                   .command_id = m->command_id,
                                   .if_seq = m->if_seq,
                                   .reason = m->reason,
                                   .by = s->name};

    ops_steer(s->out, op_call_id(s, op), op->partition, &steer);
}

static void on_steered(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                       struct workflow *w)
{
    static const struct {
        enum ops_code code;
        Drover__V1__AnswerCode answer;
        const char *reason;
    } answers[] = {
        {OPS_DONE, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE, ""},
        {OPS_UNCHANGED, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED, "already so"},
        {OPS_UNKNOWN_JOB, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB, "there is no such job"},
        {OPS_WRONG_STATE, DROVER__V1__ANSWER_CODE__ANSWER_CODE_WRONG_STATE, "the job is settled"},
        {OPS_SUPERSEDED, DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED,
         "the job has moved on since if_seq"},
    };

    for (size_t i = 0; i < array_size(answers); i++)
        if (answers[i].code == driven->code)
            control_answer(s, op, answers[i].answer, answers[i].reason);
    on_driven(s, op, driven, w);
}

static void cancel_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    driven_read(s, op, r, on_steered);
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
        op_call(s, op, query_call, query_answered);
        break;
    case DROVER__V1__CONTROL__COMMAND_CANCEL:
        op_call(s, op, cancel_call, cancel_answered);
        break;
    case DROVER__V1__CONTROL__COMMAND_RECOVER:
        recover(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_NOTIFY:
        notice_new(s, item, m->job_id, m->notify->seq, "");
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_JOBS:
        list_jobs(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_HISTORY:
        history(s, op);
        break;
    case DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS:
        catalog(s, op);
        break;
    default:
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNSUPPORTED,
                       "this server does not know the command");
        break;
    }
    op_unref(s, op);
}
