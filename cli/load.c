// SPDX-License-Identifier: Apache-2.0
/*
 * Loading: makes the jobs that the command line asks for
 *
 * Called by submit.c and follow.c.
 */
#include "cli/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "client/payload.h"
#include "client/text.h"
#include "io/file.h"

/* ---- options ---- */

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
        r = text_set(&m->job_id, args->id);
    if (r == 0 && args->workflow)
        r = text_set(&m->workflow, args->workflow);
    if (r == 0 && args->input)
        r = set_input(m, args->input, problem);
    return r;
}

/* ---- loading ---- */

static int usage_error(struct problem *problem, const char *reason)
{
    problem_set(problem, "", "%s", reason);
    return LOAD_E_USAGE;
}

static int make_jobs(const struct args *args, struct jobs *out, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    int r;

    if (args->n_operands == 0)
        return args->workflow ? jobs_add(out) : usage_error(problem, "name a FILE or a --workflow");
    if (args->workflow)
        return usage_error(problem, "give either FILE or --workflow");
    r = file_read_operand(args->operands[0], FILE_MAX, &text, problem);
    if (r == 0)
        r = jobs_read(buf_bytes(&text), out, problem);
    if (r == 0 && args->id && out->n > 1)
        r = usage_error(problem, "--id fits one job, and there are several");
    return r;
}

int load_jobs(const struct args *args, struct jobs *out, struct problem *problem)
{
    int r = make_jobs(args, out, problem);

    for (size_t i = 0; i < out->n && r == 0; i++)
        r = apply_options(out->items[i], args, problem);
    return r ? r : jobs_complete(out, problem);
}

int load_complain(int error, const struct problem *problem)
{
    int code = cli_problem(error, problem);

    return error == LOAD_E_USAGE ? CLI_USAGE : code;
}
