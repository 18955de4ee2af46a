// SPDX-License-Identifier: Apache-2.0
/*
 * Compares redis.c with a real Redis: the same random commands to both must give the same answers
 *
 *     test_redis_diff PORT FUNCTIONS [FIRST LAST]
 *
 * Each seed is a sequence of plain commands, some of them with wrong types and numbers, and one of
 * calls of the store functions, made by the same code that the daemons use. FUNCTIONS is the
 * library with its clock replaced by the key "clock", so that both sides have the same time.
 * redis_diff.py starts the server and makes that file. The server is emptied.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/store_ops.h"
#include "store/store.h"
#include "world/plan.h"
#include "world/timeline.h"

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
    struct workflow *workflows[PLAN_DEFINITIONS];
    struct {
        const char *job;
        const char *token;
    } tokens[TOKENS_MAX];
    uint32_t n_tokens;
};

/* ---- replies, as they were sent ---- */

static void describe(const redisReply *r, struct buf *out)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        buf_printf(out, ":%lld\r\n", r->integer);
        break;
    case REDIS_REPLY_NIL:
        buf_puts(out, "$-1\r\n");
        break;
    case REDIS_REPLY_STATUS:
        buf_printf(out, "+%s\r\n", r->str);
        break;
    case REDIS_REPLY_ERROR:
        buf_printf(out, "-%s\r\n", r->str);
        break;
    case REDIS_REPLY_ARRAY:
        buf_printf(out, "*%zu\r\n", r->elements);
        for (size_t i = 0; i < r->elements; i++)
            describe(r->element[i], out);
        break;
    default:
        buf_printf(out, "$%zu\r\n", r->len);
        buf_append(out, r->str, r->len);
        buf_puts(out, "\r\n");
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
    CLEANUP(buf_deinit) struct buf text = {0};

    if (bytes_equal(buf_bytes(real), buf_bytes(sim)))
        return;
    b->failed = true;
    buf_puts(&text, "#   redis:     ");
    buf_json(&text, buf_str(real), real->len);
    buf_puts(&text, "\n#   redis.c:   ");
    buf_json(&text, buf_str(sim), sim->len);
    printf("# %s\n%s\n", what, buf_str(&text));
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
    static const char *const scores[] = {
        "1",   "2",  "2", "-3", "1.5", "0.5", "1700000000123", "inf", "-inf",
        "1e3", "+4", "x", "",   "-0",  "3 ",  "0x10",          "nan", "1e400"};
    static const char *const bounds[] = {"-inf", "+inf", "1",  "(1", "2",
                                         "(2",   "1.5",  "-3", "x",  "("};
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
    /* k key, n name or value, s score, b bound, i integer; others are literal */
    static const char *const shapes[] = {
        "HGET k n",
        "HMGET k n n n",
        "HSET k n n",
        "HSET k n i n n",
        "HSETNX k n n",
        "HINCRBY k n i",
        "HEXISTS k n",
        "HSTRLEN k n",
        "HLEN k",
        "HGETALL k",
        "HDEL k n n",
        "RPUSH k n",
        "RPUSH k n n n",
        "LTRIM k i i",
        "LRANGE k i i",
        "LINDEX k i",
        "ZADD k s n",
        "ZADD k s n s n",
        "ZREM k n n",
        "ZSCORE k n",
        "ZCARD k",
        "ZRANK k n",
        "ZCOUNT k b b",
        "ZRANGE k i i",
        "ZRANGE k i i WITHSCORES",
        "ZRANGEBYSCORE k b b",
        "ZRANGEBYSCORE k b b LIMIT i i",
        "ZREVRANGEBYSCORE k b b WITHSCORES LIMIT i i",
        "GET k",
        "SET k n",
        "DEL k",
        "UNLINK k k",
        "EXISTS k k k",
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

static void call_sim(struct both *b, const struct effect *e, struct buf *out,
                     struct store_answer *answer)
{
    simstore_call(b->sim, 0, false, 0, e->store.function, e->store.args, e->store.n, answer);
    simstore_reply(answer, out);
}

static void keep_tokens(struct both *b, struct ops_reader r, const char *job)
{
    struct ops_transition transition;

    while (r.left > 0 && ops_read_transition(&r, &b->t.arena, &transition) == 0) {
        for (uint32_t i = 0; i < transition.n_requests; i++) {
            uint32_t at = b->n_tokens++ % TOKENS_MAX;

            b->tokens[at].job = job;
            b->tokens[at].token =
                (const char *)effects_copy(&b->t.arena, transition.requests[i].token).data;
        }
    }
}

/* Makes the call that was appended last on both sides. */
static void call_both(struct both *b, const char *job)
{
    CLEANUP(buf_deinit) struct buf real = {0}, sim = {0};
    const struct effect *e = &b->t.arena.items[b->t.arena.n - 1];
    struct store_answer answer;

    call_real(b, e, &real);
    call_sim(b, e, &sim, &answer);
    compare(b, e->store.function, &real, &sim);
    if (answer.result != STORE_OK) {
        b->failed = true;
        printf("# %s fails: %.*s\n", e->store.function, (int)answer.items[0].len,
               (const char *)answer.items[0].data);
    }
    if (job)
        keep_tokens(b, ops_reader(&answer), job);
}

static void set_clock(struct both *b)
{
    const char *text = effects_printf(&b->t.arena, "%" PRId64, b->clock);

    command(b, (const char *[]){"SET", "clock", text}, 3);
}

static const char *any_job(struct both *b)
{
    return b->jobs[timeline_between(&b->t, 0, (int64_t)array_size(b->jobs) - 1)];
}

static char *new_nonce(struct both *b, char out[NONCE_LEN + 1])
{
    struct nonces nonces;

    nonces_seed(&nonces, rng_next(&b->t.rng));
    nonces_next(&nonces, out);
    return out;
}

static void random_define(struct both *b, uint32_t i)
{
    ops_define(&b->t.arena, 0, 0, b->workflows[i], 0, timeline_chance(&b->t, 500000));
    call_both(b, NULL);
}

/* The owner that the job must have, if the call checks that. */
static const char *any_owner(struct both *b)
{
    return timeline_chance(&b->t, 800000) ? NULL : timeline_chance(&b->t, 500000) ? "ann" : "bob";
}

static void random_submit(struct both *b)
{
    uint32_t i = (uint32_t)timeline_between(&b->t, 0, PLAN_DEFINITIONS - 1);
    bool by_name = timeline_chance(&b->t, 300000) && *b->workflows[i]->name;
    char nonce[NONCE_LEN + 1];
    const char *job = any_job(b);
    const struct ops_submit_args op = {
        .job = job,
        .digest = timeline_chance(&b->t, 50000) ? "other" : "same",
        .definition = by_name ? "" : b->workflows[i]->digest,
        .workflow = by_name ? b->workflows[i]->name : "",
        .redelivered = timeline_chance(&b->t, 300000),
        .nonce = new_nonce(b, nonce),
        .scheduler = "scheduler",
        .active = !timeline_chance(&b->t, 50000),
        .start_at = timeline_chance(&b->t, 200000) ? b->clock + 500 : 0,
        .reply_to = "inbox",
        .correlation = "",
        .input = bytes_str("input"),
        .labels = BYTES_EMPTY,
        .index = timeline_chance(&b->t, 300000) ? bytes_str("8:site=a=b4:x=\n:") : BYTES_EMPTY,
        .traceparent = "",
        .submitter = timeline_chance(&b->t, 500000) ? "" : "ann",
        .owner = any_owner(b),
    };

    ops_submit(&b->t.arena, 0, 0, &op);
    call_both(b, job);
}

static void random_record(struct both *b)
{
    static const enum report_kind kinds[] = {
        REPORT_ACTIVE,    REPORT_ACTIVE,   REPORT_ACTIVE,    REPORT_ACTIVE,
        REPORT_ACTIVE,    REPORT_DISABLED, REPORT_TRANSIENT, REPORT_TRANSIENT,
        REPORT_PERMANENT, REPORT_DEFERRED, REPORT_UNSTARTED, REPORT_UNROUTABLE,
    };
    struct ops_record_args op = {
        .result = bytes_str("result"), .error = bytes_str("error"), .class = "broken"};
    const struct ops_record_args *list[] = {&op};
    uint32_t at =
        b->n_tokens ? (uint32_t)timeline_between(&b->t, 0, TOKENS_MAX - 1) % b->n_tokens : 0;

    if (!b->n_tokens)
        return;
    op.kind = kinds[timeline_between(&b->t, 0, array_size(kinds) - 1)];
    op.job = b->tokens[at].job;
    op.token = b->tokens[at].token;
    op.redelivered = timeline_chance(&b->t, 300000);
    op.jitter = (uint32_t)timeline_between(&b->t, 0, 999999);
    op.retry_after = timeline_chance(&b->t, 200000) ? 1234 : 0;
    op.no_effect = timeline_chance(&b->t, 300000);
    new_nonce(b, op.nonce);
    ops_record(&b->t.arena, 0, 0, "scheduler", list, 1);
    call_both(b, op.job);
}

static void random_drive(struct both *b)
{
    uint32_t steps[12];
    char nonce[NONCE_LEN + 1];
    const char *job = any_job(b);

    for (uint32_t i = 0; i < array_size(steps); i++)
        steps[i] = i;
    ops_drive(&b->t.arena, 0, 0, job, new_nonce(b, nonce), "scheduler",
              timeline_chance(&b->t, 300000), steps, array_size(steps));
    call_both(b, job);
}

static void random_steer(struct both *b)
{
    static const char *const commands[] = {"enable", "disable", "disable", "cancel",
                                           "pause",  "resume",  "resume",  "retry",
                                           "retry",  "resolve", "kill",    "dance"};
    static const char *const ids[] = {"", "", "c1", "c2", "c 3"};
    char nonce[NONCE_LEN + 1];
    uint32_t step = (uint32_t)timeline_between(&b->t, 0, 1);
    struct ops_steer_args op = {.job = any_job(b),
                                .command = one_of(b, commands, array_size(commands)),
                                .command_id = one_of(b, ids, array_size(ids)),
                                .issued_at = timeline_chance(&b->t, 500000) ? b->clock : 0,
                                .if_seq = timeline_chance(&b->t, 900000) ? 0 : 7,
                                .reason = "why not",
                                .scheduler = "scheduler",
                                .nonce = new_nonce(b, nonce),
                                .definition = timeline_chance(&b->t, 950000) ? "" : "another",
                                .owner = any_owner(b),
                                .steps = &step};

    if (!timeline_chance(&b->t, 300000))
        return;
    for (uint32_t i = 0; i < PLAN_DEFINITIONS; i++)
        if (step >= b->workflows[i]->n_steps)
            step = 0; /* a step that each of them has */
    if (strcmp(op.command, "resolve") == 0)
        op.state = timeline_chance(&b->t, 500000) ? STATE_ACTIVE : STATE_DISABLED;
    op.n_steps = op.state || timeline_chance(&b->t, 500000);
    if (timeline_chance(&b->t, 300000))
        op.payload = bytes_str("edited");
    ops_steer(&b->t.arena, 0, 0, &op);
    call_both(b, op.job);
}

static void random_renew(struct both *b)
{
    uint32_t at =
        b->n_tokens ? (uint32_t)timeline_between(&b->t, 0, TOKENS_MAX - 1) % b->n_tokens : 0;

    if (!b->n_tokens)
        return;
    ops_renew(&b->t.arena, 0, 0, b->tokens[at].job, b->tokens[at].token,
              &(struct ops_progress){0.25, "a quarter", "me", 700}, "");
    call_both(b, NULL);
}

static void random_read(struct both *b)
{
    static const char *const indexes[] = {"due",  "open", "settled", "owed",
                                          "defs", "jobs", "failed",  "l:site=a=b"};
    const char *key =
        effects_printf(&b->t.arena, "drover:{p0}:%s", one_of(b, indexes, array_size(indexes)));

    command(b, (const char *[]){"ZRANGE", key, "0", "-1", "WITHSCORES"}, 5);
    ops_inspect_job(&b->t.arena, 0, 0, any_job(b), 0, 100, true, any_owner(b));
    call_both(b, NULL);
}

static void random_list(struct both *b)
{
    static const char *const phases[] = {"", "", "PENDING", "PROCESSING", "PROCESSED", "ERROR"};
    static const char *const needs[] = {"", "", "any", "parked", "deadline", "ended"};
    const char *label = "site", *value = "a=b";
    const struct ops_list_args op = {
        .before = timeline_chance(&b->t, 500000) ? INT64_MAX : b->clock - 500,
        .before_id = timeline_chance(&b->t, 500000) ? "" : any_job(b),
        .since = timeline_chance(&b->t, 500000) ? 0 : b->clock - 2000,
        .limit = (uint32_t)timeline_between(&b->t, 1, 4),
        .phase = one_of(b, phases, array_size(phases)),
        .workflow = timeline_chance(&b->t, 700000) ? "" : b->workflows[0]->full_name,
        .needs = one_of(b, needs, array_size(needs)),
        .class = timeline_chance(&b->t, 800000) ? "" : "DEATHS",
        .actor = timeline_chance(&b->t, 800000) ? "" : b->workflows[0]->steps[0].forward.actor,
        .labels = &label,
        .values = &value,
        .n_labels = timeline_chance(&b->t, 300000),
    };

    ops_inspect_jobs(&b->t.arena, 0, 0, &op);
    call_both(b, NULL);
    ops_inspect_workflows(&b->t.arena, 0, 0, timeline_chance(&b->t, 500000) ? "" : "w",
                          (uint32_t)timeline_between(&b->t, 1, 3));
    call_both(b, NULL);
    ops_inspect_history(&b->t.arena, 0, 0, any_job(b), (uint64_t)timeline_between(&b->t, 0, 20), 10,
                        any_owner(b));
    call_both(b, NULL);
    ops_alert_cause(&b->t.arena, 0, 0, "NO_AGENT a",
                    (enum ops_cause)timeline_between(&b->t, OPS_CAUSE_ASK, OPS_CAUSE_OVER),
                    timeline_chance(&b->t, 500000) ? "0a" : "0b");
    call_both(b, NULL);
}

static void random_upkeep(struct both *b)
{
    switch (timeline_between(&b->t, 0, 5)) {
    case 0:
        ops_sweep(&b->t.arena, 0, 0,
                  effects_printf(&b->t.arena, "%" PRId64 " %s %s 0 0 0 0",
                                 b->clock - timeline_between(&b->t, 0, 3), any_job(b),
                                 timeline_chance(&b->t, 500000) ? "0" : "-"));
        break;
    case 1:
        ops_lead(&b->t.arena, 0, 0, timeline_chance(&b->t, 500000) ? "one" : "two",
                 timeline_between(&b->t, 0, 3000));
        break;
    case 2:
        ops_forget(&b->t.arena, 0, 0, timeline_between(&b->t, 0, 60000), 2);
        break;
    default:
        ops_expire(&b->t.arena, 0, 0, 0, 10, (uint32_t)timeline_between(&b->t, 0, 5) / 5,
                   &(struct ops_clock){.jump = 5000, .after = b->clock - 90, .at = b->clock - 50});
        break;
    }
    call_both(b, NULL);
}

static void random_call(struct both *b)
{
    static void (*const calls[])(struct both *) = {
        random_submit, random_submit, random_record, random_record, random_record,
        random_record, random_drive,  random_drive,  random_steer,  random_renew,
        random_upkeep, random_upkeep, random_read,   random_list,
    };

    b->clock += timeline_between(&b->t, 0, 400);
    set_clock(b);
    calls[timeline_between(&b->t, 0, (int64_t)array_size(calls) - 1)](b);
    b->t.arena.n = 0; /* the memory stays: tokens are in it */
}

/* ---- sequences ---- */

static void begin(struct both *b, uint64_t seed)
{
    redisReply *r = ask(b, 1, (const char *[]){"FLUSHALL"}, NULL);
    struct plan plan;
    struct problem problem;

    freeReplyObject(r);
    simstore_reset(b->sim, 0);
    timeline_init(&b->t, seed, NULL);
    b->clock = INT64_C(1700000000000);
    b->n_tokens = 0;
    do
        plan_draw(&plan, &b->t, seed);
    while (plan.big || plan.n_definitions < PLAN_DEFINITIONS);
    for (uint32_t i = 0; i < PLAN_DEFINITIONS; i++)
        if (workflow_new(&b->workflows[i], plan.definitions[i].message, "", &problem))
            abort();
    for (uint32_t i = 0; i < array_size(b->jobs); i++)
        snprintf(b->jobs[i], sizeof(b->jobs[i]), "j%u", (unsigned)i + 1);
}

static void end(struct both *b)
{
    for (uint32_t i = 0; i < PLAN_DEFINITIONS; i++)
        b->workflows[i] = workflow_unref(b->workflows[i]);
    timeline_deinit(&b->t);
}

static void run_seed(struct both *b, uint64_t seed)
{
    begin(b, seed);
    for (int i = 0; i < COMMANDS && !b->failed; i++)
        random_command(b);
    set_clock(b);
    for (uint32_t i = 0; i < PLAN_DEFINITIONS; i++)
        random_define(b, i);
    for (int i = 0; i < CALLS && !b->failed; i++)
        random_call(b);
    end(b);
}

static void load_functions(struct both *b, const char *path)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    FILE *file = fopen(path, "r");
    size_t n;
    redisReply *r;

    if (!file) {
        perror(path);
        exit(2);
    }
    while ((n = fread(buf_reserve(&text, 65536), 1, 65536, file)) > 0)
        text.len += n;
    fclose(file);
    r = ask(b, 4, (const char *[]){"FUNCTION", "LOAD", "REPLACE", buf_str(&text)}, NULL);
    if (r->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "redis: %s\n", r->str);
        exit(2);
    }
    freeReplyObject(r);
}

int main(int argc, char **argv)
{
    struct both b = {0};
    uint64_t first = 1, last = 50;

    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: %s PORT FUNCTIONS [FIRST LAST]\n", argv[0]);
        return 64;
    }
    if (argc == 5) {
        first = strtoull(argv[3], NULL, 10);
        last = strtoull(argv[4], NULL, 10);
    }
    b.real = redisConnect("127.0.0.1", atoi(argv[1]));
    if (!b.real || b.real->err) {
        fprintf(stderr, "no redis on port %s\n", argv[1]);
        return 2;
    }
    b.sim = simstore_new(argv[2]);
    load_functions(&b, argv[2]);
    for (uint64_t seed = first; seed <= last && !b.failed; seed++) {
        run_seed(&b, seed);
        printf("%sok %" PRIu64 " seed %" PRIu64 "\n", b.failed ? "not " : "", seed - first + 1,
               seed);
    }
    printf("1..%" PRIu64 "\n", last - first + 1);
    simstore_free(b.sim);
    redisFree(b.real);
    return b.failed ? 1 : 0;
}
