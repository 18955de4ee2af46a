// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisor IO: the driver of the supervisor's machine
 *
 * Implements supervisor_io.h for main.c. It hands events of the bus and the store to the machine,
 * and inspects drover.marker and drover.replies for it.
 */
#include "supervisor/supervisor_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/config/config_connections.h"
#include "io/daemon/daemon.h"

#define QUEUE_INSPECT_MS 1000 /* between two inspections of drover.replies */
#define PATIENCE_MS 30000     /* with --once: how long to wait for the broker and the store */

struct supervisor_io {
    struct supervisor *machine;
    struct driver *driver;
    struct supervisor_stats stats; /* as read last */
    uv_timer_t inspect;
    uint64_t inspection_began; /* uv_hrtime() of the last inspection */
    bool inspecting;           /* the broker has not answered it */
    bool once;
    uv_timer_t end;   /* once: the round is over, or has taken too long: end the process */
    int status;       /* once: of the exit; 1 until the round is over */
    bool marker;      /* inspect drover.marker, too */
    unsigned closing; /* how many of the driver and the timers are not closed yet */
    void (*on_stopped)(void *ctx);
    void *ctx;
};

/* ---- the end of a single round ---- */

static void on_end(uv_timer_t *timer)
{
    struct supervisor_io *io = timer->data;

    if (io->status)
        log_error("once_given_up", LOG_S("why", "broker or store do not answer"));
    daemon_end(io->status);
}

/* ---- events of the driver ---- */

static int64_t step(void *machine, int64_t now, struct supervisor_event event, struct effects *out)
{
    event.now = now;
    return supervisor_step(machine, &event, out);
}

static int64_t on_store_up(void *machine, int64_t now, uint32_t partitions, const char *run,
                           struct effects *out)
{
    const struct supervisor_event e = {.type = SUPERVISOR_STORE_UP,
                                       .store = {.partitions = partitions, .run = run}};

    return step(machine, now, e, out);
}

static int64_t on_store_down(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct supervisor_event){.type = SUPERVISOR_STORE_DOWN}, out);
}

static int64_t on_bus_down(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct supervisor_event){.type = SUPERVISOR_BUS_DOWN}, out);
}

static int64_t on_answer(void *machine, int64_t now, uint64_t id, const struct store_answer *answer,
                         struct effects *out)
{
    return step(machine, now,
                (struct supervisor_event){.type = SUPERVISOR_ANSWER, .id = id, .answer = answer},
                out);
}

static int64_t on_outcome(void *machine, int64_t now, uint64_t id, enum bus_outcome outcome,
                          struct effects *out)
{
    return step(machine, now,
                (struct supervisor_event){.type = SUPERVISOR_OUTCOME, .id = id, .outcome = outcome},
                out);
}

static int64_t on_tick(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct supervisor_event){.type = SUPERVISOR_TICK}, out);
}

static int64_t on_stop(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct supervisor_event){.type = SUPERVISOR_STOP}, out);
}

static bool is_idle(const void *machine)
{
    return supervisor_idle(machine);
}

/* A decision is written at once. The process ends later, from a timer: not while the driver
 * performs effects. */
static void on_role(void *context, const struct effect *effect)
{
    struct supervisor_io *io = context;

    if (effect->role.what == SUPERVISOR_DECISION) {
        puts(effect->role.object);
        return;
    }
    io->status = 0;
    uv_timer_start(&io->end, on_end, 0, 0);
}

/* ---- inspections of drover.marker and drover.replies ---- */

static void tell(struct supervisor_io *io, uint32_t messages, uint32_t consumers)
{
    const struct supervisor_event e = {.type = SUPERVISOR_QUEUE,
                                       .queue = {.messages = messages, .consumers = consumers}};

    driver_perform(io->driver, step(io->machine, driver_now(), e, driver_effects(io->driver)));
}

static void on_queue(void *context, uint32_t messages, uint32_t consumers)
{
    struct supervisor_io *io = context;

    io->inspecting = false;
    if (io->closing)
        return;
    driver_pulse_back(io->driver, (int64_t)(uv_hrtime() - io->inspection_began) / 1000);
    if (io->once && io->status) /* broker and store are up: the bus starts after the store */
        uv_timer_stop(&io->end);
    tell(io, messages, consumers);
}

static void inspect_replies(struct supervisor_io *io)
{
    bus_inspect(driver_bus(io->driver), "drover.replies", on_queue, io);
}

static void on_marker(void *context, uint32_t messages, uint32_t consumers)
{
    struct supervisor_io *io = context;
    bool kept = messages > 0 || !bus_may_lose(driver_bus(io->driver));
    const struct supervisor_event e = {.type = SUPERVISOR_MARKER, .marker = kept};

    if (io->closing)
        return;
    driver_perform(io->driver, step(io->machine, driver_now(), e, driver_effects(io->driver)));
    inspect_replies(io);
}

/* The marker is first: what follows from the replies counts only if the broker has kept them. */
static void on_inspect(uv_timer_t *timer)
{
    struct supervisor_io *io = timer->data;
    bool can_begin = driver_bus(io->driver) && !io->inspecting;

    /* A broker that does not answer (it is away, blocked or slow) may hold back replies as well. An
     * inspection that takes longer than the period is not replaced: none would ever end. */
    if (!can_begin && !io->once)
        tell(io, 0, 0);
    if (!can_begin)
        return;
    io->inspecting = true;
    io->inspection_began = uv_hrtime();
    if (io->marker)
        bus_inspect(driver_bus(io->driver), BUS_MARKER, on_marker, io);
    else
        inspect_replies(io);
}

/* What a restarted broker has lost is to be sent again soon. */
static void on_bus_up(void *context)
{
    struct supervisor_io *io = context;

    if (io->closing)
        return;
    io->inspecting = false; /* it begins again, with the marker */
    uv_timer_start(&io->inspect, on_inspect, 0, QUEUE_INSPECT_MS);
}

static const struct driver_machine events = {
    .store_up = on_store_up,
    .store_down = on_store_down,
    .bus_down = on_bus_down,
    .answer = on_answer,
    .outcome = on_outcome,
    .tick = on_tick,
    .stop = on_stop,
    .idle = is_idle,
    .role = on_role,
    .bus_up = on_bus_up,
};

/* ---- metrics ---- */

#define AT(member) offsetof(struct supervisor_stats, member)

static const struct metric figures[] = {
    {"leading", METRIC_GAUGE, AT(leading), "partitions that this one looks after"},
    {"needs_parked", METRIC_GAUGE, AT(parked),
     "jobs that need attention because a step is parked, in the partitions that this one leads"},
    {"needs_deadline", METRIC_GAUGE, AT(deadline),
     "likewise, because they are held past their deadline"},
    {"needs_ended", METRIC_GAUGE, AT(ended),
     "likewise, because they ended in error, and were not cancelled or killed"},
    {"expires", METRIC_COUNTER, AT(expires), "scans for what is due in a partition"},
    {"recovers", METRIC_COUNTER, AT(recovers),
     "jobs named to the schedulers because something was due"},
    {"notifies", METRIC_COUNTER, AT(notifies),
     "Notify commands: for terminal events, alerts and corrupt jobs"},
    {"mended", METRIC_COUNTER, AT(mended), "records and indexes that a sweep had to mend"},
    {"torn", METRIC_COUNTER, AT(torn), "jobs that a sweep could not read, once a round"},
    {"forgotten", METRIC_COUNTER, AT(forgotten), "jobs forgotten, past their retention"},
    {"held", METRIC_COUNTER, AT(held),
     "scans in which expiry had to wait for drover.replies or drover.marker"},
    {"clock_jumps", METRIC_COUNTER, AT(clock_jumps), "jumps of the clock of the store"},
    {"broker_losses", METRIC_COUNTER, AT(losses),
     "how often the broker had lost requests and replies, which are sent again"},
};

static const struct metric_set metrics = {"supervisor", figures, array_size(figures)};

static const void *read_figures(void *context)
{
    struct supervisor_io *io = context;

    supervisor_stats(io->machine, &io->stats);
    return &io->stats;
}

/* ---- creation and release ---- */

int supervisor_io_new(struct supervisor_io **out, uv_loop_t *loop, const struct config *config,
                      const struct rng *seed, bool once, bool dry_run)
{
    struct supervisor_io *io = calloc(1, sizeof(*io));
    struct bus_config bus = config_bus(config, "drover-supervisor");
    const struct store_config store = config_store(config);
    const struct supervisor_config settings = {.name = config->name,
                                               .period_ms = config->supervisor.period_ms,
                                               .lease_ms = config->supervisor.lease_ms,
                                               .election = config->supervisor.election,
                                               .retention_ms = config->supervisor.retention_ms,
                                               .sweep_ms = config->supervisor.sweep_ms,
                                               .once = once,
                                               .dry_run = dry_run,
                                               .marker = bus.marker};
    struct driver_health health = driver_health_config(config);
    int r;

    bus.identify = true; /* schedulers take Recover and Notify from certain users only */
    if (!io)
        return -ENOMEM;
    *out = io;
    r = supervisor_new(&io->machine, &settings, seed);
    if (r)
        return r;
    uv_timer_init(loop, &io->inspect);
    io->inspect.data = io;
    uv_timer_start(&io->inspect, on_inspect, 0, QUEUE_INSPECT_MS);
    uv_timer_init(loop, &io->end);
    io->end.data = io;
    io->once = once;
    io->marker = bus.marker;
    if (once) { /* a daemon with the same configuration may hold the port of health.listen */
        health.listen = "";
        io->status = 1;
        uv_timer_start(&io->end, on_end, PATIENCE_MS, 0);
    }
    return driver_new(&io->driver, loop,
                      &(struct driver_config){.machine = &events,
                                              .machine_object = io->machine,
                                              .context = io,
                                              .bus = &bus,
                                              .store = &store,
                                              .health = health,
                                              .metrics = &metrics,
                                              .figures = read_figures});
}

static void part_closed(struct supervisor_io *io)
{
    if (--io->closing > 0)
        return;
    supervisor_io_dump(io);
    io->on_stopped(io->ctx);
}

static void on_driver_closed(void *context)
{
    part_closed(context);
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

void supervisor_io_stop(struct supervisor_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                        void *ctx)
{
    io->on_stopped = on_stopped;
    io->ctx = ctx;
    io->closing = 3;
    uv_close((uv_handle_t *)&io->inspect, on_timer_closed);
    uv_close((uv_handle_t *)&io->end, on_timer_closed);
    driver_stop(io->driver, timeout_ms, on_driver_closed);
}

void supervisor_io_dump(struct supervisor_io *io)
{
    driver_dump(io->driver);
}

struct supervisor_io *supervisor_io_free(struct supervisor_io *io)
{
    if (!io)
        return NULL;
    driver_free(io->driver);
    supervisor_free(io->machine);
    free(io);
    return NULL;
}
