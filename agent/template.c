// SPDX-License-Identifier: Apache-2.0
/*
 * Templates: finds names in texts, and their values in the payloads of a request
 *
 * Implements template.h; http_request.c and handler_exec.c call it.
 */
#include "agent/template.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "model/json.h"
#include "model/wire.h"

/* ---- payloads, parsed when they are needed ---- */

void template_values_deinit(struct template_values *values)
{
    json_decref(values->arguments);
    json_decref(values->input);
    for (size_t i = 0; values->results && i < values->request->n_results; i++)
        json_decref(values->results[i]);
    free(values->results);
}

/* Parses the payload into *slot, once. Return: *slot; NULL if there is no payload, or it is neither
 * JSON nor text. */
static const json_t *parsed(json_t **slot, const Drover__V1__Payload *payload)
{
    struct bytes data;

    if (*slot || !payload)
        return *slot;
    data = bytes_of(payload->data.data, payload->data.len);
    if (json_of_payload(payload, slot))
        abort(); /* as with or_abort() */
    if (!*slot && data.len > 0 && utf8_valid(data))
        *slot = or_abort(json_stringn((const char *)data.data, data.len));
    return *slot;
}

/* ---- names ---- */

/* Return: the part before the first dot. *rest: the part after it. */
static struct bytes first_word(struct bytes name, struct bytes *rest)
{
    const uint8_t *dot = name.len > 0 ? memchr(name.data, '.', name.len) : NULL;
    size_t len = dot ? (size_t)(dot - name.data) : name.len;

    *rest = dot ? bytes_of(dot + 1, name.len - len - 1) : BYTES_EMPTY;
    return bytes_of(name.data, len);
}

static const json_t *member(const json_t *value, struct bytes key)
{
    int64_t index;

    if (json_is_object(value))
        return json_object_getn(value, (const char *)key.data, key.len);
    if (json_is_array(value) && bytes_to_i64(key, &index) && index >= 0)
        return json_array_get(value, (size_t)index);
    return NULL;
}

static const json_t *descend(const json_t *value, struct bytes path)
{
    while (value && path.len > 0)
        value = member(value, first_word(path, &path));
    return value;
}

/* @path: the name of a step, and a path in its result. Takes the longest name that fits. */
static const json_t *find_result(struct template_values *v, struct bytes path)
{
    size_t best = SIZE_MAX, best_len = 0;
    struct bytes rest;

    for (size_t i = 0; i < v->request->n_results; i++) {
        const char *step = v->request->results[i]->step;
        size_t len = strlen(step);

        if (len > best_len && len <= path.len && memcmp(step, path.data, len) == 0 &&
            (len == path.len || path.data[len] == '.')) {
            best = i;
            best_len = len;
        }
    }
    if (best == SIZE_MAX)
        return NULL;
    if (!v->results)
        v->results = or_abort(calloc(v->request->n_results, sizeof(struct json_t *)));
    rest = best_len < path.len ? bytes_of(path.data + best_len + 1, path.len - best_len - 1)
                               : BYTES_EMPTY;
    return descend(parsed(&v->results[best], v->request->results[best]->payload), rest);
}

enum root {
    ROOT_JOB,
    ROOT_STEP,
    ROOT_ARGUMENTS,
    ROOT_INPUT,
    ROOT_RESULTS,
    ROOT_NONE,
};

static bool has_empty_word(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] == '.' && (i + 1 == name.len || name.data[i + 1] == '.'))
            return true;
    return false;
}

static enum root root_of(struct bytes name, struct bytes *path)
{
    static const char *const words[] = {
        [ROOT_JOB] = "job",     [ROOT_STEP] = "step",       [ROOT_ARGUMENTS] = "arguments",
        [ROOT_INPUT] = "input", [ROOT_RESULTS] = "results",
    };
    struct bytes word = first_word(name, path);

    for (size_t i = 0; i < array_size(words); i++) {
        bool plain = i == ROOT_JOB || i == ROOT_STEP;

        if (!bytes_is(word, words[i]))
            continue;
        if (i == ROOT_RESULTS) /* names of steps may contain dots in any place */
            return path->len > 0 ? ROOT_RESULTS : ROOT_NONE;
        return (plain && word.len < name.len) || has_empty_word(name) ? ROOT_NONE : (enum root)i;
    }
    return ROOT_NONE;
}

static const json_t *find_value(struct template_values *v, enum root root, struct bytes path)
{
    switch (root) {
    case ROOT_ARGUMENTS:
        return descend(parsed(&v->arguments, v->request->arguments), path);
    case ROOT_INPUT:
        return descend(parsed(&v->input, v->request->input), path);
    case ROOT_RESULTS:
        return find_result(v, path);
    default:
        return NULL;
    }
}

/* ---- values ---- */

static void put_encoded(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = text.data[i];

        if ((c < 0x80 && isalnum(c)) || c == '-' || c == '.' || c == '_' || c == '~')
            buf_putc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

/* Return: NULL, or what is wrong with the value. */
static const char *put_value(struct buf *out, const json_t *value)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    if (!value)
        return "has no value";
    if (json_is_string(value) && json_string_length(value) > TEMPLATE_VALUE_MAX)
        return "is too long";
    if (json_is_object(value) || json_is_array(value) || json_is_null(value))
        return "is neither text nor a number nor a boolean";
    if (json_is_string(value) && json_string_length(value) == 0)
        return "is empty";
    if (json_is_string(value))
        buf_append(&text, json_string_value(value), json_string_length(value));
    else
        json_from_value(value, &text);
    put_encoded(out, buf_or_abort(&text));
    return NULL;
}

static const char *put_name(struct buf *out, struct template_values *v, struct bytes name)
{
    struct bytes path;
    enum root root = root_of(name, &path);

    switch (root) {
    case ROOT_JOB:
        put_encoded(out, bytes_str(v->request->job_id));
        return NULL;
    case ROOT_STEP:
        put_encoded(out, bytes_str(v->request->step));
        return NULL;
    case ROOT_NONE:
        return "is not known";
    default:
        return put_value(out, find_value(v, root, path));
    }
}

/* ---- texts ---- */

/* Return: the next "${name}" in @text; NULL if there is none. *end: behind it, NULL if it is not
 * closed. */
static const char *next_name(const char *text, struct bytes *name, const char **end)
{
    const char *begin = strstr(text, "${"), *close = begin ? strchr(begin, '}') : NULL;

    if (!begin)
        return NULL;
    *end = close ? close + 1 : NULL;
    *name = bytes_of(begin + 2, close ? (size_t)(close - begin - 2) : strlen(begin + 2));
    return begin;
}

static int name_problem(struct bytes name, bool closed, struct problem *problem, const char *reason)
{
    char field[80];

    snprintf(field, sizeof(field), "${%.*s%s", (int)(name.len < 70 ? name.len : 70),
             (const char *)name.data, closed ? "}" : "");
    problem_set(problem, field, "%s", reason);
    return TEMPLATE_E_INVALID;
}

int template_check(const char *text, struct problem *problem)
{
    struct bytes name, path;
    const char *end;

    for (; next_name(text, &name, &end); text = end) {
        if (!end)
            return name_problem(name, false, problem, "has no closing }");
        if (root_of(name, &path) == ROOT_NONE)
            return name_problem(name, true, problem,
                                "must be job, step, arguments.…, input.… or results.STEP.…");
    }
    return 0;
}

int template_expand(const char *text, struct template_values *values, struct buf *out,
                    struct problem *problem)
{
    struct bytes name;
    const char *begin, *end, *fault;

    for (; (begin = next_name(text, &name, &end)) && end; text = end) {
        buf_append(out, text, (size_t)(begin - text));
        fault = put_name(out, values, name);
        if (fault)
            return name_problem(name, true, problem, fault);
    }
    buf_puts(out, text);
    return 0;
}

/* ---- requests as JSON ---- */

static void put_member(struct buf *out, const char *name, const Drover__V1__Payload *payload)
{
    buf_printf(out, ",\"%s\":", name);
    json_from_payload(payload, out);
}

static void put_results(struct buf *out, const Drover__V1__StepRequest *request)
{
    buf_puts(out, ",\"results\":{");
    for (size_t i = 0; i < request->n_results; i++) {
        if (i > 0)
            buf_putc(out, ',');
        buf_json(out, request->results[i]->step, strlen(request->results[i]->step));
        buf_putc(out, ':');
        json_from_payload(request->results[i]->payload, out);
    }
    buf_putc(out, '}');
}

void template_document(const Drover__V1__StepRequest *request, struct buf *out)
{
    buf_puts(out, "{\"job\":");
    buf_json(out, request->job_id, strlen(request->job_id));
    buf_puts(out, ",\"step\":");
    buf_json(out, request->step, strlen(request->step));
    put_member(out, "arguments", request->arguments);
    put_member(out, "input", request->input);
    put_results(out, request);
    if (*request->forward_key) {
        buf_puts(out, ",\"forward_key\":");
        buf_json(out, request->forward_key, strlen(request->forward_key));
        put_member(out, "forward_result", request->forward_result);
    }
    buf_putc(out, '}');
}

void template_request(const Drover__V1__StepRequest *request, struct buf *out)
{
    Drover__V1__StepRequest shown = *request;

    shown.token = (char *)"";
    json_from_message(&shown.base, out);
}
