// SPDX-License-Identifier: Apache-2.0
/*
 * Reply: the StepReply of one run, made of the result of its handler
 *
 * Called by run.c, and by replies.c, which publishes it, for the size.
 */
#include "agent/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Copies @from to *memory, and moves *memory behind the copy. Return: the copy. */
static char *text_keep(char **memory, struct bytes from, size_t max, bool lines)
{
    char *text = *memory;

    *memory += utf8_copy(text, from, max, lines) + 1;
    return text;
}

static void set_result(struct reply *r, Drover__V1__State achieved,
                       const struct agent_result *result)
{
    struct bytes type = bytes_str(result->content_type);
    char *memory = or_abort(malloc(type.len + 1 + result->result.len));

    r->memory = memory;
    r->message.achieved = achieved;
    if (type.len + result->result.len == 0)
        return;
    drover__v1__payload__init(&r->result);
    r->result.content_type = text_keep(&memory, type, WIRE_CONTENT_TYPE_MAX, false);
    r->result.data.data = (uint8_t *)memory;
    r->result.data.len = result->result.len;
    if (result->result.len > 0)
        memcpy(memory, result->result.data, result->result.len);
    r->message.result = &r->result;
}

static void set_error(struct reply *r, const struct agent_result *result)
{
    struct bytes class = bytes_str(result->class);
    struct bytes message = bytes_str(result->message);
    char *memory = or_abort(malloc(class.len + message.len + result->details.len + 3));

    r->memory = memory;
    r->message.achieved = DROVER__V1__STATE__STATE_UNKNOWN;
    drover__v1__error__init(&r->error);
    r->error.class_ = text_keep(&memory, class, WIRE_ERROR_CLASS_MAX, false);
    r->error.message = text_keep(&memory, message, WIRE_ERROR_MESSAGE_MAX, false);
    r->error.details = text_keep(&memory, result->details, WIRE_ERROR_DETAILS_MAX, true);
    r->error.verdict = result->verdict;
    r->error.effect = result->effect;
    r->error.retry_after_ms = result->retry_after_ms > 0 ? result->retry_after_ms : 0;
    r->message.error = &r->error;
}

void reply_set(struct reply *r, const Drover__V1__StepRequest *request,
               const struct agent_result *result)
{
    static const struct agent_result too_large = {
        .class = "RESULT_TOO_LARGE",
        .message = "the result exceeds the limit",
        .verdict = DROVER__V1__VERDICT__VERDICT_PERMANENT,
    };

    if (result->ok && bytes_str(result->content_type).len + result->result.len > WIRE_RESULT_MAX)
        result = &too_large;
    reply_free(r);
    drover__v1__step_reply__init(&r->message);
    r->message.job_id = request->job_id;
    r->message.step = request->step;
    r->message.token = request->token;
    if (result->ok)
        set_result(r, request->desired, result);
    else
        set_error(r, result);
}

void reply_free(struct reply *r)
{
    free(take(r->memory));
}

size_t reply_size(const struct reply *r)
{
    size_t details = r->message.error ? strlen(r->error.details) : 0;

    return wire_payload_size(r->message.result) + details + REPLY_BASE;
}
