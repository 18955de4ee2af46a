// SPDX-License-Identifier: Apache-2.0
/*
 * Terminals: whether a stream goes to a terminal, and its size
 *
 * In a file of its own, so that a test can replace it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct terminal_size {
    size_t lines, columns; /* at least 1 each */
};

bool terminal_is(FILE *to);

/* Whether lines on the terminal can be overwritten. */
bool terminal_redraws(FILE *to);

/* Return: the size of the terminal; 24 lines of 80 columns if that is unknown. */
struct terminal_size terminal_size(FILE *to);
