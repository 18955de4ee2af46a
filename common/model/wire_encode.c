// SPDX-License-Identifier: Apache-2.0
/*
 * Encoding: encodes protobuf-c structs into message bodies, in protobuf or JSON
 *
 * See model/wire_encode.h.
 */
#include "model/wire_encode.h"

#include <errno.h>
#include <stdlib.h>

#include "model/json.h"
#include "model/wire_limits.h"

static int json_encode(const ProtobufCMessage *message, struct buf *out)
{
    size_t start = out->len;

    json_from_message(message, out);
    if (out->failed)
        return -ENOMEM;
    if (out->len - start <= WIRE_MESSAGE_MAX)
        return 0;
    out->len = start;
    return WIRE_E_TOO_LARGE;
}

int wire_encode(const ProtobufCMessage *message, bool json, struct buf *out)
{
    size_t size;
    uint8_t *space;

    if (json)
        return json_encode(message, out);
    size = protobuf_c_message_get_packed_size(message);
    if (size > WIRE_MESSAGE_MAX)
        return WIRE_E_TOO_LARGE;
    space = buf_reserve(out, size);
    if (!space)
        return -ENOMEM;
    protobuf_c_message_pack(message, space);
    out->len += size;
    return 0;
}

void wire_append_payload(struct buf *out, const Drover__V1__Payload *payload)
{
    if (payload)
        (void)wire_encode(&payload->base, false, out);
}

struct bytes wire_pack(struct effects *fx, const ProtobufCMessage *message, bool json)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    size_t size;
    uint8_t *space;

    if (json) {
        int result = wire_encode(message, true, &text);

        if (result == -ENOMEM)
            abort();
        return result ? BYTES_EMPTY : effects_copy(fx, buf_bytes(&text));
    }
    size = protobuf_c_message_get_packed_size(message);
    if (size > WIRE_MESSAGE_MAX)
        return BYTES_EMPTY;
    space = effects_alloc(fx, size);
    protobuf_c_message_pack(message, space);
    return bytes_of(space, size);
}

const char *wire_content_type(bool json)
{
    return json ? "application/json" : "application/protobuf";
}
