// SPDX-License-Identifier: Apache-2.0
/*
 * Nonces: 128 bits that cannot be guessed
 *
 * SHA-256 of a key and a number that counts up: who has seen any of them knows nothing of the
 * others. The key is 256 bits of getrandom() in a daemon. Machines get theirs from their driver, as
 * they do struct rng; in simulations it follows from the seed.
 */
#pragma once

#include <stdint.h>

#define NONCE_LEN 32 /* characters: 128 bits, in hex */

struct nonces {
    uint8_t key[32];
    uint64_t drawn; /* so far */
};

/* The same seed gives the same nonces: for simulations and tests only. */
void nonces_seed(struct nonces *n, uint64_t seed);

/* Takes the key from the kernel. Return: 0 or -errno. */
int nonces_seed_system(struct nonces *n);

/* Hex, NUL-terminated. */
void nonces_next(struct nonces *n, char out[NONCE_LEN + 1]);
