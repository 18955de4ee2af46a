// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs to submit: reads them from JSON, gives them ids, and checks them
 *
 * See client/jobs.h. Called by clients.
 */
#include "client/jobs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/job_id.h"
#include "client/text.h"
#include "model/json.h"

/* ---- a list of Submits ---- */

void jobs_deinit(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        drover__v1__submit__free_unpacked(jobs->items[i], NULL);
    free(jobs->items);
    *jobs = (struct jobs){0};
}

/* Adds @m, which @jobs then owns; frees it if it fails. Return: 0 or -ENOMEM. */
static int add(struct jobs *jobs, Drover__V1__Submit *m)
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

static Drover__V1__Submit *submit_new(void)
{
    Drover__V1__Submit *m = malloc(sizeof(*m));

    if (m)
        drover__v1__submit__init(m);
    return m;
}

int jobs_add(struct jobs *jobs)
{
    return add(jobs, submit_new());
}

/* ---- reading ---- */

/* Return: the length of the object at the start of @text, with the brace that closes it; the whole
 * length if no brace does. */
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
    return JOBS_E_INVALID;
}

static int job_read(struct bytes text, struct jobs *out, struct problem *problem)
{
    ProtobufCMessage *m;
    int r = json_to_message(text, &drover__v1__submit__descriptor, NULL, &m, problem);

    if (r == 0)
        return add(out, (Drover__V1__Submit *)m);
    if (m)
        protobuf_c_message_free_unpacked(m, NULL);
    return r < 0 ? r : JOBS_E_INVALID;
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

/* ---- completing ---- */

static int give_id(Drover__V1__Submit *m, struct rng *rng)
{
    char id[JOB_ID_LEN + 1];

    if (*m->job_id)
        return 0;
    job_id_make(clock_unix_ms(), rng, id);
    return text_set(&m->job_id, id);
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
    return r > 0 ? JOBS_E_INVALID : r;
}

int jobs_complete(struct jobs *jobs, struct problem *problem)
{
    struct rng rng;
    int r = rng_seed_system(&rng);

    for (size_t i = 0; i < jobs->n && r == 0; i++) {
        r = give_id(jobs->items[i], &rng);
        if (r == 0)
            r = check(jobs->items[i], problem);
        if (r > 0 && jobs->n > 1)
            problem_number(problem, i + 1);
    }
    return r;
}
