// SPDX-License-Identifier: Apache-2.0
/*
 * Job ids: made by the client, so that it can repeat a Submit
 */
#pragma once

#include <stdint.h>

#include "base/rng.h"

#define JOB_ID_LEN 26 /* characters of 5 bits: 48 bits of time and 80 random ones */

/* Makes a new id of [0-9A-Z] that sorts by time (a ULID); NUL-terminated. */
void job_id_make(int64_t unix_ms, struct rng *rng, char out[JOB_ID_LEN + 1]);
