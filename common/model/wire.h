// SPDX-License-Identifier: Apache-2.0
/*
 * Wire: decodes message bodies and checks them
 *
 * Every message body that a daemon or the command line receives is decoded by wire_decode(). A body
 * is protobuf; or proto3 JSON (model/json.h) if its first byte is '{', with which no protobuf body
 * of proto/ begins. The answer to a message is in the format of the message. A decoded message is
 * bounded in size and memory, its texts are UTF-8 without NUL, its numbers are finite, and it obeys
 * the rules of docs/PROTOCOL.md.
 *
 * The items of a batch (Requests, Replies, ProgressAnswers) are checked one by one, by the reader
 * of the batch, so that an invalid item does not make the others invalid (wire_check_request() and
 * the others of wire_check.h).
 *
 * Called by all roles, by io/bus and io/daemon/driver. It includes the headers of its parts for
 * them; the other files of model include the parts that they need:
 *
 *     wire.c         wire_decode()
 *     wire_check.c   the rules for messages
 *     change.c workflow.c
 *     wire_unpack.c  decodes without the rules    wire_encode.c  encodes
 *     json.c policy.c reply_to.c check.c          and wire_limits.h wire_message.h wire_reply.c
 */
#pragma once

#include "base/status.h"
#include "base/str.h"
#include "model/wire_check.h"
#include "model/wire_encode.h"
#include "model/wire_limits.h"
#include "model/wire_message.h"
#include "model/wire_reply.h"

/* AMQP properties that fill fields which the body leaves empty; "" or NULL if absent. */
struct wire_properties {
    const char *message_id;  /* Submit.job_id, Control.command_id */
    const char *reply_to;    /* Submit.reply_to, Control.reply_to */
    const char *traceparent; /* Submit.traceparent */
};

/**
 * wire_decode() - decode and check one body
 * @properties: NULL if there are none
 * @out:        the caller gives it to wire_free() whatever is returned; does not point into @body
 * @problem:    set to field and reason on WIRE_E_…; NULL is allowed
 *
 * On WIRE_E_INVALID @out has the message, so that a rejection can name the job_id and go to the
 * reply_to; a reply_to that is not allowed has been emptied. A Control with a command of a newer
 * protocol is valid and has command_case …__NOT_SET.
 *
 * Return: 0, -ENOMEM or WIRE_E_….
 */
int wire_decode(enum wire_type type, struct bytes body, const struct wire_properties *properties,
                struct wire_message *out, struct problem *problem);

/* Return: the reason of a dead letter for a result of wire_decode(); NULL for 0. */
const char *wire_reason(int result);

/* Frees the decoded message and leaves @message empty; may be called again. */
void wire_free(struct wire_message *message);
static inline void wire_free_p(struct wire_message *message)
{
    wire_free(message);
}
