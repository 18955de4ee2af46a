// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding: messages from bodies, in bounded memory, without the rules of the protocol
 *
 * Called by model/wire and model/workflow.
 */
#pragma once

#include "base/status.h"
#include "base/str.h"
#include "model/wire_message.h"

/**
 * wire_unpack() - decode protobuf with the bounds of wire_decode(), but without the rules
 * @field:   path of the body in the message that contains it, for @problem; "" if there is none
 * @out:     the caller frees it with protobuf_c_message_free_unpacked(); NULL unless 0 is returned
 *
 * Fields that this build does not know are dropped. Texts are UTF-8 and numbers are finite.
 *
 * Return: 0, -ENOMEM, WIRE_E_MALFORMED or WIRE_E_TOO_LARGE.
 */
int wire_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes body, const char *field,
                ProtobufCMessage **out, struct problem *problem);

/* The same without the check of texts and numbers: for a batch, whose items are checked one by one.
 */
int wire_unpack_batch(const ProtobufCMessageDescriptor *descriptor, struct bytes body,
                      const char *field, ProtobufCMessage **out, struct problem *problem);

/* The same from JSON. May return WIRE_E_INVALID: decoded, without the fields that are unknown or
 * have a wrong value; then *out is set. */
int wire_unpack_json(const ProtobufCMessageDescriptor *descriptor, struct bytes body,
                     ProtobufCMessage **out, struct problem *problem);
