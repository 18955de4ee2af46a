// SPDX-License-Identifier: Apache-2.0
/*
 * Templates: texts of the configuration with ${names}, which become values of a request
 *
 * http_request.c expands URLs and headers with it; handler_exec.c takes the request as JSON from
 * it.
 *
 *     ${job} ${step}                      of the request
 *     ${arguments} ${arguments.a.b}       the step's arguments, or a member of them
 *     ${input} ${input.items.0.id}        the job's input likewise; numbers count in lists
 *     ${results.STEP} ${results.STEP.a}   the result of a step, of those that this step takes
 *
 * The value of a name is percent-encoded (RFC 3986: all but the unreserved characters), so that no
 * value can end a line, add a segment to a path or add a parameter. There are no expressions. It is
 * an error if a name has no value, or if the value is empty, longer than TEMPLATE_VALUE_MAX, or not
 * a text, number or boolean: a URL without it would mean something else.
 *
 * A member whose key contains a dot cannot be named. Names of steps may contain dots: the longest
 * name that has a result is taken.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/task.pb-c.h"

#define TEMPLATE_VALUE_MAX 8000 /* bytes; a longer one fits into no URL and no header */

enum {
    TEMPLATE_E_INVALID = 1, /* the problem's field is the name, as in the text */
};

struct json_t; /* of jansson */

/* A request, and those of its payloads that were parsed so far. The caller sets `request`, all else
 * is zero; template_values_deinit() releases it. */
struct template_values {
    const Drover__V1__StepRequest *request; /* outlives the values */
    struct json_t *arguments;
    struct json_t *input;
    struct json_t **results; /* one for each result of the request */
};

void template_values_deinit(struct template_values *values);
static inline void template_values_deinit_p(struct template_values *values)
{
    template_values_deinit(values);
}

/* Return: 0, or TEMPLATE_E_INVALID where a name is not valid in any request. */
int template_check(const char *text, struct problem *problem);

/* Appends the text to @out, with values in place of names. Return: 0, or TEMPLATE_E_INVALID; then
 * @out contains a part. */
int template_expand(const char *text, struct template_values *values, struct buf *out,
                    struct problem *problem);

/**
 * template_document() - the default body of a request over HTTP
 *
 * Appends {"job", "step", "arguments", "input", "results": {step: value}}, and for an undo
 * "forward_key" and "forward_result". A payload becomes a JSON value if it is JSON, a string if it
 * is text, else {"contentType", "data": base64}; null if there is none.
 */
void template_document(const Drover__V1__StepRequest *request, struct buf *out);

/* Appends the whole request as JSON, without its token: with the token the program or service could
 * reply in place of the agent. */
void template_request(const Drover__V1__StepRequest *request, struct buf *out);
