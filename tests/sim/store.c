// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "model/store_ops.h"

/* What stands where on the Lua stack, for the life of the store. */
enum slot {
    SLOT_FCALL = 1,
    SLOT_RESET,
    SLOT_COMMAND,
    SLOT_LIBRARIES, /* a table of compiled variants */
    SLOT_DB,
    SLOT_ANSWER, /* anchors the strings of the last answer */
    SLOT_CHOSEN, /* the hash or list that the checker looks at */
    SLOTS_ = SLOT_CHOSEN,
};

#define GC_PAUSE 400 /* collect when memory has grown to so many percent: worlds are small */

struct simstore {
    lua_State *lua;
    struct bytes *items;
    uint32_t size;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static void load_file(lua_State *lua, const char *path)
{
    if (luaL_loadfile(lua, path))
        die(path, lua_tostring(lua, -1));
}

static const char *error_text(lua_State *lua)
{
    if (lua_istable(lua, -1))
        lua_getfield(lua, -1, "err");
    return lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "an error that is no text";
}

#define BUDGET_LINE "\nlocal BUDGET = "
#define CACHE_LINE "\nlocal CACHED_STEPS = "
#define CACHED_FEW 3

const uint32_t simstore_budgets[SIMSTORE_BUDGETS] = {OPS_BUDGET, 1, 4};

static void read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file)
        die(path, "cannot be read");
    while ((n = fread(buf_reserve(out, 65536), 1, 65536, file)) > 0)
        out->len += n;
    fclose(file);
}

/* Replaces the number that follows @line. */
static void set_number(struct buf *text, const char *path, const char *line, uint32_t number)
{
    struct buf changed = {0};
    const char *from = buf_str(text);
    const char *at = strstr(from, line);

    if (!at)
        die(path, "has not the line that the simulator changes");
    at += strlen(line);
    buf_append(&changed, from, (size_t)(at - from));
    buf_printf(&changed, "%u", (unsigned)number);
    buf_puts(&changed, at + strspn(at, "0123456789"));
    buf_deinit(text);
    *text = changed;
}

static void check_budget(const struct buf *text, const char *path)
{
    char line[64];

    snprintf(line, sizeof(line), BUDGET_LINE "%d ", OPS_BUDGET);
    if (!memmem(text->data, text->len, line, strlen(line)))
        die(path, "has not the budget of model/store_ops.h");
}

/* Leaves a table with the library once for each variant. */
static void load_libraries(lua_State *lua, const char *path)
{
    lua_newtable(lua);
    for (int i = 0; i < SIMSTORE_BUDGETS; i++) {
        CLEANUP(buf_deinit) struct buf text = {0};

        read_file(path, &text);
        check_budget(&text, path);
        memcpy(text.data, "--", 2); /* in the place of "#!", which only Redis knows */
        if (i > 0) {
            set_number(&text, path, BUDGET_LINE, simstore_budgets[i]);
            set_number(&text, path, CACHE_LINE, CACHED_FEW);
        }
        if (luaL_loadbuffer(lua, buf_str(&text), text.len, path))
            die(path, lua_tostring(lua, -1));
        lua_rawseti(lua, -2, i);
    }
}

struct simstore *simstore_new(const char *redis_lua, const char *drover_lua)
{
    struct simstore *s = calloc(1, sizeof(*s));
    lua_State *lua = luaL_newstate();

    if (!s || !lua)
        abort();
    s->lua = lua;
    luaL_openlibs(lua);
    lua_gc(lua, LUA_GCSETPAUSE, GC_PAUSE);
    load_file(lua, redis_lua);
    if (lua_pcall(lua, 0, 1, 0))
        die(redis_lua, error_text(lua));
    lua_getfield(lua, 1, "fcall");
    lua_getfield(lua, 1, "reset");
    lua_getfield(lua, 1, "command");
    lua_remove(lua, 1);
    load_libraries(lua, drover_lua);
    lua_settop(lua, SLOTS_);
    simstore_reset(s, 0);
    return s;
}

struct simstore *simstore_free(struct simstore *s)
{
    if (!s)
        return NULL;
    lua_close(s->lua);
    free(s->items);
    free(s);
    return NULL;
}

void simstore_reset(struct simstore *s, uint32_t variant)
{
    lua_State *lua = s->lua;

    lua_pushvalue(lua, SLOT_RESET);
    lua_rawgeti(lua, SLOT_LIBRARIES, (int)variant);
    if (lua_pcall(lua, 1, 1, 0))
        die("store functions", error_text(lua));
    lua_replace(lua, SLOT_DB);
}

/* ---- calls ---- */

static struct bytes text_at(lua_State *lua, int index)
{
    size_t len;
    const char *text = lua_tolstring(lua, index, &len);

    return text ? bytes_of(text, len) : BYTES_EMPTY;
}

static void item_put(struct simstore *s, uint32_t at, struct bytes item)
{
    if (at >= s->size) {
        s->size = s->size ? 2 * s->size : 256;
        s->items = realloc(s->items, s->size * sizeof(*s->items));
        if (!s->items)
            abort();
    }
    s->items[at] = item;
}

/* A list ends at its first nil, as in Redis. Numbers become text in place, which keeps them. */
static void answer_list(struct simstore *s, struct store_answer *answer)
{
    lua_State *lua = s->lua;

    lua_replace(lua, SLOT_ANSWER);
    for (answer->n = 0;; answer->n++) {
        lua_rawgeti(lua, SLOT_ANSWER, (int)answer->n + 1);
        if (lua_isnil(lua, -1))
            break;
        if (lua_type(lua, -1) == LUA_TNUMBER) {
            (void)lua_tostring(lua, -1);
            lua_pushvalue(lua, -1);
            lua_rawseti(lua, SLOT_ANSWER, (int)answer->n + 1);
        }
        item_put(s, answer->n, text_at(lua, -1));
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
}

static void answer_one(struct simstore *s, struct store_answer *answer)
{
    item_put(s, 0, text_at(s->lua, -1));
    lua_replace(s->lua, SLOT_ANSWER);
    answer->n = 1;
}

static void answer_error(struct simstore *s, struct store_answer *answer)
{
    const char *text = error_text(s->lua);

    answer->result = strncmp(text, "OOM ", 4) == 0 ? STORE_OOM : STORE_ERROR;
    answer_one(s, answer);
    lua_settop(s->lua, SLOTS_);
}

void simstore_call(struct simstore *s, int64_t now, bool out_of_memory, uint32_t partition,
                   const char *function, const struct bytes *args, int n,
                   struct store_answer *answer)
{
    lua_State *lua = s->lua;

    lua_pushvalue(lua, SLOT_FCALL);
    lua_pushfstring(lua, "drover1_%s", function);
    lua_pushnumber(lua, (lua_Number)now);
    lua_pushboolean(lua, out_of_memory);
    lua_pushfstring(lua, "drover:{p%d}:", (int)partition);
    lua_createtable(lua, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushlstring(lua, (const char *)args[i].data, args[i].len);
        lua_rawseti(lua, -2, i + 1);
    }
    *answer = (struct store_answer){.result = STORE_OK};
    if (lua_pcall(lua, 5, 1, 0))
        answer_error(s, answer);
    else if (lua_istable(lua, -1))
        answer_list(s, answer);
    else
        answer_one(s, answer);
    answer->items = s->items;
    assert(lua_gettop(lua) == SLOTS_);
}

/* The value on top of the stack, as text. */
static void describe(lua_State *lua, struct buf *out)
{
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        buf_printf(out, ":%.0f", lua_tonumber(lua, -1));
        return;
    case LUA_TSTRING:
        buf_printf(out, "$%s", lua_tostring(lua, -1));
        return;
    case LUA_TTABLE:
        break;
    default:
        buf_puts(out, "_");
        return;
    }
    lua_getfield(lua, -1, "ok");
    if (lua_isstring(lua, -1)) {
        buf_printf(out, "+%s", lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return;
    }
    lua_pop(lua, 1);
    buf_puts(out, "[");
    for (int i = 1; i <= (int)lua_objlen(lua, -1); i++) {
        buf_puts(out, " ");
        lua_rawgeti(lua, -1, i);
        describe(lua, out);
        lua_pop(lua, 1);
    }
    buf_puts(out, " ]");
}

void simstore_command(struct simstore *s, const char *const *words, int n, struct buf *out)
{
    lua_State *lua = s->lua;

    lua_pushvalue(lua, SLOT_COMMAND);
    for (int i = 0; i < n; i++)
        lua_pushstring(lua, words[i]);
    if (lua_pcall(lua, n, 1, 0))
        buf_printf(out, "-%s", error_text(lua));
    else
        describe(lua, out);
    lua_settop(lua, SLOTS_);
}

/* ---- the window ---- */

/* Pushes a part of a value, such as the fields of a hash; nothing where there is no such key. */
static bool push_part(struct simstore *s, uint32_t partition, const char *key, const char *part)
{
    lua_State *lua = s->lua;

    lua_pushfstring(lua, "drover:{p%d}:%s", (int)partition, key);
    lua_rawget(lua, SLOT_DB);
    if (lua_isnil(lua, -1)) {
        lua_pop(lua, 1);
        return false;
    }
    lua_getfield(lua, -1, part);
    lua_remove(lua, -2);
    return true;
}

bool simstore_hash(struct simstore *s, uint32_t partition, const char *key)
{
    if (!push_part(s, partition, key, "f"))
        return false;
    lua_replace(s->lua, SLOT_CHOSEN);
    return true;
}

static struct bytes popped(struct simstore *s)
{
    struct bytes text = text_at(s->lua, -1);

    lua_pop(s->lua, 1);
    return text;
}

struct bytes simstore_field(struct simstore *s, const char *name)
{
    lua_getfield(s->lua, SLOT_CHOSEN, name);
    return popped(s);
}

struct bytes simstore_step(struct simstore *s, uint32_t step)
{
    char name[12];

    snprintf(name, sizeof(name), "%" PRIu32, step);
    return simstore_field(s, name);
}

uint32_t simstore_list(struct simstore *s, uint32_t partition, const char *key)
{
    if (!push_part(s, partition, key, "v"))
        return 0;
    lua_replace(s->lua, SLOT_CHOSEN);
    return (uint32_t)lua_objlen(s->lua, SLOT_CHOSEN);
}

struct bytes simstore_entry(struct simstore *s, uint32_t back)
{
    lua_rawgeti(s->lua, SLOT_CHOSEN, (int)lua_objlen(s->lua, SLOT_CHOSEN) - (int)back);
    return popped(s);
}

uint32_t simstore_zcard(struct simstore *s, uint32_t partition, const char *key)
{
    uint32_t n;

    if (!push_part(s, partition, key, "order"))
        return 0;
    n = (uint32_t)lua_objlen(s->lua, -1);
    lua_pop(s->lua, 1);
    return n;
}

bool simstore_zscore(struct simstore *s, uint32_t partition, const char *key, const char *member,
                     int64_t *score)
{
    bool found;

    if (!push_part(s, partition, key, "score"))
        return false;
    lua_getfield(s->lua, -1, member);
    found = lua_isnumber(s->lua, -1);
    *score = (int64_t)lua_tonumber(s->lua, -1);
    lua_pop(s->lua, 2);
    return found;
}
