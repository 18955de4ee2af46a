// SPDX-License-Identifier: Apache-2.0
/*
 * Recent texts: the digests of the last bodies or tokens
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define RECENT_MAX 1024

/* The digests of the last RECENT_MAX texts. All zero is empty. */
struct recent {
    uint64_t digests[RECENT_MAX];
    size_t next;
};

/* Return: the digest that is kept of a text. */
uint64_t recent_digest(struct bytes b);
/* Adds the digest of a text; the oldest one goes. */
void recent_add(struct recent *r, struct bytes b);
/* Return: whether the digest is among the last RECENT_MAX; another text may have the same one. */
bool recent_has(const struct recent *r, struct bytes b);
