// SPDX-License-Identifier: Apache-2.0
/*
 * Import: converts recorded workflows into jobs (command import)
 *
 * See cli/import.h. Called by command_run.c.
 */
#include "cli/import.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "io/file.h"
#include "model/policy.h"
#include "model/wire.h"

CLEANUP_DEFINE(json_t *, json_decref)

#define SECOND_MS 1000.0
#define LOCK_MARGIN 2 /* a lease is at least this many times the sleep */

/* A workflow that is being converted. JSON objects serve as hash tables. */
struct importing {
    const struct import_options *options;
    json_t *names; /* name of a step in the input → name in the output */
    json_t *taken; /* all names of the output */
    struct problem *problem;
};

static void importing_deinit(struct importing *i)
{
    json_decref(i->names);
    json_decref(i->taken);
}
static inline void importing_deinit_p(struct importing *i)
{
    importing_deinit(i);
}

static int flaw(struct importing *i, const char *step, const char *reason)
{
    problem_set(i->problem, step, "%s", reason);
    return IMPORT_E_INVALID;
}

/* Turns a result of jansson, 0 or -1, into 0 or -ENOMEM. */
static int law(int result)
{
    return result ? -ENOMEM : 0;
}

/* ---- names ---- */

/* Replaces each byte that a name must not have by '_', cuts the name to fit, and adds @suffix. */
static void name_clean(const char *name, const char *suffix, char out[ID_NAME_MAX + 1])
{
    size_t len = strlen(suffix), room = ID_NAME_MAX - len, n = 0;

    for (; name[n] && n < room; n++)
        out[n] = id_name_valid(name + n, 1) ? name[n] : '_';
    memcpy(out + n, suffix, len + 1);
}

static int name_take(struct importing *i, const char *from, const char *to)
{
    if (json_object_set_new(i->taken, to, json_true()))
        return -ENOMEM;
    return law(json_object_set_new(i->names, from, json_string(to)));
}

/* Changes a name that is not allowed; adds the first number that makes it unique, if needed. */
static int name_change(struct importing *i, const char *from)
{
    const char *base = *from ? from : "_";
    char suffix[16] = "", to[ID_NAME_MAX + 1];

    name_clean(base, suffix, to);
    for (unsigned n = 2; json_object_get(i->taken, to); n++) {
        snprintf(suffix, sizeof(suffix), "-%u", n);
        name_clean(base, suffix, to);
    }
    return name_take(i, from, to);
}

static const char *step_name(const json_t *step)
{
    return json_string_value(json_object_get(step, "name"));
}

/* Takes the names that are @valid, or those that are not. Valid ones are taken first, so that no
 * changed name becomes one of them. */
static int names_take(struct importing *i, json_t *steps, bool valid)
{
    json_t *step;
    size_t k;
    int r = 0;

    json_array_foreach(steps, k, step)
    {
        const char *name = step_name(step);

        if (!name)
            return flaw(i, "steps", "every step needs a name");
        if (id_name_valid(name, strlen(name)) != valid)
            continue;
        if (json_object_get(i->names, name))
            return flaw(i, name, "is the name of two steps");
        r = valid ? name_take(i, name, name) : name_change(i, name);
        if (r)
            return r;
    }
    return r;
}

/* ---- steps ---- */

static bool holds(const json_t *list, const json_t *name)
{
    const json_t *other;
    size_t k;

    json_array_foreach(list, k, other) if (json_equal(other, name)) return true;
    return false;
}

/* Sets `after`. A recorded workflow names a dependency once for each file that the step takes from
 * it; `after` names it once. */
static int set_after(struct importing *i, json_t *to, const json_t *step)
{
    json_t *after = json_array(), *from;
    size_t k;

    if (json_object_set_new(to, "after", after))
        return -ENOMEM;
    json_array_foreach(json_object_get(step, "depends_on"), k, from)
    {
        const char *name = json_string_value(from);
        json_t *known = name ? json_object_get(i->names, name) : NULL;

        if (!known)
            return flaw(i, step_name(step), "depends on a step that is not there");
        if (!holds(after, known) && json_array_append(after, known))
            return -ENOMEM;
    }
    return json_array_size(after) > 0 ? 0 : law(json_object_del(to, "after"));
}

static int set_sleep(struct importing *i, json_t *to, const json_t *step)
{
    double ms = json_number_value(json_object_get(step, "runtime")) * SECOND_MS * i->options->scale;
    int64_t whole;

    if (ms < 0)
        return flaw(i, step_name(step), "has a negative runtime");
    if (!(ms * LOCK_MARGIN <= (double)POLICY_DURATION_MAX_MS))
        return flaw(i, step_name(step),
                    "sleeps longer than half the longest lease: use a smaller --scale");
    whole = llround(ms);
    if (json_object_set_new(to, "arguments",
                            json_pack("{s:{s:I}}", "json", "ms", (json_int_t)whole)))
        return -ENOMEM;
    if (whole * LOCK_MARGIN <= POLICY_LOCK_MS)
        return 0;
    return law(json_object_set_new(to, "lockMs", json_integer(whole * LOCK_MARGIN)));
}

/* Appends the converted @step to @steps. */
static int add_step(struct importing *i, json_t *steps, const json_t *step)
{
    bool sleeps = i->options->scale > 0;
    json_t *name = json_object_get(i->names, step_name(step));
    json_t *to = json_pack("{s:O,s:s,s:s}", "name", name, "actor", i->options->actor, "action",
                           sleeps ? "sleep" : "noop");
    int r;

    if (json_array_append_new(steps, to))
        return -ENOMEM;
    r = set_after(i, to, step);
    return r == 0 && sleeps ? set_sleep(i, to, step) : r;
}

/* ---- workflows ---- */

/* Return: the recorded name as the label "name", cut to fit and without control characters. */
static json_t *labels_of(const json_t *workflow)
{
    const char *name = json_string_value(json_object_get(workflow, "name"));
    char value[WIRE_LABEL_VALUE_MAX + 1];

    if (!name || !*name)
        return json_array();
    snprintf(value, sizeof(value), "%.*s", (int)utf8_fit(name, WIRE_LABEL_VALUE_MAX), name);
    for (char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '_';
    return json_pack("[{s:s,s:s}]", "name", "name", "value", value);
}

static int put_job(const json_t *workflow, json_t *steps, struct buf *out)
{
    CLEANUP(json_decref)
    json_t *job =
        json_pack("{s:{s:O},s:o}", "definition", "steps", steps, "labels", labels_of(workflow));
    CLEANUP(free) char *text = job ? json_dumps(job, JSON_COMPACT) : NULL;

    if (!text)
        return -ENOMEM;
    buf_puts(out, text);
    buf_putc(out, '\n');
    return out->failed ? -ENOMEM : 0;
}

static int import_workflow(json_t *workflow, const struct import_options *options, struct buf *out,
                           struct problem *problem)
{
    CLEANUP(importing_deinit)
    struct importing i = {options, json_object(), json_object(), problem};
    CLEANUP(json_decref) json_t *to = json_array();
    json_t *from = json_object_get(workflow, "steps"), *step;
    size_t k;
    int r;

    if (!i.names || !i.taken || !to)
        return -ENOMEM;
    if (json_array_size(from) == 0)
        return flaw(&i, "steps", "must be an array of at least one step");
    r = names_take(&i, from, true);
    if (r == 0)
        r = names_take(&i, from, false);
    json_array_foreach(from, k, step)
    {
        if (r == 0)
            r = add_step(&i, to, step);
    }
    return r ? r : put_job(workflow, to, out);
}

int import_jobs(struct bytes text, const struct import_options *options, struct buf *out,
                struct problem *problem)
{
    json_error_t error;
    CLEANUP(json_decref)
    json_t *root = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    json_t *workflow;
    size_t k;
    int r = 0;

    if (!root) {
        problem_set(problem, "", "line %d: %s", error.line, error.text);
        return IMPORT_E_INVALID;
    }
    if (!json_is_array(root))
        return import_workflow(root, options, out, problem);
    json_array_foreach(root, k, workflow)
    {
        if (r == 0)
            r = import_workflow(workflow, options, out, problem);
    }
    return r;
}

/* ---- the command ---- */

static int import_file(const char *path, const struct import_options *options)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0}, inner = {0};
    int r = file_read_operand(path, FILE_MAX, &text, &problem);

    if (r == 0) {
        r = import_jobs(buf_bytes(&text), options, &out, &inner);
        if (r > 0)
            problem_set(&problem, path, "%s%s%s", inner.field, *inner.field ? ": " : "",
                        inner.reason);
    }
    if (r)
        return cli_problem(r, &problem);
    fwrite(out.data, 1, out.len, stdout);
    return CLI_OK;
}

int cli_import(const struct args *args)
{
    const struct import_options options = {
        .actor = args->actor ? args->actor : IMPORT_ACTOR,
        .scale = args->scale,
    };

    for (int i = 0; i < args->n_operands; i++) {
        int r = import_file(args->operands[i], &options);

        if (r)
            return r;
    }
    return CLI_OK;
}
