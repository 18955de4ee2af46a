// SPDX-License-Identifier: Apache-2.0
/*
 * Import: recorded workflows become jobs that can be submitted
 *
 * In: {"name", "steps": [{"name", "depends_on": [name], "runtime": seconds}]}, or an array of them;
 * what else there is, is passed over. Out: a Submit with an unnamed definition for each, as JSON,
 * one a line; the recorded name is the label "name". Steps keep their names where those are
 * allowed; elsewhere a character that is not becomes '_', and a name that is thereby taken gets a
 * number, so that two steps stay two.
 */
#pragma once

#include "base/status.h"
#include "base/str.h"

#define IMPORT_ACTOR "demo" /* serves the actions sleep and noop */

struct import_options {
    const char *actor;
    double scale; /* times the runtime; 0: action noop */
};

enum {
    IMPORT_E_INVALID = 1,
};

/**
 * import_jobs() - convert one file's text
 * @out: lines are appended
 *
 * Return: 0, -ENOMEM, or IMPORT_E_INVALID with @problem set.
 */
int import_jobs(struct bytes text, const struct import_options *options, struct buf *out,
                struct problem *problem);
