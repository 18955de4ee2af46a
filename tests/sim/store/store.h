// SPDX-License-Identifier: Apache-2.0
/*
 * The simulator's store: the production functions in an embedded Lua, over redis.c
 *
 * Calls take the arguments and give the answers of model/store_ops.h, like the real store, at once
 * and complete. The world adds delays, losses and repetitions. The checker reads what is stored
 * without a command.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/effect.h"

struct simstore;

/* Loads and compiles the functions. Ends the program with a message if that fails. */
struct simstore *simstore_new(const char *drover_lua);

/* Accepts NULL; returns NULL. */
struct simstore *simstore_free(struct simstore *s);

#define SIMSTORE_BUDGETS 3

/* Steps that one call touches, by variant: the first as in production, the others so few that small
 * worlds leave cursors. Those also cache few parsed steps, and the last one has little room for the
 * data of a job. */
extern const uint32_t simstore_budgets[SIMSTORE_BUDGETS];

/* An empty database and a freshly loaded library with this budget. */
void simstore_reset(struct simstore *s, uint32_t variant);

/**
 * simstore_call() - call a function of the library
 * @now:           unix ms of the store's clock
 * @out_of_memory: refuse what is not flagged allow-oom
 * @answer:        its items are valid until the next call
 */
void simstore_call(struct simstore *s, int64_t now, bool out_of_memory, uint32_t partition,
                   const char *function, const struct bytes *args, int n,
                   struct store_answer *answer);

/* A plain command; appends the reply to @out, as Redis would send it. */
void simstore_command(struct simstore *s, const char *const *words, int n, struct buf *out);

/* The same for the answer of a function, which is a list. */
void simstore_reply(const struct store_answer *answer, struct buf *out);

/* Of all that is stored. */
uint64_t simstore_digest(const struct simstore *s);

/* ---- inspection; keys are given without the prefix of their partition ---- */

/* Calls fn for each key, of any partition. */
void simstore_each(struct simstore *s, void (*fn)(void *ctx, struct bytes key), void *ctx);

/* Chooses a hash or list for the calls below, valid until the next call. Return: false: no such
 * key. */
bool simstore_hash(struct simstore *s, uint32_t partition, const char *key);
/* Of the hash chosen last; empty: no such field. */
struct bytes simstore_field(struct simstore *s, const char *name);
struct bytes simstore_step(struct simstore *s, uint32_t step);

struct bytes simstore_text(struct simstore *s, uint32_t partition, const char *key);

/* simstore_list(): the number of entries; simstore_entry(): the last entry but @back. */
uint32_t simstore_list(struct simstore *s, uint32_t partition, const char *key);
struct bytes simstore_entry(struct simstore *s, uint32_t back);

uint32_t simstore_zcard(struct simstore *s, uint32_t partition, const char *key);
bool simstore_zscore(struct simstore *s, uint32_t partition, const char *key, const char *member,
                     int64_t *score);
