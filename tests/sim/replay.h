// SPDX-License-Identifier: Apache-2.0
/*
 * Replay: a store that goes back in time
 *
 * Every call is kept as it was made; to go back is to empty the store and to make the calls again
 * up to a moment. The store functions decide nothing by chance, so what comes out is what there
 * was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store.h"

struct replay;

struct replay *replay_new(void);

/* Returns NULL; accepts NULL. */
struct replay *replay_free(struct replay *r);

/* What is to be heard of a call that is made again. */
typedef void replay_fn(void *ctx, int64_t now, uint32_t partition, const char *function,
                       const struct bytes *args, int n, const struct store_answer *answer);

/* A call as simstore_call() makes it; copied. @at: when it was made, by any clock that runs on. */
void replay_keep(struct replay *r, int64_t at, int64_t now, bool out_of_memory, uint32_t partition,
                 const char *function, const struct bytes *args, int n);

/* How many calls were kept in all, and how many before a time. */
uint32_t replay_calls(const struct replay *r);
uint32_t replay_before(const struct replay *r, int64_t at);

/* Has the store as it was after its first @calls calls; the others are forgotten. @fn: NULL, or
 * hears of each. */
void replay_back(struct replay *r, struct simstore *store, uint32_t variant, uint32_t calls,
                 replay_fn *fn, void *ctx);
