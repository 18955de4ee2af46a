// SPDX-License-Identifier: Apache-2.0
/*
 * Clocks: the time of the system
 *
 * Called by drivers, handlers, common/io and the command line, never by a machine: machines get the
 * time in their events.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t clock_monotonic_ms(void);

/* Milliseconds since 1970 of CLOCK_REALTIME. */
int64_t clock_unix_ms(void);

/* For the failpoint task `clock`: moves clock_unix_ms() by @ms, as on a host whose clock is wrong.
 */
void clock_shift(int64_t ms);

#define CLOCK_ISO_LEN 24 /* 2026-01-31T12:03:10.123Z */

/* RFC 3339 in UTC with milliseconds, NUL-terminated; a time outside the years 0000 to 9999 becomes
 * the first or last one of them. */
void clock_iso(int64_t unix_ms, char out[CLOCK_ISO_LEN + 1]);
