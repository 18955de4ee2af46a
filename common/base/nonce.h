// SPDX-License-Identifier: Apache-2.0
/*
 * Nonces: 128 bits that cannot be guessed
 *
 * Each is the SHA-256 of a key and a counter, so those that are known say nothing about the others.
 * In a daemon the key is 256 bits of getrandom(); in a simulation it follows from the seed. A
 * machine gets its struct nonces from its driver, like its struct rng. Used by the scheduler: the
 * store makes tokens of nonces.
 */
#pragma once

#include <stdint.h>

#define NONCE_LEN 32 /* characters: 128 bits, in hex */

struct nonces {
    uint8_t key[32];
    uint64_t drawn; /* nonces so far */
};

/* The same seed gives the same nonces. For simulations and tests only. */
void nonces_seed(struct nonces *n, uint64_t seed);

/* Takes the key from the kernel. Return: 0 or -errno. */
int nonces_seed_system(struct nonces *n);

/* Draws the next nonce: hex, NUL-terminated. */
void nonces_next(struct nonces *n, char out[NONCE_LEN + 1]);
