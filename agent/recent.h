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

uint64_t recent_digest(struct bytes b);
void recent_add(struct recent *r, struct bytes b);
bool recent_has(const struct recent *r, struct bytes b);
