// SPDX-License-Identifier: Apache-2.0
/*
 * JSON: reads and writes proto3's JSON mapping by the descriptors of messages
 *
 * jansson parses; the text is scanned before, so that its memory is bounded. Numbers and texts are
 * written here, because jansson would write numbers in another form. See model/json.h.
 */
#include "model/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "drover/v1/types.pb-c.h"
#include "model/check.h"
#include "model/reflect.h"
#include "model/wire_limits.h"

CLEANUP_DEFINE(json_t *, json_decref)

/*
 * Bytes that jansson allocates at most for each part of the text: for an object its first hash
 * table; for an array its first slots; for a member its pair and buckets; for a value its node and
 * a slot of a growing array; for a string its node and smallest copy; for each byte of text its
 * copies.
 */
#define OBJECT_MEMORY ((size_t)288)
#define ARRAY_MEMORY ((size_t)160)
#define MEMBER_MEMORY ((size_t)128)
#define VALUE_MEMORY ((size_t)64)
#define STRING_MEMORY ((size_t)64)
#define TEXT_MEMORY ((size_t)3)

/* A payload is nested at most this deep in a message of proto/. */
#define MESSAGE_DEPTH 8
static_assert(MESSAGE_DEPTH < JSON_DEPTH_MAX, "room for what a payload holds");

/*
 * Bytes that a payload may take in its readable form ("json" or "text") if that is more than twice
 * its data: a control character becomes six bytes, 1e9 becomes twelve. Above this limit it is
 * written as base64, which takes less, so that an input and a result fit into one message.
 */
#define FORM_MAX ((size_t)512 << 10)
static_assert(2 * WIRE_INPUT_MAX + 2 * WIRE_RESULT_MAX + FORM_MAX < WIRE_MESSAGE_MAX,
              "room for what else an answer has");

static const char JSON_TYPE[] = "application/json";
static const char TEXT_TYPE[] = "text/plain; charset=utf-8";

/* ---- scanning before parsing ---- */

struct extent {
    size_t memory; /* an upper bound */
    size_t depth;
};

/* Scans the text once; whether it is JSON does not matter. */
static struct extent extent_of(struct bytes text)
{
    struct extent e = {.memory = VALUE_MEMORY + TEXT_MEMORY * text.len};
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c == '"') {
            e.memory += quoted ? 0 : STRING_MEMORY;
            quoted = !quoted;
        } else if (quoted) {
            i += c == '\\';
        } else if (c == '{' || c == '[') {
            e.memory += VALUE_MEMORY + (c == '{' ? OBJECT_MEMORY : ARRAY_MEMORY);
            if (++depth > e.depth)
                e.depth = depth;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',' || c == ':') {
            e.memory += c == ',' ? VALUE_MEMORY : MEMBER_MEMORY;
        }
    }
    return e;
}

/* ---- parsing ---- */

/* Whether an allocation has failed while jansson parses: jansson may report that as bad syntax. */
static _Thread_local bool starved;

static void *watched_malloc(size_t size)
{
    void *p = malloc(size);

    starved |= !p;
    return p;
}

/* jansson takes its allocators for the whole process, and before any other call. */
__attribute__((constructor)) static void watch_malloc(void)
{
    json_set_alloc_funcs(watched_malloc, free);
}

/* Return: 0, -ENOMEM, or JSON_E_SYNTAX; @error: NULL is allowed. */
static int parse(struct bytes text, size_t flags, json_t **out, json_error_t *error)
{
    starved = false;
    *out = json_loadb((const char *)text.data, text.len, flags, error);
    return *out ? 0 : starved ? -ENOMEM : JSON_E_SYNTAX;
}

/* ---- reading values ---- */

struct reader {
    ProtobufCAllocator *allocator; /* NULL: malloc */
    struct problem *problem;       /* set by the first flaw */
    bool flawed;
};

/* Records a flaw if it is the first one; reading goes on. Its value is JSON_E_FIELD. */
#define flaw(reader, where, ...)                                                                   \
    __extension__({                                                                                \
        if (!(reader)->flawed)                                                                     \
            check_fail((reader)->problem, where, __VA_ARGS__);                                     \
        (reader)->flawed = true;                                                                   \
        JSON_E_FIELD;                                                                              \
    })

/* For "%.*s": the beginning of a text that a client has sent, without a part of a character at its
 * end. */
#define QUOTED_MAX 64
#define QUOTED(text) (int)utf8_fit(text, QUOTED_MAX), text

/* Zeroed memory; NULL if memory is out. */
static void *reader_alloc(struct reader *r, size_t size)
{
    void *p = r->allocator ? r->allocator->alloc(r->allocator->allocator_data, size) : malloc(size);

    return p ? memset(p, 0, size) : NULL;
}

static void reader_free(struct reader *r, void *p)
{
    if (p && r->allocator)
        r->allocator->free(r->allocator->allocator_data, p);
    else
        free(p);
}

static int text_copy(struct reader *r, char **out, const char *text, size_t len)
{
    char *copy = reader_alloc(r, len + 1);

    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, len);
    *out = copy;
    return 0;
}

/* Reads a JSON number that is whole and that a double represents exactly. */
static bool whole_number(const json_t *value, int64_t *out)
{
    const double exact = 9007199254740992.0; /* 2^53 */
    double real;

    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value))
        return false;
    real = json_real_value(value);
    if (!(real >= -exact && real <= exact) || rint(real) != real)
        return false;
    *out = (int64_t)real;
    return true;
}

static bool signed_value(const json_t *value, int64_t min, int64_t max, int64_t *out)
{
    bool found =
        json_is_string(value)
            ? bytes_to_i64(bytes_of(json_string_value(value), json_string_length(value)), out)
            : whole_number(value, out);

    return found && *out >= min && *out <= max;
}

static bool unsigned_value(const json_t *value, uint64_t max, uint64_t *out)
{
    int64_t number;

    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        char *end;

        if (text[0] < '0' || text[0] > '9')
            return false;
        errno = 0;
        *out = strtoull(text, &end, 10);
        return errno == 0 && *end == '\0' && *out <= max;
    }
    if (!whole_number(value, &number) || number < 0)
        return false;
    *out = (uint64_t)number;
    return *out <= max;
}

static int signed_read(struct reader *r, const json_t *value, bool wide, void *out,
                       const struct path *where)
{
    int64_t number;

    if (!signed_value(value, wide ? INT64_MIN : INT32_MIN, wide ? INT64_MAX : INT32_MAX, &number))
        return flaw(r, where, "must be a whole number of %d bits", wide ? 64 : 32);
    if (wide)
        *(int64_t *)out = number;
    else
        *(int32_t *)out = (int32_t)number;
    return 0;
}

static int unsigned_read(struct reader *r, const json_t *value, bool wide, void *out,
                         const struct path *where)
{
    uint64_t number;

    if (!unsigned_value(value, wide ? UINT64_MAX : UINT32_MAX, &number))
        return flaw(r, where, "must be a whole number of %d bits, not negative", wide ? 64 : 32);
    if (wide)
        *(uint64_t *)out = number;
    else
        *(uint32_t *)out = (uint32_t)number;
    return 0;
}

static int real_read(struct reader *r, const json_t *value, bool wide, void *out,
                     const struct path *where)
{
    if (!json_is_number(value))
        return flaw(r, where, "must be a number");
    if (wide)
        *(double *)out = json_number_value(value);
    else
        *(float *)out = (float)json_number_value(value);
    return 0;
}

static int bool_read(struct reader *r, const json_t *value, void *out, const struct path *where)
{
    if (!json_is_boolean(value))
        return flaw(r, where, "must be true or false");
    *(protobuf_c_boolean *)out = json_is_true(value);
    return 0;
}

/* Return: the length of the prefix of all names of an enum; its first name always ends with
 * UNSPECIFIED. */
static size_t enum_prefix(const ProtobufCEnumDescriptor *type)
{
    static const char SUFFIX[] = "UNSPECIFIED";
    size_t len = strlen(type->values[0].name), suffix = sizeof(SUFFIX) - 1;

    return len > suffix && strcmp(type->values[0].name + len - suffix, SUFFIX) == 0 ? len - suffix
                                                                                    : 0;
}

static int enum_read(struct reader *r, const json_t *value, const ProtobufCEnumDescriptor *type,
                     void *out, const struct path *where)
{
    size_t prefix = enum_prefix(type);

    if (!json_is_string(value))
        return signed_read(r, value, false, out, where);
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = type->values[i].name;

        if (strcmp(name, json_string_value(value)) == 0 ||
            strcmp(name + prefix, json_string_value(value)) == 0) {
            *(int *)out = type->values[i].value;
            return 0;
        }
    }
    return flaw(r, where, "\"%.*s\" is no %s", QUOTED(json_string_value(value)), type->short_name);
}

static int string_read(struct reader *r, const json_t *value, void *out, const struct path *where)
{
    if (!json_is_string(value))
        return flaw(r, where, "must be a string");
    return text_copy(r, out, json_string_value(value), json_string_length(value));
}

static int bytes_read(struct reader *r, const json_t *value, void *out, const struct path *where)
{
    ProtobufCBinaryData *data = out;
    size_t len = json_string_length(value);
    uint8_t *decoded;

    if (!json_is_string(value))
        return flaw(r, where, "must be a string of base64");
    if (len == 0)
        return 0;
    decoded = reader_alloc(r, (len + 3) / 4 * 3);
    if (!decoded)
        return -ENOMEM;
    if (!base64_decode(json_string_value(value), len, decoded, &data->len)) {
        reader_free(r, decoded);
        return flaw(r, where, "must be base64");
    }
    data->data = decoded;
    return 0;
}

static int message_read(struct reader *r, json_t *value, const ProtobufCMessageDescriptor *type,
                        ProtobufCMessage **out, const struct path *where);

/* Return: 0; or JSON_E_FIELD after a flaw, or -ENOMEM; then *out is unchanged. */
static int value_read(struct reader *r, json_t *value, const ProtobufCFieldDescriptor *field,
                      void *out, const struct path *where)
{
    if (json_is_string(value) && strlen(json_string_value(value)) < json_string_length(value))
        return flaw(r, where, "must not have NUL");
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return signed_read(r, value, false, out, where);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return signed_read(r, value, true, out, where);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return unsigned_read(r, value, false, out, where);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return unsigned_read(r, value, true, out, where);
    case PROTOBUF_C_TYPE_FLOAT:
        return real_read(r, value, false, out, where);
    case PROTOBUF_C_TYPE_DOUBLE:
        return real_read(r, value, true, out, where);
    case PROTOBUF_C_TYPE_BOOL:
        return bool_read(r, value, out, where);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_read(r, value, field->descriptor, out, where);
    case PROTOBUF_C_TYPE_STRING:
        return string_read(r, value, out, where);
    case PROTOBUF_C_TYPE_BYTES:
        return bytes_read(r, value, out, where);
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_read(r, value, field->descriptor, out, where);
    }
    abort(); /* all types are above */
}

/* ---- reading messages ---- */

static int repeated_read(struct reader *r, json_t *value, const ProtobufCFieldDescriptor *field,
                         ProtobufCMessage *message, const struct path *up)
{
    size_t size = reflect_size(field->type), n = json_array_size(value);
    size_t *used = reflect_quantifier(message, field);
    uint8_t *elements;

    if (!json_is_array(value))
        return flaw(r, PATH(up, field->name), "must be an array");
    if (n == 0)
        return 0;
    elements = reader_alloc(r, n * size);
    if (!elements)
        return -ENOMEM;
    *(void **)reflect_member(message, field) = elements;
    for (size_t i = 0; i < n; i++) {
        int result = value_read(r, json_array_get(value, i), field, elements + *used * size,
                                PATH_AT(up, field->name, i));

        if (result < 0)
            return result;
        *used += result == 0;
    }
    return 0;
}

/* Whether @key is the name of the field, as in the .proto or in lowerCamelCase. */
static bool name_matches(const char *key, const char *name)
{
    if (strcmp(key, name) == 0)
        return true;
    for (; *name; name++, key++) {
        char expected = *name;

        if (expected == '_') {
            name++;
            expected = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        }
        if (*key != expected)
            return false;
    }
    return *key == '\0';
}

static const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *type,
                                                  const char *key)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (name_matches(key, type->fields[i].name))
            return &type->fields[i];
    return NULL;
}

static int field_read(struct reader *r, json_t *value, const ProtobufCFieldDescriptor *field,
                      ProtobufCMessage *message, const struct path *up)
{
    const struct path *where = PATH(up, field->name);
    void *member = reflect_member(message, field);
    uint32_t *which = reflect_quantifier(message, field);
    int result;

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return repeated_read(r, value, field, message, up);
    if (!reflect_is_oneof(field))
        return value_read(r, value, field, member, where);
    if (*which != 0)
        return flaw(r, where, "only one of its kind may be given");
    result = value_read(r, value, field, member, where);
    if (result == 0)
        *which = field->id;
    return result;
}

static void json_write(const json_t *value, struct buf *out);

/* The form in which the JSON has a Payload. */
enum payload_form {
    PAYLOAD_DATA,
    PAYLOAD_JSON,
    PAYLOAD_TEXT,
};

static enum payload_form payload_form(const ProtobufCMessageDescriptor *type, const char *key)
{
    if (type != &drover__v1__payload__descriptor)
        return PAYLOAD_DATA;
    if (strcmp(key, "json") == 0)
        return PAYLOAD_JSON;
    return strcmp(key, "text") == 0 ? PAYLOAD_TEXT : PAYLOAD_DATA;
}

static int payload_read(struct reader *r, const json_t *value, enum payload_form form,
                        Drover__V1__Payload *payload, const struct path *up)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    if (form == PAYLOAD_JSON)
        json_write(value, &text);
    else if (json_is_string(value))
        buf_append(&text, json_string_value(value), json_string_length(value));
    else
        return flaw(r, PATH(up, "text"), "must be a string");
    if (text.failed)
        return -ENOMEM;
    if (text.len == 0)
        return 0;
    payload->data.data = reader_alloc(r, text.len);
    if (!payload->data.data)
        return -ENOMEM;
    memcpy(payload->data.data, text.data, text.len);
    payload->data.len = text.len;
    return 0;
}

/* The message that an object is read into. */
struct target {
    ProtobufCMessage *message;
    const struct path *where;
    uint64_t seen; /* a bit for each field that was read, by its index in the descriptor */
    enum payload_form form;
};

static int member_read(struct reader *r, const char *key, json_t *value, struct target *t)
{
    const ProtobufCMessageDescriptor *type = t->message->descriptor;
    enum payload_form form = payload_form(type, key);
    const ProtobufCFieldDescriptor *field =
        field_find(type, form == PAYLOAD_DATA ? key : "data"); /* "json" and "text" replace it */
    uint64_t bit;

    if (!field)
        return flaw(r, t->where, "has no field \"%.*s\"", QUOTED(key));
    bit = UINT64_C(1) << (field - type->fields);
    if (t->seen & bit)
        return flaw(r, PATH(t->where, field->name), "is given twice");
    if (form == PAYLOAD_DATA && json_is_null(value))
        return 0;
    t->seen |= bit;
    if (form == PAYLOAD_DATA)
        return field_read(r, value, field, t->message, t->where);
    t->form = form;
    return payload_read(r, value, form, (Drover__V1__Payload *)t->message, t->where);
}

/* Sets the content type that the form of the payload implies, if none is given. */
static int payload_type_default(struct reader *r, const struct target *t)
{
    Drover__V1__Payload *payload = (Drover__V1__Payload *)t->message;
    const char *type = t->form == PAYLOAD_JSON ? JSON_TYPE : TEXT_TYPE;

    if (t->form == PAYLOAD_DATA || payload->content_type[0] != '\0')
        return 0;
    if (payload->content_type != protobuf_c_empty_string) /* it is given, as "" */
        reader_free(r, payload->content_type);
    payload->content_type = (char *)protobuf_c_empty_string;
    return text_copy(r, &payload->content_type, type, strlen(type));
}

static int message_read(struct reader *r, json_t *value, const ProtobufCMessageDescriptor *type,
                        ProtobufCMessage **out, const struct path *where)
{
    struct target t = {.where = where};
    const char *key;
    json_t *member;
    int result = 0;

    assert(type->n_fields <= 64);
    if (!json_is_object(value))
        return flaw(r, where, "must be an object");
    t.message = reader_alloc(r, type->sizeof_message);
    if (!t.message)
        return -ENOMEM;
    protobuf_c_message_init(type, t.message);
    json_object_foreach(value, key, member)
    {
        result = member_read(r, key, member, &t);
        if (result < 0)
            break;
    }
    if (result >= 0)
        result = payload_type_default(r, &t);
    if (result < 0) {
        protobuf_c_message_free_unpacked(t.message, r->allocator);
        return result;
    }
    *out = t.message;
    return 0;
}

int json_to_message(struct bytes text, const ProtobufCMessageDescriptor *descriptor,
                    ProtobufCAllocator *allocator, ProtobufCMessage **out, struct problem *problem)
{
    struct reader r = {.allocator = allocator, .problem = problem};
    struct extent extent = extent_of(text);
    CLEANUP(json_decref) json_t *root = NULL;
    json_error_t error = {0};
    int result;

    *out = NULL;
    if (extent.memory > JSON_MEMORY_MAX) {
        problem_set(problem, "", "has more values than a message may have");
        return JSON_E_TOO_LARGE;
    }
    if (extent.depth > JSON_DEPTH_MAX) {
        problem_set(problem, "", "must be at most %d deep", JSON_DEPTH_MAX);
        return JSON_E_SYNTAX;
    }
    /* A payload may be any value, so \u0000 is allowed here; value_read() refuses it elsewhere. */
    if (parse(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &root, &error) == -ENOMEM)
        return -ENOMEM;
    if (!json_is_object(root)) {
        problem_set(problem, "", "is no JSON object: line %d: %s", error.line,
                    root ? "something else" : error.text);
        return JSON_E_SYNTAX;
    }
    result = message_read(&r, root, descriptor, out, NULL);
    if (result != 0)
        return result;
    return r.flawed ? JSON_E_FIELD : 0;
}

/* ---- writing ---- */

/* Writes the shortest text that reads back as the same number. */
static void real_write(double value, struct buf *out)
{
    char text[32];

    if (!isfinite(value)) { /* JSON has no such number */
        buf_puts(out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_puts(out, text);
    if (!strpbrk(text, ".e"))
        buf_puts(out, ".0");
}

static void json_write_object(const json_t *object, struct buf *out)
{
    const char *key, *separator = "";
    json_t *value;

    buf_putc(out, '{');
    json_object_foreach((json_t *)object, key, value)
    {
        buf_puts(out, separator);
        buf_json(out, key, strlen(key));
        buf_putc(out, ':');
        json_write(value, out);
        separator = ",";
    }
    buf_putc(out, '}');
}

static void json_write_array(const json_t *array, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0)
            buf_putc(out, ',');
        json_write(json_array_get(array, i), out);
    }
    buf_putc(out, ']');
}

/* Writes a value on one line; unlike jansson, with the shortest form of each number. */
static void json_write(const json_t *value, struct buf *out)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_write_object(value, out);
        break;
    case JSON_ARRAY:
        json_write_array(value, out);
        break;
    case JSON_STRING:
        buf_json(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        real_write(json_real_value(value), out);
        break;
    case JSON_TRUE:
        buf_puts(out, "true");
        break;
    case JSON_FALSE:
        buf_puts(out, "false");
        break;
    case JSON_NULL:
        buf_puts(out, "null");
        break;
    }
}

static void base64_write(struct bytes data, struct buf *out)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *room = buf_reserve(out, data.len / 3 * 4 + 4);
    size_t used = 0;

    if (!room)
        return;
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i;
        uint32_t bits = (uint32_t)data.data[i] << 16;

        bits |= left > 1 ? (uint32_t)data.data[i + 1] << 8 : 0;
        bits |= left > 2 ? data.data[i + 2] : 0;
        room[used++] = (uint8_t)ALPHABET[bits >> 18];
        room[used++] = (uint8_t)ALPHABET[bits >> 12 & 63];
        room[used++] = (uint8_t)(left > 1 ? ALPHABET[bits >> 6 & 63] : '=');
        room[used++] = (uint8_t)(left > 2 ? ALPHABET[bits & 63] : '=');
    }
    out->len += used;
}

static void enum_write(const ProtobufCEnumDescriptor *type, int value, struct buf *out)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    if (known)
        buf_json(out, known->name, strlen(known->name));
    else
        buf_printf(out, "%d", value);
}

static void string_write(const char *text, struct buf *out)
{
    buf_json(out, text ? text : "", text ? strlen(text) : 0);
}

static void value_write(const ProtobufCFieldDescriptor *field, const void *value, struct buf *out)
{
    const ProtobufCBinaryData *data = value;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        buf_printf(out, "%" PRId32, *(const int32_t *)value);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_printf(out, "\"%" PRId64 "\"", *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buf_printf(out, "%" PRIu32, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        real_write((double)*(const float *)value, out);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        real_write(*(const double *)value, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        buf_puts(out, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        enum_write(field->descriptor, *(const int *)value, out);
        break;
    case PROTOBUF_C_TYPE_STRING:
        string_write(*(char *const *)value, out);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        buf_putc(out, '"');
        base64_write(bytes_of(data->data, data->len), out);
        buf_putc(out, '"');
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        json_from_message(*(ProtobufCMessage *const *)value, out);
        break;
    }
}

/* Whether a singular field has its default value, so that it is not written. */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *value)
{
    static const uint8_t ZERO[sizeof(int64_t)];

    if (reflect_is_oneof(field) || field->type == PROTOBUF_C_TYPE_MESSAGE)
        return false;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return !*(char *const *)value || **(char *const *)value == '\0';
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)value)->len == 0;
    return memcmp(value, ZERO, reflect_size(field->type)) == 0;
}

static void camel_write(const char *name, struct buf *out)
{
    buf_putc(out, '"');
    for (; *name; name++) {
        bool up = *name == '_' && name[1] >= 'a' && name[1] <= 'z';

        name += up;
        buf_putc(out, up ? (char)(*name - 'a' + 'A') : *name);
    }
    buf_puts(out, "\":");
}

static void repeated_write(const ProtobufCFieldDescriptor *field, const uint8_t *elements, size_t n,
                           struct buf *out)
{
    size_t size = reflect_size(field->type);

    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        value_write(field, elements + i * size, out);
    }
    buf_putc(out, ']');
}

/* Parses the data of a payload. *out is NULL if it is not JSON, or too deep or too large to be read
 * back. Return: 0 or -ENOMEM. */
static int payload_json(struct bytes data, json_t **out)
{
    struct extent extent = extent_of(data);

    *out = NULL;
    if (extent.depth > JSON_DEPTH_MAX - MESSAGE_DEPTH || extent.memory > JSON_MEMORY_MAX)
        return 0;
    return parse(data, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, out, NULL) < 0
               ? -ENOMEM
               : 0;
}

static bool is_text(struct bytes data)
{
    return data.len == 0 || (!memchr(data.data, '\0', data.len) && utf8_valid(data));
}

static bool payload_is_text(const char *content_type, struct bytes data)
{
    return (strcasecmp(content_type, "text/plain") == 0 ||
            strcasecmp(content_type, TEXT_TYPE) == 0) &&
           data.len > 0 && is_text(data);
}

bool json_is_type(const char *content_type)
{
    static const char family[] = "application/", suffix[] = "+json";
    size_t len = strcspn(content_type, "; ");

    if (len == strlen(JSON_TYPE) && strncasecmp(content_type, JSON_TYPE, len) == 0)
        return true;
    return len > strlen(family) + strlen(suffix) &&
           strncasecmp(content_type, family, strlen(family)) == 0 &&
           strncasecmp(content_type + len - strlen(suffix), suffix, strlen(suffix)) == 0;
}

/* Writes the data of a payload in its readable form. Return: false if it has none or is too large
 * in it (FORM_MAX); then nothing is written. */
static bool payload_write(const Drover__V1__Payload *payload, struct buf *out)
{
    const char *content_type = payload->content_type ? payload->content_type : "";
    struct bytes data = bytes_of(payload->data.data, payload->data.len);
    CLEANUP(json_decref) json_t *value = NULL;
    size_t start = out->len;

    if (payload_is_text(content_type, data)) {
        buf_puts(out, "\"text\":");
        buf_json(out, (const char *)data.data, data.len);
    } else if (json_is_type(content_type)) {
        out->failed |= payload_json(data, &value) < 0;
        if (value) {
            buf_puts(out, "\"json\":");
            json_write(value, out);
        }
    }
    if (out->len - start > FORM_MAX && out->len - start > 2 * data.len)
        out->len = start;
    return out->len > start;
}

/* Return: whether the field was written. */
static bool field_write(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                        struct buf *out)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    void *elements;
    size_t n = reflect_elements(message, field, &elements);

    if (n == 0 || (!repeated && is_default(field, elements)))
        return false;
    if (field->type == PROTOBUF_C_TYPE_BYTES &&
        message->descriptor == &drover__v1__payload__descriptor &&
        payload_write((const Drover__V1__Payload *)message, out))
        return true;
    camel_write(field->name, out);
    if (repeated)
        repeated_write(field, elements, n, out);
    else
        value_write(field, elements, out);
    return true;
}

void json_from_message(const ProtobufCMessage *message, struct buf *out)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    size_t written = 0;

    buf_putc(out, '{');
    for (unsigned i = 0; i < type->n_fields; i++) {
        size_t before = out->len;

        if (written > 0)
            buf_putc(out, ',');
        if (field_write(message, &type->fields[i], out))
            written++;
        else
            out->len = before;
    }
    buf_putc(out, '}');
}

int json_of_payload(const Drover__V1__Payload *payload, json_t **out)
{
    *out = NULL;
    if (*payload->content_type && !json_is_type(payload->content_type))
        return 0;
    return payload_json(bytes_of(payload->data.data, payload->data.len), out);
}

void json_from_payload(const Drover__V1__Payload *payload, struct buf *out)
{
    CLEANUP(json_decref) json_t *value = NULL;
    const char *type = payload ? payload->content_type : "";
    struct bytes data = payload ? bytes_of(payload->data.data, payload->data.len) : BYTES_EMPTY;

    if (payload)
        out->failed |= json_of_payload(payload, &value) < 0;
    if (value) {
        json_write(value, out);
    } else if (!*type && data.len == 0) {
        buf_puts(out, "null");
    } else if ((!*type || strncasecmp(type, "text/", 5) == 0) && is_text(data)) {
        buf_json(out, (const char *)data.data, data.len);
    } else {
        buf_puts(out, "{\"contentType\":");
        buf_json(out, type, strlen(type));
        buf_puts(out, ",\"data\":\"");
        base64_write(data, out);
        buf_puts(out, "\"}");
    }
}

void json_from_value(const json_t *value, struct buf *out)
{
    json_write(value, out);
}
