// SPDX-License-Identifier: Apache-2.0
/*
 * Ids: valid names, digests, random names of processes and the like, and the partition of a job
 *
 * Used everywhere. The tokens of dispatches are made by the store, of a nonce (base/nonce.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define ID_NAME_MAX 128  /* bytes of a job id or of the name of a step, actor or workflow */
#define ID_DIGEST_LEN 32 /* characters: the first 128 bits of a SHA-256, in hex */
#define ID_TOKEN_LEN 16  /* characters: 64 random bits, in hex */
#define ID_SHORT_LEN 8   /* characters: the first 32 bits of a SHA-1, in hex */

/* Return: true for 1 to ID_NAME_MAX bytes of [A-Za-z0-9._-]. */
bool id_name_valid(const char *name, size_t len);

/* Hex of the first 128 bits of SHA-256(@data), NUL-terminated. */
void id_digest(struct bytes data, char out[ID_DIGEST_LEN + 1]);

/* Hex of the first 32 bits of SHA-1(@data), NUL-terminated: a short name for people. SHA-1, because
 * it is what Redis offers to the store functions. */
void id_short(struct bytes data, char out[ID_SHORT_LEN + 1]);

/* Hex of 64 bits, NUL-terminated. */
void id_token(uint64_t random, char out[ID_TOKEN_LEN + 1]);

/**
 * id_partition() - the partition of a job
 * @partitions: the number that the store has, at least 1
 *
 * 32-bit FNV-1a of the id, modulo @partitions. Stored jobs depend on it: never change it.
 */
uint32_t id_partition(const char *job_id, uint32_t partitions);
