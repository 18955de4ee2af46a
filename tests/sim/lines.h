// SPDX-License-Identifier: Apache-2.0
/*
 * Lines: which lines of the store functions have run, over many programs
 *
 * Where the environment names a file, as DROVER_LINES, every simulated store adds to it which lines
 * it has run; drover-lines tells which of those that have code are missing. Whoever begins a
 * measurement removes the file.
 */
#pragma once

#include <lua.h>

#define LINES_MAX 8192 /* the file has a byte for each; not 0: it ran */

/* From now on, what runs in @lua counts, here and in processes that are forked off. */
void lines_watch(lua_State *lua);
