// SPDX-License-Identifier: Apache-2.0
/*
 * Replies: by which exchange they come, and whether their results fit
 *
 * See model/wire_reply.h.
 */
#include "model/wire_reply.h"

#include <string.h>

#include "model/wire_limits.h"

const char *wire_reply_actor(const char *exchange)
{
    size_t len = strlen(WIRE_REPLY_EXCHANGE);

    return strncmp(exchange, WIRE_REPLY_EXCHANGE, len) == 0 ? exchange + len : NULL;
}

const char *wire_reply_by(const char *exchange)
{
    const char *actor = wire_reply_actor(exchange);

    if (actor)
        return actor;
    return !*exchange || strcmp(exchange, WIRE_REPLY_QUEUE) == 0 ? "" : WIRE_REPLY_STRANGER;
}

bool wire_reply_result_fits(const Drover__V1__StepReply *reply)
{
    return wire_payload_size(reply->result) <= WIRE_RESULT_MAX;
}
