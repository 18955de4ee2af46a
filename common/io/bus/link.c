// SPDX-License-Identifier: Apache-2.0
/*
 * Link: connections come and go; timers; the end
 *
 * See io/bus/link.h. Called by bus.c and the fuzz target frames.
 */
#include "io/bus/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/bus/login.h"

#define POOL_PAGE 4096 /* bytes */

static void lose(struct link *link, int error);

static void on_open(void *ctx)
{
    struct link *link = ctx;
    int r;

    link->state = LINK_GREETING;
    link_await(link);
    login_greet(&link->out);
    r = link_flush(link);
    if (r)
        lose(link, r);
}

static void on_data(void *ctx, struct bytes data)
{
    struct link *link = ctx;
    int r;

    link->quiet_ticks = 0;
    r = link_input(link, data);
    if (r) {
        lose(link, r);
        return;
    }
    link->changed(link->owner);
}

static void on_room(void *ctx)
{
    struct link *link = ctx;

    link->full_ticks = 0;
    link->changed(link->owner);
}

static void on_stream_lost(void *ctx, const char *why, bool refused)
{
    struct link *link = ctx;
    const char *what = link->state == LINK_CONNECTING ? ""
                       : link->state < LINK_SETUP     ? "login: "
                                                      : "connection lost: ";
    enum link_error error = refused ? LINK_E_REFUSED : LINK_E_LOST;

    lose(link,
         link->state == LINK_CLOSING ? LINK_E_DONE : link_fail(link, error, "%s%s", what, why));
}

static void check_ended(struct link *link)
{
    if (link->state != LINK_ENDING || link->streams > 0)
        return;
    link->state = LINK_ENDED;
    link->changed(link->owner);
}

static void on_gone(void *ctx)
{
    struct link *link = ctx;

    link->streams--;
    check_ended(link);
}

static const struct stream_callbacks stream_callbacks = {
    .on_open = on_open,
    .on_data = on_data,
    .on_room = on_room,
    .on_lost = on_stream_lost,
    .on_gone = on_gone,
};

static const struct host *next_host(const struct link *link)
{
    const size_t nth = link->first_host + link->hosts_tried;

    return &link->hosts->list[hosts_place(link->hosts, link->config->spread, nth)];
}

/* Whether all hosts were tried, but for one that was silent. */
static bool is_round_over(const struct link *link)
{
    const size_t left = link->hosts->n - link->hosts_tried;

    return left == 0 || (left == 1 && link->hosts_tried > 0 && next_host(link) == link->silent);
}

/* Each attempt at a host begins with another one of its addresses. */
static struct stream_target next_target(struct link *link)
{
    const size_t n = link->hosts->n;

    if (next_host(link) == link->silent && n > 1)
        link->hosts_tried++;
    link->host = next_host(link);
    link->hosts_tried++;
    return (struct stream_target){
        .host = link->host->name,
        .port = link->host->port,
        .first = link->attempts++ / (unsigned)n,
        .tls = link->config->tls,
        .tls_name = link->config->tls_name,
        .insecure = link->config->insecure,
        .settings = "rabbitmq",
    };
}

static void connect_now(struct link *link)
{
    const struct stream_target target = next_target(link);
    int r;

    link->state = LINK_CONNECTING;
    link->frame_max = FRAME_MAX;
    link->heartbeat_ms = 0;
    link->close_method = 0;
    link->closed_over = link->closed_over_queue = false;
    link->up_since = 0;
    link->wrote_at = (int64_t)uv_now(link->loop);
    link->quiet_ticks = link->full_ticks = 0;
    link_await(link);
    r = stream_open(&link->stream, link->loop, &target, &stream_callbacks, link);
    link->streams += r == 0;
    if (r)
        lose(link, link_fail(link, LINK_E_LOST, "connecting to %s port %d: %s", target.host,
                             target.port, uv_strerror(r)));
}

/* Drops the connection, if there is one, and all that belongs to it. */
static void drop_connection(struct link *link)
{
    uv_timer_stop(&link->timer);
    uv_timer_stop(&link->tick);
    stream_close(take(link->stream));
    buf_deinit(&link->in);
    buf_clear(&link->out);
    message_reset(&link->assembly);
    link_drop_calls(link);
    link->blocked = false;
    link->role->lost(link);
}

static bool should_end(const struct link *link)
{
    return link->closing && link->role->idle((struct link *)link);
}

static void finish(struct link *link)
{
    drop_connection(link);
    link->state = LINK_ENDING;
    check_ended(link);
}

/* Return: the pause in ms after the link has tried all hosts. It doubles each time; a random part
 * of up to half is taken off, so that processes do not reconnect at the same moment. After a
 * connection that lasted it begins anew. */
static int64_t next_pause(struct link *link)
{
    const int64_t most = link->config->reconnect_max_ms;
    int64_t pause;

    if (link->up_since && (int64_t)uv_now(link->loop) - link->up_since > most)
        link->pauses = 0;
    pause = link->pauses < 20 ? (int64_t)link->config->reconnect_min_ms << link->pauses : most;
    link->pauses++;
    if (pause > most)
        pause = most;
    return pause - (int64_t)rng_below(&link->rng, (uint64_t)pause / 2 + 1);
}

/* A refusal by one host is reported after all were tried: another one may be good. */
static void end_round(struct link *link)
{
    link->hosts_tried = 0;
    link->refusals += link->refused;
    link->refused = false;
}

/* The connection was lost: with which host to begin. One that only lets log in is left. */
static void begin_anew(struct link *link, bool silent)
{
    const bool lasted = link->pauses == 1;

    link->first_host = lasted ? 0 : link->first_host + 1;
    link->silent = silent ? link->host : NULL;
    link->rounds_failed = 0;
}

/* No host could be connected to. */
static void begin_again(struct link *link)
{
    link->silent = NULL;
    link->rounds_failed++;
}

static void back_off(struct link *link, bool silent)
{
    int64_t pause = 0;

    if (link->up_since || is_round_over(link)) {
        pause = next_pause(link);
        if (link->up_since)
            begin_anew(link, silent);
        else
            begin_again(link);
        end_round(link);
    }
    link->state = LINK_WAITING;
    uv_timer_start(&link->timer, link->on_timer, (uint64_t)pause, 0);
}

/* Where there are several hosts a text says which one it is about. */
static void name_host(struct link *link)
{
    char why[LINK_WHY_LEN];

    if (link->hosts->n < 2 || link->state == LINK_CONNECTING)
        return;
    memcpy(why, link->why, sizeof(why));
    link_fail(link, LINK_E_LOST, "%s port %d: %.*s", link->host->name, link->host->port,
              LINK_WHY_LEN / 2, why);
}

/* An attempt that fails as the one before at the same host is no news. */
static bool is_news(struct link *link)
{
    uint32_t hash = hosts_hash(link->why), *known = &link->known[link->host - link->hosts->list];
    bool news = link->up_since || *known != hash;

    *known = link->up_since ? 0 : hash;
    return news;
}

static void note_refusal(struct link *link)
{
    link->refused = true;
    link->n_refused++;
    memcpy(link->refusal, link->why, sizeof(link->why));
}

/* At the same host. */
static void adapt(struct link *link)
{
    link->hosts_tried--;
    drop_connection(link);
    link->state = LINK_WAITING;
    uv_timer_start(&link->timer, link->on_timer, 0, 0);
}

static void lose(struct link *link, int error)
{
    if (error == LINK_E_REFUSED && link->state == LINK_SETUP && link->role->adapt(link)) {
        adapt(link);
        return;
    }
    if (error == LINK_E_DONE || should_end(link)) {
        finish(link);
        return;
    }
    name_host(link);
    if (is_news(link))
        log_warn("bus_disconnected", LOG_S("link", link->role->name), LOG_S("why", link->why));
    if (error == LINK_E_REFUSED)
        note_refusal(link);
    memcpy(link->reported, link->why, sizeof(link->why));
    drop_connection(link);
    back_off(link, error == LINK_E_SILENT);
    link->changed(link->owner);
}

/* No answer came in time. */
static void give_up(struct link *link)
{
    const char *what = link_awaited(link);

    if (link->state == LINK_CONNECTING)
        link_fail(link, LINK_E_LOST, "connecting to %s port %d: %s", link->host->name,
                  link->host->port, stream_missing(link->stream));
    else
        link_fail(link, LINK_E_SILENT, "%s: no answer", what ? what : "login");
    lose(link, LINK_E_SILENT);
}

/* The loop may have stood still: what the broker has sent meanwhile is read before it counts as
 * silent. */
static void on_timer(uv_timer_t *timer)
{
    struct link *link = container_of(timer, struct link, timer);

    if (link->state == LINK_WAITING) {
        connect_now(link);
    } else if (link->state == LINK_CLOSING) {
        finish(link);
    } else if (link->overdue) {
        give_up(link);
    } else {
        link->overdue = true;
        uv_timer_start(timer, on_timer, 1, 0);
    }
}

/* Ticks are counted, not time: where the loop stood still, what the broker has sent meanwhile is
 * read before the next tick. */
static bool is_silent(struct link *link)
{
    return ++link->quiet_ticks * link_tick_ms(link) > 2 * link->heartbeat_ms;
}

/* A broker that sends, and reads nothing, would be waited for until confirms are missing. Under an
 * alarm it reads nothing for as long as that lasts. One that reads slowly is waited for. */
static bool is_stuck(struct link *link)
{
    const size_t before = link->unsent;

    link->unsent = stream_unsent(link->stream);
    if (!link_is_full(link) || link->blocked || link->unsent < before)
        link->full_ticks = 0;
    else
        link->full_ticks++;
    return link->full_ticks * link_tick_ms(link) > 2 * link->heartbeat_ms;
}

static void on_tick(uv_timer_t *tick)
{
    struct link *link = container_of(tick, struct link, tick);
    const int64_t now = (int64_t)uv_now(link->loop);

    if (is_silent(link)) {
        lose(link, link_fail(link, LINK_E_SILENT, "connection lost: no heartbeat of the broker"));
        return;
    }
    if (is_stuck(link)) {
        lose(link, link_fail(link, LINK_E_SILENT, "connection lost: the broker reads nothing"));
        return;
    }
    if (now - link->wrote_at >= link->heartbeat_ms / 2 && !link_is_full(link) &&
        frame_put_heartbeat(&link->out) < 0) {
        lose(link, link_check_put(link, -ENOMEM));
        return;
    }
    link->changed(link->owner);
}

/* Ends the connection; politely where the broker listens. */
static void leave(struct link *link)
{
    amqp_connection_close_t close = {
        .reply_code = AMQP_REPLY_SUCCESS,
        .reply_text = amqp_cstring_bytes("goodbye"),
    };

    if (link->state != LINK_UP || link->blocked ||
        frame_put_method(&link->out, 0, AMQP_CONNECTION_CLOSE_METHOD, &close) < 0 ||
        link_flush(link)) {
        finish(link);
        return;
    }
    link->state = LINK_CLOSING;
    link_await(link);
}

void link_pass(struct link *link)
{
    bool connected = link->state > LINK_CONNECTING && link->state < LINK_ENDING;
    int r = link->state == LINK_UP ? link->role->send(link) : 0;

    if (!r && connected)
        r = link_flush(link);
    if (r)
        lose(link, r);
    else if (link->state < LINK_CLOSING && should_end(link))
        leave(link);
}

/* --- beginning and end ------------------------------------------------------------------------ */

int link_init(struct link *link, uv_loop_t *loop, const struct bus_config *config,
              const struct link_role *role, void (*changed)(void *owner), void *owner)
{
    link->loop = loop;
    link->config = config;
    link->role = role;
    link->changed = changed;
    link->owner = owner;
    link->on_timer = on_timer;
    link->on_tick = on_tick;
    list_init(&link->calls);
    list_init(&link->side.calls);
    list_init(&link->deliveries);
    list_init(&link->settled);
    init_amqp_pool(&link->pool, POOL_PAGE);
    uv_timer_init(loop, &link->timer);
    uv_timer_init(loop, &link->tick);
    return rng_seed_system(&link->rng);
}

void link_start(struct link *link, const struct hosts *hosts)
{
    link->hosts = hosts;
    connect_now(link);
}

void link_end(struct link *link)
{
    link->closing = true;
    link_pass(link);
}

void link_abandon(struct link *link)
{
    link->closing = true;
    if (link->state < LINK_ENDING)
        finish(link);
}

void link_deinit(struct link *link)
{
    struct list *node;

    assert(!link->stream);
    while ((node = list_pop(&link->deliveries)))
        free(list_entry(node, struct incoming, node));
    buf_deinit(&link->out);
    empty_amqp_pool(&link->pool);
}
