// SPDX-License-Identifier: Apache-2.0
/*
 * Random numbers
 *
 * A machine owns a struct rng that its driver has seeded: from the kernel in a daemon, from the
 * seed of the run in a simulation; it has no other source of randomness. The algorithm is
 * xoshiro256** (Blackman, Vigna 2018), for pauses and for names that must not repeat. All numbers
 * can be computed from a few of them, so values that must not be guessed come from base/nonce.h.
 * Used everywhere.
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

/* Return: 64 random bits. */
uint64_t rng_next(struct rng *r);

/* Return: a number from 0 to @n - 1, each equally likely; @n must be greater than 0. */
uint64_t rng_below(struct rng *r, uint64_t n);
