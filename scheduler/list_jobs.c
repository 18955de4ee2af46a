// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListJobs: answers with a page of jobs, from one partition after another
 *
 * Called by on_control.c.
 */
#include "scheduler/list_jobs.h"

#include <stdlib.h>

#include "base/log.h"
#include "model/listing.h"
#include "scheduler/access.h"
#include "scheduler/allowance.h"
#include "scheduler/answer.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

struct list_op {
    struct op op;
    struct listing *listing; /* the jobs found so far; owned; NULL: the question is invalid */
};

static struct listing *listing_of(struct op *op)
{
    return container_of(op, struct list_op, op)->listing;
}

static void list_free(struct op *op)
{
    listing_free(listing_of(op));
}

/* If a page is too large for a message it ends earlier, and the next one begins there. */
static void list_answer(struct scheduler *s, struct op *op)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    listing_page(listing_of(op), s->out, &m);
    if (answer_fit(s, op, &m, &m.n_jobs)) {
        listing_next(listing_of(op), s->out, &m);
        publish_reply(s, op, &m.base);
    }
    listing_free_page(listing_of(op), &m);
}

static void list_call(struct scheduler *s, struct op *op)
{
    listing_call(listing_of(op), s->out, op_call_id(s, op), op->partition);
}

static void list_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    int more = listing_take(listing_of(op), s->out, r);

    if (more < 0) {
        log_error("store_answer_broken", LOG_S("what", "list"));
        return;
    }
    if (more)
        allowance_spend(s, op->item->user, ALLOWANCE_SEARCH);
    if (more && !allowance_admits(s, op->item->user)) {
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER,
                    "too many jobs are to be scanned for this list: name more of their properties, "
                    "or repeat it later");
        return;
    }
    if (!more && ++op->partition == s->partitions)
        list_answer(s, op);
    else
        op_call(s, op, list_call, list_answered);
}

void list_jobs(struct scheduler *s, struct item *item)
{
    const Drover__V1__Control *m = item->message.control;
    struct list_op *list = op_new(s, item, m->job_id, sizeof(*list), list_free);
    int r = listing_new(&list->listing, m->list_jobs, access_owner(s->access, item->user));

    if (r < 0)
        abort();
    if (r > 0) {
        answer_send(s, &list->op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                    "list_jobs.after: must be the `next` of an answer");
    } else {
        list->op.partition = 0;
        op_call(s, &list->op, list_call, list_answered);
    }
    op_unref(s, &list->op);
}
