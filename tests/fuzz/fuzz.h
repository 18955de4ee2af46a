// SPDX-License-Identifier: Apache-2.0
/*
 * What fuzz targets share
 *
 * The entry that libFuzzer calls, and replay_main.c where there is no libFuzzer; and how targets
 * take an input apart. A target aborts where it finds something wrong, and leaves nothing behind
 * that the next input could see.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* Return: 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the first byte off; 0 where there is none. */
uint8_t fuzz_byte(struct bytes *input);

/* Takes what stands before the first @separator, which is skipped; all where there is none. */
struct bytes fuzz_until(struct bytes *input, char separator);

/* A copy that ends where the input does, or before a NUL in it; the caller frees. */
char *fuzz_text(struct bytes input);

/* The path of a file that holds @text, for who takes nothing else; until the next call. */
const char *fuzz_file(struct bytes text);

/* What comes first: nothing is logged, and SIGPIPE is ignored, as in all our processes. */
void fuzz_begin(void);

/* What people are told says something, and in characters that a terminal can be shown. */
void fuzz_check_problem(const struct problem *problem);
