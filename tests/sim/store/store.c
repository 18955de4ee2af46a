// SPDX-License-Identifier: Apache-2.0
/*
 * The simulator's store: runs the store functions in an embedded Lua
 *
 * See store.h. Called by the world, the checker, and tests that steer schedulers by hand.
 */
#include "store/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <sha1.h>

#include "model/store_ops.h"
#include "store/lines.h"
#include "store/redis.h"

/* Places on the Lua stack, as long as the store exists. */
enum slot {
    SLOT_CALL = 1,  /* redis.call */
    SLOT_LIBRARIES, /* a table of compiled variants */
    SLOT_FUNCTIONS, /* of the library loaded last: name -> function */
    SLOT_FLAGS,     /* name -> its flags, as they were registered */
    SLOT_ANSWER,    /* keeps the strings of the last answer */
    SLOTS_ = SLOT_ANSWER,
};

#define GC_PAUSE 400 /* percent of growth before a collection: worlds are small */
#define KEY_MAX 320  /* a job's id may have 128 bytes, a label more */

struct simstore {
    lua_State *lua;
    struct buf text; /* of the library */
    struct simredis *redis;
    const struct simredis_value *chosen; /* the value that the checker reads */
    struct bytes *items;
    uint32_t size;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static const char *error_text(lua_State *lua)
{
    if (lua_istable(lua, -1))
        lua_getfield(lua, -1, "err");
    return lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "an error that is no text";
}

/* ---- the library ---- */

#define BUDGET_LINE "\nlocal BUDGET = "
#define CACHE_LINE "\nlocal CACHED_STEPS = "
#define CACHED_FEW 3
#define DATA_LINE "\nlocal DATA_MAX = "
#define DATA_LITTLE 150 /* bytes: an input, and about seven results */

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
        memcpy(text.data, "--", 2); /* replaces "#!", which only Redis accepts */
        if (i > 0) {
            set_number(&text, path, BUDGET_LINE, simstore_budgets[i]);
            set_number(&text, path, CACHE_LINE, CACHED_FEW);
        }
        if (i == SIMSTORE_BUDGETS - 1)
            set_number(&text, path, DATA_LINE, DATA_LITTLE);
        if (luaL_loadbuffer(lua, buf_str(&text), text.len, "@user_function")) /* as in Redis */
            die(path, lua_tostring(lua, -1));
        lua_rawseti(lua, -2, i);
    }
}

/* What a library may use when it is called; while it is loaded it sees only redis. */
static const char *const standard[] = {
    "assert", "error",    "getmetatable", "ipairs", "math",   "next",         "pairs",
    "pcall",  "rawequal", "rawget",       "rawset", "select", "setmetatable", "string",
    "table",  "tonumber", "tostring",     "type",   "unpack", "xpcall",
};

static int on_nonexistent(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(lua, 2));
}

static int on_assignment(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* redis.register_function{function_name =, callback =, flags =}; upvalues: functions, flags */
static int on_register(lua_State *lua)
{
    lua_getfield(lua, 1, "function_name");
    lua_pushvalue(lua, -1);
    lua_rawget(lua, lua_upvalueindex(1));
    if (!lua_isnil(lua, -1))
        return luaL_error(lua, "Function already exists in the library");
    lua_pop(lua, 1);
    lua_pushvalue(lua, -1);
    lua_getfield(lua, 1, "callback");
    lua_rawset(lua, lua_upvalueindex(1));
    lua_getfield(lua, 1, "flags");
    lua_rawset(lua, lua_upvalueindex(2));
    return 0;
}

/* pcall() of Redis: of an error {err = text}, as redis.call raises it, it gives the text. */
static int on_pcall(lua_State *lua)
{
    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, lua_gettop(lua) - 2, LUA_MULTRET, 0) == 0)
        return lua_gettop(lua);
    lua_pushboolean(lua, 0);
    if (lua_istable(lua, -2))
        lua_getfield(lua, -2, "err");
    else
        lua_pushvalue(lua, -2);
    return 2;
}

static struct bytes text_at(lua_State *lua, int index)
{
    size_t len;
    const char *text = lua_tolstring(lua, index, &len);

    return text ? bytes_of(text, len) : BYTES_EMPTY;
}

/* redis.sha1hex(text) */
static int on_sha1hex(lua_State *lua)
{
    struct bytes text = text_at(lua, 1);
    uint8_t digest[SHA1_DIGEST_LENGTH];
    char hex[2 * sizeof(digest) + 1];
    SHA1_CTX context;

    SHA1Init(&context);
    SHA1Update(&context, text.data, text.len);
    SHA1Final(digest, &context);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    lua_pushstring(lua, hex);
    return 1;
}

/* Lets the table on top call @handler at @event. */
static void add_metamethod(lua_State *lua, const char *event, lua_CFunction handler)
{
    lua_pushcfunction(lua, handler);
    lua_setfield(lua, -2, event);
}

/* Sets the global redis to {name = value}; takes the value from the top. */
static void set_redis(lua_State *lua, int visible, const char *name)
{
    lua_createtable(lua, 0, 1);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, name);
    lua_setfield(lua, visible, "redis");
}

/* The globals as a library sees them through its environment: those that exist can be read. */
static void push_visible(lua_State *lua)
{
    lua_newtable(lua);
    lua_createtable(lua, 0, 1);
    add_metamethod(lua, "__index", on_nonexistent);
    lua_setmetatable(lua, -2);
}

static void push_environment(lua_State *lua, int visible)
{
    lua_newtable(lua);
    lua_createtable(lua, 0, 2);
    lua_pushvalue(lua, visible);
    lua_setfield(lua, -2, "__index");
    add_metamethod(lua, "__newindex", on_assignment);
    lua_setmetatable(lua, -2);
}

/* Runs the library that is on top, and removes it. */
static void load_library(lua_State *lua)
{
    int library = lua_gettop(lua), visible = library + 1;

    lua_newtable(lua);
    lua_replace(lua, SLOT_FUNCTIONS);
    lua_newtable(lua);
    lua_replace(lua, SLOT_FLAGS);
    push_visible(lua);
    lua_pushvalue(lua, SLOT_FUNCTIONS);
    lua_pushvalue(lua, SLOT_FLAGS);
    lua_pushcclosure(lua, on_register, 2);
    set_redis(lua, visible, "register_function");
    push_environment(lua, visible);
    lua_setfenv(lua, library);
    lua_pushvalue(lua, library);
    if (lua_pcall(lua, 0, 0, 0))
        die("store functions", error_text(lua));
    lua_pushvalue(lua, SLOT_CALL);
    set_redis(lua, visible, "call");
    lua_getfield(lua, visible, "redis");
    lua_pushcfunction(lua, on_sha1hex);
    lua_setfield(lua, -2, "sha1hex");
    lua_pop(lua, 1);
    for (size_t i = 0; i < array_size(standard); i++) {
        lua_getglobal(lua, standard[i]);
        lua_setfield(lua, visible, standard[i]);
    }
    lua_pushcfunction(lua, on_pcall);
    lua_setfield(lua, visible, "pcall");
    lua_settop(lua, library - 1);
}

/* Worlds are over before a compiled trace pays off: LuaJIT is used as a fast interpreter. */
static void switch_jit_off(lua_State *lua)
{
    lua_getglobal(lua, "jit");
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "off");
        lua_call(lua, 0, 0);
    }
    lua_pop(lua, 1);
}

struct simstore *simstore_new(const char *library)
{
    struct simstore *s = or_abort(calloc(1, sizeof(*s)));
    lua_State *lua = or_abort(luaL_newstate());

    s->lua = lua;
    s->redis = simredis_new();
    luaL_openlibs(lua);
    switch_jit_off(lua);
    lua_gc(lua, LUA_GCSETPAUSE, GC_PAUSE);
    simredis_push_call(s->redis, lua);
    read_file(library, &s->text);
    load_libraries(lua, library);
    lines_watch(lua);
    lua_settop(lua, SLOTS_);
    simstore_reset(s, 0);
    return s;
}

struct simstore *simstore_free(struct simstore *s)
{
    if (!s)
        return NULL;
    lua_close(s->lua);
    buf_deinit(&s->text);
    simredis_free(s->redis);
    free(s->items);
    free(s);
    return NULL;
}

void simstore_reset(struct simstore *s, uint32_t variant)
{
    simredis_reset(s->redis);
    lua_rawgeti(s->lua, SLOT_LIBRARIES, (int)variant);
    load_library(s->lua);
}

/* ---- calls ---- */

static void item_put(struct simstore *s, uint32_t at, struct bytes item)
{
    if (at >= s->size) {
        s->size = s->size ? 2 * s->size : 256;
        s->items = or_abort(realloc(s->items, s->size * sizeof(*s->items)));
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
    CLEANUP(buf_deinit) struct buf text = {0};

    lines_error(&text, buf_str(&s->text), error_text(s->lua));
    answer->result = strncmp(buf_str(&text), "OOM ", 4) == 0 ? STORE_OOM : STORE_ERROR;
    lua_pushlstring(s->lua, buf_str(&text), text.len);
    answer_one(s, answer);
    lua_settop(s->lua, SLOTS_);
}

static bool has_flag(lua_State *lua, const char *function, const char *flag)
{
    bool found = false;

    lua_getfield(lua, SLOT_FLAGS, function);
    for (int i = 1; !found && i <= (int)lua_objlen(lua, -1); i++) {
        lua_rawgeti(lua, -1, i);
        found = strcmp(lua_tostring(lua, -1), flag) == 0;
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
    return found;
}

/* Whether there is memory for what this function may write. */
static bool may_run(lua_State *lua, const char *function, bool out_of_memory, bool read_only)
{
    return !out_of_memory || read_only || has_flag(lua, function, "allow-oom");
}

static void push_arguments(lua_State *lua, uint32_t partition, const struct bytes *args, int n)
{
    lua_createtable(lua, 1, 0);
    lua_pushfstring(lua, "drover:{p%d}:", (int)partition);
    lua_rawseti(lua, -2, 1);
    lua_createtable(lua, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushlstring(lua, args[i].len ? (const char *)args[i].data : "", args[i].len);
        lua_rawseti(lua, -2, i + 1);
    }
}

void simstore_call(struct simstore *s, int64_t now, bool out_of_memory, uint32_t partition,
                   const char *function, const struct bytes *args, int n,
                   struct store_answer *answer)
{
    static const char no_room[] = "OOM command not allowed when used memory > 'maxmemory'.";
    lua_State *lua = s->lua;
    const char *name = lua_pushfstring(lua, "drover1_%s", function);
    bool read_only = has_flag(lua, name, "no-writes");

    *answer = (struct store_answer){.result = STORE_OK};
    simredis_set_clock(s->redis, now);
    simredis_set_read_only(s->redis, read_only);
    if (may_run(lua, name, out_of_memory, read_only)) {
        lua_getfield(lua, SLOT_FUNCTIONS, name);
        push_arguments(lua, partition, args, n);
        if (lua_pcall(lua, 2, 1, 0))
            answer_error(s, answer);
        else if (lua_istable(lua, -1))
            answer_list(s, answer);
        else
            answer_one(s, answer);
    } else {
        lua_pushstring(lua, no_room);
        answer_error(s, answer);
    }
    answer->items = s->items;
    lua_settop(lua, SLOTS_);
}

static void put_text(struct buf *out, struct bytes text)
{
    buf_printf(out, "$%zu\r\n", text.len);
    buf_append(out, text.data, text.len);
    buf_puts(out, "\r\n");
}

/* The value on top of the stack. */
static void put_reply(lua_State *lua, struct buf *out)
{
    int n;

    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        buf_printf(out, ":%.0f\r\n", lua_tonumber(lua, -1));
        return;
    case LUA_TSTRING:
        put_text(out, text_at(lua, -1));
        return;
    case LUA_TTABLE:
        break;
    default:
        buf_puts(out, "$-1\r\n");
        return;
    }
    lua_getfield(lua, -1, "ok");
    if (lua_isstring(lua, -1)) {
        buf_printf(out, "+%s\r\n", lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return;
    }
    lua_pop(lua, 1);
    n = (int)lua_objlen(lua, -1);
    buf_printf(out, "*%d\r\n", n);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(lua, -1, i);
        put_reply(lua, out);
        lua_pop(lua, 1);
    }
}

void simstore_command(struct simstore *s, const char *const *words, int n, struct buf *out)
{
    lua_State *lua = s->lua;

    simredis_set_read_only(s->redis, false);
    lua_pushvalue(lua, SLOT_CALL);
    for (int i = 0; i < n; i++)
        lua_pushstring(lua, words[i]);
    if (lua_pcall(lua, n, 1, 0))
        buf_printf(out, "-%s\r\n", error_text(lua));
    else
        put_reply(lua, out);
    lua_settop(lua, SLOTS_);
}

void simstore_reply(const struct store_answer *answer, struct buf *out)
{
    if (answer->result != STORE_OK) {
        buf_printf(out, "-%.*s\r\n", (int)answer->items[0].len,
                   (const char *)answer->items[0].data);
        return;
    }
    buf_printf(out, "*%u\r\n", (unsigned)answer->n);
    for (uint32_t i = 0; i < answer->n; i++)
        put_text(out, answer->items[i]);
}

uint64_t simstore_digest(const struct simstore *s)
{
    return simredis_digest(s->redis);
}

/* ---- inspection ---- */

static const struct simredis_value *find(struct simstore *s, uint32_t partition, const char *key)
{
    static const char begin[] = "drover:{p";
    char text[KEY_MAX];
    size_t at = strlen(begin), len = strlen(key);

    memcpy(text, begin, at);
    at += simredis_integer(partition, text + at);
    text[at++] = '}';
    text[at++] = ':';
    assert(at + len <= sizeof(text));
    memcpy(text + at, key, len);
    return simredis_find(s->redis, bytes_of(text, at + len));
}

static struct bytes without_prefix(struct bytes key)
{
    const uint8_t *end = memchr(key.data, '}', key.len);
    size_t len = (size_t)(end - key.data) + strlen("}:");

    return bytes_of(key.data + len, key.len - len);
}

struct each {
    void (*fn)(void *ctx, struct bytes key);
    void *ctx;
};

static void on_key(void *ctx, struct bytes key)
{
    const struct each *each = ctx;

    each->fn(each->ctx, without_prefix(key));
}

void simstore_each(struct simstore *s, void (*fn)(void *ctx, struct bytes key), void *ctx)
{
    simredis_each(s->redis, on_key, &(struct each){fn, ctx});
}

bool simstore_hash(struct simstore *s, uint32_t partition, const char *key)
{
    s->chosen = find(s, partition, key);
    return s->chosen;
}

struct bytes simstore_field(struct simstore *s, const char *name)
{
    return simredis_field(s->chosen, bytes_str(name));
}

struct bytes simstore_step(struct simstore *s, uint32_t step)
{
    char name[SIMREDIS_INTEGER];

    return simredis_field(s->chosen, bytes_of(name, simredis_integer(step, name)));
}

struct bytes simstore_text(struct simstore *s, uint32_t partition, const char *key)
{
    return simredis_text(find(s, partition, key));
}

uint32_t simstore_list(struct simstore *s, uint32_t partition, const char *key)
{
    s->chosen = find(s, partition, key);
    return simredis_length(s->chosen);
}

struct bytes simstore_entry(struct simstore *s, uint32_t back)
{
    return simredis_entry(s->chosen, simredis_length(s->chosen) - 1 - back);
}

uint32_t simstore_zcard(struct simstore *s, uint32_t partition, const char *key)
{
    return simredis_card(find(s, partition, key));
}

bool simstore_zscore(struct simstore *s, uint32_t partition, const char *key, const char *member,
                     int64_t *score)
{
    double found = 0;
    bool there = simredis_score(find(s, partition, key), bytes_str(member), &found);

    *score = (int64_t)found;
    return there;
}
