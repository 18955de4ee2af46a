// SPDX-License-Identifier: Apache-2.0
/*
 * Store watch: see io/store/store_watch.h
 */
#include "io/store/store_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "io/stream.h"

#define ASK_MS 500       /* between two questions to a Sentinel */
#define PATIENCE_MS 2000 /* for one answer, and for a connection */

/* The connection to one Sentinel. */
struct sentinel {
    struct store_watch *watch;
    const struct host *host;
    struct stream *stream; /* NULL: not connected */
    struct resp_reader reader;
    struct sentinel_talk talk;
    struct sentinel_answer answer; /* the last one */
    bool open;                     /* it is connected */
    bool login;                    /* the next question logs in */
    bool waiting;                  /* a connection or an answer is awaited ... */
    uint64_t since;                /* ... since then, as uv_now() */
    unsigned attempts;             /* to connect, since the last answer */
    int64_t expiry;                /* of its certificates, when it was connected last; 0 for none */
    char reported[sizeof(((struct sentinel_answer *)0)->why)];
};

struct store_watch {
    uv_loop_t *loop;
    const struct store_config *config;
    struct sentinel_config question;
    const struct store_watch_callbacks *callbacks;
    void *ctx;
    struct sentinel sentinels[HOSTS_MAX];
    size_t n;
    struct sentinel_choice choice;
    unsigned ticks;  /* since the beginning */
    unsigned differ; /* rounds in which Sentinels named different primaries, the last ones */
    bool few;        /* less than a majority was heard, which was logged */
    bool closing;
    uv_timer_t timer;
    unsigned open; /* handles and streams that libuv still has */
};

/* ---- the answers of all ---- */

unsigned store_watch_heard(const struct store_watch *watch)
{
    unsigned heard = 0;

    for (size_t i = 0; i < watch->n; i++)
        heard += watch->sentinels[i].answer.kind == SENTINEL_NAMES;
    return heard;
}

static void collect(const struct store_watch *watch, struct sentinel_answer *out)
{
    for (size_t i = 0; i < watch->n; i++)
        out[i] = watch->sentinels[i].answer;
}

/* Whether a Sentinel still has to answer for the first time. A process that has just begun waits
 * for it a moment: it may be the one that knows better. */
static bool is_early(const struct store_watch *watch)
{
    for (size_t i = 0; i < watch->n; i++)
        if (watch->sentinels[i].answer.kind == SENTINEL_ASKED)
            return watch->ticks < 3;
    return false;
}

/* Tells why no Sentinel names a primary: of several reasons one that a person must remove. */
static void report(struct store_watch *watch)
{
    const struct sentinel *worst = &watch->sentinels[0];
    char why[768];

    for (size_t i = 1; i < watch->n; i++)
        if (watch->sentinels[i].answer.kind > worst->answer.kind)
            worst = &watch->sentinels[i];
    if (worst->answer.kind == SENTINEL_ASKED)
        return;
    snprintf(why, sizeof(why), "Sentinel %s port %d: %s", worst->host->name, worst->host->port,
             worst->answer.why);
    watch->callbacks->on_trouble(watch->ctx, why, worst->answer.kind == SENTINEL_REFUSES);
}

/* @round: at the end of a round of questions. */
static void judge(struct store_watch *watch, bool round)
{
    const struct sentinel_primary *primary = &watch->choice.known;
    struct sentinel_answer answers[HOSTS_MAX];

    if (watch->closing || is_early(watch))
        return;
    collect(watch, answers);
    if (!sentinel_choose(&watch->choice, answers, watch->n, round))
        return;
    log_info("store_primary", LOG_S("host", primary->host), LOG_I("port", primary->port),
             LOG_I("epoch", primary->epoch));
    watch->callbacks->on_primary(watch->ctx);
}

/* ---- one Sentinel ---- */

/* A refusal, and the reason why a Sentinel is silent, is logged once. */
static void log_trouble(struct sentinel *s)
{
    if (strcmp(s->reported, s->answer.why) == 0)
        return;
    memcpy(s->reported, s->answer.why, sizeof(s->reported));
    if (s->answer.kind != SENTINEL_NAMES)
        log_warn("sentinel_unusable", LOG_S("host", s->host->name), LOG_I("port", s->host->port),
                 LOG_S("why", s->answer.why));
}

static void take_answer(struct sentinel *s, const struct sentinel_answer *answer)
{
    s->answer = *answer;
    s->waiting = false;
    s->login = answer->kind == SENTINEL_REFUSES; /* a person may correct the login meanwhile */
    log_trouble(s);
    judge(s->watch, false);
}

static void lose(struct sentinel *s, const char *why, bool refused)
{
    struct sentinel_answer answer = {.kind = refused ? SENTINEL_REFUSES : SENTINEL_SILENT};

    stream_close(take(s->stream));
    s->open = false;
    snprintf(answer.why, sizeof(answer.why), "%s", why);
    take_answer(s, &answer);
}

static void ask(struct sentinel *s)
{
    CLEANUP(buf_deinit) struct buf command = {0};
    int r;

    sentinel_ask(&s->talk, &s->watch->question, s->login, &command);
    s->login = false;
    s->waiting = true;
    s->since = uv_now(s->watch->loop);
    r = command.failed ? -ENOMEM : stream_write(s->stream, buf_bytes(&command));
    if (r < 0)
        lose(s, uv_strerror(r), false);
}

static void on_open(void *ctx)
{
    struct sentinel *s = ctx;

    s->open = s->login = true;
    s->expiry = stream_peer_expiry(s->stream);
    ask(s);
}

/* The connection may be given up in the middle of a series of replies. */
static void on_data(void *ctx, struct bytes data)
{
    struct sentinel *s = ctx;
    const struct stream *stream = s->stream;
    const struct resp_reply *reply = NULL;
    int r = resp_feed(&s->reader, data.data, data.len);

    while (r == 0 && s->stream == stream && (r = resp_next(&s->reader, &reply)) == 0 && reply) {
        if (!s->waiting) {
            r = -EPROTO; /* a reply to no question */
            break;
        }
        if (sentinel_hear(&s->talk, reply)) {
            s->attempts = 0;
            take_answer(s, &s->talk.answer);
        }
    }
    if (r < 0 && s->stream == stream)
        lose(s, r == -EPROTO ? "what answers there is no Sentinel" : "out of memory", false);
}

static void on_lost(void *ctx, const char *why, bool refused)
{
    lose(ctx, why, refused);
}

static void let_go(struct store_watch *watch)
{
    void (*on_gone)(void *ctx) = watch->callbacks->on_gone;
    void *owner = watch->ctx;

    if (--watch->open > 0)
        return;
    for (size_t i = 0; i < watch->n; i++)
        resp_deinit(&watch->sentinels[i].reader);
    free(watch);
    on_gone(owner);
}

static void on_stream_gone(void *ctx)
{
    let_go(((struct sentinel *)ctx)->watch);
}

/* Each connection has a new reader: the old one may have read a part of a reply. */
static void connect_to(struct sentinel *s)
{
    static const struct stream_callbacks callbacks = {
        .on_open = on_open,
        .on_data = on_data,
        .on_lost = on_lost,
        .on_gone = on_stream_gone,
    };
    const struct store_config *config = s->watch->config;
    const struct stream_target target = {
        .host = s->host->name,
        .port = s->host->port,
        .first = s->attempts++,
        .tls = config->tls,
        .tls_name = config->tls_name,
        .insecure = config->insecure,
        .settings = "redis",
    };
    int r;

    resp_deinit(&s->reader);
    s->waiting = true;
    s->since = uv_now(s->watch->loop);
    r = resp_init(&s->reader);
    if (r == 0)
        r = stream_open(&s->stream, s->watch->loop, &target, &callbacks, s);
    s->watch->open += r == 0;
    if (r < 0)
        lose(s, uv_strerror(r), false);
}

/* The first attempt to connect is short, so that others are heard soon; the next ones are not,
 * because a name may take long to look up. */
static uint64_t patience_of(const struct sentinel *s)
{
    const uint64_t most = (uint64_t)s->watch->config->call_timeout_ms;

    return s->open || s->attempts < 2 || most < PATIENCE_MS ? PATIENCE_MS : most;
}

static void visit(struct sentinel *s)
{
    if (!s->stream)
        connect_to(s);
    else if (!s->waiting)
        ask(s);
    else if (uv_now(s->watch->loop) - s->since >= patience_of(s))
        lose(s, s->open ? "Sentinel does not answer in time" : stream_missing(s->stream), false);
}

/* ---- all of them ---- */

static void look_at_number(struct store_watch *watch)
{
    unsigned heard = store_watch_heard(watch);
    bool few = heard * 2 <= watch->n;

    if (few == watch->few || is_early(watch))
        return;
    watch->few = few;
    if (few)
        log_warn("sentinels_lost", LOG_I("heard", heard), LOG_I("of", watch->n));
    else
        log_info("sentinels_heard", LOG_I("heard", heard), LOG_I("of", watch->n));
}

static bool differs(const struct store_watch *watch, const struct sentinel *s)
{
    return s->answer.kind == SENTINEL_NAMES &&
           !sentinel_is_same(&s->answer.primary, &watch->choice.known);
}

unsigned store_watch_differing(const struct store_watch *watch)
{
    unsigned n = 0;

    for (size_t i = 0; i < watch->n; i++)
        n += differs(watch, &watch->sentinels[i]);
    return n;
}

/* Sentinels learn of a failover from each other within two seconds. */
static void look_at_differences(struct store_watch *watch)
{
    const struct sentinel_primary *known = &watch->choice.known;
    const struct sentinel *other = NULL;

    for (size_t i = 0; i < watch->n; i++)
        if (differs(watch, &watch->sentinels[i]))
            other = &watch->sentinels[i];
    watch->differ = other ? watch->differ + 1 : 0;
    if (watch->differ == SENTINEL_ROUNDS)
        log_warn("sentinels_disagree", LOG_S("host", other->host->name),
                 LOG_I("port", other->host->port), LOG_S("names", other->answer.primary.host),
                 LOG_I("names_port", other->answer.primary.port),
                 LOG_I("epoch", other->answer.primary.epoch), LOG_S("used", known->host),
                 LOG_I("used_port", known->port), LOG_I("used_epoch", known->epoch));
}

static void on_tick(uv_timer_t *timer)
{
    struct store_watch *watch = container_of(timer, struct store_watch, timer);

    watch->ticks++;
    judge(watch, true);
    for (size_t i = 0; i < watch->n && !watch->closing; i++)
        visit(&watch->sentinels[i]);
    if (watch->closing)
        return;
    look_at_number(watch);
    if (*watch->choice.known.host)
        look_at_differences(watch);
    else if (!is_early(watch))
        report(watch);
}

int store_watch_open(struct store_watch **out, uv_loop_t *loop, const struct store_config *config,
                     const struct hosts *sentinels, const struct store_watch_callbacks *callbacks,
                     void *ctx)
{
    struct store_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return -ENOMEM;
    *watch = (struct store_watch){
        .loop = loop,
        .config = config,
        .question = {config->master_name, config->sentinel_user, config->sentinel_password},
        .callbacks = callbacks,
        .ctx = ctx,
        .n = sentinels->n,
        .open = 1,
    };
    for (size_t i = 0; i < watch->n; i++)
        watch->sentinels[i] = (struct sentinel){.watch = watch, .host = &sentinels->list[i]};
    uv_timer_init(loop, &watch->timer);
    uv_timer_start(&watch->timer, on_tick, 0, ASK_MS);
    *out = watch;
    return 0;
}

const struct sentinel_primary *store_watch_primary(const struct store_watch *watch)
{
    return &watch->choice.known;
}

int64_t store_watch_expiry(const struct store_watch *watch)
{
    int64_t first = 0;

    for (size_t i = 0; i < watch->n; i++)
        first = tls_first_expiry(first, watch->sentinels[i].expiry);
    return first;
}

static void on_handle_closed(uv_handle_t *handle)
{
    let_go(container_of((uv_timer_t *)handle, struct store_watch, timer));
}

void store_watch_close(struct store_watch *watch)
{
    watch->closing = true;
    for (size_t i = 0; i < watch->n; i++)
        stream_close(take(watch->sentinels[i].stream));
    uv_close((uv_handle_t *)&watch->timer, on_handle_closed);
}
