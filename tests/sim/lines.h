// SPDX-License-Identifier: Apache-2.0
/*
 * Lines: which lines of the store functions have run, over many programs
 *
 * If the environment variable DROVER_LINES names a file, every simulated store adds to it the lines
 * that it has run. drover-lines prints the lines with code that are missing. Remove the file before
 * a measurement.
 */
#pragma once

#include <lua.h>

#define LINES_MAX 8192 /* the file has a byte for each line; not 0: it ran */

/* From now on, lines that run in @lua count, here and in forked processes. */
void lines_watch(lua_State *lua);
