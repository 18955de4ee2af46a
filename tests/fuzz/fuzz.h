// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by the fuzz targets
 *
 * The entry point that libFuzzer calls (without libFuzzer replay_main.c does), and functions that
 * take an input apart. A target aborts if it finds an error, and leaves nothing that affects the
 * next input.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* Return: 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Removes and returns the first byte; 0 if there is none. */
uint8_t fuzz_byte(struct bytes *input);

/* Takes the bytes before the first @separator, and skips that; all if there is none. */
struct bytes fuzz_until(struct bytes *input, char separator);

/* A copy of @input, up to a NUL in it; the caller frees it. */
char *fuzz_text(struct bytes input);

/* The path of a file with this text, for functions that only read files; valid until the next call.
 * */
const char *fuzz_file(struct bytes text);

/* Called first: switches logging off, and ignores SIGPIPE as all processes of Drover do. */
void fuzz_begin(void);

/* Checks that a problem has a text, and only characters that are safe on a terminal. */
void fuzz_check_problem(const struct problem *problem);
