// SPDX-License-Identifier: Apache-2.0
/*
 * A small Redis in memory: the commands that the store functions use
 *
 * See redis.h. Called by store.c.
 */
#include "store/redis.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <lauxlib.h>
#include <uthash.h>

#include "model/effect.h"
#include "world/digest.h"

#define EXACT INT64_C(9007199254740992) /* integers up to here are exact in Lua */
#define NUMBER_MAX 32                   /* a number as text */
#define TEXT_LEAST 32                   /* room for a value that may grow a little */

enum kind {
    KIND_HASH,
    KIND_LIST,
    KIND_ZSET,
    KIND_STRING,
};

/* Owned, and changed in place if there is room; a NUL follows it. */
struct text {
    uint8_t *data;
    size_t len, size;
};

struct field {
    struct bytes name;
    struct text value;
    UT_hash_handle hh;
};

struct member {
    double score;
    struct bytes name;
    UT_hash_handle hh;
};

struct simredis_value {
    enum kind kind;
    struct bytes key;
    union {
        struct field *fields;  /* hash, oldest first */
        struct bytes *entries; /* list */
        struct {
            struct member **members; /* zset, by score, then by bytes */
            struct member *by_name;
        };
        struct text text; /* string */
    };
    uint32_t n, size; /* of entries and members */
    UT_hash_handle hh;
};

struct simredis {
    struct simredis_value *keys;
    struct effects arena; /* holds everything until the reset */
    struct bytes *args;   /* of the present command */
    int args_size;
    int64_t now;
    uint32_t chance; /* of HRANDFIELD */
    bool read_only;
};

/* A command: finds its n arguments in a[0..], leaves its reply on the stack. */
typedef void command_fn(struct simredis *r, lua_State *lua, const struct bytes *a, int n);

/* ---- errors and replies ---- */

/* Raised as Redis 7 raises errors: a table with the text in err. */
static _Noreturn void fail(lua_State *lua, const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
    lua_error(lua);
    abort();
}

static void push(lua_State *lua, struct bytes text)
{
    lua_pushlstring(lua, text.len ? (const char *)text.data : "", text.len);
}

static void push_or_nil(lua_State *lua, const struct field *field)
{
    if (field)
        lua_pushlstring(lua, (const char *)field->value.data, field->value.len);
    else
        lua_pushboolean(lua, false);
}

static void push_ok(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    lua_pushliteral(lua, "OK");
    lua_setfield(lua, -2, "ok");
}

size_t simredis_integer(int64_t number, char *out)
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *at = out + SIMREDIS_INTEGER;
    size_t len;

    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *--at = '-';
    len = (size_t)(out + SIMREDIS_INTEGER - at);
    memmove(out, at, len);
    return len;
}

static void push_number(lua_State *lua, double number)
{
    char text[NUMBER_MAX];
    size_t len;

    if (fabs(number) < (double)EXACT && number == trunc(number))
        len = simredis_integer((int64_t)number, text);
    else
        len = (size_t)snprintf(text, sizeof(text), "%.17g", number);
    lua_pushlstring(lua, text, len);
}

static void push_score(lua_State *lua, double score)
{
    if (isinf(score))
        lua_pushstring(lua, score < 0 ? "-inf" : "inf");
    else
        push_number(lua, score);
}

/* Moves the top value to the end of the list below it. */
static void add(lua_State *lua, int *count)
{
    lua_rawseti(lua, -2, ++*count);
}

/* ---- arguments ---- */

static void arity(lua_State *lua, bool right)
{
    if (!right)
        fail(lua, "ERR Wrong number of args calling Redis command from script");
}

static bool word_is(struct bytes word, const char *option)
{
    return word.len == strlen(option) &&
           strncasecmp((const char *)word.data, option, word.len) == 0;
}

static bool to_integer(struct bytes text, int64_t *out)
{
    size_t sign = text.len > 0 && text.data[0] == '-';

    if (text.len <= sign || (text.data[sign] == '0' && text.len > 1))
        return false;
    return bytes_to_i64(text, out);
}

static int64_t integer(lua_State *lua, struct bytes text)
{
    int64_t number;

    if (!to_integer(text, &number))
        fail(lua, "ERR value is not an integer or out of range");
    return number;
}

/* A NUL follows @text. */
static bool to_score(struct bytes text, double *out)
{
    char *end;
    int64_t whole;

    if (to_integer(text, &whole) && whole > -EXACT && whole < EXACT) {
        *out = (double)whole;
        return true;
    }
    if (text.len == 0 || isspace(text.data[0]))
        return false;
    errno = 0;
    *out = strtod((const char *)text.data, &end);
    if (*out == 0)
        *out = 0; /* scores are kept as text, which loses the minus */
    return end == (const char *)text.data + text.len && errno != ERANGE && !isnan(*out);
}

struct bound {
    double score;
    bool open;
};

static struct bound bound(lua_State *lua, struct bytes text)
{
    struct bound b = {.open = text.len > 0 && text.data[0] == '('};

    if (b.open)
        text = bytes_of(text.data + 1, text.len - 1);
    if (text.len > 0 && !to_score(text, &b.score))
        fail(lua, "ERR min or max is not a float");
    return b;
}

static bool above(struct bound least, double score)
{
    return least.open ? score > least.score : score >= least.score;
}

static bool below(struct bound most, double score)
{
    return most.open ? score < most.score : score <= most.score;
}

/* ---- values ---- */

static struct simredis_value *find(const struct simredis *r, struct bytes key)
{
    struct simredis_value *value;

    HASH_FIND(hh, r->keys, key.data, key.len, value);
    return value;
}

static struct simredis_value *lookup(struct simredis *r, lua_State *lua, struct bytes key,
                                     enum kind kind)
{
    struct simredis_value *value = find(r, key);

    if (value && value->kind != kind)
        fail(lua, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return value;
}

static struct simredis_value *make(struct simredis *r, struct bytes key, enum kind kind)
{
    struct simredis_value *value = effects_alloc(&r->arena, sizeof(*value));

    *value = (struct simredis_value){.kind = kind, .key = effects_copy(&r->arena, key)};
    HASH_ADD_KEYPTR(hh, r->keys, value->key.data, key.len, value);
    return value;
}

static struct simredis_value *lookup_or_make(struct simredis *r, lua_State *lua, struct bytes key,
                                             enum kind kind)
{
    struct simredis_value *value = lookup(r, lua, key, kind);

    return value ? value : make(r, key, kind);
}

static void clear(struct simredis_value *value)
{
    if (value->kind == KIND_HASH)
        HASH_CLEAR(hh, value->fields);
    if (value->kind == KIND_ZSET)
        HASH_CLEAR(hh, value->by_name);
}

static void discard(struct simredis *r, struct simredis_value *value)
{
    clear(value);
    HASH_DEL(r->keys, value);
}

static void text_set(struct simredis *r, struct text *text, struct bytes to)
{
    if (text->size <= to.len) {
        size_t twice = 2 * text->size;

        text->size = to.len < TEXT_LEAST ? TEXT_LEAST : to.len + 1;
        text->size = text->size < twice ? twice : text->size;
        text->data = effects_alloc(&r->arena, text->size);
    }
    if (to.len > 0)
        memcpy(text->data, to.data, to.len);
    text->data[to.len] = 0;
    text->len = to.len;
}

/* Makes room for one more element of @size bytes in an array. */
static void *room(struct simredis *r, struct simredis_value *value, void *array, size_t size)
{
    void *larger;

    if (value->n < value->size)
        return array;
    value->size = value->size ? 2 * value->size : 8;
    larger = effects_alloc(&r->arena, value->size * size);
    if (value->n > 0)
        memcpy(larger, array, value->n * size);
    return larger;
}

/* ---- hashes ---- */

static struct field *field_find(const struct simredis_value *hash, struct bytes name)
{
    struct field *field = NULL;

    if (hash)
        HASH_FIND(hh, hash->fields, name.data, name.len, field);
    return field;
}

/* Return: whether the field is new. */
static bool field_set(struct simredis *r, struct simredis_value *hash, struct bytes name,
                      struct bytes to)
{
    struct field *field = field_find(hash, name);
    bool added = !field;

    if (added) {
        field = effects_alloc(&r->arena, sizeof(*field));
        *field = (struct field){.name = effects_copy(&r->arena, name)};
        HASH_ADD_KEYPTR(hh, hash->fields, field->name.data, name.len, field);
    }
    text_set(r, &field->value, to);
    return added;
}

static void do_hget(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    arity(lua, n == 2);
    push_or_nil(lua, field_find(lookup(r, lua, a[0], KIND_HASH), a[1]));
}

static void do_hmget(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *hash;

    arity(lua, n >= 2);
    hash = lookup(r, lua, a[0], KIND_HASH);
    lua_createtable(lua, n - 1, 0);
    for (int i = 1; i < n; i++) {
        push_or_nil(lua, field_find(hash, a[i]));
        lua_rawseti(lua, -2, i);
    }
}

static void do_hset(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *hash;
    int added = 0;

    arity(lua, n >= 3);
    if (n % 2 == 0)
        fail(lua, "ERR wrong number of arguments for 'hset' command");
    hash = lookup_or_make(r, lua, a[0], KIND_HASH);
    for (int i = 1; i < n; i += 2)
        added += field_set(r, hash, a[i], a[i + 1]);
    lua_pushinteger(lua, added);
}

static void do_hsetnx(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *hash;
    bool there;

    arity(lua, n == 3);
    hash = lookup_or_make(r, lua, a[0], KIND_HASH);
    there = field_find(hash, a[1]);
    if (!there)
        field_set(r, hash, a[1], a[2]);
    lua_pushinteger(lua, !there);
}

static void do_hdel(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *hash;
    int removed = 0;

    arity(lua, n >= 2);
    hash = lookup(r, lua, a[0], KIND_HASH);
    for (int i = 1; i < n; i++) {
        struct field *field = field_find(hash, a[i]);

        if (!field)
            continue;
        HASH_DEL(hash->fields, field);
        removed++;
    }
    if (hash && !hash->fields)
        discard(r, hash);
    lua_pushinteger(lua, removed);
}

static void do_hincrby(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *hash;
    const struct field *field;
    char text[SIMREDIS_INTEGER];
    int64_t by, sum = 0;

    arity(lua, n == 3);
    by = integer(lua, a[2]);
    hash = lookup(r, lua, a[0], KIND_HASH);
    field = field_find(hash, a[1]);
    if (field && !to_integer(bytes_of(field->value.data, field->value.len), &sum))
        fail(lua, "ERR hash value is not an integer");
    if (__builtin_add_overflow(sum, by, &sum))
        fail(lua, "ERR increment or decrement would overflow");
    field_set(r, hash ? hash : make(r, a[0], KIND_HASH), a[1],
              bytes_of(text, simredis_integer(sum, text)));
    lua_pushnumber(lua, (lua_Number)sum);
}

static void do_hexists(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    arity(lua, n == 2);
    lua_pushinteger(lua, field_find(lookup(r, lua, a[0], KIND_HASH), a[1]) != NULL);
}

static void do_hlen(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *hash;

    arity(lua, n == 1);
    hash = lookup(r, lua, a[0], KIND_HASH);
    lua_pushinteger(lua, hash ? (lua_Integer)HASH_COUNT(hash->fields) : 0);
}

static void do_hstrlen(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct field *field;

    arity(lua, n == 2);
    field = field_find(lookup(r, lua, a[0], KIND_HASH), a[1]);
    lua_pushinteger(lua, field ? (lua_Integer)field->value.len : 0);
}

static void add_field(lua_State *lua, int *count, const struct field *field)
{
    push(lua, field->name);
    add(lua, count);
    push_or_nil(lua, field);
    add(lua, count);
}

static void do_hgetall(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *hash;
    int count = 0;

    arity(lua, n == 1);
    hash = lookup(r, lua, a[0], KIND_HASH);
    lua_newtable(lua);
    for (const struct field *f = hash ? hash->fields : NULL; f; f = f->hh.next)
        add_field(lua, &count, f);
}

/* Random fields, always with a count and WITHVALUES: consecutive ones from a random one on. */
static void do_hrandfield(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *hash;
    const struct field *field;
    int64_t left, all;
    int count = 0;

    if (n != 3 || !word_is(a[2], "WITHVALUES"))
        fail(lua, "ERR syntax error");
    hash = lookup(r, lua, a[0], KIND_HASH);
    left = integer(lua, a[1]);
    lua_newtable(lua);
    if (!hash)
        return;
    r->chance = (uint32_t)((r->chance * UINT64_C(16807) + 11) % 2147483647);
    all = HASH_COUNT(hash->fields);
    field = hash->fields;
    for (uint32_t skip = r->chance % (uint32_t)all; skip > 0; skip--)
        field = field->hh.next;
    for (left = left < all ? left : all; left > 0; left--) {
        add_field(lua, &count, field);
        field = field->hh.next ? field->hh.next : hash->fields;
    }
}

/* ---- lists ---- */

static void do_rpush(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *list;

    arity(lua, n >= 2);
    list = lookup_or_make(r, lua, a[0], KIND_LIST);
    for (int i = 1; i < n; i++) {
        list->entries = room(r, list, list->entries, sizeof(*list->entries));
        list->entries[list->n++] = effects_copy(&r->arena, a[i]);
    }
    lua_pushinteger(lua, list->n);
}

/* The entries from *first up to *end, of @n; none if *first is not less. */
static void range(int64_t n, int64_t *first, int64_t *end)
{
    *first = *first < 0 ? *first + n : *first;
    *first = *first < 0 ? 0 : *first;
    *end = (*end < 0 ? *end + n : *end) + 1;
    *end = *end > n ? n : *end;
}

static void do_lrange(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *list;
    int64_t first, end;
    int count = 0;

    arity(lua, n == 3);
    first = integer(lua, a[1]);
    end = integer(lua, a[2]);
    list = lookup(r, lua, a[0], KIND_LIST);
    range(list ? list->n : 0, &first, &end);
    lua_newtable(lua);
    for (; first < end; first++) {
        push(lua, list->entries[first]);
        add(lua, &count);
    }
}

static void do_lindex(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *list;
    int64_t at;

    arity(lua, n == 2);
    list = lookup(r, lua, a[0], KIND_LIST);
    at = list ? integer(lua, a[1]) : 0;
    at = list && at < 0 ? at + list->n : at;
    if (list && at >= 0 && at < list->n)
        push(lua, list->entries[at]);
    else
        lua_pushboolean(lua, false);
}

static void do_ltrim(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *list;
    int64_t first, end;

    arity(lua, n == 3);
    first = integer(lua, a[1]);
    end = integer(lua, a[2]);
    list = lookup(r, lua, a[0], KIND_LIST);
    if (list) {
        range(list->n, &first, &end);
        list->n = first < end ? (uint32_t)(end - first) : 0;
        if (list->n > 0)
            memmove(list->entries, list->entries + first, list->n * sizeof(*list->entries));
        else
            discard(r, list);
    }
    push_ok(lua);
}

/* ---- sorted sets ---- */

static int compare_bytes(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* The place of a member with this score. */
static uint32_t place(const struct simredis_value *zset, double score, struct bytes name)
{
    uint32_t low = 0, high = zset->n;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct member *m = zset->members[middle];

        if (m->score < score || (m->score == score && compare_bytes(m->name, name) < 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct member *member_find(const struct simredis_value *zset, struct bytes name)
{
    struct member *member = NULL;

    if (zset)
        HASH_FIND(hh, zset->by_name, name.data, name.len, member);
    return member;
}

static void member_take(struct simredis_value *zset, const struct member *member)
{
    uint32_t i = place(zset, member->score, member->name);

    zset->n--;
    memmove(&zset->members[i], &zset->members[i + 1], (zset->n - i) * sizeof(struct member *));
}

/* Return: whether it is new. */
static bool member_set(struct simredis *r, struct simredis_value *zset, double score,
                       struct bytes name)
{
    struct member *member = member_find(zset, name);
    bool added = !member;
    uint32_t i;

    if (!added && member->score == score)
        return false;
    if (added) {
        member = effects_alloc(&r->arena, sizeof(*member));
        *member = (struct member){.name = effects_copy(&r->arena, name)};
        HASH_ADD_KEYPTR(hh, zset->by_name, member->name.data, name.len, member);
    } else {
        member_take(zset, member);
    }
    member->score = score;
    zset->members = room(r, zset, zset->members, sizeof(struct member *));
    i = place(zset, score, member->name);
    memmove(&zset->members[i + 1], &zset->members[i], (zset->n - i) * sizeof(struct member *));
    zset->members[i] = member;
    zset->n++;
    return added;
}

static void do_zadd(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *zset;
    double score;
    int added = 0;

    arity(lua, n >= 3);
    if (n % 2 == 0)
        fail(lua, "ERR syntax error");
    for (int i = 1; i < n; i += 2)
        if (!to_score(a[i], &score))
            fail(lua, "ERR value is not a valid float");
    zset = lookup_or_make(r, lua, a[0], KIND_ZSET);
    for (int i = 1; i < n; i += 2)
        if (to_score(a[i], &score))
            added += member_set(r, zset, score, a[i + 1]);
    lua_pushinteger(lua, added);
}

static void do_zrem(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *zset;
    int removed = 0;

    arity(lua, n >= 2);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    for (int i = 1; zset && i < n; i++) {
        struct member *member = member_find(zset, a[i]);

        if (!member)
            continue;
        member_take(zset, member);
        HASH_DELETE(hh, zset->by_name, member);
        removed++;
    }
    if (zset && zset->n == 0)
        discard(r, zset);
    lua_pushinteger(lua, removed);
}

static void do_zscore(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    double score;

    arity(lua, n == 2);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    if (simredis_score(zset, a[1], &score))
        push_score(lua, score);
    else
        lua_pushboolean(lua, false);
}

static void do_zcard(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;

    arity(lua, n == 1);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    lua_pushinteger(lua, zset ? (lua_Integer)zset->n : 0);
}

static void do_zrank(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    const struct member *member;

    arity(lua, n == 2);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    member = member_find(zset, a[1]);
    if (member)
        lua_pushinteger(lua, place(zset, member->score, member->name));
    else
        lua_pushboolean(lua, false);
}

static void do_zcount(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    struct bound least, most;
    int count = 0;

    arity(lua, n == 3);
    least = bound(lua, a[1]);
    most = bound(lua, a[2]);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    for (uint32_t i = 0; zset && i < zset->n; i++)
        count += above(least, zset->members[i]->score) && below(most, zset->members[i]->score);
    lua_pushinteger(lua, count);
}

static void add_member(lua_State *lua, int *count, const struct member *m, bool with_score)
{
    push(lua, m->name);
    add(lua, count);
    if (with_score) {
        push_score(lua, m->score);
        add(lua, count);
    }
}

static void do_zrange(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    int64_t first, end;
    int count = 0;

    arity(lua, n >= 3);
    first = integer(lua, a[1]);
    end = integer(lua, a[2]);
    if (n > 4 || (n == 4 && !word_is(a[3], "WITHSCORES")))
        fail(lua, "ERR syntax error");
    zset = lookup(r, lua, a[0], KIND_ZSET);
    range(zset ? zset->n : 0, &first, &end);
    lua_newtable(lua);
    for (; first < end; first++)
        add_member(lua, &count, zset->members[first], n == 4);
}

static void do_zrangebyscore(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    struct bound least, most;
    int64_t skip = 0, left = -1;
    int count = 0;

    arity(lua, n >= 3);
    if (n > 3) {
        if (n != 6 || !word_is(a[3], "LIMIT"))
            fail(lua, "ERR syntax error");
        skip = integer(lua, a[4]);
        left = integer(lua, a[5]);
    }
    least = bound(lua, a[1]);
    most = bound(lua, a[2]);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    lua_newtable(lua);
    for (uint32_t i = 0; zset && skip >= 0 && left != 0 && i < zset->n; i++) {
        if (!below(most, zset->members[i]->score))
            break;
        if (!above(least, zset->members[i]->score) || skip-- > 0)
            continue;
        skip = 0;
        left--;
        add_member(lua, &count, zset->members[i], false);
    }
}

/* Highest first, always with WITHSCORES and LIMIT, as the store functions use it. */
static void do_zrevrangebyscore(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *zset;
    struct bound least, most;
    int64_t skip, left;
    int count = 0;

    if (n != 7 || !word_is(a[3], "WITHSCORES") || !word_is(a[4], "LIMIT"))
        fail(lua, "ERR syntax error");
    skip = integer(lua, a[5]);
    left = integer(lua, a[6]);
    most = bound(lua, a[1]);
    least = bound(lua, a[2]);
    zset = lookup(r, lua, a[0], KIND_ZSET);
    lua_newtable(lua);
    for (uint32_t i = zset ? zset->n : 0; skip >= 0 && left != 0 && i > 0; i--) {
        const struct member *m = zset->members[i - 1];

        if (!above(least, m->score))
            break;
        if (!below(most, m->score) || skip-- > 0)
            continue;
        skip = 0;
        left--;
        add_member(lua, &count, m, true);
    }
}

/* ---- strings, keys, the clock ---- */

static void do_get(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    const struct simredis_value *value;

    arity(lua, n == 1);
    value = lookup(r, lua, a[0], KIND_STRING);
    if (value)
        lua_pushlstring(lua, (const char *)value->text.data, value->text.len);
    else
        lua_pushboolean(lua, false);
}

static void do_set(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    struct simredis_value *value;

    arity(lua, n == 2);
    value = find(r, a[0]);
    if (value && value->kind != KIND_STRING) {
        discard(r, value);
        value = NULL;
    }
    text_set(r, &(value ? value : make(r, a[0], KIND_STRING))->text, a[1]);
    push_ok(lua);
}

static void do_del(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    int removed = 0;

    arity(lua, n >= 1);
    for (int i = 0; i < n; i++) {
        struct simredis_value *value = find(r, a[i]);

        if (!value)
            continue;
        discard(r, value);
        removed++;
    }
    lua_pushinteger(lua, removed);
}

static void do_exists(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    int count = 0;

    arity(lua, n >= 1);
    for (int i = 0; i < n; i++)
        count += find(r, a[i]) != NULL;
    lua_pushinteger(lua, count);
}

static void do_time(struct simredis *r, lua_State *lua, const struct bytes *a, int n)
{
    lua_createtable(lua, 2, 0);
    push_score(lua, (double)(r->now / 1000));
    lua_rawseti(lua, -2, 1);
    push_score(lua, (double)(r->now % 1000 * 1000));
    lua_rawseti(lua, -2, 2);
}

/* ---- redis.call ---- */

static const struct command {
    const char *name;
    command_fn *run;
    bool writes;
} commands[] = {
    {"HGET", do_hget, false},
    {"HMGET", do_hmget, false},
    {"HSET", do_hset, true},
    {"HSETNX", do_hsetnx, true},
    {"HDEL", do_hdel, true},
    {"HINCRBY", do_hincrby, true},
    {"HEXISTS", do_hexists, false},
    {"HSTRLEN", do_hstrlen, false},
    {"HGETALL", do_hgetall, false},
    {"HLEN", do_hlen, false},
    {"HRANDFIELD", do_hrandfield, false},
    {"RPUSH", do_rpush, true},
    {"LRANGE", do_lrange, false},
    {"LINDEX", do_lindex, false},
    {"LTRIM", do_ltrim, true},
    {"ZADD", do_zadd, true},
    {"ZREM", do_zrem, true},
    {"ZCARD", do_zcard, false},
    {"ZSCORE", do_zscore, false},
    {"ZRANK", do_zrank, false},
    {"ZCOUNT", do_zcount, false},
    {"ZRANGE", do_zrange, false},
    {"ZRANGEBYSCORE", do_zrangebyscore, false},
    {"ZREVRANGEBYSCORE", do_zrevrangebyscore, false},
    {"GET", do_get, false},
    {"SET", do_set, true},
    {"DEL", do_del, true},
    {"UNLINK", do_del, true},
    {"EXISTS", do_exists, false},
    {"TIME", do_time, false},
};

/* A number is accepted as text. The text replaces it on the stack, which keeps it. */
static void number_to_text(lua_State *lua, int index)
{
    push_number(lua, lua_tonumber(lua, index));
    lua_replace(lua, index);
}

static void take_arguments(struct simredis *r, lua_State *lua, int n)
{
    if (n > r->args_size) {
        r->args_size = 2 * n;
        r->args = or_abort(realloc(r->args, (size_t)r->args_size * sizeof(*r->args)));
    }
    for (int i = 0; i < n; i++) {
        int type = lua_type(lua, i + 2);
        size_t len;
        const char *text;

        if (type == LUA_TNUMBER)
            number_to_text(lua, i + 2);
        else if (type != LUA_TSTRING)
            fail(lua, "ERR Lua redis lib command arguments must be strings or integers");
        text = lua_tolstring(lua, i + 2, &len);
        r->args[i] = bytes_of(text, len);
    }
}

/* Upvalues: the Redis, and a table of commands by name. */
static int call(lua_State *lua)
{
    struct simredis *r = lua_touserdata(lua, lua_upvalueindex(1));
    const struct command *command;
    int n = lua_gettop(lua) - 1;

    luaL_checkstring(lua, 1);
    take_arguments(r, lua, n);
    lua_pushvalue(lua, 1);
    lua_rawget(lua, lua_upvalueindex(2));
    command = lua_touserdata(lua, -1);
    if (!command)
        fail(lua, "ERR Unknown Redis command called from script");
    if (command->writes && r->read_only)
        fail(lua, "ERR Write commands are not allowed from read-only scripts.");
    command->run(r, lua, r->args, n);
    return 1;
}

void simredis_push_call(struct simredis *r, lua_State *lua)
{
    lua_pushlightuserdata(lua, r);
    lua_newtable(lua);
    for (size_t i = 0; i < array_size(commands); i++) {
        lua_pushlightuserdata(lua, (void *)&commands[i]);
        lua_setfield(lua, -2, commands[i].name);
    }
    lua_pushcclosure(lua, call, 2);
}

/* ---- setup ---- */

struct simredis *simredis_new(void)
{
    struct simredis *r = or_abort(calloc(1, sizeof(*r)));

    simredis_reset(r);
    return r;
}

struct simredis *simredis_free(struct simredis *r)
{
    if (!r)
        return NULL;
    simredis_reset(r);
    effects_deinit(&r->arena);
    free(r->args);
    free(r);
    return NULL;
}

void simredis_reset(struct simredis *r)
{
    for (struct simredis_value *value = r->keys; value; value = value->hh.next)
        clear(value);
    HASH_CLEAR(hh, r->keys);
    effects_reset(&r->arena);
    r->chance = 1;
    r->read_only = false;
}

void simredis_set_clock(struct simredis *r, int64_t now)
{
    r->now = now;
}

void simredis_set_read_only(struct simredis *r, bool read_only)
{
    r->read_only = read_only;
}

/* ---- inspection ---- */

static uint64_t fields_digest(const struct simredis_value *hash)
{
    uint64_t sum = 0;

    for (const struct field *f = hash->fields; f; f = f->hh.next)
        sum +=
            digest_bytes(digest_bytes(DIGEST_INIT, f->name), bytes_of(f->value.data, f->value.len));
    return sum;
}

static uint64_t value_digest(const struct simredis_value *value)
{
    uint64_t d = digest_bytes(DIGEST_INIT, value->key);

    if (value->kind == KIND_HASH)
        return digest_number(d, fields_digest(value));
    if (value->kind == KIND_STRING)
        return digest_bytes(d, bytes_of(value->text.data, value->text.len));
    for (uint32_t i = 0; i < value->n; i++) {
        if (value->kind == KIND_LIST) {
            d = digest_bytes(d, value->entries[i]);
        } else {
            d = digest_bytes(d, value->members[i]->name);
            d = digest_number(d, (uint64_t)(int64_t)value->members[i]->score);
        }
    }
    return d;
}

uint64_t simredis_digest(const struct simredis *r)
{
    uint64_t sum = 0;

    for (const struct simredis_value *value = r->keys; value; value = value->hh.next)
        sum += value_digest(value);
    return sum;
}

void simredis_each(const struct simredis *r, void (*fn)(void *ctx, struct bytes key), void *ctx)
{
    for (const struct simredis_value *value = r->keys; value; value = value->hh.next)
        fn(ctx, value->key);
}

const struct simredis_value *simredis_find(const struct simredis *r, struct bytes key)
{
    return find(r, key);
}

struct bytes simredis_field(const struct simredis_value *hash, struct bytes name)
{
    const struct field *field = field_find(hash, name);

    return field ? bytes_of(field->value.data, field->value.len) : BYTES_EMPTY;
}

struct bytes simredis_text(const struct simredis_value *string)
{
    return string ? bytes_of(string->text.data, string->text.len) : BYTES_EMPTY;
}

uint32_t simredis_length(const struct simredis_value *list)
{
    return list ? list->n : 0;
}

struct bytes simredis_entry(const struct simredis_value *list, uint32_t i)
{
    return list && i < list->n ? list->entries[i] : BYTES_EMPTY;
}

uint32_t simredis_card(const struct simredis_value *zset)
{
    return zset ? zset->n : 0;
}

bool simredis_score(const struct simredis_value *zset, struct bytes member, double *score)
{
    const struct member *found = member_find(zset, member);

    if (!found)
        return false;
    *score = found->score;
    return true;
}
