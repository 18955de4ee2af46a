// SPDX-License-Identifier: Apache-2.0
/*
 * Templates: text with ${names} of a request in it
 *
 *     ${job} ${step}                      of the request
 *     ${arguments} ${arguments.a.b}       the step's arguments, or a member of them
 *     ${input} ${input.items.0.id}        the job's input likewise; numbers count in lists
 *     ${results.STEP} ${results.STEP.a}   what a step has found, of those that this one takes
 *
 * A name becomes its value, percent-encoded (RFC 3986: all but the unreserved characters), so that
 * no value can end a line, open a path or add a parameter. There are no expressions. A name without
 * a value, and a value that is empty, longer than TEMPLATE_VALUE_MAX or no text, number or boolean,
 * is an error: half a URL means something else.
 *
 * A member whose key holds a dot cannot be named. Step names may hold dots: the longest that there
 * is a result of is meant.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/task.pb-c.h"

#define TEMPLATE_VALUE_MAX 8000 /* bytes; more fits no URL and no header */

enum {
    TEMPLATE_E_INVALID = 1, /* the problem's field is the name, as it stands in the text */
};

struct json_t; /* jansson's */

/* A request, and what was parsed of it so far. Made with only `request` set. */
struct facts {
    const Drover__V1__StepRequest *request; /* outlives the facts */
    struct json_t *arguments;
    struct json_t *input;
    struct json_t **results; /* as many as the request has */
};

void facts_deinit(struct facts *facts);
static inline void facts_deinit_p(struct facts *facts)
{
    facts_deinit(facts);
}

/* Return: 0, or TEMPLATE_E_INVALID where a name cannot be one, whatever the request. */
int template_check(const char *text, struct problem *problem);

/* Appends to @out. Return: 0 or TEMPLATE_E_INVALID; @out then holds a part. */
int template_expand(const char *text, struct facts *facts, struct buf *out,
                    struct problem *problem);

/**
 * template_document() - what is sent where nothing else is said
 *
 * Appends {"job", "step", "arguments", "input", "results": {step: value}}, and of an undo
 * "forward_key" and "forward_result". A payload is a JSON value where it is JSON, a string where it
 * is text, else {"contentType", "data": base64}; null where there is none.
 */
void template_document(const Drover__V1__StepRequest *request, struct buf *out);

/* Appends the whole request as JSON, but for its token: with that one could answer for the agent.
 */
void template_request(const Drover__V1__StepRequest *request, struct buf *out);
