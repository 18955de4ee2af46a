// SPDX-License-Identifier: Apache-2.0
/*
 * Random numbers
 *
 * Machines never draw randomness of their own: they own a struct rng that their driver seeded, from
 * the kernel in the daemons, from the seed in simulations. xoshiro256** (Blackman, Vigna 2018).
 * For waits and for names that must not repeat. Who has seen some of the numbers can tell all
 * others: what must not be guessed comes from base/nonce.h.
 */
#pragma once

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* The same seed gives the same numbers everywhere (SplitMix64 fills the state). */
void rng_seed(struct rng *r, uint64_t seed);

/* Seeds from the kernel. Return: 0 or -errno. */
int rng_seed_system(struct rng *r);

uint64_t rng_next(struct rng *r);

/* Uniform in [0, n); n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);
