// SPDX-License-Identifier: Apache-2.0
/*
 * Driver: connects a machine with bus, store and time, and watches over the process
 *
 * See io/daemon/driver.h.
 */
#include "io/daemon/driver.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "io/daemon/daemon.h"
#include "io/daemon/health.h"
#include "io/daemon/vitals.h"
#include "model/trace.h"

#define FLUSH_MS 2000 /* for messages that the bus still holds when the machine is idle */
#define TRIM_MS 60000 /* between two calls of malloc_trim() */

/* health.stall is at least as long as these. The bus gives up a connection without traffic after
 * two and a half heartbeats, which must come first. */
#define STALL_HEARTBEATS 3
#define STALL_PULSES 3

struct driver {
    const struct driver_machine *machine;
    void *object;
    void *context;
    uv_loop_t *loop;
    struct bus_config bus_config;
    struct bus *bus;
    struct store *store;
    uint64_t store_connects;
    const struct metric_set *metrics; /* of the role */
    const void *(*figures)(void *context);
    struct health *health; /* NULL if health.listen is not set */
    int64_t started;       /* Unix ms */
    struct pulse pulse;
    uv_timer_t pulse_timer;
    bool pulse_came;    /* a pulse has come back since the bus is up */
    int64_t pulse_back; /* when the last one came back, or the start; monotonic ms */
    int64_t pulse_us;   /* round trip of the last one */
    uv_timer_t timer;
    int64_t next_tick;
    struct effects out;
    struct list calls;         /* struct call_context that are free for reuse */
    uv_prepare_t iteration;    /* runs once in each iteration of the loop */
    int64_t iteration_began;   /* CPU time of this thread when the iteration began, us */
    int64_t iteration_longest; /* CPU time of the longest iteration, us */
    bool draining;
    uv_timer_t trim_timer;
    uv_timer_t give_up; /* the end of the drain */
    unsigned closing;   /* parts that are not closed yet */
    void (*on_closed)(void *context);
};

/* A store call in progress. */
struct call_context {
    struct list link;
    struct driver *driver;
    uint64_t id;
    const char *function;
    struct store_answer *args; /* a copy of the arguments for the trace; NULL if it is not logged */
};

int64_t driver_now(void)
{
    return clock_monotonic_ms();
}

struct effects *driver_effects(struct driver *d)
{
    return &d->out;
}

struct bus *driver_bus(struct driver *d)
{
    return d->bus;
}

struct store *driver_store(struct driver *d)
{
    return d->store;
}

/* ---- effects ---- */

void driver_trace(void *ctx, const char *event, const struct log_field *fields, int n)
{
    log_write(LOG_DEBUG, event, fields, n);
}

static void on_answer(void *ctx, const struct store_answer *answer);

static void perform_store(struct driver *d, const struct effect *e)
{
    struct list *free_one = list_pop(&d->calls);
    struct call_context *call =
        free_one ? list_entry(free_one, struct call_context, link) : malloc(sizeof(*call));

    if (!call)
        abort();
    list_init(&call->link);
    call->driver = d;
    call->id = e->id;
    call->function = e->store.function; /* a string literal */
    call->args = NULL;
    if (log_enabled(LOG_DEBUG))
        call->args = store_answer_copy(
            &(struct store_answer){.items = e->store.args, .n = (uint32_t)e->store.n});
    if (store_call(d->store, e->store.partition, e->store.function, e->store.args, e->store.n,
                   on_answer, call))
        abort();
}

static void perform(struct driver *d, const struct effect *e)
{
    if (log_enabled(LOG_DEBUG))
        trace_effect(e, driver_trace, NULL);
    switch (e->type) {
    case EFFECT_STORE:
        perform_store(d, e);
        break;
    case EFFECT_PUBLISH:
        if (bus_publish(d->bus, &e->publish, e->id))
            abort();
        break;
    case EFFECT_ACK:
        bus_ack(d->bus, e->id);
        break;
    case EFFECT_REQUEUE:
        bus_requeue(d->bus, e->id);
        break;
    case EFFECT_CONSUME:
        bus_consume(d->bus, e->wanted && !d->draining);
        break;
    case EFFECT_ROLE:
        d->machine->role(d->context, e);
        break;
    }
}

static void on_timer(uv_timer_t *timer);

static void arm(struct driver *d, int64_t next)
{
    int64_t now = driver_now();

    if (next == d->next_tick || d->closing)
        return;
    d->next_tick = next;
    if (next == INT64_MAX)
        uv_timer_stop(&d->timer);
    else
        uv_timer_start(&d->timer, on_timer, next > now ? (uint64_t)(next - now) : 0, 0);
}

void driver_perform(struct driver *d, int64_t next_tick)
{
    struct effects batch = d->out;

    /* performing EFFECT_ROLE may give the machine another event: its effects go into another list
     */
    d->out = (struct effects){0};
    for (size_t i = 0; i < batch.n; i++)
        perform(d, &batch.items[i]);
    if (d->out.items) {
        effects_deinit(&batch);
    } else {
        effects_reset(&batch);
        d->out = batch;
    }
    arm(d, next_tick);
}

/* ---- events ---- */

static void tick(void *ctx)
{
    struct driver *d = ctx;

    if (!d->closing)
        driver_perform(d, d->machine->tick(d->object, driver_now(), &d->out));
}

static void on_timer(uv_timer_t *timer)
{
    struct driver *d = timer->data;

    d->next_tick = INT64_MAX;
    tick(d);
}

static void on_answer(void *ctx, const struct store_answer *answer)
{
    struct call_context *call = ctx;
    struct driver *d = call->driver;

    if (call->args)
        trace_call(call->function, call->args->items, (int)call->args->n, answer, driver_trace,
                   NULL);
    free(call->args);
    call->args = NULL;
    if (!d->closing)
        driver_perform(d, d->machine->answer(d->object, driver_now(), call->id, answer, &d->out));
    list_append(&d->calls, &call->link);
}

static void on_delivery(void *ctx, struct bus_delivery *delivery)
{
    struct driver *d = ctx;

    if (log_enabled(LOG_DEBUG))
        trace_delivery(delivery, driver_trace, NULL);
    if (!d->closing)
        driver_perform(d, d->machine->delivery(d->object, driver_now(), delivery, &d->out));
    bus_delivery_free(delivery);
}

static void on_outcome(void *ctx, uint64_t id, enum bus_outcome outcome)
{
    struct driver *d = ctx;

    if (log_enabled(LOG_DEBUG))
        trace_outcome(outcome, driver_trace, NULL);
    if (!d->closing)
        driver_perform(d, d->machine->outcome(d->object, driver_now(), id, outcome, &d->out));
}

/* Publishes an isolated message to drover.dead, for a person; except one that was to go there
 * itself.
 */
static void on_isolated(void *ctx, const struct bus_message *m, const char *why)
{
    struct driver *d = ctx;
    char reason[512];
    struct bus_message dead = *m;

    log_error("publish_isolated", LOG_S("exchange", m->exchange), LOG_S("key", m->key),
              LOG_S("job", m->job), LOG_S("why", why));
    if (strcmp(m->exchange, "drover.dead") == 0 || m->transient)
        return;
    snprintf(reason, sizeof(reason), "ISOLATED %s %s: %s", *m->exchange ? m->exchange : "reply_to",
             m->key, why);
    dead.exchange = "drover.dead";
    dead.key = "";
    dead.reply_to = NULL;
    dead.actor = NULL;
    dead.expires = false;
    dead.ask_after = dead.not_after = 0;
    dead.reason = reason;
    dead.mandatory = true;
    if (bus_publish(d->bus, &dead, 0))
        abort();
    if (d->machine->isolated && !d->closing)
        driver_perform(d, d->machine->isolated(d->object, driver_now(), m->key,
                                               m->job ? m->job : "", &d->out));
}

static void send_pulse(struct driver *d)
{
    if (bus_pulse(d->bus))
        abort();
}

static void on_bus_up(void *ctx)
{
    struct driver *d = ctx;

    d->pulse_came = false;
    pulse_restart(&d->pulse);
    log_info("bus_up");
    send_pulse(d);
    if (d->machine->bus_up)
        d->machine->bus_up(d->context);
}

static void on_bus_down(void *ctx, const char *why)
{
    struct driver *d = ctx;

    log_warn("bus_down", LOG_S("why", why));
    if (!d->closing && d->machine->bus_down)
        driver_perform(d, d->machine->bus_down(d->object, driver_now(), &d->out));
}

static void on_lost(void *ctx, const char *actor)
{
    struct driver *d = ctx;

    if (!d->closing && d->machine->lost)
        driver_perform(d, d->machine->lost(d->object, driver_now(), actor, &d->out));
}

static void on_pulse(void *ctx, int64_t took_us)
{
    driver_pulse_back(ctx, took_us);
}

static void on_bus_refused(void *ctx, const char *why)
{
    log_error("bus_refused", LOG_S("why", why));
}

static void on_blocked(void *ctx, bool blocked)
{
    struct driver *d = ctx;

    log_warn(blocked ? "bus_blocked" : "bus_unblocked");
    pulse_restart(&d->pulse);
    if (!blocked)
        send_pulse(d);
}

static int open_bus(struct driver *d)
{
    static const struct bus_callbacks callbacks = {
        .on_up = on_bus_up,
        .on_down = on_bus_down,
        .on_refused = on_bus_refused,
        .on_delivery = on_delivery,
        .on_outcome = on_outcome,
        .on_isolated = on_isolated,
        .on_blocked = on_blocked,
        .on_lost = on_lost,
        .on_pulse = on_pulse,
        .on_batch_end = tick,
    };

    return bus_new(&d->bus, d->loop, &d->bus_config, &callbacks, d);
}

static void on_store_up(void *ctx)
{
    struct driver *d = ctx;
    uint32_t partitions = store_partitions(d->store);

    log_info("store_up", LOG_I("partitions", partitions));
    d->store_connects++;
    if (d->closing)
        return;
    if (!d->bus && open_bus(d))
        abort();
    driver_perform(
        d, d->machine->store_up(d->object, driver_now(), partitions, store_run(d->store), &d->out));
}

static void on_store_down(void *ctx, const char *why)
{
    struct driver *d = ctx;

    log_warn("store_down", LOG_S("why", why));
    if (!d->closing && d->machine->store_down)
        driver_perform(d, d->machine->store_down(d->object, driver_now(), &d->out));
}

static void on_store_refused(void *ctx, const char *why)
{
    log_error("store_refused", LOG_S("why", why));
}

static void close_all(struct driver *d);

/* ---- iterations of the loop ---- */

static int64_t thread_cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Runs once in each iteration, before the loop polls: measures the CPU time since the last one. */
static void on_iteration(uv_prepare_t *iteration)
{
    struct driver *d = iteration->data;
    int64_t now = thread_cpu_us();

    if (now - d->iteration_began > d->iteration_longest)
        d->iteration_longest = now - d->iteration_began;
    d->iteration_began = now;
    if (d->draining && !d->closing && d->machine->idle(d->object))
        close_all(d);
}

/* ---- health and metrics ---- */

static struct vitals vitals_of(struct driver *d)
{
    CLEANUP(buf_deinit) struct buf why = {0};
    struct bus_stats bus = {0};
    struct store_stats store = {0};
    struct vitals v;

    if (d->bus)
        bus_stats(d->bus, &bus);
    if (d->store)
        store_stats(d->store, &store);
    v = (struct vitals){
        .broker_up = bus.up,
        .broker_blocked = bus.blocked,
        .broker_connects = bus.connects,
        .broker_refused = bus.refused,
        .broker_published = bus.published,
        .broker_confirmed = bus.confirmed,
        .broker_returned = bus.returned,
        .broker_delivered = bus.delivered,
        .broker_acked = bus.acked,
        .broker_unconfirmed = bus.waiting,
        .broker_oldest_unconfirmed_ms = (uint64_t)bus.oldest_unconfirmed,
        .pulse_age_ms = (uint64_t)(driver_now() - d->pulse_back),
        .pulse_round_trip_us = (uint64_t)d->pulse_us,
        .loop_cpu_max_us = (uint64_t)d->iteration_longest,
        .reloads_refused = daemon_reloads_refused(),
        .store_up = d->store && store_up(d->store),
        .broker_tls_expiry_ms = (uint64_t)bus.tls_expiry * 1000,
        .store_connects = d->store_connects,
        .store_refused = store.refused,
        .store_tls_expiry_ms = (uint64_t)store.tls_expiry * 1000,
        .store_moves = store.moves,
        .sentinels = store.sentinels,
        .sentinels_heard = store.sentinels_heard,
        .sentinels_differ = store.sentinels_differ,
        .has_store = d->store != NULL,
        .draining = d->draining,
        .pulse_refused = d->bus_config.pulse && !bus.pulse,
        .pulse_came = d->pulse_came,
        .pulse_missed = d->pulse.missed,
    };
    v.ready = vitals_reasons(&v, &why);
    return v;
}

void driver_dump(struct driver *d)
{
    struct metric_set own = vitals_metrics(d->store != NULL);
    struct vitals v = vitals_of(d);

    metrics_log(d->metrics, d->figures(d->context));
    metrics_log(&own, &v);
}

static bool page_ready(void *ctx, struct buf *out)
{
    struct vitals v = vitals_of(ctx);

    return vitals_reasons(&v, out);
}

static void page_metrics(void *ctx, struct buf *out)
{
    struct driver *d = ctx;
    struct metric_set own = vitals_metrics(d->store != NULL);
    const char *role = d->metrics->name;
    struct vitals v = vitals_of(d);
    char prefix[32];

    snprintf(prefix, sizeof(prefix), "%s_", role);
    metrics_print_process(out, role, d->started);
    metrics_print(out, &own, "", role, &v);
    metrics_print(out, d->metrics, prefix, role, d->figures(d->context));
}

void driver_pulse_back(struct driver *d, int64_t took_us)
{
    d->pulse_came = true;
    d->pulse_back = driver_now();
    d->pulse_us = took_us;
    pulse_restart(&d->pulse);
}

/* Ends a process that seems alive and connected although no pulse comes back: the broker has lost
 * the consumer, or the bus no longer reads. A new process recovers from both. */
static void on_pulse_tick(uv_timer_t *timer)
{
    struct driver *d = timer->data;
    struct vitals v = vitals_of(d);
    bool expected = v.broker_up && !v.broker_blocked && !v.pulse_refused && !v.draining;

    if (pulse_tick(&d->pulse, expected)) {
        log_error("stalled", LOG_I("pulse_age_ms", v.pulse_age_ms),
                  LOG_I("pulses_missed", d->pulse.missed));
        daemon_fail("no pulse comes back");
    }
    if (expected)
        send_pulse(d);
}

/* Gives free memory back to the system. Without this malloc() keeps the memory of a burst between
 * longer-lived blocks, and the process stays as large as it ever was. */
static void on_trim(uv_timer_t *timer)
{
    malloc_trim(0);
}

/* ---- configuration ---- */

struct driver_health driver_health_config(const struct config *config)
{
    int64_t least = STALL_HEARTBEATS * config->rabbitmq.heartbeat_ms;
    struct driver_health health = {
        .listen = config->health.listen,
        .pulse_ms = config->health.pulse_ms,
        .stall_ms = config->health.stall_ms,
    };

    if (least < STALL_PULSES * health.pulse_ms)
        least = STALL_PULSES * health.pulse_ms;
    if (health.stall_ms > 0 && health.stall_ms < least)
        health.stall_ms = least;
    return health;
}

/* ---- start and stop ---- */

static void init_handles(struct driver *d, const struct driver_health *health)
{
    uv_timer_init(d->loop, &d->timer);
    d->timer.data = d;
    uv_timer_init(d->loop, &d->give_up);
    d->give_up.data = d;
    uv_timer_init(d->loop, &d->pulse_timer);
    d->pulse_timer.data = d;
    uv_timer_start(&d->pulse_timer, on_pulse_tick, (uint64_t)health->pulse_ms,
                   (uint64_t)health->pulse_ms);
    uv_timer_init(d->loop, &d->trim_timer);
    d->trim_timer.data = d;
    uv_timer_start(&d->trim_timer, on_trim, TRIM_MS, TRIM_MS);
    uv_prepare_init(d->loop, &d->iteration);
    d->iteration.data = d;
    uv_prepare_start(&d->iteration, on_iteration);
}

int driver_new(struct driver **out, uv_loop_t *loop, const struct driver_config *config)
{
    static const struct store_callbacks store_callbacks = {
        .on_up = on_store_up,
        .on_down = on_store_down,
        .on_refused = on_store_refused,
        .on_batch_end = tick,
    };
    static const struct health_pages pages = {.ready = page_ready, .metrics = page_metrics};
    const struct driver_health *health = &config->health;
    struct driver *d = calloc(1, sizeof(*d));
    int r = 0;

    if (!d)
        return -ENOMEM;
    *out = d;
    d->machine = config->machine;
    d->object = config->machine_object;
    d->context = config->context;
    d->loop = loop;
    d->bus_config = *config->bus;
    d->bus_config.pulse = config->bus->n_queues > 0;
    d->metrics = config->metrics;
    d->figures = config->figures;
    d->next_tick = INT64_MAX;
    d->started = clock_unix_ms();
    d->pulse = (struct pulse){.period_ms = health->pulse_ms, .stall_ms = health->stall_ms};
    d->pulse_back = driver_now();
    d->iteration_began = thread_cpu_us();
    list_init(&d->calls);
    init_handles(d, health);
    if (*health->listen) /* first: if it fails there is nothing to close yet */
        r = health_new(&d->health, loop, health->listen, &pages, d);
    if (!r && config->store)
        r = store_new(&d->store, loop, config->store, &store_callbacks, d);
    else if (!r)
        r = open_bus(d);
    return r;
}

static void part_closed(struct driver *d)
{
    if (--d->closing == 0)
        d->on_closed(d->context);
}

static void on_part_closed(void *ctx)
{
    part_closed(ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

/* The machine gets no more events; the bus sends what it holds; then everything is closed. */
static void close_all(struct driver *d)
{
    d->closing = 5u + (d->bus ? 1u : 0u) + (d->store ? 1u : 0u) + (d->health ? 1u : 0u);
    uv_close((uv_handle_t *)&d->timer, on_handle_closed);
    uv_close((uv_handle_t *)&d->pulse_timer, on_handle_closed);
    uv_close((uv_handle_t *)&d->trim_timer, on_handle_closed);
    uv_close((uv_handle_t *)&d->iteration, on_handle_closed);
    uv_close((uv_handle_t *)&d->give_up, on_handle_closed);
    if (d->bus)
        bus_close(d->bus, FLUSH_MS, on_part_closed);
    if (d->store)
        store_close(d->store, on_part_closed);
    if (d->health)
        health_close(d->health, on_part_closed);
}

static void on_give_up(uv_timer_t *timer)
{
    struct driver *d = timer->data;

    log_warn("drain_timeout");
    if (!d->closing)
        close_all(d);
}

void driver_stop(struct driver *d, int timeout_ms, void (*on_closed)(void *context))
{
    d->on_closed = on_closed;
    d->draining = true;
    if (d->bus)
        bus_consume(d->bus, false);
    uv_timer_start(&d->give_up, on_give_up, (uint64_t)timeout_ms, 0);
    if (d->machine->stop)
        driver_perform(d, d->machine->stop(d->object, driver_now(), &d->out));
}

struct driver *driver_free(struct driver *d)
{
    if (!d)
        return NULL;
    bus_free(d->bus);
    store_free(d->store);
    health_free(d->health);
    for (struct list *l; (l = list_pop(&d->calls));)
        free(list_entry(l, struct call_context, link));
    effects_deinit(&d->out);
    free(d);
    return NULL;
}
