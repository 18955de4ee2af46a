// SPDX-License-Identifier: Apache-2.0
/*
 * Holds redis.lua against a real Redis: the same random words to both, the same answers from both
 *
 *     test_redis_diff PORT FUNCTIONS [FIRST LAST]
 *
 * Each seed is a sequence of plain commands, with wrong types and numbers among them, and one of
 * calls of the store functions, made by the same code that the roles use. FUNCTIONS is the library
 * with its clock replaced by the key "clock", so that both sides live at the same time.
 * redis_diff.py starts the server and makes that file. The server is emptied.
 */
#include <hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/store_ops.h"
#include "plan.h"
#include "store.h"
#include "timeline.h"

#define COMMANDS 300 /* of one seed */
#define CALLS 300
#define WORDS_MAX 16
#define TOKENS_MAX 64

struct both {
    struct timeline t;
    struct simstore *sim;
    redisContext *real;
    int64_t clock;
    bool failed;
    char jobs[4][8];
    char digests[PLAN_DEFINITIONS][ID_DIGEST_LEN + 1];
    struct workflow *workflows[PLAN_DEFINITIONS];
    struct {
        const char *job;
        const char *token;
    } tokens[TOKENS_MAX];
    uint32_t n_tokens;
};

/* ---- replies as text ---- */

static void describe(const redisReply *r, struct buf *out)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        buf_printf(out, ":%lld", r->integer);
        break;
    case REDIS_REPLY_NIL:
        buf_puts(out, "_");
        break;
    case REDIS_REPLY_STATUS:
        buf_printf(out, "+%s", r->str);
        break;
    case REDIS_REPLY_ERROR:
        buf_printf(out, "-%s", r->str);
        break;
    case REDIS_REPLY_ARRAY:
        buf_puts(out, "[");
        for (size_t i = 0; i < r->elements; i++) {
            buf_puts(out, " ");
            describe(r->element[i], out);
        }
        buf_puts(out, " ]");
        break;
    default:
        buf_puts(out, "$");
        buf_append(out, r->str, (size_t)r->len);
        break;
    }
}

static redisReply *ask(struct both *b, int n, const char **words, const size_t *lengths)
{
    redisReply *r = redisCommandArgv(b->real, n, words, lengths);

    if (!r) {
        fprintf(stderr, "redis: %s\n", b->real->errstr);
        exit(2);
    }
    return r;
}

static void compare(struct both *b, const char *what, struct buf *real, struct buf *sim)
{
    if (strcmp(buf_str(real), buf_str(sim)) == 0)
        return;
    b->failed = true;
    printf("# %s\n#   redis:     %s\n#   redis.lua: %s\n", what, buf_str(real), buf_str(sim));
}

static void command(struct both *b, const char **words, int n)
{
    CLEANUP(buf_deinit) struct buf real = {0}, sim = {0}, what = {0};
    redisReply *r = ask(b, n, words, NULL);

    for (int i = 0; i < n; i++)
        buf_printf(&what, "%s ", words[i]);
    describe(r, &real);
    freeReplyObject(r);
    simstore_command(b->sim, words, n, &sim);
    compare(b, buf_str(&what), &real, &sim);
}

/* ---- random commands ---- */

static const char *one_of(struct both *b, const char *const *list, size_t n)
{
    return list[timeline_between(&b->t, 0, (int64_t)n - 1)];
}

static const char *any_word(struct both *b, char kind)
{
    static const char *const keys[] = {"h1", "h2", "l1", "l2", "z1", "z2", "s1", "s2"};
    static const char *const names[] = {"a", "b", "c", "17", "B", "aa", "", "\303\251"};
    static const char *const scores[] = {"1",   "2",    "2",   "-3",   "1.5", "0.1", "1700000000123",
                                         "inf", "-inf", "1e3", "+4",   "x",   "",    "-0",
                                         "3 ",  "0x10", "nan", "1e400"};
    static const char *const bounds[] = {"-inf", "+inf", "1", "(1", "2", "(2", "1.5", "-3", "x", "("};
    static const char *const numbers[] = {"0", "1", "2", "-1", "-2", "100", "x", "01", "1.5", ""};

    switch (kind) {
    case 'k':
        return one_of(b, keys, array_size(keys));
    case 's':
        return one_of(b, scores, array_size(scores));
    case 'b':
        return one_of(b, bounds, array_size(bounds));
    case 'i':
        return one_of(b, numbers, array_size(numbers));
    default:
        return one_of(b, names, array_size(names));
    }
}

static void random_command(struct both *b)
{
    /* k key, n name or value, s score, b bound, i integer, others as they stand */
    static const char *const shapes[] = {
        "HGET k n",          "HMGET k n n n",     "HSET k n n",        "HSET k n i n n",
        "HSETNX k n n",      "HINCRBY k n i",     "HEXISTS k n",       "HSTRLEN k n",
        "RPUSH k n",         "RPUSH k n n n",     "LTRIM k i i",       "ZADD k s n",
        "ZADD k s n s n",    "ZREM k n n",        "ZSCORE k n",        "ZRANGE k i i",
        "ZRANGE k i i WITHSCORES",                "ZRANGEBYSCORE k b b",
        "ZRANGEBYSCORE k b b LIMIT i i",          "GET k",             "SET k n",
        "DEL k",             "UNLINK k k",        "EXISTS k k k",
    };
    const char *words[WORDS_MAX];
    int n = 0;
    char *copy = strdup(one_of(b, shapes, array_size(shapes))), *rest = copy;

    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            words[n++] = word[1] ? word : any_word(b, *word);
    command(b, words, n);
    free(copy);
}

/* ---- random calls ---- */

static void call_real(struct both *b, const struct effect *e, struct buf *out)
{
    const char *words[4 + 4096];
    size_t lengths[4 + 4096];
    char function[64];
    int n = 0;
    redisReply *r;

    if (e->store.n > 4096)
        abort();
    snprintf(function, sizeof(function), "drover1_%s", e->store.function);
    words[n++] = "FCALL";
    words[n++] = function;
    words[n++] = "1";
    words[n++] = "drover:{p0}:";
    for (int i = 0; i < n; i++)
        lengths[i] = strlen(words[i]);
    for (int i = 0; i < e->store.n; i++, n++) {
        words[n] = e->store.args[i].len ? (const char *)e->store.args[i].data : "";
        lengths[n] = e->store.args[i].len;
    }
    r = ask(b, n, words, lengths);
    describe(r, out);
    freeReplyObject(r);
}

static void call_sim(struct both *b, const struct effect *e, struct buf *out)
{
    struct store_answer answer;

    simstore_call(b->sim, 0, false, 0, e->store.function, e->store.args, e->store.n, &answer);
    buf_puts(out, answer.result == STORE_OK ? "[" : "-");
    for (uint32_t i = 0; i < answer.n; i++) {
        buf_puts(out, " $");
        buf_append(out, answer.items[i].data, answer.items[i].len);
    }
    buf_puts(out, " ]");
}

static void keep_tokens(struct both *b, const struct effect *e, const char *job)
{
    struct store_answer answer;
    struct ops_reader r;
    struct ops_driven driven;

    /* the same answer once more would change things: read the records instead */
    ops_inspect_job(&b->t.arena, 0, 0, job, 0, 100, false);
    e = &b->t.arena.items[b->t.arena.n - 1];
    simstore_call(b->sim, 0, false, 0, "inspect", e->store.args, e->store.n, &answer);
    (void)driven;
    r = ops_reader(&answer);
    struct ops_job found;

    if (ops_read_job(&r, &b->t.arena, &found))
        return;
    for (uint32_t i = 0; i < found.n_steps; i++) {
        struct ops_step_record record;

        if (found.steps[i].record.len == 0 || ops_read_step_record(found.steps[i].record, &record))
            continue;
        b->tokens[b->n_tokens % TOKENS_MAX].job = job;
        b->tokens[b->n_tokens++ % TOKENS_MAX].token = timeline_str(&b->t, record.token);
    }
}

