// SPDX-License-Identifier: Apache-2.0
/*
 * Nonces: draws them from a key and a counter
 *
 * See base/nonce.h.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/nonce.h"

static void write_u64(uint8_t *data, uint64_t x)
{
    for (size_t i = 0; i < sizeof(x); i++)
        data[i] = (uint8_t)(x >> (56 - 8 * i));
}

void nonces_seed(struct nonces *n, uint64_t seed)
{
    *n = (struct nonces){.drawn = 0};
    write_u64(n->key, seed);
}

int nonces_seed_system(struct nonces *n)
{
    ssize_t got;

    n->drawn = 0;
    /* Up to 256 bytes come at once; only the wait for entropy after boot can be interrupted. */
    do
        got = getrandom(n->key, sizeof(n->key), 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : 0;
}

void nonces_next(struct nonces *n, char out[NONCE_LEN + 1])
{
    uint8_t data[sizeof(n->key) + sizeof(n->drawn)];

    static_assert(NONCE_LEN == ID_DIGEST_LEN, "a nonce is as long as a digest");
    memcpy(data, n->key, sizeof(n->key));
    write_u64(data + sizeof(n->key), n->drawn++);
    id_digest(bytes_of(data, sizeof(data)), out);
}
