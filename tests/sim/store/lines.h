// SPDX-License-Identifier: Apache-2.0
/*
 * Lines: which lines of the store functions have run, over many programs; and from which file a
 * line comes
 *
 * If the environment variable DROVER_LINES names a file, every simulated store adds to it the lines
 * that it has run. drover-lines prints the lines with code that are missing. Remove the file before
 * a measurement.
 */
#pragma once

#include <lua.h>

#include "base/str.h"

#define LINES_MAX 8192 /* the file has a byte for each line; not 0: it ran */

/* From now on, lines that run in @lua count, here and in forked processes. */
void lines_watch(lua_State *lua);

/* Appends the place from which line @number of a library comes, such as
 * "common/store/record.lua:12". A line "do ---- record.lua ----" begins a part of the library, see
 * common/store/library.py. */
void lines_place(struct buf *out, const char *library, uint32_t number);

/* Appends an error of Lua, with such places where it has "user_function:<line>". */
void lines_error(struct buf *out, const char *library, const char *error);
