// SPDX-License-Identifier: Apache-2.0
/*
 * Names, digests, random names and partitions
 *
 * See base/id.h.
 */
#include <assert.h>
#include <sha1.h>
#include <sha2.h>

#include "base/id.h"

static_assert(ID_DIGEST_LEN <= 2 * SHA256_DIGEST_LENGTH, "a digest is the front of a SHA-256");

static void hex(const uint8_t *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[data[i] >> 4];
        *out++ = digits[data[i] & 15];
    }
    *out = '\0';
}

/* Not isalnum(), which depends on the locale. */
static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool id_name_valid(const char *name, size_t len)
{
    if (len < 1 || len > ID_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!name_char(name[i]))
            return false;
    }
    return true;
}

void id_digest(struct bytes data, char out[ID_DIGEST_LEN + 1])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;

    SHA256Init(&context);
    SHA256Update(&context, data.data, data.len);
    SHA256Final(digest, &context);
    hex(digest, ID_DIGEST_LEN / 2, out);
}

void id_short(struct bytes data, char out[ID_SHORT_LEN + 1])
{
    uint8_t digest[SHA1_DIGEST_LENGTH];
    SHA1_CTX context;

    SHA1Init(&context);
    SHA1Update(&context, data.data, data.len);
    SHA1Final(digest, &context);
    hex(digest, ID_SHORT_LEN / 2, out);
}

void id_token(uint64_t random, char out[ID_TOKEN_LEN + 1])
{
    uint8_t data[ID_TOKEN_LEN / 2];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(random >> (56 - 8 * i));
    hex(data, sizeof(data), out);
}

uint32_t id_partition(const char *job_id, uint32_t partitions)
{
    uint32_t hash = 2166136261;

    assert(partitions > 0);
    for (const char *c = job_id; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619;
    return hash % partitions;
}
