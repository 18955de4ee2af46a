// SPDX-License-Identifier: Apache-2.0
/*
 * Session: one question at a time over a bus, on a loop of its own
 *
 * See client/session.h. Called by the other files of common/client, and by clients.
 */
#include "client/session.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "client/reader.h"
#include "io/config/config_connections.h"
#include "io/hosts.h"

#define NOT_FOUND "404 NOT_FOUND"
#define CONNECT_MS 10000     /* to connect the first time: a person waits */
#define REPEAT_MIN_MS 5000   /* until a question is sent again; an answer takes milliseconds */
#define REPEAT_MAX_MS 30000  /* so that a scheduler that comes back finds few copies */
#define CLOSE_MS 2000        /* to close the connection properly */
#define CONSUMER_PREFETCH 16 /* only direct replies arrive, which need no acknowledgement */

struct session {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct reader *reader; /* of --from-store; NULL if there is a bus */
    struct bus *bus;
    struct config *config;
    struct rng rng;
    char broker[256]; /* where it is, for a person */
    char why[1400];
    bool up;
    bool closed;
    bool interrupted;
    bool event; /* a JobEvent has arrived */
    int error;  /* ends a wait: 0 or SESSION_E_UNREACHABLE */

    /* the question in progress */
    const struct session_question *question; /* NULL for none */
    uint64_t number;                         /* of the question, which is the id of its copies */
    bool leaving;                            /* a copy has no outcome yet: the bus will send it */
    struct buf body;
    char correlation[ID_TOKEN_LEN + 1];
    struct wire_message answer;
    bool answered;

    /* the inspection in progress */
    char inspecting[SESSION_QUEUE_MAX + 1]; /* name of the queue, which the bus keeps */
    struct session_queue queue;
    bool inspected;
};

static void set_why(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void set_why(struct session *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(s->why, sizeof(s->why), format, ap);
    va_end(ap);
}

/* ---- callbacks of the bus ---- */

/* Sends a copy, unless there is one already that has not left. Return: 0 or -ENOMEM. */
static int send_question(struct session *s)
{
    int r;
    const struct bus_message m = {
        .exchange = s->question->exchange,
        .key = s->question->key,
        .body = buf_bytes(&s->body),
        .content_type = wire_content_type(false),
        .type = s->question->body->descriptor->name,
        .correlation_id = s->correlation,
        .reply_to = "amq.rabbitmq.reply-to",
        .mandatory = true,
    };

    if (s->leaving)
        return 0;
    r = bus_publish(s->bus, &m, s->number);
    s->leaving = r == 0;
    return r;
}

/* Connected, perhaps again: the question is sent again, because the answer to a copy that has left
 * would go to the old connection. */
static void on_up(void *ctx)
{
    struct session *s = ctx;

    s->up = true;
    s->error = 0;
    s->why[0] = '\0';
    if (s->question && !s->answered)
        (void)send_question(s); /* if memory is out it is sent again later */
}

static void on_down(void *ctx, const char *why)
{
    struct session *s = ctx;

    s->up = false;
    set_why(s, "the connection to %s was lost: %s", s->broker, why);
}

/* An exchange that is missing is no error yet: a scheduler that has just started declares it. */
static void on_refused(void *ctx, const char *why)
{
    struct session *s = ctx;

    if (strstr(why, NOT_FOUND)) {
        set_why(s, "the broker at %s has no Drover yet, start a drover-scheduler: %s", s->broker,
                why);
        return;
    }
    s->error = SESSION_E_UNREACHABLE;
    set_why(s, "the broker at %s refuses: %s", s->broker, why);
}

static bool take_answer(struct session *s, const struct bus_delivery *d)
{
    if (!s->question || s->answered || strcmp(d->correlation_id, s->correlation) != 0)
        return false;
    if (wire_decode(s->question->answer, d->body, NULL, &s->answer, NULL) != 0) {
        wire_free(&s->answer);
        return false;
    }
    s->answered = true;
    return true;
}

/* A JobEvent has the same correlation id as the Receipt of its Submit, but cannot be decoded as a
 * Receipt. */
static bool take_event(struct session *s, const struct bus_delivery *d)
{
    struct wire_message m;
    bool event = wire_decode(WIRE_EVENT, d->body, NULL, &m, NULL) == 0;

    wire_free(&m);
    s->event = s->event || event;
    return event;
}

static void on_delivery(void *ctx, struct bus_delivery *d)
{
    struct session *s = ctx;

    if (d->oversize || (!take_answer(s, d) && !take_event(s, d)))
        log_debug("reply_ignored", LOG_S("correlation", d->correlation_id),
                  LOG_I("bytes", d->body.len));
    bus_delivery_free(d);
}

static void on_outcome(void *ctx, uint64_t id, enum bus_outcome outcome)
{
    struct session *s = ctx;

    if (!s->question || id != s->number)
        return;
    s->leaving = false;
    if (outcome != BUS_RETURNED)
        return;
    s->error = SESSION_E_UNREACHABLE;
    set_why(s, "no queue is bound to %s: has a scheduler ever run here?", s->question->exchange);
}

static void on_closed(void *ctx)
{
    struct session *s = ctx;

    s->closed = true;
}

/* ---- waiting ---- */

static void on_signal(uv_signal_t *handle, int signal)
{
    struct session *s = handle->data;

    s->interrupted = true;
}

static void on_timer(uv_timer_t *timer)
{
}

static bool is_up(const struct session *s)
{
    return s->up || s->error;
}

static bool is_answered(const struct session *s)
{
    return s->answered || s->error;
}

static bool has_event(const struct session *s)
{
    return s->event;
}

static bool is_closed(const struct session *s)
{
    return s->closed;
}

/* Runs the loop until @done or the deadline. */
static void run_until(struct session *s, bool (*done)(const struct session *), int64_t deadline)
{
    int64_t now = clock_monotonic_ms();

    while (!done(s) && now < deadline) {
        uv_update_time(&s->loop);
        if (deadline != SESSION_FOREVER)
            uv_timer_start(&s->timer, on_timer, (uint64_t)(deadline - now), 0);
        uv_run(&s->loop, UV_RUN_ONCE);
        if (s->interrupted && done != is_closed)
            break;
        now = clock_monotonic_ms();
    }
    uv_timer_stop(&s->timer);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int wait_up(struct session *s, int64_t deadline)
{
    run_until(s, is_up, earlier(clock_monotonic_ms() + CONNECT_MS, deadline));
    if (s->interrupted)
        return SESSION_E_INTERRUPTED;
    if (s->up && !s->error)
        return 0;
    if (!s->why[0]) {
        char why[1024];

        bus_why(s->bus, why, sizeof(why));
        set_why(s, "cannot reach the broker at %s%s%s", s->broker, why[0] ? ": " : "", why);
    }
    return SESSION_E_UNREACHABLE;
}

static int wait_answered(struct session *s, int64_t deadline)
{
    int64_t interval = REPEAT_MIN_MS;

    for (;;) {
        int64_t now = clock_monotonic_ms();

        run_until(s, is_answered, earlier(deadline, now + interval));
        if (s->answered)
            return 0;
        if (s->interrupted)
            return SESSION_E_INTERRUPTED;
        if (s->error)
            return s->error;
        if (clock_monotonic_ms() >= deadline) {
            if (s->up)
                set_why(s, "no scheduler has answered in time");
            return s->up ? SESSION_E_TIMEOUT : SESSION_E_UNREACHABLE;
        }
        log_info("no_answer_yet", LOG_I("waited_ms", interval));
        if (s->up && send_question(s))
            return -ENOMEM;
        interval = earlier(2 * interval, REPEAT_MAX_MS);
    }
}

static int ask(struct session *s, int64_t deadline, struct wire_message *answer)
{
    int r = wire_encode(s->question->body, false, &s->body);

    if (r == WIRE_E_TOO_LARGE) {
        set_why(s, "the message is larger than %zu bytes", WIRE_MESSAGE_MAX);
        return SESSION_E_TOO_LARGE;
    }
    if (r == 0)
        r = send_question(s);
    if (r == 0)
        r = wait_answered(s, deadline);
    if (r == 0)
        *answer = s->answer;
    return r;
}

int session_ask(struct session *s, const struct session_question *question, int64_t deadline,
                struct wire_message *answer)
{
    int r;

    if (s->reader) {
        r = reader_ask(s->reader, (const Drover__V1__Control *)question->body, deadline, answer);
        set_why(s, "%s", reader_why(s->reader));
        return r;
    }
    if (s->up)
        s->error = 0; /* from the question before */
    r = wait_up(s, deadline);
    if (r)
        return r;
    id_token(rng_next(&s->rng), s->correlation);
    buf_clear(&s->body);
    s->question = question;
    s->number++;
    s->answered = s->leaving = false;
    r = ask(s, deadline, answer);
    s->question = NULL;
    return r;
}

int session_wait(struct session *s, int64_t deadline)
{
    run_until(s, has_event, deadline);
    s->event = false;
    return s->interrupted ? SESSION_E_INTERRUPTED : 0;
}

/* ---- inspecting queues ---- */

static void on_inspected(void *ctx, uint32_t messages, uint32_t consumers)
{
    struct session *s = ctx;

    s->queue = (struct session_queue){.messages = messages, .consumers = consumers};
    s->inspected = true;
}

static bool is_inspected(const struct session *s)
{
    return s->inspected || s->error;
}

int session_inspect(struct session *s, const char *queue, int64_t deadline,
                    struct session_queue *out)
{
    int r = wait_up(s, deadline);

    if (r)
        return r;
    s->inspected = false;
    snprintf(s->inspecting, sizeof(s->inspecting), "%s", queue);
    bus_inspect(s->bus, s->inspecting, on_inspected, s);
    run_until(s, is_inspected, earlier(deadline, clock_monotonic_ms() + CONNECT_MS));
    if (s->interrupted)
        return SESSION_E_INTERRUPTED;
    if (!s->inspected) {
        set_why(s, "the broker does not say what is in %s", queue);
        return SESSION_E_UNREACHABLE;
    }
    *out = s->queue;
    return 0;
}

/* ---- start and stop ---- */

static int bus_start(struct session *s, const char *name)
{
    static const struct bus_callbacks callbacks = {
        .on_up = on_up,
        .on_down = on_down,
        .on_refused = on_refused,
        .on_delivery = on_delivery,
        .on_outcome = on_outcome,
    };
    struct bus_config config = config_bus(s->config, name);

    config.marker = false; /* it is for supervisors */
    config.declare = false;
    config.identify = true;
    config.prefetch = CONSUMER_PREFETCH;
    config.direct_reply = true;
    return bus_new(&s->bus, &s->loop, &config, &callbacks, s);
}

static int signals_start(struct session *s)
{
    static const int signals[] = {SIGINT, SIGTERM};
    int r = 0;

    for (size_t i = 0; i < array_size(signals) && r == 0; i++) {
        r = uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        if (r == 0)
            r = uv_signal_start(&s->signals[i], on_signal, signals[i]);
    }
    return r;
}

/* Makes a session that session_free() can free. */
static int session_alloc(struct session **out)
{
    struct session *s = calloc(1, sizeof(*s));
    int r = s ? uv_loop_init(&s->loop) : -ENOMEM;

    if (r) {
        free(s);
        return r;
    }
    uv_timer_init(&s->loop, &s->timer); /* cannot fail */
    *out = s;
    return 0;
}

int session_new(struct session **out, struct config *config, const char *name)
{
    CLEANUP(session_free) struct session *s = NULL;
    int r = session_alloc(&s);

    if (r) {
        config_free(config);
        return r;
    }
    s->config = config;
    r = signals_start(s);
    if (r == 0)
        r = rng_seed_system(&s->rng);
    if (r == 0)
        r = bus_start(s, name);
    if (r)
        return r;
    hosts_describe(s->broker, sizeof(s->broker), config->rabbitmq.host, (int)config->rabbitmq.port);
    *out = take(s);
    return 0;
}

int session_new_from_store(struct session **out, struct config *config)
{
    CLEANUP(session_free) struct session *s = NULL;
    int r = session_alloc(&s);

    if (r) {
        config_free(config);
        return r;
    }
    r = reader_new(&s->reader, config);
    if (r == 0)
        *out = take(s);
    return r;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

struct session *session_free(struct session *s)
{
    if (!s)
        return NULL;
    reader_free(s->reader);
    if (s->bus) {
        bus_close(s->bus, CLOSE_MS, on_closed);
        run_until(s, is_closed, SESSION_FOREVER); /* bus_close() has a time limit */
        bus_free(s->bus);
    }
    uv_walk(&s->loop, close_handle, NULL);
    while (uv_run(&s->loop, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&s->loop);
    config_free(s->config);
    buf_deinit(&s->body);
    free(s);
    return NULL;
}

const char *session_why(const struct session *s)
{
    return s->why;
}
