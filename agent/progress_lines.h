// SPDX-License-Identifier: Apache-2.0
/*
 * Progress lines: what a program reports on file descriptor 3 while it runs, one report a line
 *
 *     0.25                     a quarter is done
 *     0.25 copying the files   likewise, with a note
 *     - 1 of 4                 not known how far it is; with a note
 *     copying the files        as far as before; a note that begins with no such number
 *
 * handler_exec.c calls it. It takes the text in pieces, which may end anywhere. Lines have no
 * escape; a line that is too long is cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "model/wire.h"

#define PROGRESS_LINE_MAX (WIRE_NOTE_MAX + 32) /* bytes: a number and a note */

/* Initialised by progress_lines_init(). Nothing to release. */
struct progress_lines {
    double fraction;  /* 0 to 1; negative: not known */
    const char *note; /* in `line`; "" at first */
    char line[PROGRESS_LINE_MAX + 1];
    char next[PROGRESS_LINE_MAX + 1]; /* the line that has not ended */
    size_t len;
};

void progress_lines_init(struct progress_lines *p);

/* Takes the bytes that were read. Return: whether a line has ended; then fraction and note are
 * those of the last such line. */
bool progress_lines_add(struct progress_lines *p, struct bytes data);
