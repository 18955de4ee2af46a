// SPDX-License-Identifier: Apache-2.0
/*
 * Checks of messages: the rules of docs/PROTOCOL.md
 *
 * model/wire calls wire_check_message() for each body; the reader of a batch checks its items. A
 * definition in a Submit is checked by workflow_new().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "model/wire_message.h"

/* Checks a body without the items of a batch and without its reply_to. Messages that only clients
 * read may have enum values of a newer server. */
bool wire_check_message(const struct wire_message *m, struct problem *problem);

/* Check the n-th item of a batch, whose path in @problem is "requests[n]…". Return: 0 or
 * WIRE_E_INVALID. */
int wire_check_request(const Drover__V1__Requests *requests, size_t n, struct problem *problem);
int wire_check_reply(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress_answer(const Drover__V1__ProgressAnswers *answers, size_t n,
                               struct problem *problem);

/**
 * wire_workflow_ref() - parse "name" or "name@version"
 * @name:    set to the part before the '@', a view into @ref
 * @version: set to 0 if none is given
 *
 * Return: false if @ref is neither.
 */
bool wire_workflow_ref(const char *ref, struct bytes *name, uint32_t *version);
