// SPDX-License-Identifier: Apache-2.0
/*
 * Terminal: whether a stream goes to one, and what there is room for
 *
 * Apart from the rest, so that a test can say that there is one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct terminal_size {
    size_t lines, columns; /* at least 1 each */
};

bool terminal_is(FILE *to);

/* Whether what is there already can be drawn anew. */
bool terminal_redraws(FILE *to);

/* 24 lines of 80 columns where the terminal does not tell. */
struct terminal_size terminal_size(FILE *to);
