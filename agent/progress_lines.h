// SPDX-License-Identifier: Apache-2.0
/*
 * Progress lines: what a program tells while it works, a line at a time
 *
 *     0.25                     a quarter is done
 *     0.25 copying the files   and what it is about
 *     - 1 of 4                 how far is not known; and a note
 *     copying the files        as far as before; a note that begins with no such number
 *
 * Read as it comes, in pieces that end anywhere. Lines have no escape; one that is too long is cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "model/wire.h"

#define PROGRESS_LINE_MAX (WIRE_NOTE_MAX + 32) /* a number and a note */

/* Set up by progress_lines_init(); needs no clean-up. */
struct progress_lines {
    double fraction;  /* 0 to 1; negative: not known */
    const char *note; /* in `line` */
    char line[PROGRESS_LINE_MAX + 1];
    char next[PROGRESS_LINE_MAX + 1]; /* the line that has not ended */
    size_t len;
};

void progress_lines_init(struct progress_lines *p);

/* Takes what was read. Return: a line has ended, and fraction and note are those of the last one.
 */
bool progress_lines_add(struct progress_lines *p, struct bytes data);
