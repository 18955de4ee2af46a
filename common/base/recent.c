// SPDX-License-Identifier: Apache-2.0
/*
 * Recent texts: the digests of the last bodies or tokens
 *
 * Called by the agent for bodies and tokens, and by the scheduler for bodies.
 */
#include "base/recent.h"

/* FNV-1a. */
uint64_t recent_digest(struct bytes b)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < b.len; i++)
        digest = (digest ^ b.data[i]) * UINT64_C(0x100000001b3);
    return digest;
}

void recent_add(struct recent *r, struct bytes b)
{
    r->digests[r->next++ % RECENT_MAX] = recent_digest(b);
}

bool recent_has(const struct recent *r, struct bytes b)
{
    uint64_t digest = recent_digest(b);

    for (size_t i = 0; i < RECENT_MAX; i++)
        if (r->digests[i] == digest)
            return true;
    return false;
}
