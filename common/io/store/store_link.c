// SPDX-License-Identifier: Apache-2.0
/*
 * Store link: see io/store/store_link.h
 *
 * States: CONNECTING, CHECKING, UP; any trouble leads to DEAD.
 */
#include "io/store/store_link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "io/failpoint.h"
#include "io/store/resp.h"
#include "io/stream.h"

#define WATCH_MS 1000 /* between two questions whether the server is still the primary */
#define WAIT_SHARE 4  /* WAIT for replicas lasts a fourth of the time that a call may take */
#define HOST_LEN 256  /* of a host name, with its NUL */

enum state {
    CONNECTING, /* name lookup and connect; the timer bounds this state and the next one */
    CHECKING,   /* store check */
    UP,         /* the timer bounds the oldest call */
    DEAD,       /* on_lost was called, or the owner has closed the link */
};

struct store_link {
    uv_loop_t *loop;
    const struct store_config *config;
    const struct store_check_config *check_config;
    const struct store_link_callbacks *callbacks;
    void *ctx;
    enum state state;
    char host[HOST_LEN];
    struct stream *stream;
    struct resp_reader reader;
    struct buf out; /* the commands of this iteration of the loop */
    struct store_check check;
    struct list calls;             /* sent or about to be sent, oldest first */
    struct list awaiting_replicas; /* answered, but a WAIT is in progress: older than calls */
    bool unconfirmed;              /* no WAIT was sent since the last call */
    bool answered;                 /* a call was answered */
    bool behind;                   /* the last WAIT found too few replicas, which was logged */
    store_memory_cb memory_cb;     /* NULL if no store_link_memory() is in progress */
    void *memory_ctx;
    uv_timer_t timer;
    bool overdue;        /* when the timer ran before, its deadline had passed */
    uv_timer_t watch;    /* asks whether the server is still the primary, while the link is up */
    uv_idle_t iteration; /* active while something is to be written in the next iteration */
    unsigned open;       /* handles and streams that libuv still has */
};

static const struct store_answer unknown = {.result = STORE_UNKNOWN};

void store_call_finish(struct store_call *call, const struct store_answer *answer)
{
    list_remove(&call->node);
    if (call->cb)
        call->cb(call->ctx, answer);
    free(call->answer);
    free(call);
}

static struct store_call *call_of(struct list *node)
{
    return list_entry(node, struct store_call, node);
}

static void on_iteration(uv_idle_t *iteration);

/* Gives up a connection that does not work, or that leads to a server which cannot be used. A
 * caller returns after it: the owner may have closed the link. */
static void lose(struct store_link *link, const char *why, bool refused)
{
    if (link->state == DEAD)
        return;
    link->state = DEAD;
    uv_timer_stop(&link->timer);
    uv_timer_stop(&link->watch);
    uv_idle_stop(&link->iteration);
    link->callbacks->on_lost(link->ctx, why, refused);
}

/* ---- writing ---- */

static uint64_t deadline_of(const struct store_link *link)
{
    return uv_now(link->loop) + (uint64_t)link->config->call_timeout_ms;
}

static void on_timer(uv_timer_t *timer);

/* The last command in link.out belongs to this call. */
static void await_answer(struct store_link *link, struct store_call *call)
{
    if (!uv_is_active((uv_handle_t *)&link->timer))
        uv_timer_start(&link->timer, on_timer, (uint64_t)link->config->call_timeout_ms, 0);
    list_append(&link->calls, &call->node);
    uv_idle_start(&link->iteration, on_iteration);
}

/* Return: a call of the link itself; NULL if memory is out. */
static struct store_call *own_call(struct store_link *link)
{
    struct store_call *call = malloc(sizeof(*call));

    if (call)
        *call = (struct store_call){.deadline = deadline_of(link)};
    return call;
}

/* Appends a WAIT after the calls that are about to leave. WAIT blocks the connection, and calls
 * whose WAIT fails are repeated: so it lasts only a part of the time that a call may take. */
static void put_wait(struct store_link *link)
{
    struct store_call *wait = link->unconfirmed ? own_call(link) : NULL;
    char number[16];

    if (!wait)
        return; /* not needed; or memory is out: then the next write has it */
    resp_command(&link->out, 3);
    resp_puts(&link->out, "WAIT");
    snprintf(number, sizeof(number), "%u", link->config->replicas);
    resp_puts(&link->out, number);
    snprintf(number, sizeof(number), "%d", link->config->call_timeout_ms / WAIT_SHARE);
    resp_puts(&link->out, number);
    list_append(&link->calls, &wait->node);
    link->unconfirmed = false;
}

/* Writes the commands of this iteration, once the socket has taken those before. */
static void flush(struct store_link *link)
{
    int ret;

    if (stream_is_full(link->stream))
        return;
    put_wait(link);
    if (link->out.len == 0)
        return;
    ret = stream_write(link->stream, buf_bytes(&link->out));
    buf_clear(&link->out);
    if (ret < 0)
        lose(link, uv_strerror(ret), false);
}

static void on_room(void *ctx)
{
    flush(ctx);
}

static void on_iteration(uv_idle_t *iteration)
{
    uv_idle_stop(iteration);
    flush(container_of(iteration, struct store_link, iteration));
}

/* ---- the check ---- */

static void on_watch(uv_timer_t *watch);

static void go_up(struct store_link *link)
{
    link->state = UP;
    link->overdue = false;
    uv_timer_stop(&link->timer);
    uv_timer_start(&link->watch, on_watch, WATCH_MS, WATCH_MS);
    if (link->check.warning[0])
        log_warn("store_warning", LOG_S("why", link->check.warning));
    link->callbacks->on_up(link->ctx);
}

static void on_verdict(struct store_link *link, enum store_check_verdict verdict)
{
    switch (verdict) {
    case STORE_CHECK_ASK:
        if (link->out.failed)
            lose(link, "out of memory", false);
        else
            uv_idle_start(&link->iteration, on_iteration);
        break;
    case STORE_CHECK_PASSED:
        go_up(link);
        break;
    case STORE_CHECK_WAIT:
        lose(link, link->check.why, false);
        break;
    case STORE_CHECK_REFUSED:
        lose(link, link->check.why, true);
        break;
    }
}

/* ---- reading ---- */

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
static void await_replicas(struct store_link *link, struct store_call *call,
                           const struct store_answer *answer)
{
    call->answer = store_answer_copy(answer);
    list_remove(&call->node);
    list_append(&link->awaiting_replicas, &call->node);
}

/* After the answer to a WAIT. If too few replicas have the writes, these may still be lost: the
 * calls are answered STORE_UNKNOWN. */
static void on_waited(struct store_link *link, const struct resp_reply *reply)
{
    const unsigned wanted = link->config->replicas;
    struct list waiting = LIST_INIT(waiting);
    int64_t replicas = 0;

    if (reply->error || reply->n != 1 || !bytes_to_i64(reply->items[0], &replicas)) {
        lose(link, reply->error ? resp_text(reply) : "no number of replicas", false);
        return;
    }
    if (replicas < wanted && !link->behind)
        log_warn("store_replicas_behind", LOG_I("replicas", replicas), LOG_I("wanted", wanted));
    link->behind = replicas < wanted;
    list_move_all(&waiting, &link->awaiting_replicas);
    while (!list_empty(&waiting)) {
        struct store_call *call = call_of(waiting.next);

        store_call_finish(call, link->behind || !call->answer ? &unknown : call->answer);
    }
}

static void on_memory(struct store_link *link, const char *info);
static void on_replication(struct store_link *link, const char *info);

/* The reply to a call of the link itself: to a WAIT, or to INFO for a section. */
static void on_own_reply(struct store_link *link, const char *section,
                         const struct resp_reply *reply)
{
    const char *info = reply->error || reply->n != 1 ? "" : resp_text(reply);

    if (!section)
        on_waited(link, reply);
    else if (strcmp(section, "memory") == 0)
        on_memory(link, info);
    else if (*info)
        on_replication(link, info);
}

static void on_reply(struct store_link *link, const struct resp_reply *reply)
{
    struct store_answer answer = {STORE_OK, reply->items, reply->n};
    struct store_call *call;

    if (link->state == CHECKING) {
        on_verdict(link, store_check_reply(&link->check, reply, &link->out));
        return;
    }
    if (list_empty(&link->calls) || requires_check(reply)) {
        lose(link, reply->error ? resp_text(reply) : "an answer to no call", false);
        return;
    }
    call = call_of(link->calls.next);
    link->answered = true;
    if (!call->cb) {
        const char *section = call->function;

        store_call_finish(call, &unknown);
        on_own_reply(link, section, reply);
        return;
    }
    if (reply->error)
        answer.result = resp_is_error(reply, "OOM") ? STORE_OOM : STORE_ERROR;
    if (failpoint("store", call->function, "after", reply->items, reply->n) == FAILPOINT_RETURN)
        answer = unknown;
    if (link->config->replicas > 0)
        await_replicas(link, call, &answer);
    else
        store_call_finish(call, &answer);
}

static int take_replies(struct store_link *link)
{
    bool was_up = link->state == UP;
    const struct resp_reply *reply;
    int ret = 0;

    while (link->state != DEAD) {
        ret = resp_next(&link->reader, &reply);
        if (ret < 0 || !reply)
            break;
        on_reply(link, reply);
    }
    if (was_up)
        link->callbacks->on_batch_end(link->ctx);
    return ret;
}

static void on_data(void *ctx, struct bytes data)
{
    struct store_link *link = ctx;
    int ret = resp_feed(&link->reader, data.data, data.len);

    if (ret == 0)
        ret = take_replies(link);
    if (ret < 0)
        lose(link, ret == -EPROTO ? "what answers there is not Redis" : "out of memory", false);
}

/* ---- connecting ---- */

static void on_open(void *ctx)
{
    struct store_link *link = ctx;

    link->state = CHECKING;
    on_verdict(link, store_check_begin(&link->check, link->check_config, &link->out));
}

static void on_stream_lost(void *ctx, const char *why, bool refused)
{
    lose(ctx, why, refused);
}

static void on_timer(uv_timer_t *timer)
{
    struct store_link *link = container_of(timer, struct store_link, timer);
    uint64_t now = uv_now(link->loop);
    bool again = link->overdue;
    const char *missing =
        link->state == CONNECTING ? stream_missing(link->stream) : "Redis does not answer in time";

    link->overdue = false;
    if (link->state == UP && list_empty(&link->calls))
        return;
    if (link->state == UP && call_of(link->calls.next)->deadline > now) {
        uv_timer_start(timer, on_timer, call_of(link->calls.next)->deadline - now, 0);
    } else if (!again) {
        link->overdue = true; /* this process may have stood still: the socket is read before */
        uv_timer_start(timer, on_timer, 1, 0);
    } else {
        lose(link, missing, false);
    }
}

static void link_free(struct store_link *link)
{
    resp_deinit(&link->reader);
    buf_deinit(&link->out);
    free(link);
}

/* The owner may free what callbacks point into as soon as on_gone is called. */
static void let_go(struct store_link *link)
{
    void (*on_gone)(void *ctx) = link->callbacks->on_gone;
    void *owner = link->ctx;

    if (--link->open > 0)
        return;
    link_free(link);
    on_gone(owner);
}

static void on_stream_gone(void *ctx)
{
    let_go(ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

static int connect_to(struct store_link *link, const struct store_link_target *target)
{
    static const struct stream_callbacks callbacks = {
        .on_open = on_open,
        .on_data = on_data,
        .on_room = on_room,
        .on_lost = on_stream_lost,
        .on_gone = on_stream_gone,
    };
    const struct stream_target to = {
        .path = target->host ? NULL : link->config->socket_path,
        .host = link->host,
        .port = target->port,
        .first = target->first,
        .tls = link->config->tls,
        .tls_name = link->config->tls_name,
        .insecure = link->config->insecure,
        .settings = "redis",
    };

    return stream_open(&link->stream, link->loop, &to, &callbacks, link);
}

int store_link_open(struct store_link **out, uv_loop_t *loop, const struct store_config *config,
                    const struct store_check_config *check, const struct store_link_target *target,
                    const struct store_link_callbacks *callbacks, void *ctx)
{
    struct store_link *link = calloc(1, sizeof(*link));
    int ret;

    if (!link)
        return -ENOMEM;
    *link = (struct store_link){
        .loop = loop,
        .config = config,
        .check_config = check,
        .callbacks = callbacks,
        .ctx = ctx,
        .state = CONNECTING,
        .open = 4,
    };
    list_init(&link->calls);
    list_init(&link->awaiting_replicas);
    snprintf(link->host, sizeof(link->host), "%s", target->host ? target->host : "");
    ret = resp_init(&link->reader);
    if (ret == 0)
        ret = connect_to(link, target);
    if (ret < 0) {
        link_free(link);
        return ret;
    }
    uv_timer_init(loop, &link->timer);
    uv_timer_init(loop, &link->watch);
    uv_idle_init(loop, &link->iteration);
    link->timer.data = link->watch.data = link->iteration.data = link;
    uv_timer_start(&link->timer, on_timer, target->patience_ms, 0);
    *out = link;
    return 0;
}

/* ---- calls ---- */

const struct store_check *store_link_check(const struct store_link *link)
{
    return &link->check;
}

/* Appends a command. Return: 0; or -ENOMEM, then nothing is appended. */
static int put_call(struct store_link *link, uint32_t partition, const char *function,
                    const struct bytes *args, int n)
{
    struct buf *out = &link->out;
    char name[sizeof(STORE_LIBRARY) + 1 + STORE_FUNCTION_MAX], key[STORE_PREFIX_MAX + 16];
    size_t before = out->len;

    assert(partition < link->check.partitions && strlen(function) <= STORE_FUNCTION_MAX);
    snprintf(name, sizeof(name), STORE_LIBRARY "_%s", function);
    snprintf(key, sizeof(key), "%s{p%u}:", link->config->prefix, partition);
    resp_command(out, 4 + (size_t)n);
    resp_puts(out, link->config->read_only ? "FCALL_RO" : "FCALL");
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

int store_link_call(struct store_link *link, struct store_call *call, uint32_t partition,
                    const struct bytes *args, int n)
{
    int ret = put_call(link, partition, call->function, args, n);

    if (ret < 0)
        return ret;
    call->deadline = deadline_of(link);
    link->unconfirmed = link->config->replicas > 0;
    await_answer(link, call);
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
static void on_replication(struct store_link *link, const char *info)
{
    if (!store_check_is_same_run(&link->check, info))
        lose(link, "the server is no longer the primary that it was", false);
}

static void on_memory(struct store_link *link, const char *info)
{
    store_memory_cb cb = take(link->memory_cb);

    if (*info && cb)
        cb(link->memory_ctx, number_of(info, "used_memory"), number_of(info, "maxmemory"));
}

/* Asks INFO for one section, a literal. Return: whether the question is on its way. */
static bool ask_info(struct store_link *link, const char *section)
{
    CLEANUP(free) struct store_call *call = own_call(link);
    size_t before = link->out.len;

    resp_command(&link->out, 2);
    resp_puts(&link->out, "INFO");
    resp_puts(&link->out, section);
    if (!call || link->out.failed) {
        link->out.failed = false;
        link->out.len = before;
        return false;
    }
    call->function = section;
    await_answer(link, take(call));
    return true;
}

void store_link_memory(struct store_link *link, store_memory_cb cb, void *ctx)
{
    if (link->memory_cb || !ask_info(link, "memory"))
        return;
    link->memory_cb = cb;
    link->memory_ctx = ctx;
}

static void on_watch(uv_timer_t *watch)
{
    ask_info(container_of(watch, struct store_link, watch), "replication");
}

bool store_link_answered(const struct store_link *link)
{
    return link->answered;
}

int64_t store_link_peer_expiry(const struct store_link *link)
{
    return stream_peer_expiry(link->stream);
}

/* ---- the end ---- */

/* The calls of the link itself end with it. */
static void take_lost(struct list *calls, struct list *lost)
{
    for (struct list *node; (node = list_pop(calls));) {
        struct store_call *call = call_of(node);

        if (call->cb) {
            list_append(lost, node);
        } else {
            free(call->answer);
            free(call);
        }
    }
}

void store_link_close(struct store_link *link, struct list *lost)
{
    if (!link)
        return;
    link->state = DEAD;
    take_lost(&link->awaiting_replicas, lost);
    take_lost(&link->calls, lost);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
    uv_close((uv_handle_t *)&link->watch, on_handle_closed);
    uv_close((uv_handle_t *)&link->iteration, on_handle_closed);
    stream_close(link->stream);
}
