// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with History: answers with what the store has recorded of a job
 *
 * Called by on_control.c.
 */
#include "scheduler/history.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "model/history.h"
#include "scheduler/access.h"
#include "scheduler/answer.h"
#include "scheduler/definition.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

/* Greater than the number of any entry, and exact as a number of the store: 2^53. */
#define FROM_MAX (UINT64_C(1) << 53)

/* The number of the entry that follows those of this page. */
static char *next_seq(struct scheduler *s, const Drover__V1__Answer *m)
{
    return (char *)effects_printf(s->out, "%" PRIu64, m->history[m->n_history - 1]->seq + 1);
}

static void history_answer(struct scheduler *s, struct op *op, const struct ops_history *found,
                           const struct workflow *w)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    history_entries(s->out, &m, found, w);
    m.job_id = op->job;
    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    if (m.n_history > 0)
        m.next = next_seq(s, &m); /* so that the size of the answer includes it */
    if (!answer_fit(s, op, &m, &m.n_history))
        return;
    if (m.n_history > 0)
        m.next = found->more || m.n_history < found->n ? next_seq(s, &m) : (char *)"";
    publish_reply(s, op, &m.base);
}

static void history_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__History *q = op->item->message.control->history;
    uint32_t most =
        q->max_entries && q->max_entries < WIRE_PAGE_MAX ? q->max_entries : WIRE_PAGE_MAX;
    uint64_t from = q->from_seq < FROM_MAX ? q->from_seq : FROM_MAX;

    ops_inspect_history(s->out, op_call_id(s, op), op->partition, op->job, from, most,
                        access_owner(s->access, op->item->user));
}

static void history_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_history found;
    const struct workflow *w;
    int result = ops_read_history(r, s->out, &found);

    if (result == -EPROTO) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return;
    }
    if (result || found.definition.len != ID_DIGEST_LEN) {
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                    "there is no such job");
        return;
    }
    memcpy(op->definition.digest, found.definition.data, ID_DIGEST_LEN);
    w = definition_find(s, op->definition.digest);
    if (w)
        history_answer(s, op, &found, w);
    else
        definition_load(s, op, &from, history_answered);
}

void history(struct scheduler *s, struct item *item)
{
    struct op *op = op_plain(s, item, item->message.control->job_id);

    op_call(s, op, history_call, history_answered);
    op_unref(s, op);
}
