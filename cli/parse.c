// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing of durations and times
 *
 * See cli/parse.h. Called by command_parse.c.
 */
#include "cli/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "io/config/config_tree.h"

/* ---- time ---- */

bool parse_duration(const char *text, int64_t *out_ms)
{
    return text[strspn(text, "0123456789")] != '\0' && duration_parse(text, out_ms);
}

/* Reads a fraction such as ".5" or ".123456" in whole ms; further digits are cut. Return: the rest.
 */
static const char *parse_fraction(const char *text, int *ms)
{
    int scale = 100;

    *ms = 0;
    if (*text != '.')
        return text;
    for (text++; isdigit((unsigned char)*text); text++, scale /= 10)
        *ms += (*text - '0') * scale;
    return text;
}

/* Reads the time zone, "Z" or such as "+01:30", which must be the whole rest of the text. */
static bool parse_zone(const char *text, int64_t *offset_s)
{
    int hours, minutes, used = 0;
    char sign;

    *offset_s = 0;
    if (strcmp(text, "Z") == 0)
        return true;
    if (sscanf(text, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) != 3 || text[used] != '\0' ||
        used != 6 || (sign != '+' && sign != '-') || hours > 23 || minutes > 59)
        return false;
    *offset_s = (hours * 60L + minutes) * (sign == '+' ? 60 : -60);
    return true;
}

bool parse_moment(const char *text, int64_t now, int64_t *out_unix_ms)
{
    struct tm tm = {0};
    int64_t offset_s;
    const char *rest;
    int ms;

    if (text[0] == '+' || text[0] == '-') {
        int64_t offset;

        if (!parse_duration(text + 1, &offset))
            return false;
        return text[0] == '+' ? !__builtin_add_overflow(now, offset, out_unix_ms)
                              : !__builtin_sub_overflow(now, offset, out_unix_ms);
    }
    rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return false;
    rest = parse_fraction(rest, &ms);
    if (!parse_zone(rest, &offset_s))
        return false;
    *out_unix_ms = ((int64_t)timegm(&tm) - offset_s) * 1000 + ms;
    return true;
}
