// SPDX-License-Identifier: Apache-2.0
/*
 * Reply: the StepReply of one run, made of the result of its handler
 */
#pragma once

#include <stddef.h>

#include "agent/agent.h"
#include "model/wire.h"

#define REPLY_BASE (4 * WIRE_KIB) /* most bytes of a reply besides result and details */

/* All zero: no reply yet. */
struct reply {
    Drover__V1__StepReply message; /* points to result or error, and with them into memory */
    Drover__V1__Payload result;
    Drover__V1__Error error;
    char *memory; /* owned */
};

/* Copies @result into the reply, in place of an earlier one. @request: borrowed as long as the
 * reply is. The caller sets agent, duration_ms and batch. */
void reply_set(struct reply *r, const Drover__V1__StepRequest *request,
               const struct agent_result *result);
void reply_free(struct reply *r);

/* Return: the most bytes that the reply takes in a message. */
size_t reply_size(const struct reply *r);
