// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: any text, read as the JSON of messages
 *
 * What is written must be readable, and must be written the same again.
 */
#include <assert.h>

#include "fuzz.h"
#include "model/json.h"
#include "model/wire.h"

static void there_and_back(const ProtobufCMessageDescriptor *type, struct bytes text)
{
    CLEANUP(buf_deinit) struct buf first = {0}, second = {0};
    ProtobufCMessage *message, *again;
    struct problem problem;
    int r = json_to_message(text, type, NULL, &message, &problem);

    assert((message != NULL) == (r == 0 || r == JSON_E_FIELD));
    if (r != 0 && r != JSON_E_FIELD)
        return;
    json_from_message(message, &first);
    r = json_to_message(buf_bytes(&first), type, NULL, &again, &problem);
    /* A number may be longer when it is written than when it was read. */
    assert(r == 0 || r == JSON_E_TOO_LARGE);
    if (r == 0) {
        json_from_message(again, &second);
        assert(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
        protobuf_c_message_free_unpacked(again, NULL);
    }
    protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    there_and_back(&drover__v1__submit__descriptor, bytes_of(data, size));
    there_and_back(&drover__v1__control__descriptor, bytes_of(data, size));
    there_and_back(&drover__v1__replies__descriptor, bytes_of(data, size));
    return 0;
}
