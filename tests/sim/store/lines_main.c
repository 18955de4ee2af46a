// SPDX-License-Identifier: Apache-2.0
/*
 * drover-lines: the lines of the store functions that no simulated store has run
 *
 *     drover-lines FILE
 *
 * Programs that ran with DROVER_LINES=FILE have written FILE, see lines.h. Exits with 1 if a line
 * has not run. Only LuaJIT can say which lines have code.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "base/str.h"
#include "store/lines.h"

struct lines {
    bool has_code[LINES_MAX];
    uint8_t ran[LINES_MAX];
    uint32_t code, never;
};

/* Calls visit(line) for each line with code of a function, and of the functions in it. */
static const char walk[] =
    "local f, visit = ...\n"
    "local util = require('jit.util')\n"
    "local function walk(f)\n"
    "  for pc = 1, util.funcinfo(f).bytecodes - 1 do visit(util.funcinfo(f, pc).currentline) end\n"
    "  for k = -1, -1e6, -1 do\n"
    "    local c = util.funck(f, k)\n"
    "    if c == nil then break end\n"
    "    if type(c) == 'proto' then walk(c) end\n"
    "  end\n"
    "end\n"
    "walk(f)\n";

static int on_code(lua_State *lua)
{
    struct lines *l = lua_touserdata(lua, lua_upvalueindex(1));
    lua_Integer line = lua_tointeger(lua, 1);

    if (line > 0 && line < LINES_MAX)
        l->has_code[line] = true;
    return 0;
}

static bool find_code(struct lines *l, const struct buf *text)
{
    lua_State *lua = luaL_newstate();
    bool good;

    luaL_openlibs(lua);
    good = luaL_loadstring(lua, walk) == 0 &&
           luaL_loadbuffer(lua, (const char *)text->data, text->len, "=functions") == 0;
    if (good) {
        lua_pushlightuserdata(lua, l);
        lua_pushcclosure(lua, on_code, 1);
        good = lua_pcall(lua, 2, 0, 0) == 0;
    }
    lua_close(lua);
    return good;
}

static bool read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file)
        return false;
    while ((n = fread(buf_reserve(out, 65536), 1, 65536, file)) > 0)
        out->len += n;
    fclose(file);
    return out->len >= 2;
}

static void tell(struct lines *l, const char *library, uint32_t number, const char *line)
{
    CLEANUP(buf_deinit) struct buf place = {0};

    if (!l->has_code[number])
        return;
    l->code++;
    if (l->ran[number])
        return;
    l->never++;
    lines_place(&place, library, number);
    printf("%s never ran: %.*s\n", buf_str(&place), (int)strcspn(line, "\n"), line);
}

int main(int argc, char **argv)
{
    CLEANUP(buf_deinit) struct buf text = {0}, ran = {0};
    static struct lines l;
    uint32_t n = 0;

    if (argc != 2 || !read_file(SIM_DROVER_LUA, &text) || !read_file(argv[1], &ran)) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 64;
    }
    memcpy(text.data, "--", 2); /* replaces "#!", which only Redis accepts */
    memcpy(l.ran, ran.data, ran.len < sizeof(l.ran) ? ran.len : sizeof(l.ran));
    if (!find_code(&l, &text)) {
        fprintf(stderr, "only LuaJIT can tell which lines have code\n");
        return 69;
    }
    for (const char *line = buf_str(&text); ++n < LINES_MAX && *line;) {
        tell(&l, buf_str(&text), n, line);
        line = strchrnul(line, '\n');
        line += *line == '\n';
    }
    printf("%u of %u lines of the store functions ran, %.1f %%\n", (unsigned)(l.code - l.never),
           (unsigned)l.code, 100.0 * (l.code - l.never) / l.code);
    return l.never ? 1 : 0;
}
