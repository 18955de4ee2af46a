// SPDX-License-Identifier: Apache-2.0
/*
 * Lines: which lines of the store functions have run, over all processes of a simulation
 *
 * Only LuaJIT can say which lines have code.
 */
#pragma once

#include <stdio.h>

#include <lua.h>

struct lines;

/* NULL where this Lua cannot say which lines of @path have code. */
struct lines *lines_new(const char *path);

/* Accepts NULL; returns NULL. */
struct lines *lines_free(struct lines *l);

/* From now on, what runs in @lua counts, here and in processes that are forked off. One at a time.
 */
void lines_watch(struct lines *l, lua_State *lua);

/* How many have run, and each that has not. */
void lines_report(const struct lines *l, FILE *out);
