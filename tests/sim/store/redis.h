// SPDX-License-Identifier: Apache-2.0
/*
 * A small Redis in memory: the commands that the store functions use, answered as by Redis 7.0
 *
 * Functions call it as redis.call, from Lua; the checker reads what is stored without a command.
 * test_redis_diff compares it with a real server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

#include "base/str.h"

struct simredis;

/* A decimal integer as text: much faster than printf(), which would reduce how many worlds can be
 * run. @out: of SIMREDIS_INTEGER bytes; no NUL is added. Return: the length. */
#define SIMREDIS_INTEGER 20
size_t simredis_integer(int64_t number, char *out);

struct simredis *simredis_new(void);

/* Accepts NULL; returns NULL. */
struct simredis *simredis_free(struct simredis *r);

/* Deletes every key. */
void simredis_reset(struct simredis *r);

/* Sets the time of TIME, in unix ms. */
void simredis_set_clock(struct simredis *r, int64_t now);

/* Whether commands that write are refused, as in a function with the flag no-writes. */
void simredis_set_read_only(struct simredis *r, bool read_only);

/* Leaves redis.call on the stack: it returns replies as Lua sees them, and raises {err = text}. */
void simredis_push_call(struct simredis *r, lua_State *lua);

/* ---- inspection: NULL or empty if there is nothing; valid until the next command ---- */

struct simredis_value;

/* Of all keys and values. */
uint64_t simredis_digest(const struct simredis *r);

/* Calls fn for each key. */
void simredis_each(const struct simredis *r, void (*fn)(void *ctx, struct bytes key), void *ctx);

const struct simredis_value *simredis_find(const struct simredis *r, struct bytes key);
struct bytes simredis_field(const struct simredis_value *hash, struct bytes name);
struct bytes simredis_text(const struct simredis_value *string);
uint32_t simredis_length(const struct simredis_value *list);
struct bytes simredis_entry(const struct simredis_value *list, uint32_t i);
uint32_t simredis_card(const struct simredis_value *zset);
bool simredis_score(const struct simredis_value *zset, struct bytes member, double *score);
