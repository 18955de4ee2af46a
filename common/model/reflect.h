// SPDX-License-Identifier: Apache-2.0
/*
 * Reflection: reads the fields of a message of any type by its descriptor
 *
 * Only this file knows the memory layout that protobuf-c documents for its descriptors. Called by
 * the other files of model and by io/config/workflow_file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

static inline bool reflect_is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Where the message holds the value of a singular field, or the pointer to the elements of a
 * repeated one. */
static inline void *reflect_member(const ProtobufCMessage *message,
                                   const ProtobufCFieldDescriptor *field)
{
    return (uint8_t *)message + field->offset;
}

/* Where the message holds the count of a repeated field (size_t), or the number of the field of a
 * oneof that is set (uint32_t). */
static inline void *reflect_quantifier(const ProtobufCMessage *message,
                                       const ProtobufCFieldDescriptor *field)
{
    return (uint8_t *)message + field->quantifier_offset;
}

/* Bytes that one value takes in its message or array. */
static inline size_t reflect_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return 4;
    }
}

/**
 * reflect_elements() - the values of a field
 * @elements: set to the first value; each takes reflect_size() bytes
 *
 * Return: the number of values; 0 for an absent message or an unset field of a oneof, 1 for any
 * other singular field.
 */
static inline size_t reflect_elements(const ProtobufCMessage *message,
                                      const ProtobufCFieldDescriptor *field, void **elements)
{
    void *member = reflect_member(message, field);

    *elements = member;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        *elements = *(void **)member;
        return *(size_t *)reflect_quantifier(message, field);
    }
    if (reflect_is_oneof(field) && *(uint32_t *)reflect_quantifier(message, field) != field->id)
        return 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void **)member != NULL;
    return 1;
}
