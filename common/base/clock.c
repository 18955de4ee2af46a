// SPDX-License-Identifier: Apache-2.0
/*
 * Clocks: reads the clocks of the system and formats times
 *
 * See base/clock.h.
 */
#include <time.h>

#include "base/clock.h"

/* 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the limits of a year of four digits. */
#define ISO_FIRST (-62167219200000)
#define ISO_LAST 253402300799999

static int64_t shift;

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_monotonic_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t clock_unix_ms(void)
{
    return clock_ms(CLOCK_REALTIME) + shift;
}

void clock_shift(int64_t ms)
{
    shift += ms;
}

/* Writes @value with @digits digits and leading zeros, then @follow. Return: the end of the text.
 */
static char *put(char *out, int digits, int value, char follow)
{
    for (int i = digits - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    out[digits] = follow;
    return out + digits + 1;
}

void clock_iso(int64_t unix_ms, char out[CLOCK_ISO_LEN + 1])
{
    struct tm tm;
    time_t seconds;
    int ms;

    if (unix_ms < ISO_FIRST)
        unix_ms = ISO_FIRST;
    if (unix_ms > ISO_LAST)
        unix_ms = ISO_LAST;
    /* Round down, also before 1970, so that the milliseconds count forward. */
    ms = (int)((unix_ms % 1000 + 1000) % 1000);
    seconds = (time_t)((unix_ms - ms) / 1000);
    gmtime_r(&seconds, &tm);
    out = put(out, 4, tm.tm_year + 1900, '-');
    out = put(out, 2, tm.tm_mon + 1, '-');
    out = put(out, 2, tm.tm_mday, 'T');
    out = put(out, 2, tm.tm_hour, ':');
    out = put(out, 2, tm.tm_min, ':');
    out = put(out, 2, tm.tm_sec, '.');
    out = put(out, 3, ms, 'Z');
    *out = '\0';
}
