// SPDX-License-Identifier: Apache-2.0
/*
 * Store: chooses the server, keeps one link to it, and answers each call exactly once
 *
 * States: WAITING, CONNECTING, UP; any trouble leads back to WAITING. Without Sentinels the hosts
 * of the configuration are tried in turn, and after all of them comes a pause. With Sentinels the
 * watch names the server, and another name ends the link at once. See io/store/store.h.
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
#include "io/hosts.h"
#include "io/store/store.h"
#include "io/store/store_check.h"
#include "io/store/store_link.h"
#include "io/store/store_watch.h"
#include "io/tls.h"

#define HOST_PATIENCE_MS 2000 /* where there are several hosts, for each one in the first round */
#define WHY_LEN 768

static const unsigned char built_in_library[] = {
#include "drover_lua.inc"
    '\0',
};

enum state {
    WAITING,    /* for the timer, or for a Sentinel that names a primary */
    CONNECTING, /* and checking */
    UP,
    CLOSED,
};

struct store {
    uv_loop_t *loop;
    struct store_config config; /* owns its texts, except the library */
    struct store_check_config check_config;
    struct store_callbacks callbacks;
    void *ctx;
    enum state state;
    struct hosts hosts;        /* the servers, or with a watch the Sentinels; none: a socket */
    struct store_watch *watch; /* NULL without Sentinels */
    struct host host;          /* where the link leads, or has led; its name is NULL for a socket */
    size_t begins;             /* with which host a round begins */
    size_t tried;              /* hosts in this round */
    char refused[WHY_LEN];     /* by one of these; "": by none */
    struct store_link *link;   /* NULL if there is no connection */
    uint32_t partitions;       /* when it was last up; 0 before */
    char run[sizeof(((struct store_check *)0)->run)];
    struct list lost; /* calls to be answered STORE_UNKNOWN in the next iteration of the loop */
    uv_timer_t timer;
    uv_idle_t iteration; /* active while there are lost calls */
    unsigned open;       /* handles, links and watches that libuv still has */
    unsigned failures;   /* of connecting, since the last answer */
    unsigned rounds;     /* over all hosts, since the last answer */
    uint64_t moves;      /* primaries that were left because the Sentinels named another one */
    uint64_t n_refused;  /* connections */
    int64_t peer_expiry; /* of the certificates of the last server; 0 for none */
    struct rng rng;
    char last_reported[WHY_LEN]; /* trouble; "": none */
    void (*on_closed)(void *ctx);
};

static void on_timer(uv_timer_t *timer);
static void on_iteration(uv_idle_t *iteration);

static void timer_set(struct store *s, uint64_t ms)
{
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* ---- answers ---- */

static void on_batch_end(void *ctx)
{
    struct store *s = ctx;

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
        store_call_finish(list_entry(lost.next, struct store_call, node), &unknown);
    on_batch_end(s);
}

static void answer_lost_later(struct store *s)
{
    if (!list_empty(&s->lost) && s->state != CLOSED)
        uv_idle_start(&s->iteration, on_iteration);
}

static void on_iteration(uv_idle_t *iteration)
{
    uv_idle_stop(iteration);
    answer_lost(container_of(iteration, struct store, iteration));
}

static void let_go(struct store *s)
{
    if (--s->open > 0)
        return;
    while (!list_empty(&s->lost))
        answer_lost(s);
    if (s->on_closed)
        s->on_closed(s->ctx);
}

static void on_part_gone(void *ctx)
{
    let_go(ctx);
}

/* ---- trouble ---- */

static bool has_choice(const struct store *s)
{
    return s->watch || s->hosts.n > 1;
}

/* Whether this trouble is another one than the last that was reported. */
static bool is_news(struct store *s, const char *why)
{
    if (strcmp(s->last_reported, why) == 0)
        return false;
    snprintf(s->last_reported, sizeof(s->last_reported), "%s", why);
    return true;
}

static void report_unreachable(struct store *s, const char *why)
{
    const char *address = s->config.socket_path ? s->config.socket_path : s->config.host;

    if (is_news(s, why))
        log_warn("store_unreachable", LOG_S("address", address), LOG_S("why", why));
}

/* The callback may close the store. */
static void report_refused(struct store *s)
{
    if (s->callbacks.on_refused)
        s->callbacks.on_refused(s->ctx, s->last_reported);
}

/* Where there are several servers a text says which one it is about. */
static void name_server(const struct store *s, const char *why, char *out)
{
    if (has_choice(s))
        snprintf(out, WHY_LEN, "%s port %d: %s", s->host.name, s->host.port, why);
    else
        snprintf(out, WHY_LEN, "%s", why);
}

/* Return: the pause before the next attempt in ms; it doubles with each failure up to the maximum,
 * and a random part of up to a half is taken off. */
static uint64_t pause_of(struct store *s)
{
    uint64_t delay = (uint64_t)s->config.reconnect_min_ms << (s->failures < 20 ? s->failures : 20);

    s->failures++;
    if (delay > (uint64_t)s->config.reconnect_max_ms)
        delay = (uint64_t)s->config.reconnect_max_ms;
    return delay - rng_below(&s->rng, delay / 2 + 1);
}

static void drop_link(struct store *s)
{
    if (s->link && store_link_answered(s->link))
        s->failures = s->rounds = 0;
    store_link_close(take(s->link), &s->lost);
    answer_lost_later(s);
}

/* The next host is tried at once; after all of them comes a pause. Return: whether a round of all
 * hosts has ended. */
static bool wait_to_connect(struct store *s, bool was_up)
{
    size_t n = s->watch || s->hosts.n == 0 ? 1 : s->hosts.n;
    bool ends = was_up || ++s->tried >= n;

    s->state = WAITING;
    timer_set(s, ends ? pause_of(s) : 0);
    if (!ends)
        return false;
    s->tried = 0;
    s->rounds += !was_up; /* after a loss begins the first round */
    return true;
}

/* A refusal by one host is reported after all were tried: another one may be good. */
static void on_link_lost(void *ctx, const char *why, bool refused)
{
    struct store *s = ctx;
    bool was_up = s->state == UP;
    char text[WHY_LEN];

    name_server(s, why, text);
    drop_link(s);
    s->n_refused += refused;
    if (refused && !was_up)
        memcpy(s->refused, text, sizeof(text));
    if (was_up) {
        wait_to_connect(s, true);
        if (s->callbacks.on_down)
            s->callbacks.on_down(s->ctx, text);
        return;
    }
    if (!wait_to_connect(s, false))
        return;
    if (!*s->refused)
        report_unreachable(s, text);
    else if (is_news(s, s->refused))
        report_refused(s);
    s->refused[0] = '\0';
}

/* ---- connecting ---- */

static void on_link_up(void *ctx)
{
    struct store *s = ctx;
    const struct store_check *check = store_link_check(s->link);

    s->state = UP;
    s->begins += s->tried;
    s->tried = 0;
    s->refused[0] = s->last_reported[0] = '\0';
    s->peer_expiry = store_link_peer_expiry(s->link);
    s->partitions = check->partitions;
    s->check_config.partitions = s->check_config.known = s->partitions;
    memcpy(s->run, check->run, sizeof(s->run));
    if (s->callbacks.on_up)
        s->callbacks.on_up(s->ctx);
}

/* Return: false if no Sentinel has named a primary yet. */
static bool choose_host(struct store *s)
{
    const struct sentinel_primary *primary = s->watch ? store_watch_primary(s->watch) : NULL;

    if (primary)
        s->host = (struct host){primary->host, primary->port};
    else if (s->hosts.n > 0)
        s->host = s->hosts.list[(s->begins + s->tried) % s->hosts.n];
    return !primary || *primary->host;
}

static uint64_t patience_of(const struct store *s)
{
    const uint64_t most = (uint64_t)s->config.call_timeout_ms;
    bool first_round = s->hosts.n > 1 && s->rounds == 0 && !s->watch;

    return first_round && HOST_PATIENCE_MS < most ? HOST_PATIENCE_MS : most;
}

static void begin_to_connect(struct store *s)
{
    static const struct store_link_callbacks callbacks = {
        .on_up = on_link_up,
        .on_lost = on_link_lost,
        .on_batch_end = on_batch_end,
        .on_gone = on_part_gone,
    };
    struct store_link_target target;
    int ret;

    if (!choose_host(s))
        return;
    target = (struct store_link_target){
        .host = s->host.name,
        .port = s->host.port,
        .first = s->failures,
        .patience_ms = patience_of(s),
    };
    s->state = CONNECTING;
    ret = store_link_open(&s->link, s->loop, &s->config, &s->check_config, &target, &callbacks, s);
    s->open += ret == 0;
    if (ret < 0)
        on_link_lost(s, uv_strerror(ret), false);
}

static void on_timer(uv_timer_t *timer)
{
    struct store *s = container_of(timer, struct store, timer);

    if (s->state == WAITING)
        begin_to_connect(s);
}

/* ---- Sentinels ---- */

/* The server that was the primary may still take writes, all of which will be lost: it is left
 * whether or not it still answers. */
static void on_primary(void *ctx)
{
    struct store *s = ctx;
    const struct sentinel_primary *primary = store_watch_primary(s->watch);
    bool was_up = s->state == UP;
    char why[WHY_LEN];

    s->moves += was_up;
    drop_link(s);
    s->failures = 0;
    s->state = WAITING;
    timer_set(s, 0);
    snprintf(why, sizeof(why), "the Sentinels name another primary: %s port %d", primary->host,
             primary->port);
    if (was_up && s->callbacks.on_down)
        s->callbacks.on_down(s->ctx, why);
}

static void on_no_primary(void *ctx, const char *why, bool refused)
{
    struct store *s = ctx;

    if (!refused) {
        report_unreachable(s, why);
    } else if (is_news(s, why)) {
        s->n_refused++;
        report_refused(s);
    }
}

static int watch_begin(struct store *s)
{
    static const struct store_watch_callbacks callbacks = {
        .on_primary = on_primary,
        .on_trouble = on_no_primary,
        .on_gone = on_part_gone,
    };

    return store_watch_open(&s->watch, s->loop, &s->config, &s->hosts, &callbacks, s);
}

/* ---- making a store, and calls ---- */

static void config_deinit(struct store_config *c)
{
    free((void *)c->host);
    free((void *)c->socket_path);
    free((void *)c->user);
    free((void *)c->password);
    free((void *)c->prefix);
    free((void *)c->master_name);
    free((void *)c->sentinel_user);
    free((void *)c->sentinel_password);
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
    owned &= own(&c->master_name);
    owned &= own(&c->sentinel_user);
    owned &= own(&c->sentinel_password);
    return owned ? 0 : -ENOMEM;
}

static int settings_init(struct store *s, const struct store_config *config)
{
    int ret = config_init(&s->config, config);

    if (ret == 0 && !s->config.socket_path)
        ret = hosts_parse(&s->hosts, s->config.host, s->config.port);
    if (ret)
        return ret < 0 ? ret : -EINVAL;
    s->check_config = (struct store_check_config){
        .user = s->config.user,
        .password = s->config.password,
        .database = s->config.database,
        .prefix = s->config.prefix,
        .partitions = s->config.partitions,
        .strict = s->config.strict,
        .replicas = s->config.replicas,
        .library = s->config.library,
        .read_only = s->config.read_only,
        .has_choice = s->config.master_name || s->hosts.n > 1,
        .sentinels = s->config.master_name,
    };
    return rng_seed_system(&s->rng);
}

static int store_init(struct store *s, uv_loop_t *loop, const struct store_config *config)
{
    int ret = settings_init(s, config);

    if (ret < 0)
        return ret;
    s->loop = loop;
    if (s->config.master_name && s->hosts.n > 0)
        ret = watch_begin(s);
    if (ret < 0)
        return ret;
    list_init(&s->lost);
    uv_timer_init(loop, &s->timer);
    uv_idle_init(loop, &s->iteration);
    s->open = s->watch ? 3 : 2;
    return 0;
}

static void release(struct store *s)
{
    hosts_deinit(&s->hosts);
    config_deinit(&s->config);
    free(s);
}

int store_new(struct store **out, uv_loop_t *loop, const struct store_config *config,
              const struct store_callbacks *callbacks, void *ctx)
{
    struct store *s;
    int ret;

    assert(!config->prefix || strlen(config->prefix) <= STORE_PREFIX_MAX);
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    ret = store_init(s, loop, config);
    if (ret < 0) {
        release(s);
        return ret;
    }
    s->callbacks = *callbacks;
    s->ctx = ctx;
    s->state = WAITING;
    timer_set(s, 0);
    *out = s;
    return 0;
}

/* Return: a call that is in no list yet; NULL if memory is out. */
static struct store_call *call_new(const char *function, store_cb cb, void *ctx)
{
    struct store_call *call = malloc(sizeof(*call));

    if (call)
        *call = (struct store_call){.function = function, .cb = cb, .ctx = ctx};
    return call;
}

int store_call(struct store *s, uint32_t partition, const char *function, const struct bytes *args,
               int n, store_cb cb, void *ctx)
{
    CLEANUP(free) struct store_call *call = call_new(function, cb, ctx);
    int ret;

    if (!call)
        return -ENOMEM;
    if (s->state == UP &&
        failpoint("store", function, "before", args, (size_t)n) != FAILPOINT_RETURN) {
        ret = store_link_call(s->link, call, partition, args, n);
        if (ret == 0)
            take(call);
        return ret;
    }
    list_append(&s->lost, &take(call)->node);
    answer_lost_later(s);
    return 0;
}

void store_memory(struct store *s, store_memory_cb cb, void *ctx)
{
    if (s->state == UP)
        store_link_memory(s->link, cb, ctx);
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
    return s->run;
}

void store_stats(const struct store *s, struct store_stats *out)
{
    int64_t own = s->config.tls ? tls_context_expiry(s->config.tls) : 0;
    int64_t sentinels = s->watch ? store_watch_expiry(s->watch) : 0;

    *out = (struct store_stats){
        .moves = s->moves,
        .sentinels = s->watch ? (unsigned)s->hosts.n : 0,
        .sentinels_heard = s->watch ? store_watch_heard(s->watch) : 0,
        .sentinels_differ = s->watch ? store_watch_differing(s->watch) : 0,
        .refused = s->n_refused,
        .tls_expiry = tls_first_expiry(tls_first_expiry(own, sentinels), s->peer_expiry),
    };
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
    if (s->watch)
        store_watch_close(take(s->watch));
    s->timer.data = s;
    s->iteration.data = s;
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->iteration, on_handle_closed);
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    assert(s->state == CLOSED && s->open == 0);
    release(s);
    return NULL;
}
