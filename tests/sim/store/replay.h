// SPDX-License-Identifier: Apache-2.0
/*
 * Replay: a store that goes back in time
 *
 * Every call is kept. To go back the store is emptied and the calls up to a moment are made again.
 * The store functions use no chance, so the result is the state at that moment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct replay;

struct replay *replay_new(void);

/* Returns NULL; accepts NULL. */
struct replay *replay_free(struct replay *r);

/* Called for each call that is made again. */
typedef void replay_fn(void *ctx, int64_t now, uint32_t partition, const char *function,
                       const struct bytes *args, int n, const struct store_answer *answer);

/* Keeps a copy of a call of simstore_call(). @at: when it was made, by any clock that never goes
 * back. */
void replay_keep(struct replay *r, int64_t at, int64_t now, bool out_of_memory, uint32_t partition,
                 const char *function, const struct bytes *args, int n);

/* replay_calls(): how many calls were kept in all; replay_before(): how many before a time. */
uint32_t replay_calls(const struct replay *r);
uint32_t replay_before(const struct replay *r, int64_t at);

/* Restores the store as it was after its first @calls calls; the later ones are forgotten. @fn:
 * called for each, or NULL. */
void replay_back(struct replay *r, struct simstore *store, uint32_t variant, uint32_t calls,
                 replay_fn *fn, void *ctx);
