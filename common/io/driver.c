// SPDX-License-Identifier: Apache-2.0
#include "io/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "model/wire.h"

#define FLUSH_MS 2000 /* for what the bus still holds when the machine is idle */

struct driver {
    const struct driver_machine *machine;
    void *object;
    void *context;
    uv_loop_t *loop;
    struct bus_config bus_config;
    struct bus *bus;
    struct store *store;
    bool bus_up;
    uv_timer_t timer;
    int64_t next_tick;
    struct effects out;
    struct list calls; /* struct call_context, to be reused */
    uv_prepare_t turn;
    int64_t turn_began;   /* CPU time of this thread, us */
    int64_t turn_longest; /* us */
    bool draining;
    uv_timer_t give_up; /* the end of the drain */
    unsigned closing;   /* parts that are not closed yet */
    void (*on_closed)(void *context);
};

/* What a store call comes back with. */
struct call_context {
    struct list link;
    struct driver *driver;
    uint64_t id;
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

bool driver_ready(const struct driver *d)
{
    return d->bus_up && (!d->store || store_up(d->store));
}

/* ---- effects ---- */

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
    if (store_call(d->store, e->store.partition, e->store.function, e->store.args, e->store.n,
                   on_answer, call))
        abort();
}

static void perform(struct driver *d, const struct effect *e)
{
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

    /* a role effect may feed the machine again, which then appends to a list of its own */
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

    if (!d->closing)
        driver_perform(d, d->machine->answer(d->object, driver_now(), call->id, answer, &d->out));
    list_append(&d->calls, &call->link);
}

static void on_delivery(void *ctx, struct bus_delivery *delivery)
{
    struct driver *d = ctx;

    if (!d->closing)
        driver_perform(d, d->machine->delivery(d->object, driver_now(), delivery, &d->out));
    bus_delivery_free(delivery);
}

static void on_outcome(void *ctx, uint64_t id, enum bus_outcome outcome)
{
    struct driver *d = ctx;

    if (!d->closing)
        driver_perform(d, d->machine->outcome(d->object, driver_now(), id, outcome, &d->out));
}

static void on_bus_up(void *ctx)
{
    struct driver *d = ctx;

    d->bus_up = true;
    log_info("bus_up");
}

static void on_bus_down(void *ctx, const char *why)
{
    struct driver *d = ctx;

    d->bus_up = false;
    log_warn("bus_down", LOG_S("why", why));
}

static void on_bus_refused(void *ctx, const char *why)
{
    log_error("bus_refused", LOG_S("why", why));
}

static void on_blocked(void *ctx, bool blocked)
{
    log_warn(blocked ? "bus_blocked" : "bus_unblocked");
}

static int open_bus(struct driver *d)
{
    static const struct bus_callbacks callbacks = {
        .on_up = on_bus_up,
        .on_down = on_bus_down,
        .on_refused = on_bus_refused,
        .on_delivery = on_delivery,
        .on_outcome = on_outcome,
        .on_blocked = on_blocked,
        .on_batch_end = tick,
    };

    return bus_new(&d->bus, d->loop, &d->bus_config, &callbacks, d);
}

static void on_store_up(void *ctx)
{
    struct driver *d = ctx;
    uint32_t partitions = store_partitions(d->store);

    log_info("store_up", LOG_I("partitions", partitions));
    if (d->closing)
        return;
    if (!d->bus && open_bus(d))
        abort();
    driver_perform(d, d->machine->store_up(d->object, driver_now(), partitions, &d->out));
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

/* ---- watching the loop ---- */

static int64_t thread_cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Once a turn of the loop, before it polls: what has been computed since the last time. */
static void on_turn(uv_prepare_t *turn)
{
    struct driver *d = turn->data;
    int64_t now = thread_cpu_us();

    if (now - d->turn_began > d->turn_longest)
        d->turn_longest = now - d->turn_began;
    d->turn_began = now;
    if (d->draining && !d->closing && d->machine->idle(d->object))
        close_all(d);
}

void driver_dump(struct driver *d)
{
    struct bus_stats bus = {0};

    if (d->bus)
        bus_stats(d->bus, &bus);
    log_info("driver", LOG_I("loop_cpu_max_us", d->turn_longest), LOG_I("bus_up", bus.up),
             LOG_I("bus_blocked", bus.blocked), LOG_I("connects", bus.connects),
             LOG_I("published", bus.published), LOG_I("confirmed", bus.confirmed),
             LOG_I("returned", bus.returned), LOG_I("delivered", bus.delivered),
             LOG_I("acked", bus.acked), LOG_I("unconfirmed", bus.waiting),
             LOG_I("oldest_unconfirmed_ms", bus.oldest_unconfirmed));
}

/* ---- configuration ---- */

struct bus_config driver_bus_config(const struct config *config, const char *service)
{
    return (struct bus_config){
        .host = config->rabbitmq.host,
        .port = (int)config->rabbitmq.port,
        .vhost = config->rabbitmq.vhost,
        .user = config->rabbitmq.user,
        .password = config->rabbitmq.password,
        .name = service,
        .heartbeat_s = (int)(config->rabbitmq.heartbeat_ms / 1000),
        .declare = config->rabbitmq.declare,
        .quorum = config->rabbitmq.queue_type == CONFIG_QUORUM,
        .max_message_bytes = WIRE_MESSAGE_MAX,
        .prefetch = (uint16_t)config->rabbitmq.prefetch,
    };
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

struct store_config driver_store_config(const struct config *config)
{
    return (struct store_config){
        .host = config->redis.host,
        .socket_path = or_null(config->redis.socket),
        .port = (int)config->redis.port,
        .user = or_null(config->redis.user),
        .password = or_null(config->redis.password),
        .database = (int)config->redis.database,
        .prefix = config->redis.prefix,
        .partitions = (uint32_t)config->redis.partitions,
        .call_timeout_ms = (int)config->redis.call_timeout_ms,
    };
}

/* ---- life ---- */

int driver_new(struct driver **out, uv_loop_t *loop, const struct driver_config *config)
{
    static const struct store_callbacks store_callbacks = {
        .on_up = on_store_up,
        .on_down = on_store_down,
        .on_refused = on_store_refused,
        .on_batch_end = tick,
    };
    struct driver *d = calloc(1, sizeof(*d));
    int r;

    if (!d)
        return -ENOMEM;
    d->machine = config->machine;
    d->object = config->machine_object;
    d->context = config->context;
    d->loop = loop;
    d->bus_config = *config->bus;
    d->next_tick = INT64_MAX;
    list_init(&d->calls);
    uv_timer_init(loop, &d->timer);
    d->timer.data = d;
    uv_timer_init(loop, &d->give_up);
    d->give_up.data = d;
    uv_prepare_init(loop, &d->turn);
    d->turn.data = d;
    d->turn_began = thread_cpu_us();
    uv_prepare_start(&d->turn, on_turn);
    if (config->store)
        r = store_new(&d->store, loop, config->store, &store_callbacks, d);
    else
        r = open_bus(d);
    *out = d;
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

/* Order: the machine hears nothing more, what is in the bus leaves, then everything is let go. */
static void close_all(struct driver *d)
{
    d->closing = 3u + (d->bus ? 1u : 0u) + (d->store ? 1u : 0u);
    uv_close((uv_handle_t *)&d->timer, on_handle_closed);
    uv_close((uv_handle_t *)&d->turn, on_handle_closed);
    uv_close((uv_handle_t *)&d->give_up, on_handle_closed);
    if (d->bus)
        bus_close(d->bus, FLUSH_MS, on_part_closed);
    if (d->store)
        store_close(d->store, on_part_closed);
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
        bus_stop_consuming(d->bus);
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
    for (struct list *l; (l = list_pop(&d->calls));)
        free(list_entry(l, struct call_context, link));
    effects_deinit(&d->out);
    free(d);
    return NULL;
}
