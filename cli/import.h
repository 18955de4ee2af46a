// SPDX-License-Identifier: Apache-2.0
/*
 * Import: converts recorded workflows into jobs that can be submitted
 *
 * A recorded workflow is what another program has written about a workflow that it has run: the
 * steps, what each depends on, and how long it ran.
 *
 * Input: {"name", "steps": [{"name", "depends_on": [name], "runtime": seconds}]}, or an array of
 * them; other members are ignored. Output: for each a Submit with a definition without name, as
 * JSON, one on a line; the recorded name is the label "name". A step keeps its name if that is
 * allowed. If not, each byte that is not allowed is replaced by '_', and the name is cut to fit. If
 * the name is then taken, a number is added.
 */
#pragma once

#include "base/status.h"
#include "base/str.h"

#define IMPORT_ACTOR "demo" /* the default actor; it has the actions sleep and noop */

struct import_options {
    const char *actor;
    double scale; /* factor for the runtime, which the action sleep takes; 0 for the action noop */
};

enum {
    IMPORT_E_INVALID = 1,
};

/**
 * import_jobs() - convert the text of a file
 * @out: the lines are appended
 *
 * Return: 0, -ENOMEM, or IMPORT_E_INVALID with @problem set.
 */
int import_jobs(struct bytes text, const struct import_options *options, struct buf *out,
                struct problem *problem);
