// SPDX-License-Identifier: Apache-2.0
/*
 * Clocks, for the drivers; machines get the time in their events
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t clock_monotonic_ms(void);

/* Milliseconds since 1970 of CLOCK_REALTIME. */
int64_t clock_unix_ms(void);

/* Tests: from now on clock_unix_ms() is off by @ms more, as on a machine whose clock is wrong. */
void clock_shift(int64_t ms);

#define CLOCK_ISO_LEN 24 /* 2026-01-31T12:03:10.123Z */

/* RFC 3339 in UTC with milliseconds, NUL-terminated; held to the years 0000 to 9999. */
void clock_iso(int64_t unix_ms, char out[CLOCK_ISO_LEN + 1]);
