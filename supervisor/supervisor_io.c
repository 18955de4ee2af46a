// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor_io.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

#define QUEUE_LOOK_MS 1000 /* between two looks at drover.replies */

struct supervisor_io {
    struct supervisor *machine;
    struct driver *driver;
    uv_timer_t look;
    bool looked;      /* the last look was answered */
    unsigned closing; /* the driver and the timer */
    void (*on_stopped)(void *ctx);
    void *ctx;
};

/* ---- events ---- */

static int64_t step(void *machine, int64_t now, struct supervisor_event event, struct effects *out)
{
    event.now = now;
    return supervisor_step(machine, &event, out);
}

static int64_t on_store_up(void *machine, int64_t now, uint32_t partitions, struct effects *out)
{
    return step(machine, now,
                (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .partitions = partitions},
                out);
}

static int64_t on_store_down(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct supervisor_event){.type = SUPERVISOR_STORE_DOWN}, out);
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

static const struct driver_machine events = {
    .store_up = on_store_up,
    .store_down = on_store_down,
    .answer = on_answer,
    .outcome = on_outcome,
    .tick = on_tick,
    .stop = on_stop,
    .idle = is_idle,
};

/* ---- what drover.replies looks like ---- */

static void tell(struct supervisor_io *io, uint32_t messages, uint32_t consumers)
{
    const struct supervisor_event e = {.type = SUPERVISOR_QUEUE,
                                       .queue = {.messages = messages, .consumers = consumers}};

    driver_perform(io->driver, step(io->machine, driver_now(), e, driver_effects(io->driver)));
}

static void on_queue(void *context, uint32_t messages, uint32_t consumers)
{
    struct supervisor_io *io = context;

    io->looked = true;
    if (!io->closing)
        tell(io, messages, consumers);
}

static void on_look(uv_timer_t *timer)
{
    struct supervisor_io *io = timer->data;

    /* A broker that does not say (gone, blocked, slow) may hold replies back as well. */
    if (!io->looked)
        tell(io, 0, 0);
    io->looked = false;
    if (driver_bus(io->driver))
        bus_look(driver_bus(io->driver), "drover.replies", on_queue, io);
}

/* ---- life ---- */

int supervisor_io_new(struct supervisor_io **out, uv_loop_t *loop, const struct config *config,
                      const struct rng *seed)
{
    struct supervisor_io *io = calloc(1, sizeof(*io));
    const struct bus_config bus = driver_bus_config(config, "drover-supervisor");
    const struct store_config store = driver_store_config(config);
    const struct supervisor_config settings = {.name = config->name,
                                               .period_ms = config->supervisor.period_ms,
                                               .lease_ms = config->supervisor.lease_ms,
                                               .election = config->supervisor.election,
                                               .retention_ms = config->supervisor.retention_ms,
                                               .sweep_ms = config->supervisor.sweep_ms};
    int r;

    if (!io)
        return -ENOMEM;
    *out = io;
    r = supervisor_new(&io->machine, &settings, seed);
    if (r)
        return r;
    uv_timer_init(loop, &io->look);
    io->look.data = io;
    uv_timer_start(&io->look, on_look, 0, QUEUE_LOOK_MS);
    return driver_new(&io->driver, loop,
                      &(struct driver_config){.machine = &events,
                                              .machine_object = io->machine,
                                              .context = io,
                                              .bus = &bus,
                                              .store = &store});
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
    io->closing = 2;
    uv_close((uv_handle_t *)&io->look, on_timer_closed);
    driver_stop(io->driver, timeout_ms, on_driver_closed);
}

void supervisor_io_dump(struct supervisor_io *io)
{
    struct supervisor_stats s;

    supervisor_stats(io->machine, &s);
    log_info("supervisor", LOG_I("leading", s.leading), LOG_I("expires", s.expires),
             LOG_I("recovers", s.recovers), LOG_I("notifies", s.notifies),
             LOG_I("mended", s.mended), LOG_I("forgotten", s.forgotten), LOG_I("held", s.held),
             LOG_I("clock_jumps", s.clock_jumps));
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
