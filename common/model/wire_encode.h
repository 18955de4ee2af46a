// SPDX-License-Identifier: Apache-2.0
/*
 * Encoding: encodes protobuf-c structs into message bodies, in protobuf or JSON
 *
 * Called by all roles, mostly through model/wire.h.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "drover/v1/types.pb-c.h"
#include "model/effect.h"
#include "model/wire_message.h"

/**
 * wire_encode() - append a message to @out, as JSON or protobuf
 *
 * Return: 0; -ENOMEM; or WIRE_E_TOO_LARGE if it is over WIRE_MESSAGE_MAX: then nothing is appended.
 */
int wire_encode(const ProtobufCMessage *message, bool json, struct buf *out);

/* Appends an encoded payload; nothing for NULL. */
void wire_append_payload(struct buf *out, const Drover__V1__Payload *payload);

/* Encodes into the memory of @fx. Return: empty if it would be over WIRE_MESSAGE_MAX. */
struct bytes wire_pack(struct effects *fx, const ProtobufCMessage *message, bool json);

/* "application/json" or "application/protobuf". */
const char *wire_content_type(bool json);
