// SPDX-License-Identifier: Apache-2.0
/*
 * Replies: by which exchange they come, and whether their results fit
 *
 * Called by agents, schedulers and io/bus, mostly through model/wire.h.
 */
#pragma once

#include <stdbool.h>

#include "drover/v1/task.pb-c.h"

/* Exchange "drover.reply.<actor>" leads to queue drover.replies. Only agents of the actor have the
 * right to publish to it, so it proves which actor has answered (decision 34). */
#define WIRE_REPLY_EXCHANGE "drover.reply."
#define WIRE_REPLY_QUEUE "drover.replies"

/* Return: the actor of such an exchange, a part of @exchange; NULL if it is another exchange. */
const char *wire_reply_actor(const char *exchange);

/* Return: the actor whose agents may have sent a reply that came by @exchange; "" if any agent may
 * have; WIRE_REPLY_STRANGER, which equals no actor, if it is any other exchange: otherwise a user
 * who may bind such an exchange to the one of its actor would evade the comparison of actors. */
#define WIRE_REPLY_STRANGER "?"
const char *wire_reply_by(const char *exchange);

/* Return: false if the scheduler must record the permanent failure RESULT_TOO_LARGE instead. */
bool wire_reply_result_fits(const Drover__V1__StepReply *reply);
