// SPDX-License-Identifier: Apache-2.0
/*
 * Job ids: made of time and random digits
 *
 * See client/job_id.h. Called by jobs.c and clients.
 */
#include "client/job_id.h"

void job_id_make(int64_t unix_ms, struct rng *rng, char out[JOB_ID_LEN + 1])
{
    static const char ALPHABET[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's base 32 */
    unsigned __int128 id = (unsigned __int128)((uint64_t)unix_ms & 0xffffffffffff) << 80;

    id |= (unsigned __int128)(rng_next(rng) & 0xffff) << 64 | rng_next(rng);
    for (int i = JOB_ID_LEN - 1; i >= 0; i--, id >>= 5)
        out[i] = ALPHABET[id & 31];
    out[JOB_ID_LEN] = '\0';
}
