// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListJobs: answers with a page of jobs, from one partition after another
 *
 * Called by on_control.c.
 */
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* If a page is too large for a message it ends earlier, and the next one begins there. */
static void list_answer(struct scheduler *s, struct op *op)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    listing_page(op->listing, s->out, &m);
    if (answer_fit(s, op, &m, &m.n_jobs)) {
        listing_next(op->listing, s->out, &m);
        op_reply(s, op, &m.base);
    }
    listing_end(op->listing, &m);
}

static void list_call(struct scheduler *s, struct op *op)
{
    listing_call(op->listing, s->out, op_call_id(s, op), op->partition);
}

static void list_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    int more = listing_take(op->listing, s->out, r);

    if (more < 0) {
        log_error("store_answer_broken", LOG_S("what", "list"));
        return;
    }
    if (more)
        allowance_spend(s, op->item->user, ALLOWANCE_SEARCH);
    if (more && !allowance_admits(s, op->item->user)) {
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER,
                       "too many jobs are to be looked at for this list: say more of what you look "
                       "for, or repeat it later");
        return;
    }
    if (!more && ++op->partition == s->partitions)
        list_answer(s, op);
    else
        op_call(s, op, list_call, list_answered);
}

void list_jobs(struct scheduler *s, struct op *op)
{
    int r = listing_new(&op->listing, op->item->message.control->list_jobs,
                        access_owner(s->access, op->item->user));

    if (r < 0)
        abort();
    if (r > 0) {
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                       "list_jobs.after: must be the `next` of an answer");
        return;
    }
    op->partition = 0;
    op_call(s, op, list_call, list_answered);
}
