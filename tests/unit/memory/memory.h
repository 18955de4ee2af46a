// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of memory: let the n-th allocation fail, measure the most memory that was in use
 *
 * Link with memory_link_args of the meson file. They replace malloc, calloc, realloc, reallocarray,
 * strdup and free by these functions in all code that is linked statically. json.c gives these
 * functions to jansson; protobuf-c uses them by default.
 */
#pragma once

#include <stddef.h>

/* The n-th allocation from now on fails once; n counts from 1, 0 means that none fails. */
void memory_fail_at(unsigned n);

/* memory_failed(): whether that allocation has failed. memory_left(): how many allocations are left
 * until it fails; 0 if none is to fail any more. */
int memory_failed(void);
unsigned memory_left(void);

/* Ends a process of a test at once, without exit handlers; a build that counts what runs keeps what
 * this process has run. */
_Noreturn void memory_exit(int status);

/* memory_measure() starts a measurement at 0 bytes. The others return the bytes held since then, as
 * malloc counts them, and the maximum. A block allocated before the start counts negatively when it
 * is freed. */
void memory_measure(void);
long memory_held(void);
size_t memory_peak(void);
