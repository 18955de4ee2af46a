// SPDX-License-Identifier: Apache-2.0
/*
 * Records: what happened to dispatches, recorded in the store, several in a call
 *
 * op.c repeats a call that the store has not answered. Called by on_replies.c and on_expired.c; and
 * by dispatch.c and request.c, through struct dispatch_reports, for a request that reaches no
 * queue.
 */
#include "scheduler/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/allowance.h"
#include "scheduler/dead_letter.h"
#include "scheduler/service_time.h"
#include "scheduler/state.h"

static struct record_op *record_of(struct op *op)
{
    return container_of(op, struct record_op, transition.op);
}

static void record_free(struct op *op)
{
    struct record_op *r = record_of(op);

    buf_deinit(&r->result);
    buf_deinit(&r->error);
}

struct record_op *record_new(struct scheduler *s, struct item *item, const char *job)
{
    return op_new(s, item, job, sizeof(struct record_op), record_free);
}

void record_fail(struct record_op *r, enum report_kind kind, const char *class, const char *message)
{
    Drover__V1__Error error = DROVER__V1__ERROR__INIT;

    error.class_ = (char *)class;
    error.message = (char *)message;
    (void)wire_encode(&error.base, false, &r->error);
    r->record.kind = kind;
    r->record.class = class;
    r->record.error = buf_or_abort(&r->error);
}

/* ---- the answer ---- */

static void on_recorded(struct scheduler *s, struct transition_op *t,
                        const struct ops_transition *transition, struct workflow *w)
{
    const struct record_op *r = record_of(&t->op);
    const struct op *op = &t->op;

    switch (transition->code) {
    case OPS_RECORDED:
        s->stats.recorded++;
        if (r->reply)
            allowance_return_reply(s, op->item->actor);
        if (r->reply && w)
            service_time_note(s, w, r->reply);
        break;
    case OPS_UNKNOWN_JOB:
        s->stats.unknown++;
        log_often(LOG_INFO, "reply_unknown_job", LOG_S("job", op->job));
        break;
    case OPS_BEGUN:
        log_often(LOG_INFO, "request_begun", LOG_S("job", op->job),
                  LOG_S("token", ops_token_id(s->out, r->record.token)));
        break;
    case OPS_OTHER_STEP:
        dead_letter_send_quietly(
            s, op->item,
            effects_printf(s->out, "INVALID replies.step names another step than token %s",
                           ops_token_id(s->out, r->record.token)));
        break;
    case OPS_OTHER_ACTOR:
        dead_letter_send_quietly(
            s, op->item,
            effects_printf(
                s->out,
                "INVALID replies came from an agent of %s, and the step is not for that actor",
                op->item->actor));
        break;
    case OPS_DATA_FULL:
        record_without_reply(
            s, op->item, REPORT_PERMANENT, op->job, r->record.token, "RESULT_TOO_LARGE",
            "with this result the input and results of the job would exceed 64 MiB");
        break;
    default:
        s->stats.stale++;
        log_often(LOG_INFO, "reply_not_recorded", LOG_S("job", op->job),
                  LOG_S("token", ops_token_id(s->out, r->record.token)),
                  LOG_S("code", ops_code_name(transition->code)));
        break;
    }
    transition_publish(s, t, transition, w);
}

static void record_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_answered(s, op, r, on_recorded);
}

/* ---- calls ---- */

static void record_call(struct scheduler *s, struct op *op)
{
    list_append(&s->recording.queues[op->partition], &op->link);
    s->recording.n++;
    pace_add(&s->recording.pace, s->now);
}

void record_add(struct scheduler *s, struct record_op *r)
{
    struct op *op = &r->transition.op;

    memcpy(r->record.nonce, op->nonce, sizeof(op->nonce));
    r->record.jitter = (uint32_t)rng_below(&s->rng, 1000000);
    op_call(s, op, record_call, record_answered);
}

void record_without_reply(struct scheduler *s, struct item *item, enum report_kind kind,
                          const char *job, const char *token, const char *class,
                          const char *message)
{
    struct record_op *r = record_new(s, item, job);

    memcpy(r->token, token, strnlen(token, WIRE_TOKEN_MAX));
    r->record = (struct ops_record_args){.kind = kind,
                                         .job = r->transition.op.job,
                                         .token = r->token,
                                         .redelivered = item->redelivered};
    if (class)
        record_fail(r, kind, class, message);
    record_add(s, r);
    op_unref(s, &r->transition.op);
}

/* Whether the record must not share a call: its requests may use up the budget of a call; if the
 * store has refused it the others are not to fail with it. */
static bool is_alone(const struct record_op *r)
{
    return r->alone || r->transition.op.repeated;
}

static void flush_partition(struct scheduler *s, uint32_t partition)
{
    struct list *queue = &s->recording.queues[partition];
    const struct ops_record_args *records[RECORD_CALL_MAX];
    struct op *ops[RECORD_CALL_MAX];
    int n = 0;

    while (n < RECORD_CALL_MAX && !list_empty(queue)) {
        struct op *op = list_entry(queue->next, struct op, link);
        struct record_op *r = record_of(op);

        if (is_alone(r) && n > 0)
            break;
        list_remove(&op->link);
        r->record.redelivered |= op->repeated;
        records[n] = &r->record;
        ops[n++] = op;
        if (is_alone(r))
            break;
    }
    ops_record(s->out, op_call_id_shared(s, ops, n), partition, s->name, records, n);
}

void record_init(struct scheduler *s)
{
    s->recording.queues = or_abort(calloc(s->partitions, sizeof(*s->recording.queues)));
    for (uint32_t p = 0; p < s->partitions; p++)
        list_init(&s->recording.queues[p]);
}

void record_flush(struct scheduler *s)
{
    if (s->recording.n == 0 || pace_when(&s->recording.pace, s->now) > s->now)
        return;
    pace_sent(&s->recording.pace, s->now);
    s->recording.n = 0;
    for (uint32_t p = 0; p < s->partitions; p++)
        while (!list_empty(&s->recording.queues[p]))
            flush_partition(s, p);
}

int64_t record_next(const struct scheduler *s)
{
    return s->recording.n > 0 ? pace_when(&s->recording.pace, s->now) : INT64_MAX;
}

void record_free_all(struct scheduler *s)
{
    for (uint32_t p = 0; p < s->partitions; p++)
        op_free_list(s, &s->recording.queues[p]);
    free(s->recording.queues);
}
