// SPDX-License-Identifier: Apache-2.0
/*
 * Workflow files: reads a Workflow message from a libconfig file by the descriptors of its fields
 *
 * See io/config/workflow_file.h.
 */
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/str.h"
#include "io/config/config_tree.h"
#include "io/config/workflow_file.h"
#include "model/change.h"
#include "model/reflect.h"
#include "model/workflow.h"

#define NAME_SIZE 64 /* bytes of the name of a field, and its NUL */

typedef ProtobufCFieldDescriptor Field;

/* ---- names ---- */

/* Whether a field is written without _ms and as a duration: lock_ms as lock = "30s". */
static bool is_duration(const Field *field)
{
    size_t len = strlen(field->name);

    return field->type == PROTOBUF_C_TYPE_INT64 && len > 3 &&
           strcmp(field->name + len - 3, "_ms") == 0;
}

static void key_of(const Field *field, char out[NAME_SIZE])
{
    int len = (int)strlen(field->name) - (is_duration(field) ? 3 : 0);

    snprintf(out, NAME_SIZE, "%.*s", len, field->name);
}

static const Field *find_field(const ProtobufCMessageDescriptor *type, const char *key)
{
    char name[NAME_SIZE];

    for (unsigned i = 0; i < type->n_fields; i++) {
        key_of(&type->fields[i], name);
        if (strcmp(name, key) == 0)
            return &type->fields[i];
    }
    return NULL;
}

static int unknown_key(const ProtobufCMessageDescriptor *type, const config_setting_t *node,
                       struct problem *problem)
{
    struct nearest nearest = nearest_to(config_setting_name(node));
    char hint[NAME_SIZE + 32], name[NAME_SIZE];

    for (unsigned i = 0; i < type->n_fields; i++) {
        key_of(&type->fields[i], name);
        nearest_try(&nearest, name);
    }
    return tree_problem(node, problem, "there is no such setting%s",
                        nearest_text(&nearest, hint, sizeof(hint)));
}

/* ---- payloads ---- */

static void put_json(struct buf *out, const config_setting_t *node);

/* Writes 15 digits if they mean the same number, else 17: 0.1, not 0.10000000000000001. */
static void put_json_real(struct buf *out, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    buf_puts(out, text);
}

static void put_json_members(struct buf *out, const config_setting_t *node)
{
    bool named = config_setting_is_group(node);

    buf_putc(out, named ? '{' : '[');
    for (int i = 0; i < config_setting_length(node); i++) {
        const config_setting_t *element = config_setting_get_elem(node, (unsigned)i);

        if (i > 0)
            buf_putc(out, ',');
        if (named) {
            buf_json(out, config_setting_name(element), strlen(config_setting_name(element)));
            buf_putc(out, ':');
        }
        put_json(out, element);
    }
    buf_putc(out, named ? '}' : ']');
}

static void put_json(struct buf *out, const config_setting_t *node)
{
    switch (config_setting_type(node)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        buf_printf(out, "%lld", config_setting_get_int64(node));
        break;
    case CONFIG_TYPE_FLOAT:
        put_json_real(out, config_setting_get_float(node));
        break;
    case CONFIG_TYPE_BOOL:
        buf_puts(out, config_setting_get_bool(node) ? "true" : "false");
        break;
    case CONFIG_TYPE_STRING:
        buf_json(out, config_setting_get_string(node), strlen(config_setting_get_string(node)));
        break;
    default:
        put_json_members(out, node);
    }
}

static bool is_json(const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool good = value != NULL;

    json_decref(value);
    return good;
}

static int put_payload(void *to, const config_setting_t *node, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf data = {0};
    Drover__V1__Payload *payload = malloc(sizeof(*payload));
    bool json = true;

    if (!payload)
        return -ENOMEM;
    drover__v1__payload__init(payload);
    *(Drover__V1__Payload **)to = payload;
    if (config_setting_is_aggregate(node)) {
        put_json(&data, node);
    } else if (config_setting_type(node) == CONFIG_TYPE_STRING) {
        buf_puts(&data, config_setting_get_string(node));
        json = is_json(buf_str(&data));
    } else {
        return tree_problem(node, problem, "must be a group, a list or a text in quotes");
    }
    payload->content_type = strdup(json ? "application/json" : "text/plain");
    if (!payload->content_type || data.failed)
        return -ENOMEM;
    payload->data.len = data.len;
    payload->data.data = take(data.data);
    return 0;
}

/* ---- scalars ---- */

static int put_text(char **to, const config_setting_t *node, struct problem *problem)
{
    const char *text = config_setting_get_string(node);
    char *copy;

    if (!text)
        return tree_problem(node, problem, "must be a text in quotes");
    copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    *to = copy;
    return 0;
}

static bool is_integer(const config_setting_t *node)
{
    return config_setting_type(node) == CONFIG_TYPE_INT ||
           config_setting_type(node) == CONFIG_TYPE_INT64;
}

/* A negative integer has a meaning of its own in some fields, such as "never". */
static int put_duration(int64_t *to, const config_setting_t *node, struct problem *problem)
{
    const char *text = config_setting_get_string(node);

    if (is_integer(node))
        *to = config_setting_get_int64(node);
    else if (!text || !duration_parse(text, to))
        return tree_problem(node, problem,
                            "must be a duration such as \"30s\", or an integer of milliseconds");
    return 0;
}

static int put_count(uint32_t *to, const config_setting_t *node, struct problem *problem)
{
    long long value = config_setting_get_int64(node);

    if (!is_integer(node) || value < 0 || value > UINT32_MAX)
        return tree_problem(node, problem, "must be an integer from 0 to %" PRIu32, UINT32_MAX);
    *to = (uint32_t)value;
    return 0;
}

static int put_number(double *to, const config_setting_t *node, struct problem *problem)
{
    if (!config_setting_is_number(node))
        return tree_problem(node, problem, "must be a number");
    *to =
        is_integer(node) ? (double)config_setting_get_int64(node) : config_setting_get_float(node);
    return 0;
}

static int put_boolean(protobuf_c_boolean *to, const config_setting_t *node,
                       struct problem *problem)
{
    if (config_setting_type(node) != CONFIG_TYPE_BOOL)
        return tree_problem(node, problem, "must be true or false");
    *to = config_setting_get_bool(node);
    return 0;
}

/* The value RECOURSE_PARK is written "park"; the first one, …_UNSPECIFIED, cannot be written. */
static int put_word(int *to, const ProtobufCEnumDescriptor *type, const config_setting_t *node,
                    struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf known = {0};
    size_t prefix = strlen(type->values[0].name) - strlen("UNSPECIFIED");
    const char *word = config_setting_get_string(node);

    for (unsigned i = 1; i < type->n_values; i++) {
        const char *name = type->values[i].name + prefix;

        if (word && strcasecmp(word, name) == 0) {
            *to = type->values[i].value;
            return 0;
        }
        buf_puts(&known, i > 1 ? ", " : "");
        for (; *name; name++)
            buf_printf(&known, "%c", tolower((unsigned char)*name));
    }
    return tree_problem(node, problem, "must be one of %s", buf_str(&known));
}

/* ---- messages ---- */

static int put_message(void *to, const ProtobufCMessageDescriptor *type,
                       const config_setting_t *node, struct problem *problem);

static int put_element(void *to, const Field *field, const config_setting_t *node,
                       struct problem *problem)
{
    if (is_duration(field))
        return put_duration(to, node, problem);
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return put_text(to, node, problem);
    case PROTOBUF_C_TYPE_UINT32:
        return put_count(to, node, problem);
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_number(to, node, problem);
    case PROTOBUF_C_TYPE_BOOL:
        return put_boolean(to, node, problem);
    case PROTOBUF_C_TYPE_ENUM:
        return put_word(to, field->descriptor, node, problem);
    default: /* a Workflow has no fields of other types: test_workflow_file reads all of them */
        assert(field->type == PROTOBUF_C_TYPE_MESSAGE);
        if (field->descriptor == &drover__v1__payload__descriptor)
            return put_payload(to, node, problem);
        return put_message(to, field->descriptor, node, problem);
    }
}

static int put_elements(ProtobufCMessage *message, const Field *field, const config_setting_t *node,
                        struct problem *problem)
{
    size_t *used = reflect_quantifier(message, field), size = reflect_size(field->type);
    int n = config_setting_length(node);
    uint8_t *elements;

    if (!config_setting_is_aggregate(node) || config_setting_is_group(node))
        return tree_problem(node, problem,
                            field->type == PROTOBUF_C_TYPE_MESSAGE ? "must be a list ( {...}, ... )"
                                                                   : "must be an array [ ... ]");
    if (n == 0)
        return 0;
    elements = calloc((size_t)n, size);
    if (!elements)
        return -ENOMEM;
    *(void **)reflect_member(message, field) = elements;
    for (int i = 0; i < n; i++) {
        int ret;

        *used = (size_t)i + 1;
        ret = put_element(elements + (size_t)i * size, field,
                          config_setting_get_elem(node, (unsigned)i), problem);
        if (ret)
            return ret;
    }
    return 0;
}

static int put_members(ProtobufCMessage *message, const config_setting_t *group,
                       struct problem *problem)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *node = config_setting_get_elem(group, (unsigned)i);
        const Field *field = find_field(message->descriptor, config_setting_name(node));
        int ret;

        if (!field)
            ret = unknown_key(message->descriptor, node, problem);
        else if (field->label == PROTOBUF_C_LABEL_REPEATED)
            ret = put_elements(message, field, node, problem);
        else
            ret = put_element(reflect_member(message, field), field, node, problem);
        if (ret)
            return ret;
    }
    return 0;
}

/* Sets *to also if it fails, so that the message is freed with the one that contains it. */
static int put_message(void *to, const ProtobufCMessageDescriptor *type,
                       const config_setting_t *node, struct problem *problem)
{
    ProtobufCMessage *message;

    if (!config_setting_is_group(node))
        return tree_problem(node, problem, "must be a group { ... }");
    message = malloc(type->sizeof_message);
    if (!message)
        return -ENOMEM;
    protobuf_c_message_init(type, message);
    *(ProtobufCMessage **)to = message;
    return put_members(message, node, problem);
}

/* ---- files ---- */

/* Turns a path of workflow_new(), such as steps[3].lock_ms, into one of libconfig: steps.[3].lock.
 */
static void put_tree_path(struct buf *out, const char *field)
{
    size_t len = strlen(field);

    if (len > 3 && strcmp(field + len - 3, "_ms") == 0)
        len -= 3;
    for (size_t i = 0; i < len; i++) {
        if (field[i] == '[')
            buf_putc(out, '.');
        buf_putc(out, field[i]);
    }
}

/* Return: the setting of a path; if the file does not have it, the closest one that contains it. */
static const config_setting_t *locate(const config_t *tree, const char *field)
{
    CLEANUP(buf_deinit) struct buf path = {0};
    const config_setting_t *node = NULL;

    put_tree_path(&path, field);
    while (path.len > 0) {
        node = config_lookup(tree, buf_str(&path));
        if (node)
            return node;
        while (path.len > 0 && path.data[--path.len] != '.') {
        }
    }
    return config_root_setting(tree);
}

static int check(const Drover__V1__Workflow *message, const config_t *tree, struct problem *problem)
{
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct problem found = {0};
    int ret = workflow_new(&w, message, "", &found);

    if (ret <= 0)
        return ret;
    tree_problem(locate(tree, found.field), problem, "%s", found.reason);
    return WORKFLOW_FILE_E_INVALID;
}

static int read_tree(config_t *tree, Drover__V1__Workflow **out, const char *path,
                     struct problem *problem)
{
    int ret = tree_read(tree, path, problem);

    if (ret == 0)
        ret =
            put_message(out, &drover__v1__workflow__descriptor, config_root_setting(tree), problem);
    if (ret == 0)
        ret = check(*out, tree, problem);
    return ret > 0 ? WORKFLOW_FILE_E_INVALID : ret;
}

int workflow_file_read(Drover__V1__Workflow **out, const char *path, struct problem *problem)
{
    Drover__V1__Workflow *workflow = NULL;
    config_t tree;
    int ret;

    config_init(&tree);
    ret = read_tree(&tree, &workflow, path, problem);
    config_destroy(&tree);
    if (ret) {
        drover__v1__workflow__free_unpacked(workflow, NULL);
        return ret;
    }
    *out = workflow;
    return 0;
}

/* ---- single fields of a step ---- */

/* Whether a value can be written in a file as it is; otherwise it is a text and needs quotes. */
static bool is_literal(const char *value)
{
    char *end;

    if (*value == '\0' || strchr("\"[", *value))
        return *value != '\0';
    (void)strtod(value, &end);
    return *end == '\0' || strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
}

static void put_quoted(struct buf *out, const char *value)
{
    buf_putc(out, '"');
    for (; *value; value++)
        buf_printf(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    buf_putc(out, '"');
}

/* Writes a setting as a file has it: "retry.jitter=0" as retry={jitter=0;}; */
static void put_setting(struct buf *out, const char *setting, const char *equals)
{
    int depth = 0;

    for (const char *c = setting; c < equals; c++) {
        if (*c == '.')
            buf_puts(out, "={");
        else
            buf_printf(out, "%c", *c);
        depth += *c == '.';
    }
    buf_putc(out, '=');
    if (is_literal(equals + 1))
        buf_puts(out, equals + 1);
    else
        put_quoted(out, equals + 1);
    buf_putc(out, ';');
    for (; depth > 0; depth--)
        buf_puts(out, "};");
}

static int read_setting(Drover__V1__Step **out, config_t *tree, const char *setting,
                        struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const char *equals = strchr(setting, '=');
    size_t len = equals ? (size_t)(equals - setting) : 0;

    if (len == 0 || strspn(setting, "abcdefghijklmnopqrstuvwxyz_.") < len) {
        problem_set(problem, setting, "must be FIELD=VALUE, such as lock=10m");
        return WORKFLOW_FILE_E_INVALID;
    }
    put_setting(&text, setting, equals);
    if (text.failed)
        return -ENOMEM;
    if (!config_read_string(tree, buf_str(&text))) {
        problem_set(problem, setting, "%s", config_error_text(tree));
        return WORKFLOW_FILE_E_INVALID;
    }
    return put_message(out, &drover__v1__step__descriptor, config_root_setting(tree), problem);
}

static int add_setting(Drover__V1__Step *to, const char *setting, struct problem *problem)
{
    Drover__V1__Step *step = NULL;
    struct problem found = {0};
    config_t tree;
    int ret;

    config_init(&tree);
    ret = read_setting(&step, &tree, setting, &found);
    config_destroy(&tree);
    if (ret == 0 && change_is_empty(step)) {
        problem_set(&found, setting, "changes nothing: 0 and an empty text count as not given");
        ret = WORKFLOW_FILE_E_INVALID;
    }
    if (ret == 0)
        change_move(to, step);
    drover__v1__step__free_unpacked(step, NULL);
    if (ret <= 0)
        return ret;
    problem_set(problem, setting, "%s", found.reason);
    return WORKFLOW_FILE_E_INVALID;
}

int workflow_step_read(Drover__V1__Step **out, const char *const *settings, size_t n,
                       struct problem *problem)
{
    Drover__V1__Step *step = malloc(sizeof(*step));
    int ret = 0;

    if (!step)
        return -ENOMEM;
    drover__v1__step__init(step);
    for (size_t i = 0; i < n && ret == 0; i++)
        ret = add_setting(step, settings[i], problem);
    if (ret == 0)
        *out = take(step);
    drover__v1__step__free_unpacked(step, NULL);
    return ret;
}

/* ---- folders ---- */

/* Return: 0; -EINVAL if the file was refused, which was logged; or what @cb has returned. */
static int read_one(const char *path, workflow_file_cb cb, void *ctx)
{
    Drover__V1__Workflow *workflow = NULL;
    struct problem problem = {0};
    int ret = workflow_file_read(&workflow, path, &problem);

    if (ret == WORKFLOW_FILE_E_INVALID) {
        log_error("workflow_refused", LOG_S("file", path), LOG_S("at", problem.field),
                  LOG_S("why", problem.reason));
        return -EINVAL;
    }
    if (ret == 0)
        ret = cb(ctx, path, workflow);
    drover__v1__workflow__free_unpacked(workflow, NULL);
    return ret;
}

static int is_workflow_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot && strcmp(dot, ".cfg") == 0;
}

int workflow_files_read(const char *folder, workflow_file_cb cb, void *ctx)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_workflow_file, alphasort), ret = 0;

    if (n < 0) {
        ret = -errno;
        log_error("workflows_unreadable", LOG_S("folder", folder), LOG_S("why", strerror(errno)));
        return ret;
    }
    for (int i = 0; i < n; i++) {
        CLEANUP(buf_deinit) struct buf path = {0};

        buf_printf(&path, "%s/%s", folder, entries[i]->d_name);
        if (ret == 0 || ret == -EINVAL) {
            int result = read_one(buf_str(&path), cb, ctx);

            ret = result ? result : ret;
        }
        free(entries[i]);
    }
    free(entries);
    return ret;
}
