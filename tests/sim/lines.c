// SPDX-License-Identifier: Apache-2.0
#include "lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <lauxlib.h>
#include <lualib.h>

#include "base/str.h"

#define LINES_MAX 8192

struct lines {
    char *text; /* of the file, its lines NUL-terminated */
    const char *starts[LINES_MAX];
    uint32_t n;
    bool has_code[LINES_MAX];
    uint8_t *ran; /* shared */
};

static uint8_t *watched; /* ran: a hook has no other way to find it */

/* Calls visit(line) for each line with code of a function, and of those within it. */
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

static bool read_text(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file)
        return false;
    while ((n = fread(buf_reserve(out, 65536), 1, 65536, file)) > 0)
        out->len += n;
    fclose(file);
    if (out->len < 2)
        return false;
    memcpy(out->data, "--", 2); /* in the place of "#!", which only Redis knows */
    return true;
}

static void cut(struct lines *l)
{
    for (char *rest = l->text, *line; l->n + 1 < LINES_MAX && (line = strsep(&rest, "\n"));)
        l->starts[++l->n] = line;
}

struct lines *lines_new(const char *path)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    struct lines *l = calloc(1, sizeof(*l));

    if (!l || !read_text(path, &text) || !find_code(l, &text))
        return lines_free(l);
    l->text = strdup(buf_str(&text));
    l->ran = mmap(NULL, LINES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!l->text || l->ran == MAP_FAILED)
        abort();
    cut(l);
    return l;
}

struct lines *lines_free(struct lines *l)
{
    if (l && l->ran)
        munmap(l->ran, LINES_MAX);
    if (l)
        free(l->text);
    free(l);
    return NULL;
}

static void on_line(lua_State *lua, lua_Debug *ar)
{
    if (ar->currentline > 0 && ar->currentline < LINES_MAX)
        watched[ar->currentline] = 1;
}

void lines_watch(struct lines *l, lua_State *lua)
{
    watched = l->ran;
    lua_sethook(lua, on_line, LUA_MASKLINE, 0);
}

void lines_report(const struct lines *l, FILE *out)
{
    uint32_t code = 0, ran = 0;

    for (uint32_t i = 1; i <= l->n; i++) {
        code += l->has_code[i];
        ran += l->has_code[i] && l->ran[i];
        if (l->has_code[i] && !l->ran[i])
            fprintf(out, "%6u never ran: %s\n", (unsigned)i, l->starts[i]);
    }
    fprintf(out, "%u of %u lines of the store functions ran, %.1f %%\n", (unsigned)ran,
            (unsigned)code, code ? 100.0 * ran / code : 0);
}
