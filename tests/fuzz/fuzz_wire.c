// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: any body, decoded as each message type in turn
 *
 * A message that is accepted can be encoded in both encodings, and the result is accepted again. A
 * body is also split into Submits, as protobuf-c decodes it.
 */
#include <assert.h>

#include "fuzz.h"
#include "model/wire.h"
#include "model/wire_split.h"
#include "model/wire_unpack.h"

static void items_check(const struct wire_message *m)
{
    struct problem problem;

    if (m->type == WIRE_REQUESTS)
        for (size_t i = 0; i < m->requests->n_requests; i++)
            wire_check_request(m->requests, i, &problem);
    if (m->type == WIRE_PROGRESS_ANSWERS)
        for (size_t i = 0; i < m->progress_answers->n_answers; i++)
            wire_check_progress_answer(m->progress_answers, i, &problem);
    if (m->type != WIRE_REPLIES)
        return;
    for (size_t i = 0; i < m->replies->n_replies; i++)
        wire_check_reply(m->replies, i, &problem);
    for (size_t i = 0; i < m->replies->n_progress; i++)
        wire_check_progress(m->replies, i, &problem);
}

static const struct wire_properties properties = {.message_id = "id", .reply_to = "q"};

static void again_check(const struct wire_message *m, bool json)
{
    CLEANUP(wire_free) struct wire_message again = {0};
    CLEANUP(buf_deinit) struct buf encoded = {0};
    struct problem problem;

    /* A body may become longer when it is encoded again, as numbers may be sent short and are kept
     * long. */
    if (wire_encode(m->base, json, &encoded) != 0)
        return;
    assert(wire_decode(m->type, buf_bytes(&encoded), &properties, &again, &problem) == 0);
}

static void decode(enum wire_type type, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    struct problem problem;

    if (wire_decode(type, body, &properties, &m, &problem) != 0)
        return;
    items_check(&m);
    again_check(&m, false);
    again_check(&m, true);
}

static void split(struct bytes body)
{
    struct bytes items[WIRE_SUBMITS_MAX];
    ProtobufCMessage *whole = NULL;
    struct problem problem;
    size_t n;
    int r = wire_split(body, items, &n, &problem);

    assert(r == 0 ? n > 0 && n <= WIRE_SUBMITS_MAX : n == 0);
    for (size_t i = 0; i < n; i++)
        assert(items[i].data >= body.data && items[i].data + items[i].len <= body.data + body.len);
    if (wire_unpack_batch(&drover__v1__submits__descriptor, body, "", &whole, &problem) == 0 &&
        (body.len == 0 || *body.data != '{')) {
        size_t submits = ((Drover__V1__Submits *)whole)->n_submits;

        assert(r == (submits > 0 && submits <= WIRE_SUBMITS_MAX ? 0 : WIRE_E_INVALID));
        assert(r || n == submits);
    }
    if (whole)
        protobuf_c_message_free_unpacked(whole, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int type = 0; type < WIRE_TYPES; type++)
        decode((enum wire_type)type, bytes_of(data, size));
    split(bytes_of(data, size));
    return 0;
}
