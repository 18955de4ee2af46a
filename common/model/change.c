// SPDX-License-Identifier: Apache-2.0
/*
 * Changes of one step: merges the fields that a change gives into a step of a definition
 *
 * The rules work on any field by its descriptor (model/reflect.h), so that a new field of a Step
 * needs nothing here. See model/change.h.
 */
#include "model/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/reflect.h"
#include "model/wire_encode.h"

static bool is_given(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *field)
{
    static const uint8_t zero[sizeof(ProtobufCBinaryData)];
    void *elements;

    if (reflect_elements(m, field, &elements) == 0)
        return false;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return true;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return **(char **)elements != '\0';
    return memcmp(elements, zero, reflect_size(field->type)) != 0;
}

static void swap(void *a, void *b, size_t size)
{
    uint8_t held[sizeof(ProtobufCBinaryData)];

    memcpy(held, a, size);
    memcpy(a, b, size);
    memcpy(b, held, size);
}

static void move_fields(ProtobufCMessage *to, ProtobufCMessage *from)
{
    for (unsigned i = 0; i < from->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &from->descriptor->fields[i];
        void *there = reflect_member(to, field), *here = reflect_member(from, field);
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;

        if (!is_given(from, field))
            continue;
        if (!repeated && field->type == PROTOBUF_C_TYPE_MESSAGE && *(void **)there) {
            move_fields(*(ProtobufCMessage **)there, *(ProtobufCMessage **)here);
            continue;
        }
        swap(there, here, repeated ? sizeof(void *) : reflect_size(field->type));
        if (repeated)
            swap(reflect_quantifier(to, field), reflect_quantifier(from, field), sizeof(size_t));
    }
}

void change_move(Drover__V1__Step *to, Drover__V1__Step *change)
{
    move_fields(&to->base, &change->base);
}

/* Return: NULL if memory is out. */
static Drover__V1__Step *copy_of(const Drover__V1__Step *step)
{
    CLEANUP(buf_deinit) struct buf encoded = {0};

    if (wire_encode(&step->base, false, &encoded))
        return NULL;
    return drover__v1__step__unpack(NULL, encoded.len, encoded.data);
}

/* Return: 0 or -ENOMEM. */
static int merge(Drover__V1__Step **out, const Drover__V1__Step *step,
                 const Drover__V1__Step *change)
{
    Drover__V1__Step *given = copy_of(change);

    *out = copy_of(step);
    if (*out && given)
        change_move(*out, given);
    drover__v1__step__free_unpacked(given, NULL);
    return *out && given ? 0 : -ENOMEM;
}

int change_apply(struct workflow **out, const struct workflow *from, uint32_t step,
                 const Drover__V1__Step *change, struct problem *problem)
{
    Drover__V1__Workflow message = *from->message;
    Drover__V1__Step *changed = NULL;
    int r;

    if (change->revert && !from->steps[step].has_revert) {
        problem_set(problem, "retry.change.revert", "the step has no revert");
        return CHANGE_E_UNFIT;
    }
    r = merge(&changed, from->message->steps[step], change);
    message.steps = calloc(message.n_steps, sizeof(*message.steps));
    if (!message.steps)
        r = -ENOMEM;
    if (r == 0) {
        memcpy(message.steps, from->message->steps, message.n_steps * sizeof(*message.steps));
        message.steps[step] = changed;
        r = workflow_new(out, &message, "", problem);
    }
    free(message.steps);
    drover__v1__step__free_unpacked(changed, NULL);
    return r > 0 ? CHANGE_E_UNFIT : r;
}

static void put_fields(const ProtobufCMessage *m, const char *prefix, struct buf *out)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &m->descriptor->fields[i];

        if (!is_given(m, field))
            continue;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            CLEANUP(buf_deinit) struct buf inner = {0};

            buf_printf(&inner, "%s%s.", prefix, field->name);
            put_fields(*(ProtobufCMessage **)reflect_member(m, field), buf_str(&inner), out);
        } else {
            buf_printf(out, "%s%s%s", out->len > 0 ? "," : "", prefix, field->name);
        }
    }
}

void change_fields(const Drover__V1__Step *change, struct buf *out)
{
    put_fields(&change->base, "", out);
}

bool change_is_empty(const Drover__V1__Step *change)
{
    CLEANUP(buf_deinit) struct buf fields = {0};

    change_fields(change, &fields);
    return fields.len == 0;
}
