// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs to submit: reads them from files, applies options, and checks them
 *
 * See cli/job.h.
 */
#include "cli/job.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "io/file.h"
#include "model/json.h"

CLEANUP_DEFINE(json_t *, json_decref)

void job_id_make(int64_t unix_ms, struct rng *rng, char out[JOB_ID_LEN + 1])
{
    static const char ALPHABET[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's base 32 */
    unsigned __int128 id = (unsigned __int128)((uint64_t)unix_ms & 0xffffffffffff) << 80;

    id |= (unsigned __int128)(rng_next(rng) & 0xffff) << 64 | rng_next(rng);
    for (int i = JOB_ID_LEN - 1; i >= 0; i--, id >>= 5)
        out[i] = ALPHABET[id & 31];
    out[JOB_ID_LEN] = '\0';
}

/* ---- a list of Submits ---- */

void jobs_deinit(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        drover__v1__submit__free_unpacked(jobs->items[i], NULL);
    free(jobs->items);
    *jobs = (struct jobs){0};
}

/* Adds @m, which @jobs then owns; frees it if it fails. Return: 0 or -ENOMEM. */
static int jobs_add(struct jobs *jobs, Drover__V1__Submit *m)
{
    Drover__V1__Submit **items;

    if (!m)
        return -ENOMEM;
    items = reallocarray(jobs->items, jobs->n + 1, sizeof(Drover__V1__Submit *));
    if (!items) {
        drover__v1__submit__free_unpacked(m, NULL);
        return -ENOMEM;
    }
    items[jobs->n++] = m;
    jobs->items = items;
    return 0;
}

/* Return: the bytes up to the brace that closes the first one; all if there is none. */
static size_t object_length(struct bytes text)
{
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == '{')
            depth++;
        else if (!quoted && c == '}' && --depth == 0)
            return i + 1;
    }
    return text.len;
}

static struct bytes skip(struct bytes text, size_t n)
{
    return bytes_of(text.data + n, text.len - n);
}

static struct bytes skip_space(struct bytes text)
{
    size_t n = 0;

    while (n < text.len && isspace(text.data[n]))
        n++;
    return n > 0 ? skip(text, n) : text;
}

static int invalid(struct problem *problem, const char *reason)
{
    problem_set(problem, "", "%s", reason);
    return JOB_E_INVALID;
}

static int job_read(struct bytes text, struct jobs *out, struct problem *problem)
{
    ProtobufCMessage *m;
    int r = json_to_message(text, &drover__v1__submit__descriptor, NULL, &m, problem);

    if (r == 0)
        return jobs_add(out, (Drover__V1__Submit *)m);
    if (m)
        protobuf_c_message_free_unpacked(m, NULL);
    return r < 0 ? r : JOB_E_INVALID;
}

/* Adds the number of the job to the field of a problem. */
static void problem_number(struct problem *problem, size_t n)
{
    struct problem inner = *problem;
    char field[sizeof(inner.field)];

    snprintf(field, sizeof(field), "job %zu%s%.160s", n, *inner.field ? ": " : "", inner.field);
    problem_set(problem, field, "%s", inner.reason);
}

int jobs_read(struct bytes text, struct jobs *out, struct problem *problem)
{
    text = skip_space(text);
    if (text.len == 0)
        return invalid(problem, "there is no job in it");
    while (text.len > 0) {
        size_t len = object_length(text);
        int r = text.data[0] == '{' ? job_read(bytes_of(text.data, len), out, problem)
                                    : invalid(problem, "a job must be a JSON object");

        if (r > 0 && out->n > 0)
            problem_number(problem, out->n + 1);
        if (r)
            return r;
        text = skip_space(skip(text, len));
    }
    return 0;
}

/* ---- options ---- */

/* Replaces a text of a message. */
static int set_text(char **field, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -ENOMEM;
    if (*field != protobuf_c_empty_string)
        free(*field);
    *field = copy;
    return 0;
}

static const char *content_type_of(struct bytes data)
{
    CLEANUP(json_decref)
    json_t *json = json_loadb((const char *)data.data, data.len, JSON_DECODE_ANY, NULL);

    if (json)
        return "application/json";
    if (utf8_valid(data) && (data.len == 0 || !memchr(data.data, '\0', data.len)))
        return "text/plain; charset=utf-8";
    return "application/octet-stream";
}

Drover__V1__Payload *payload_new(struct bytes data)
{
    Drover__V1__Payload *p = malloc(sizeof(*p));

    if (!p)
        return NULL;
    drover__v1__payload__init(p);
    p->data.data = malloc(data.len + 1);
    if (!p->data.data || set_text(&p->content_type, content_type_of(data))) {
        drover__v1__payload__free_unpacked(p, NULL);
        return NULL;
    }
    if (data.len > 0)
        memcpy(p->data.data, data.data, data.len);
    p->data.len = data.len;
    return p;
}

int payload_read(const char *input, Drover__V1__Payload **out, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf data = {0};

    if (input[0] == '@') {
        int r = file_read_operand(input + 1, FILE_MAX, &data, problem);

        if (r)
            return r;
    } else {
        buf_puts(&data, input);
    }
    *out = data.failed ? NULL : payload_new(buf_bytes(&data));
    return *out ? 0 : -ENOMEM;
}

static int set_input(Drover__V1__Submit *m, const char *input, struct problem *problem)
{
    Drover__V1__Payload *payload;
    int r = payload_read(input, &payload, problem);

    if (r)
        return r;
    if (m->input)
        drover__v1__payload__free_unpacked(m->input, NULL);
    m->input = payload;
    return 0;
}

static Drover__V1__Label *label_new(const char *text)
{
    Drover__V1__Label *label = malloc(sizeof(*label));
    const char *equals = strchr(text, '=');

    if (!label)
        return NULL;
    drover__v1__label__init(label);
    label->name = strndup(text, (size_t)(equals - text));
    label->value = strdup(equals + 1);
    if (label->name && label->value)
        return label;
    drover__v1__label__free_unpacked(label, NULL);
    return NULL;
}

static int add_labels(Drover__V1__Submit *m, const struct args *args)
{
    Drover__V1__Label **labels =
        reallocarray(m->labels, m->n_labels + args->n_labels + 1, sizeof(*labels));

    if (!labels)
        return -ENOMEM;
    m->labels = labels;
    for (size_t i = 0; i < args->n_labels; i++) {
        labels[m->n_labels] = label_new(args->labels[i]);
        if (!labels[m->n_labels])
            return -ENOMEM;
        m->n_labels++;
    }
    return 0;
}

static int apply_options(Drover__V1__Submit *m, const struct args *args, struct problem *problem)
{
    int r = args->n_labels > 0 ? add_labels(m, args) : 0;

    if (args->start_at)
        m->start_at = args->start_at;
    if (args->complete_by)
        m->complete_by = args->complete_by;
    if (r == 0 && args->id)
        r = set_text(&m->job_id, args->id);
    if (r == 0 && args->workflow)
        r = set_text(&m->workflow, args->workflow);
    if (r == 0 && args->input)
        r = set_input(m, args->input, problem);
    return r;
}

/* ---- loading ---- */

static int give_id(Drover__V1__Submit *m, struct rng *rng)
{
    char id[JOB_ID_LEN + 1];

    if (*m->job_id)
        return 0;
    job_id_make(clock_unix_ms(), rng, id);
    return set_text(&m->job_id, id);
}

/* Checks a Submit by the rules of model/wire, so that errors are found before it is sent. */
static int check(const Drover__V1__Submit *m, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    CLEANUP(wire_free) struct wire_message message = {0};
    int r = wire_encode(&m->base, false, &body);

    if (r == WIRE_E_TOO_LARGE)
        return invalid(problem, "is larger than a message may be");
    if (r == 0)
        r = wire_decode(WIRE_SUBMIT, buf_bytes(&body), NULL, &message, problem);
    return r > 0 ? JOB_E_INVALID : r;
}

static Drover__V1__Submit *submit_new(void)
{
    Drover__V1__Submit *m = malloc(sizeof(*m));

    if (m)
        drover__v1__submit__init(m);
    return m;
}

static int usage(struct problem *problem, const char *reason)
{
    problem_set(problem, "", "%s", reason);
    return JOB_E_USAGE;
}

static int jobs_open(const struct args *args, struct jobs *out, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    int r;

    if (args->n_operands == 0)
        return args->workflow ? jobs_add(out, submit_new())
                              : usage(problem, "name a FILE or a --workflow");
    if (args->workflow)
        return usage(problem, "give either FILE or --workflow");
    r = file_read_operand(args->operands[0], FILE_MAX, &text, problem);
    if (r == 0)
        r = jobs_read(buf_bytes(&text), out, problem);
    if (r == 0 && args->id && out->n > 1)
        r = usage(problem, "--id fits one job, and there are several");
    return r;
}

int jobs_load(const struct args *args, struct jobs *out, struct problem *problem)
{
    struct rng rng;
    int r = rng_seed_system(&rng);

    if (r == 0)
        r = jobs_open(args, out, problem);
    for (size_t i = 0; i < out->n && r == 0; i++) {
        r = apply_options(out->items[i], args, problem);
        if (r == 0)
            r = give_id(out->items[i], &rng);
        if (r == 0)
            r = check(out->items[i], problem);
        if (r > 0 && out->n > 1)
            problem_number(problem, i + 1);
    }
    return r;
}

int jobs_complain(int error, const struct problem *problem)
{
    int code = cli_problem(error, problem);

    return error == JOB_E_USAGE ? CLI_USAGE : code;
}
