// SPDX-License-Identifier: Apache-2.0
/*
 * Digests: hashes of the parts of a world; FNV-1a over bytes, a mixer over numbers
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define DIGEST_INIT UINT64_C(14695981039346656037)
#define DIGEST_PRIME UINT64_C(1099511628211)

/* One step of SplitMix64: sums of its results do not cancel out, so their order may differ. */
static inline uint64_t digest_stir(uint64_t d)
{
    d = (d ^ (d >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    d = (d ^ (d >> 27)) * UINT64_C(0x94d049bb133111eb);
    return d ^ (d >> 31);
}

static inline uint64_t digest_number(uint64_t d, uint64_t number)
{
    return digest_stir(d * DIGEST_PRIME + number + 1);
}

static inline uint64_t digest_bytes(uint64_t d, struct bytes b)
{
    for (size_t i = 0; i < b.len; i++)
        d = (d ^ b.data[i]) * DIGEST_PRIME;
    return digest_number(d, b.len);
}

/* NULL counts as an empty text. */
static inline uint64_t digest_str(uint64_t d, const char *s)
{
    return digest_bytes(d, s ? bytes_str(s) : BYTES_EMPTY);
}
