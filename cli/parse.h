// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing of durations and times on the command line. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "250ms", "30s", "5m", "1h", "2d". Unlike in a configuration file the unit is required, because
 * users would not expect milliseconds. Return: false if @text is not a duration. */
bool parse_duration(const char *text, int64_t *out_ms);

/**
 * parse_moment() - parse a point in time
 * @text: RFC 3339 such as "2026-01-31T12:00:00Z", or "+" or "-" and a duration from @now
 * @now:  Unix ms
 *
 * Return: false if @text is neither.
 */
bool parse_moment(const char *text, int64_t now, int64_t *out_unix_ms);
