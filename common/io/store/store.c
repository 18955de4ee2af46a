// SPDX-License-Identifier: Apache-2.0
/*
 * Store: one connection to Redis on the loop, with pipelined calls
 *
 * States: WAITING, CONNECTING, CHECKING, UP; any trouble leads back to WAITING. Calls are answered
 * in the order in which they were sent. See io/store/store.h.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "io/failpoint.h"
#include "io/store/resp.h"
#include "io/store/store.h"
#include "io/store/store_check.h"
#include "io/stream.h"

#define PREFIX_MAX 128  /* bytes */
#define FUNCTION_MAX 64 /* bytes */
#define WATCH_MS 1000   /* between two questions whether the server is still the primary */
#define WAIT_SHARE 4    /* WAIT for replicas lasts a fourth of the time that a call may take */

static const unsigned char built_in_library[] = {
#include "drover_lua.inc"
    '\0',
};

enum state {
    WAITING,    /* until the timer begins to connect again */
    CONNECTING, /* name lookup and connect; the timer bounds this state and the next one */
    CHECKING,   /* store check */
    UP,         /* the timer bounds the oldest call */
    CLOSED,
};

struct call {
    struct list node; /* in store.calls; in store.awaiting_replicas when answered; in store.lost
                         when its connection is lost */
    store_cb cb;      /* NULL for a WAIT */
    void *ctx;
    uint64_t deadline;           /* as uv_now() */
    const char *function;        /* a literal, for the failpoint; NULL if it is no store function */
    struct store_answer *answer; /* of a call in store.awaiting_replicas; owned */
};

/* A connection. It is given up when store.link no longer points to it; it is freed when libuv has
 * closed it. */
struct link {
    struct store *store;
    struct stream *stream;
    struct resp_reader reader;
    struct buf out; /* the commands of this iteration of the loop */
};

struct store {
    uv_loop_t *loop;
    struct store_config config; /* owns its texts, except the library */
    struct store_check_config store_check_config;
    struct store_callbacks callbacks;
    void *ctx;
    enum state state;
    struct link *link; /* NULL if there is no connection */
    struct store_check check;
    uint32_t partitions; /* when it was last up; 0 before */
    struct list calls;   /* sent or about to be sent, oldest first: Redis answers in order */
    struct list awaiting_replicas; /* answered, but a WAIT is in progress: older than calls */
    bool unconfirmed;              /* no WAIT was sent since the last call */
    bool behind;                   /* the last WAIT found too few replicas, which was logged */
    store_memory_cb memory_cb;     /* NULL if no store_memory() is in progress */
    void *memory_ctx;
    struct list lost; /* calls to be answered STORE_UNKNOWN in the next iteration of the loop */
    uv_timer_t timer;
    uv_timer_t watch;    /* asks whether the server is still the primary, while it is up */
    uv_idle_t iteration; /* active while something is to be done in the next iteration */
    unsigned open;       /* handles and connections that libuv still has */
    unsigned failures;   /* of connecting, since the last answer */
    struct rng rng;
    char last_reported[sizeof(((struct store_check *)0)->why)]; /* trouble; "": none */
    void (*on_closed)(void *ctx);
};

static void on_timer(uv_timer_t *timer);
static void on_iteration(uv_idle_t *iteration);

static void timer_set(struct store *s, uint64_t ms)
{
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

static void iteration_start(struct store *s)
{
    if (s->state != CLOSED)
        uv_idle_start(&s->iteration, on_iteration);
}

/* ---- answers ---- */

static void finish(struct call *call, const struct store_answer *answer)
{
    list_remove(&call->node);
    if (call->cb)
        call->cb(call->ctx, answer);
    free(call->answer);
    free(call);
}

static void end_batch(struct store *s)
{
    if (s->callbacks.on_batch_end)
        s->callbacks.on_batch_end(s->ctx);
}

/* Answers the lost calls. Calls that the callbacks make meanwhile are answered in the next
 * iteration of the loop, because they may be made again and again. */
static void answer_lost(struct store *s)
{
    static const struct store_answer unknown = {.result = STORE_UNKNOWN};
    struct list lost = LIST_INIT(lost);

    if (list_empty(&s->lost))
        return;
    list_move_all(&lost, &s->lost);
    while (!list_empty(&lost))
        finish(list_entry(lost.next, struct call, node), &unknown);
    end_batch(s);
}

/* ---- giving up a connection ---- */

static void let_go(struct store *s)
{
    if (--s->open > 0)
        return;
    while (!list_empty(&s->lost))
        answer_lost(s);
    if (s->on_closed)
        s->on_closed(s->ctx);
}

static void link_free(struct link *link)
{
    resp_deinit(&link->reader);
    buf_deinit(&link->out);
    free(link);
}

static void on_gone(void *ctx)
{
    struct link *link = ctx;
    struct store *s = link->store;

    link_free(link);
    let_go(s);
}

static void drop_link(struct store *s)
{
    struct link *link = take(s->link);

    uv_timer_stop(&s->watch);
    if (link)
        stream_close(link->stream);
    s->unconfirmed = false;
    list_move_all(&s->lost, &s->awaiting_replicas);
    list_move_all(&s->lost, &s->calls);
    if (!list_empty(&s->lost))
        iteration_start(s);
}

/* Return: the pause before the next attempt in ms; it doubles with each failure up to the maximum,
 * and a random part of up to a half is taken off. */
static uint64_t backoff(struct store *s)
{
    uint64_t delay = (uint64_t)s->config.reconnect_min_ms << (s->failures < 20 ? s->failures : 20);

    if (delay > (uint64_t)s->config.reconnect_max_ms)
        delay = (uint64_t)s->config.reconnect_max_ms;
    return delay - rng_below(&s->rng, delay / 2 + 1);
}

/* Whether this trouble is another one than the last that was reported. */
static bool is_news(struct store *s, const char *why)
{
    if (strcmp(s->last_reported, why) == 0)
        return false;
    snprintf(s->last_reported, sizeof(s->last_reported), "%s", why);
    return true;
}

static void wait_to_connect(struct store *s)
{
    drop_link(s);
    s->state = WAITING;
    timer_set(s, backoff(s));
    s->failures++;
}

/* Gives up a connection that does not work. A caller returns after it: callbacks may close the
 * store.
 */
static void lose(struct store *s, const char *why)
{
    bool was_up = s->state == UP;

    wait_to_connect(s);
    if (was_up && s->callbacks.on_down)
        s->callbacks.on_down(s->ctx, why);
    else if (!was_up && is_news(s, why))
        log_warn("store_unreachable",
                 LOG_S("address", s->config.socket_path ? s->config.socket_path : s->config.host),
                 LOG_S("why", why));
}

/* Gives up a connection to a server that cannot be used. A caller returns after it, too. */
static void refuse(struct store *s, const char *why)
{
    wait_to_connect(s);
    if (is_news(s, why) && s->callbacks.on_refused)
        s->callbacks.on_refused(s->ctx, s->last_reported);
}

/* ---- writing ---- */

/* Return: a call that is in no list yet; NULL if memory is out. */
static struct call *call_new(struct store *s, const char *function, store_cb cb, void *ctx)
{
    struct call *call = malloc(sizeof(*call));

    if (call)
        *call = (struct call){.function = function,
                              .cb = cb,
                              .ctx = ctx,
                              .deadline = uv_now(s->loop) + (uint64_t)s->config.call_timeout_ms};
    return call;
}

/* Appends a WAIT after the calls that are about to leave. WAIT blocks the connection, and calls
 * whose WAIT fails are repeated: so it lasts only a part of the time that a call may take. */
static void put_wait(struct store *s)
{
    struct call *wait = s->unconfirmed ? call_new(s, NULL, NULL, NULL) : NULL;
    char number[16];

    if (!wait)
        return; /* not needed; or memory is out: then the next write has it */
    resp_command(&s->link->out, 3);
    resp_puts(&s->link->out, "WAIT");
    snprintf(number, sizeof(number), "%u", s->config.replicas);
    resp_puts(&s->link->out, number);
    snprintf(number, sizeof(number), "%d", s->config.call_timeout_ms / WAIT_SHARE);
    resp_puts(&s->link->out, number);
    list_append(&s->calls, &wait->node);
    s->unconfirmed = false;
}

/* Writes the commands of this iteration, once the socket has taken those before. */
static void flush(struct link *link)
{
    int ret;

    if (stream_is_full(link->stream))
        return;
    put_wait(link->store);
    if (link->out.len == 0)
        return;
    ret = stream_write(link->stream, buf_bytes(&link->out));
    buf_clear(&link->out);
    if (ret < 0)
        lose(link->store, uv_strerror(ret));
}

static void on_room(void *ctx)
{
    flush(ctx);
}

static void on_iteration(uv_idle_t *iteration)
{
    struct store *s = container_of(iteration, struct store, iteration);

    uv_idle_stop(iteration);
    if (s->link)
        flush(s->link);
    answer_lost(s);
}

/* ---- reading ---- */

static void on_watch(uv_timer_t *watch);

static void go_up(struct store *s)
{
    s->state = UP;
    uv_timer_start(&s->watch, on_watch, WATCH_MS, WATCH_MS);
    s->partitions = s->check.partitions;
    s->store_check_config.partitions = s->store_check_config.known = s->partitions;
    s->last_reported[0] = '\0';
    uv_timer_stop(&s->timer);
    if (s->check.warning[0])
        log_warn("store_warning", LOG_S("why", s->check.warning));
    if (s->callbacks.on_up)
        s->callbacks.on_up(s->ctx);
}

static void on_verdict(struct store *s, enum store_check_verdict verdict)
{
    switch (verdict) {
    case STORE_CHECK_ASK:
        if (s->link->out.failed)
            lose(s, "out of memory");
        else
            iteration_start(s);
        break;
    case STORE_CHECK_PASSED:
        go_up(s);
        break;
    case STORE_CHECK_WAIT:
        lose(s, s->check.why);
        break;
    case STORE_CHECK_REFUSED:
        refuse(s, s->check.why);
        break;
    }
}

/* Whether an error means that nothing was done, and that the next store check will find the cause
 * or remove it. */
static bool requires_check(const struct resp_reply *reply)
{
    static const char *const errors[] = {
        "READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "ERR Function not found",
    };

    for (size_t i = 0; i < array_size(errors); i++) {
        if (resp_is_error(reply, errors[i]))
            return true;
    }
    return false;
}

/* Keeps an answer until replicas have the writes of the call. */
static void await_replicas(struct store *s, struct call *call, const struct store_answer *answer)
{
    call->answer = store_answer_copy(answer);
    list_remove(&call->node);
    list_append(&s->awaiting_replicas, &call->node);
}

/* After the answer to a WAIT. If too few replicas have the writes, these may still be lost: the
 * calls are answered STORE_UNKNOWN. */
static void on_waited(struct store *s, struct call *wait, const struct resp_reply *reply)
{
    static const struct store_answer unknown = {.result = STORE_UNKNOWN};
    struct list waiting = LIST_INIT(waiting);
    int64_t replicas = 0;

    finish(wait, &unknown);
    if (reply->error || reply->n != 1 || !bytes_to_i64(reply->items[0], &replicas)) {
        lose(s, reply->error ? resp_text(reply) : "no number of replicas");
        return;
    }
    if (replicas < s->config.replicas && !s->behind)
        log_warn("store_replicas_behind", LOG_I("replicas", replicas),
                 LOG_I("wanted", s->config.replicas));
    s->behind = replicas < s->config.replicas;
    list_move_all(&waiting, &s->awaiting_replicas);
    while (!list_empty(&waiting)) {
        struct call *call = list_entry(waiting.next, struct call, node);

        finish(call, s->behind || !call->answer ? &unknown : call->answer);
    }
}

static void on_reply(struct store *s, const struct resp_reply *reply)
{
    struct store_answer answer = {STORE_OK, reply->items, reply->n};
    struct call *call;

    if (s->state == CHECKING) {
        on_verdict(s, store_check_reply(&s->check, reply, &s->link->out));
        return;
    }
    if (list_empty(&s->calls) || requires_check(reply)) {
        lose(s, reply->error ? resp_text(reply) : "an answer to no call");
        return;
    }
    call = list_entry(s->calls.next, struct call, node);
    s->failures = 0;
    if (!call->cb) {
        on_waited(s, call, reply);
        return;
    }
    if (reply->error)
        answer.result = resp_is_error(reply, "OOM") ? STORE_OOM : STORE_ERROR;
    if (call->function &&
        failpoint("store", call->function, "after", reply->items, reply->n) == FAILPOINT_RETURN)
        answer = (struct store_answer){.result = STORE_UNKNOWN};
    if (call->function && s->config.replicas > 0)
        await_replicas(s, call, &answer);
    else
        finish(call, &answer);
}

static int take_replies(struct link *link)
{
    struct store *s = link->store;
    bool was_up = s->state == UP;
    const struct resp_reply *reply;
    int ret = 0;

    while (s->link == link) {
        ret = resp_next(&link->reader, &reply);
        if (ret < 0 || !reply)
            break;
        on_reply(s, reply);
    }
    if (was_up)
        end_batch(s);
    return ret;
}

static void on_data(void *ctx, struct bytes data)
{
    struct link *link = ctx;
    struct store *s = link->store;
    int ret = resp_feed(&link->reader, data.data, data.len);

    if (ret == 0)
        ret = take_replies(link);
    if (ret < 0 && s->link == link)
        lose(s, ret == -EPROTO ? "what answers there is not Redis" : "out of memory");
}

/* ---- connecting ---- */

static void on_open(void *ctx)
{
    struct link *link = ctx;
    struct store *s = link->store;

    s->state = CHECKING;
    on_verdict(s, store_check_begin(&s->check, &s->store_check_config, &link->out));
}

static void on_lost(void *ctx, const char *why, bool refused)
{
    struct link *link = ctx;

    if (refused)
        refuse(link->store, why);
    else
        lose(link->store, why);
}

static const struct stream_callbacks stream_callbacks = {
    .on_open = on_open,
    .on_data = on_data,
    .on_room = on_room,
    .on_lost = on_lost,
    .on_gone = on_gone,
};

/* Makes store.link, which is not connected yet. Return: 0 or -errno. */
static int link_new(struct store *s)
{
    const struct stream_target target = {
        .path = s->config.socket_path,
        .host = s->config.host,
        .port = s->config.port,
        .first = s->failures,
        .tls = s->config.tls,
        .tls_name = s->config.tls_name,
        .insecure = s->config.insecure,
        .settings = "redis",
    };
    struct link *link = calloc(1, sizeof(*link));
    int ret;

    if (!link)
        return -ENOMEM;
    link->store = s;
    ret = resp_init(&link->reader);
    if (ret == 0)
        ret = stream_open(&link->stream, s->loop, &target, &stream_callbacks, link);
    if (ret < 0) {
        link_free(link);
        return ret;
    }
    s->link = link;
    s->open++;
    return 0;
}

static void begin_to_connect(struct store *s)
{
    int ret;

    s->state = CONNECTING;
    timer_set(s, (uint64_t)s->config.call_timeout_ms);
    ret = link_new(s);
    if (ret < 0)
        lose(s, uv_strerror(ret));
}

static void check_oldest_call(struct store *s)
{
    uint64_t now = uv_now(s->loop);
    struct call *oldest;

    if (list_empty(&s->calls))
        return;
    oldest = list_entry(s->calls.next, struct call, node);
    if (oldest->deadline > now)
        timer_set(s, oldest->deadline - now);
    else
        lose(s, "Redis does not answer in time");
}

static void on_timer(uv_timer_t *timer)
{
    struct store *s = container_of(timer, struct store, timer);

    switch (s->state) {
    case WAITING:
        begin_to_connect(s);
        break;
    case CONNECTING:
        lose(s, stream_missing(s->link->stream));
        break;
    case CHECKING:
        lose(s, "Redis does not answer in time");
        break;
    case UP:
        check_oldest_call(s);
        break;
    case CLOSED:
        break;
    }
}

/* ---- making a store, and calls ---- */

static void config_deinit(struct store_config *c)
{
    free((void *)c->host);
    free((void *)c->socket_path);
    free((void *)c->user);
    free((void *)c->password);
    free((void *)c->prefix);
}

/* Replaces a text by a copy; NULL and "" both mean not given. Return: false if memory is out. */
static bool own(const char **text)
{
    if (*text && **text == '\0')
        *text = NULL;
    if (!*text)
        return true;
    *text = strdup(*text);
    return *text != NULL;
}

static int or_default(int value, int otherwise)
{
    return value > 0 ? value : otherwise;
}

static int config_init(struct store_config *c, const struct store_config *from)
{
    bool owned;

    *c = *from;
    c->prefix = c->prefix ? c->prefix : "drover:";
    c->partitions = c->partitions ? c->partitions : 16;
    c->call_timeout_ms = or_default(c->call_timeout_ms, 10000);
    c->reconnect_min_ms = or_default(c->reconnect_min_ms, 100);
    c->reconnect_max_ms = or_default(c->reconnect_max_ms, 10000);
    c->library = c->library ? c->library : (const char *)built_in_library;
    /* All are copied even if one fails, so that config_deinit() frees no text of the caller. */
    owned = own(&c->host);
    owned &= own(&c->socket_path);
    owned &= own(&c->user);
    owned &= own(&c->password);
    owned &= own(&c->prefix);
    return owned ? 0 : -ENOMEM;
}

static int store_init(struct store *s, uv_loop_t *loop, const struct store_config *config)
{
    int ret = config_init(&s->config, config);

    if (ret < 0)
        return ret;
    s->store_check_config = (struct store_check_config){
        .user = s->config.user,
        .password = s->config.password,
        .database = s->config.database,
        .prefix = s->config.prefix,
        .partitions = s->config.partitions,
        .strict = s->config.strict,
        .replicas = s->config.replicas,
        .library = s->config.library,
        .read_only = s->config.read_only,
    };
    ret = rng_seed_system(&s->rng);
    if (ret < 0)
        return ret;
    s->loop = loop;
    list_init(&s->calls);
    list_init(&s->awaiting_replicas);
    list_init(&s->lost);
    uv_timer_init(loop, &s->timer);
    uv_timer_init(loop, &s->watch);
    uv_idle_init(loop, &s->iteration);
    s->open = 3;
    return 0;
}

int store_new(struct store **out, uv_loop_t *loop, const struct store_config *config,
              const struct store_callbacks *callbacks, void *ctx)
{
    struct store *s;
    int ret;

    assert(!config->prefix || strlen(config->prefix) <= PREFIX_MAX);
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    ret = store_init(s, loop, config);
    if (ret < 0) {
        config_deinit(&s->config);
        free(s);
        return ret;
    }
    s->callbacks = *callbacks;
    s->ctx = ctx;
    s->state = WAITING;
    timer_set(s, 0);
    *out = s;
    return 0;
}

/* Return: 0; or -ENOMEM, then nothing is appended. */
static int put_call(struct store *s, uint32_t partition, const char *function,
                    const struct bytes *args, int n)
{
    struct buf *out = &s->link->out;
    char name[sizeof(STORE_LIBRARY) + 1 + FUNCTION_MAX], key[PREFIX_MAX + 16];
    size_t before = out->len;

    assert(partition < s->partitions && strlen(function) <= FUNCTION_MAX);
    snprintf(name, sizeof(name), STORE_LIBRARY "_%s", function);
    snprintf(key, sizeof(key), "%s{p%u}:", s->config.prefix, partition);
    resp_command(out, 4 + (size_t)n);
    resp_puts(out, s->config.read_only ? "FCALL_RO" : "FCALL");
    resp_puts(out, name);
    resp_puts(out, "1");
    resp_puts(out, key);
    for (int i = 0; i < n; i++)
        resp_put(out, args[i].data, args[i].len);
    if (!out->failed)
        return 0;
    out->failed = false;
    out->len = before;
    return -ENOMEM;
}

int store_call(struct store *s, uint32_t partition, const char *function, const struct bytes *args,
               int n, store_cb cb, void *ctx)
{
    uint64_t timeout = (uint64_t)s->config.call_timeout_ms;
    CLEANUP(free) struct call *call = call_new(s, function, cb, ctx);
    bool sent = s->state == UP;
    int ret;

    if (!call)
        return -ENOMEM;
    if (sent && failpoint("store", function, "before", args, (size_t)n) == FAILPOINT_RETURN)
        sent = false;
    if (sent) {
        ret = put_call(s, partition, function, args, n);
        if (ret < 0)
            return ret;
        s->unconfirmed = s->config.replicas > 0;
        if (!uv_is_active((uv_handle_t *)&s->timer))
            timer_set(s, timeout);
    }
    list_append(sent ? &s->calls : &s->lost, &take(call)->node);
    iteration_start(s);
    return 0;
}

/* ---- questions about the server ---- */

static uint64_t number_of(const char *text, const char *name)
{
    char value[64];
    int64_t number = 0;

    store_check_info(text, name, value, sizeof(value));
    (void)bytes_to_i64(bytes_str(value), &number);
    return number > 0 ? (uint64_t)number : 0;
}

/* A primary that was demoted does not close its connections, and an idle one notices nothing. If it
 * is primary again another one may have taken calls meanwhile: only a new check finds that out. */
static void on_replication(void *ctx, const struct store_answer *answer)
{
    struct store *s = ctx;
    CLEANUP(free)
    char *text = answer->result == STORE_OK && answer->n == 1 ? bytes_dup(answer->items[0]) : NULL;

    if (text && s->state == UP && !store_check_is_same_run(&s->check, text))
        lose(s, "the server is no longer the primary that it was");
}

static void on_memory(void *ctx, const struct store_answer *answer)
{
    struct store *s = ctx;
    store_memory_cb cb = take(s->memory_cb);
    CLEANUP(free)
    char *text = answer->result == STORE_OK && answer->n == 1 ? bytes_dup(answer->items[0]) : NULL;

    if (text && cb && s->state == UP)
        cb(s->memory_ctx, number_of(text, "used_memory"), number_of(text, "maxmemory"));
}

/* Asks INFO for one section. Return: whether the question is on its way. */
static bool ask_info(struct store *s, const char *section, store_cb cb)
{
    CLEANUP(free) struct call *call = call_new(s, NULL, cb, s);
    size_t before = s->link->out.len;

    resp_command(&s->link->out, 2);
    resp_puts(&s->link->out, "INFO");
    resp_puts(&s->link->out, section);
    if (!call || s->link->out.failed) {
        s->link->out.failed = false;
        s->link->out.len = before;
        return false;
    }
    if (!uv_is_active((uv_handle_t *)&s->timer))
        timer_set(s, (uint64_t)s->config.call_timeout_ms);
    list_append(&s->calls, &take(call)->node);
    iteration_start(s);
    return true;
}

void store_memory(struct store *s, store_memory_cb cb, void *ctx)
{
    if (s->state != UP || s->memory_cb || !ask_info(s, "memory", on_memory))
        return;
    s->memory_cb = cb;
    s->memory_ctx = ctx;
}

static void on_watch(uv_timer_t *watch)
{
    struct store *s = container_of(watch, struct store, watch);

    if (s->state == UP)
        ask_info(s, "replication", on_replication);
}

bool store_up(const struct store *s)
{
    return s->state == UP;
}

uint32_t store_partitions(const struct store *s)
{
    return s->partitions;
}

const char *store_run(const struct store *s)
{
    return s->check.run;
}

int64_t store_tls_expiry(const struct store *s)
{
    int64_t own = s->config.tls ? tls_context_expiry(s->config.tls) : 0;

    return tls_first_expiry(own, s->link ? stream_peer_expiry(s->link->stream) : 0);
}

static void on_handle_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

void store_close(struct store *s, void (*on_closed)(void *ctx))
{
    assert(s->state != CLOSED);
    s->on_closed = on_closed;
    s->state = CLOSED;
    drop_link(s);
    s->timer.data = s;
    s->watch.data = s;
    s->iteration.data = s;
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->watch, on_handle_closed);
    uv_close((uv_handle_t *)&s->iteration, on_handle_closed);
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    assert(s->state == CLOSED && s->open == 0);
    config_deinit(&s->config);
    free(s);
    return NULL;
}
