// SPDX-License-Identifier: Apache-2.0
/*
 * Random numbers: xoshiro256**
 *
 * See base/rng.h.
 */
#include <assert.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/rng.h"

/* SplitMix64 (Steele, Lea, Flood 2014), with which the authors of xoshiro advise to seed it. */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

void rng_seed(struct rng *r, uint64_t seed)
{
    for (size_t i = 0; i < array_size(r->s); i++)
        r->s[i] = splitmix(&seed);
}

int rng_seed_system(struct rng *r)
{
    ssize_t n;

    /* Up to 256 bytes come at once; only the wait for entropy after boot can be interrupted. */
    do
        n = getrandom(r->s, sizeof(r->s), 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    uint64_t x;
    uint64_t uneven;

    assert(n > 0);
    /* Skip the lowest 2^64 mod n numbers, so that every remainder is equally likely. */
    uneven = (0 - n) % n;
    do
        x = rng_next(r);
    while (x < uneven);
    return x % n;
}
