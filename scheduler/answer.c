// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to a Control, cut to what one message may hold
 *
 * Called by the files that answer a Control: on_control.c, steer.c, change.c, definition.c,
 * list_jobs.c, history.c and list_workflows.c.
 */
#include "scheduler/answer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/status.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

/* Bytes of an answer. The rest is for the cursor of the next page, which is set after this page
 * is shortened. */
#define ANSWER_MAX (WIRE_MESSAGE_MAX - 1024)
static_assert(WIRE_CURSOR_MAX * 6 < 1024, "a cursor fits behind a page, in JSON, too");

void answer_send(struct scheduler *s, struct op *op, Drover__V1__AnswerCode code,
                 const char *reason)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.job_id = op->job;
    m.command_id = op->item->message.control->command_id;
    m.code = code;
    m.reason = (char *)reason;
    publish_reply(s, op, &m.base);
}

static bool fits(const Drover__V1__Answer *m, bool json)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    if (drover__v1__answer__get_packed_size(m) > ANSWER_MAX)
        return false;
    return !json || (wire_encode(&m->base, true, &text) != WIRE_E_TOO_LARGE &&
                     buf_or_abort(&text).len <= ANSWER_MAX);
}

/* JSON takes up to six times as much, which is known only when it is encoded. */
bool answer_fit(struct scheduler *s, struct op *op, Drover__V1__Answer *m, size_t *page)
{
    while (!fits(m, op->item->json)) {
        if (!page || *page <= 1) {
            answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_TOO_LARGE,
                        "the answer would exceed the message limit");
            return false;
        }
        *page /= 2;
    }
    return true;
}

bool answer_read_job(struct scheduler *s, struct op *op, struct ops_reader *r, struct ops_job *job)
{
    int result = ops_read_job(r, s->out, job);

    if (result == -EPROTO || (result == 0 && job->definition.len != ID_DIGEST_LEN)) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return false;
    }
    if (result) {
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                    "there is no such job");
        return false;
    }
    memcpy(op->definition.digest, job->definition.data, ID_DIGEST_LEN);
    return true;
}

void answer_status(struct scheduler *s, struct op *op, const struct ops_job *job,
                   const struct workflow *w)
{
    Drover__V1__Answer answer = DROVER__V1__ANSWER__INIT;
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    size_t whole;

    status_job(s->out, &status, bytes_str(op->job), job);
    status_steps(s->out, &status, job, w);
    answer.job_id = op->job;
    answer.command_id = op->item->message.control->command_id;
    answer.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    answer.status = &status;
    whole = status.n_steps;
    if (answer_fit(s, op, &answer, &status.n_steps))
        publish_reply(s, op, &answer.base);
    status.n_steps = whole;
    status_steps_free(&status);
}
