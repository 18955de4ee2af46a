// SPDX-License-Identifier: Apache-2.0
/*
 * Memory under test: fail the n-th allocation, measure the most that was held
 *
 * Link with memory_link_args of the meson file, which puts these functions in the place of malloc,
 * calloc, realloc, reallocarray, strdup and free for all code that is linked statically. json.c
 * gives them to jansson; protobuf-c has them for what it frees by default.
 */
#pragma once

#include <stddef.h>

/* The n-th allocation from now on fails, n from 1, once; 0: none does. */
void memory_fail_at(unsigned n);

/* Whether it has come to that; and how many allocations it still is away, 0 where none is to fail
 * any more. */
int memory_failed(void);
unsigned memory_left(void);

/* Starts measuring from nothing; then the bytes held since, as malloc counts them, and the most
 * that were. What was there before counts as less than nothing when it is freed. */
void memory_measure(void);
long memory_held(void);
size_t memory_peak(void);
