// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding: messages from bodies, in bounded memory, without the rules of the protocol
 *
 * See model/wire_unpack.h.
 */
#include "model/wire_unpack.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "model/check.h"
#include "model/json.h"
#include "model/reflect.h"
#include "model/wire_limits.h"

static_assert(WIRE_MESSAGE_MAX * WIRE_JSON_MEMORY_FACTOR + WIRE_MEMORY_BASE + JSON_MEMORY_MAX <=
                  WIRE_MEMORY_MAX,
              "memory is bounded for JSON too");

/* ---- memory ---- */

/* The memory that one decoding may hold at a time. What remains of it is freed with free(). */
struct budget {
    ProtobufCAllocator allocator;
    size_t left; /* bytes */
    bool spent;  /* the decoding has asked for more than was left */
    bool failed; /* malloc() has failed */
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *b = data;
    size_t held;
    void *p;

    if (size > b->left) {
        b->spent = true;
        return NULL;
    }
    p = malloc(size);
    if (!p) {
        b->failed = true;
        return NULL;
    }
    held = malloc_usable_size(p);
    b->left -= held < b->left ? held : b->left;
    return p;
}

static void budget_free(void *data, void *p)
{
    struct budget *b = data;

    b->left += malloc_usable_size(p);
    free(p);
}

static void budget_init(struct budget *b, size_t most)
{
    *b = (struct budget){
        .allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = b},
        .left = most,
    };
}

static size_t memory_max(struct bytes body, size_t factor)
{
    return WIRE_MEMORY_BASE + body.len * factor;
}

static int memory_problem(const char *field, struct problem *problem)
{
    problem_set(problem, field, "has far more parts than content");
    return WIRE_E_TOO_LARGE;
}

/* ---- bodies ---- */

static int size_check(struct bytes body, const char *field, struct problem *problem)
{
    if (body.len <= WIRE_MESSAGE_MAX)
        return 0;
    problem_set(problem, field, "must be at most %zu bytes, not %zu", WIRE_MESSAGE_MAX, body.len);
    return WIRE_E_TOO_LARGE;
}

static void unknown_drop(ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;

    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->unknown_fields = NULL;
    message->n_unknown_fields = 0;

    for (unsigned i = 0; i < d->n_fields; i++) {
        void *elements;
        size_t n;

        if (d->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        n = reflect_elements(message, &d->fields[i], &elements);
        for (size_t k = 0; k < n; k++)
            unknown_drop(((ProtobufCMessage **)elements)[k]);
    }
}

static int protobuf_decode(const ProtobufCMessageDescriptor *descriptor, struct bytes body,
                           const char *field, ProtobufCMessage **out, struct problem *problem)
{
    struct budget budget;

    budget_init(&budget, memory_max(body, WIRE_MEMORY_FACTOR));
    *out = protobuf_c_message_unpack(descriptor, &budget.allocator, body.len, body.data);
    if (*out) {
        unknown_drop(*out);
        return 0;
    }
    if (budget.failed)
        return -ENOMEM;
    if (budget.spent)
        return memory_problem(field, problem);
    problem_set(problem, field, "is no protobuf of %s", descriptor->name);
    return WIRE_E_MALFORMED;
}

int wire_unpack_batch(const ProtobufCMessageDescriptor *descriptor, struct bytes body,
                      const char *field, ProtobufCMessage **out, struct problem *problem)
{
    int r = size_check(body, field, problem);

    *out = NULL;
    return r == 0 ? protobuf_decode(descriptor, body, field, out, problem) : r;
}

int wire_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes body, const char *field,
                ProtobufCMessage **out, struct problem *problem)
{
    int r = wire_unpack_batch(descriptor, body, field, out, problem);

    if (r == 0 && !check_encoding(*out, PATH(NULL, field), problem)) {
        protobuf_c_message_free_unpacked(*out, NULL);
        *out = NULL;
        r = WIRE_E_MALFORMED;
    }
    return r;
}

int wire_unpack_json(const ProtobufCMessageDescriptor *descriptor, struct bytes body,
                     ProtobufCMessage **out, struct problem *problem)
{
    struct budget budget;
    int r = size_check(body, "", problem);

    *out = NULL;
    if (r != 0)
        return r;
    budget_init(&budget, memory_max(body, WIRE_JSON_MEMORY_FACTOR));
    r = json_to_message(body, descriptor, &budget.allocator, out, problem);
    if (r == JSON_E_TOO_LARGE || budget.spent)
        return memory_problem("", problem);
    if (r < 0)
        return r;
    return r == 0 ? 0 : r == JSON_E_FIELD ? WIRE_E_INVALID : WIRE_E_MALFORMED;
}
