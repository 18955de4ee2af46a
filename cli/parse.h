// SPDX-License-Identifier: Apache-2.0
/*
 * Parse: durations and moments as people write them. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "250ms", "30s", "5m", "1h", "2d". Unlike in a configuration file, the unit must be there: few
 * would expect milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/**
 * parse_moment() - a point in time
 * @text: RFC 3339 such as "2026-01-31T12:00:00Z", or "+" or "-" and a duration from @now
 * @now:  unix ms
 */
bool parse_moment(const char *text, int64_t now, int64_t *out_unix_ms);
