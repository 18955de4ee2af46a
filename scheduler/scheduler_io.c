// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler I/O: feeds the machine its events, serves its metrics and runs the alert command
 *
 * The driver (io/daemon/driver.h) performs all effects but those of type EFFECT_ROLE, which are
 * performed here. Called by main.c.
 */
#include "scheduler/scheduler_io.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/pace.h"
#include "io/config/config_connections.h"
#include "io/config/workflow_file.h"
#include "scheduler/access_config.h"
#include "scheduler/alert_io.h"

#define MEMORY_MS 1000 /* ms between two calls that ask how full the store is */

struct figures {
    struct scheduler_stats machine;
    struct alert_io_stats alerts;
};

struct scheduler_io {
    struct scheduler *machine;
    struct access *access;
    struct driver *driver;
    struct alert_io *alerts; /* NULL: no command is set */
    struct figures figures;  /* as last read */
    uv_timer_t memory;       /* fires when it is time to ask how full the store is */
    void (*on_stopped)(void *ctx);
    void *ctx;
};

static const struct bus_queue queues[] = {
    {.name = "drover.submit", .source = SCHEDULER_SUBMIT},
    {.name = "drover.replies", .source = SCHEDULER_REPLIES},
    {.name = "drover.control", .source = SCHEDULER_CONTROL},
    {.name = "drover.expired", .source = SCHEDULER_EXPIRED},
};

/* ---- events of the machine ---- */

static int64_t step(void *machine, int64_t now, struct scheduler_event event, struct effects *out)
{
    event.now = now;
    return scheduler_step(machine, &event, out);
}

static int64_t on_store_up(void *machine, int64_t now, uint32_t partitions, const char *run,
                           struct effects *out)
{
    return step(
        machine, now,
        (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = partitions, .run = run},
        out);
}

static int64_t on_bus_down(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN}, out);
}

static int64_t on_delivery(void *machine, int64_t now, const struct bus_delivery *d,
                           struct effects *out)
{
    return step(machine, now, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = d},
                out);
}

static int64_t on_answer(void *machine, int64_t now, uint64_t id, const struct store_answer *answer,
                         struct effects *out)
{
    return step(machine, now,
                (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = id, .answer = answer},
                out);
}

static int64_t on_outcome(void *machine, int64_t now, uint64_t id, enum bus_outcome outcome,
                          struct effects *out)
{
    return step(machine, now,
                (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = id, .outcome = outcome},
                out);
}

static int64_t on_isolated(void *machine, int64_t now, const char *key, const char *job,
                           struct effects *out)
{
    return step(machine, now,
                (struct scheduler_event){.type = SCHEDULER_ISOLATED, .isolated = {.job = job}},
                out);
}

static int64_t on_lost(void *machine, int64_t now, const char *actor, struct effects *out)
{
    return step(machine, now, (struct scheduler_event){.type = SCHEDULER_LOST, .lost_actor = actor},
                out);
}

static int64_t on_tick(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct scheduler_event){.type = SCHEDULER_TICK}, out);
}

static int64_t on_stop(void *machine, int64_t now, struct effects *out)
{
    return step(machine, now, (struct scheduler_event){.type = SCHEDULER_STOP}, out);
}

static bool is_idle(const void *machine)
{
    return scheduler_idle(machine);
}

static void on_queue(void *context, uint32_t messages, uint32_t consumers)
{
    struct scheduler_io *io = context;
    const struct scheduler_event e = {.type = SCHEDULER_QUEUE,
                                      .queue = {.messages = messages, .consumers = consumers}};

    driver_perform(io->driver, step(io->machine, driver_now(), e, driver_effects(io->driver)));
}

static void on_memory(void *context, uint64_t used, uint64_t most)
{
    struct scheduler_io *io = context;
    const struct scheduler_event e = {.type = SCHEDULER_MEMORY,
                                      .memory = {.used = used, .most = most}};

    driver_perform(io->driver, step(io->machine, driver_now(), e, driver_effects(io->driver)));
}

static void on_memory_due(uv_timer_t *timer)
{
    struct scheduler_io *io = timer->data;

    store_memory(driver_store(io->driver), on_memory, io);
}

static void run_alert(struct scheduler_io *io, const struct scheduler_alert *alert)
{
    alert_io_run(io->alerts, alert->about, alert->event);
}

static void on_role(void *context, const struct effect *effect)
{
    struct scheduler_io *io = context;

    if (effect->role.what == SCHEDULER_INSPECT)
        bus_inspect(driver_bus(io->driver), effect->role.object, on_queue, io);
    else if (effect->role.what == SCHEDULER_DECLARE)
        bus_declare(driver_bus(io->driver), effect->role.object);
    else if (io->alerts)
        run_alert(io, effect->role.object);
}

static const struct driver_machine events = {
    .store_up = on_store_up,
    .bus_down = on_bus_down,
    .delivery = on_delivery,
    .answer = on_answer,
    .outcome = on_outcome,
    .isolated = on_isolated,
    .lost = on_lost,
    .stop = on_stop,
    .tick = on_tick,
    .idle = is_idle,
    .role = on_role,
};

/* ---- metrics ---- */

#define AT(member) offsetof(struct figures, member)

static const struct metric table[] = {
    {"open", METRIC_GAUGE, AT(machine.open), "deliveries that are worked on, not acknowledged yet"},
    {"ignored", METRIC_COUNTER, AT(machine.ignored),
     "messages of replies that were not read: see scheduler.bad_replies"},
    {"progress_ignored", METRIC_COUNTER, AT(machine.progress_ignored),
     "Progress that was not read: see scheduler.bad_replies"},
    {"undeclared", METRIC_COUNTER, AT(machine.undeclared),
     "requests to actors whose queue is not declared: see scheduler.declared_actors"},
    {"retry_later", METRIC_COUNTER, AT(machine.retry_later),
     "Submits and Controls refused for now: the store is full, or their user has had enough"},
    {"transient", METRIC_COUNTER, AT(machine.transient),
     "Submits and commands without delivery mode 2, which a restart of the broker would lose"},
    {"store_full", METRIC_GAUGE, AT(machine.store_full),
     "1: the store has less room than scheduler.full_at leaves, and no new job is taken"},
    {"unread_bytes", METRIC_GAUGE, AT(machine.unread_bytes),
     "of messages over 64 KiB that wait to be read"},
    {"given_back", METRIC_COUNTER, AT(machine.given_back),
     "messages over 64 KiB given back to the broker, as too many waited"},
    {"submits", METRIC_COUNTER, AT(machine.submits), "Submits received"},
    {"created", METRIC_COUNTER, AT(machine.created), "jobs recorded"},
    {"already", METRIC_COUNTER, AT(machine.already), "Submits of a job that was recorded before"},
    {"conflicts", METRIC_COUNTER, AT(machine.conflicts), "Submits under the id of another job"},
    {"rejected", METRIC_COUNTER, AT(machine.rejected), "Submits and Controls refused as invalid"},
    {"dispatched", METRIC_COUNTER, AT(machine.dispatched), "requests published to agents"},
    {"messages", METRIC_COUNTER, AT(machine.messages), "messages that carried them"},
    {"recorded", METRIC_COUNTER, AT(machine.recorded), "replies recorded"},
    {"stale", METRIC_COUNTER, AT(machine.stale), "replies too late or repeated, not recorded"},
    {"unknown", METRIC_COUNTER, AT(machine.unknown), "replies for jobs that are not in the store"},
    {"settled", METRIC_COUNTER, AT(machine.settled), "jobs that have come to their end"},
    {"unstarted", METRIC_COUNTER, AT(machine.unstarted),
     "requests that came back, or were not sent"},
    {"unroutable", METRIC_COUNTER, AT(machine.unroutable),
     "requests that no queue took, or that the broker refused"},
    {"recovered", METRIC_COUNTER, AT(machine.recovered), "Recover commands received"},
    {"losses", METRIC_COUNTER, AT(machine.losses),
     "queues that were deleted, or not there, and Resends"},
    {"resent", METRIC_COUNTER, AT(machine.resent),
     "requests sent again under their token, as their messages may be lost"},
    {"dead_letters", METRIC_COUNTER, AT(machine.dead_letters), "messages put into drover.dead"},
    {"alerts", METRIC_COUNTER, AT(machine.alerts), "alerts published"},
    {"alert_command_failed", METRIC_COUNTER, AT(alerts.failed),
     "runs of scheduler.alert_command that could not begin, or ended with another status than 0"},
    {"alert_command_killed", METRIC_COUNTER, AT(alerts.killed),
     "runs of it that took longer than 30 s"},
    {"alert_command_left_out", METRIC_COUNTER, AT(alerts.left_out),
     "alerts that were not handed to it, as too many waited"},
    {"store_repeats", METRIC_COUNTER, AT(machine.store_repeats),
     "store calls repeated: no answer came, or the store would not"},
    {"store_rollbacks", METRIC_COUNTER, AT(machine.store_rollbacks),
     "times that the store was found to have gone back in time"},
    {"lost", METRIC_COUNTER, AT(machine.lost), "accepted jobs that were gone from the store then"},
    {"losses_unknown", METRIC_COUNTER, AT(machine.losses_unknown),
     "times that more jobs were gone than the scheduler remembered"},
};

static const struct metric_set metrics = {"scheduler", table, array_size(table)};

static const void *read_figures(void *context)
{
    struct scheduler_io *io = context;

    scheduler_stats(io->machine, &io->figures.machine);
    if (io->alerts)
        io->figures.alerts = *alert_io_stats(io->alerts);
    return &io->figures;
}

/* ---- starting and stopping ---- */

static int register_workflow(void *ctx, const char *path, const Drover__V1__Workflow *message)
{
    struct scheduler_io *io = ctx;
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    int r = workflow_new(&w, message, "", NULL); /* workflow_files_read() has checked it */

    if (r)
        return r < 0 ? r : -EINVAL;
    log_info("workflow_read", LOG_S("file", path), LOG_S("workflow", w->full_name),
             LOG_I("steps", w->n_steps));
    return scheduler_register(io->machine, w);
}

static int read_access(struct scheduler_io *io, const struct config *config)
{
    int r = access_read(&io->access, config, NULL);

    if (!r && !io->access->required)
        log_warn(
            "identity_off",
            LOG_S("why",
                  "any user that may publish to drover.submit and drover.control may ask about "
                  "and command every job: set security.identity"));
    return r > 0 ? -EINVAL : r; /* main() has checked it */
}

static int machine_new(struct scheduler_io *io, const struct config *config, const struct rng *seed)
{
    struct nonces nonces;
    int r = nonces_seed_system(&nonces);

    if (r)
        return r;
    return scheduler_new(&io->machine,
                         &(struct scheduler_config){
                             .name = config->name,
                             .most_unconfirmed = SCHEDULER_UNCONFIRMED,
                             .few = PACE_FEW,
                             .json_actors = config->scheduler.json_actors,
                             .nonces = &nonces,
                             .access = io->access,
                             .declared_actors = (unsigned)config->scheduler.declared_actors,
                             .bad_replies = config->scheduler.bad_replies,
                             .horizon_ms = config->scheduler.horizon_ms,
                             .alert_interval_ms = config->scheduler.alert_interval_ms,
                             .loss_window_ms = config->redis.loss_window_ms,
                             .full_at = (unsigned)config->scheduler.full_at,
                         },
                         seed);
}

int scheduler_io_new(struct scheduler_io **out, uv_loop_t *loop, const struct config *config,
                     const struct rng *seed)
{
    struct scheduler_io *io = calloc(1, sizeof(*io));
    struct bus_config bus = config_bus(config, "drover-scheduler");
    struct store_config store = config_store(config);
    int r;

    if (!io)
        return -ENOMEM;
    *out = io;
    r = read_access(io, config);
    if (r)
        return r;
    bus.queues = queues;
    bus.n_queues = (int)array_size(queues);
    bus.marker = false; /* it is for supervisors */
    r = machine_new(io, config, seed);
    if (!r && *config->scheduler.workflows)
        r = workflow_files_read(config->scheduler.workflows, register_workflow, io);
    if (!r && *config->scheduler.alert_command)
        r = alert_io_new(&io->alerts, loop, config->scheduler.alert_command, ALERT_LIMIT_MS);
    if (r)
        return r;
    r = driver_new(&io->driver, loop,
                   &(struct driver_config){.machine = &events,
                                           .machine_object = io->machine,
                                           .context = io,
                                           .bus = &bus,
                                           .store = &store,
                                           .health = driver_health_config(config),
                                           .metrics = &metrics,
                                           .figures = read_figures});
    if (r)
        return r;
    uv_timer_init(loop, &io->memory);
    io->memory.data = io;
    return uv_timer_start(&io->memory, on_memory_due, MEMORY_MS, MEMORY_MS);
}

static void on_alerts_closed(void *context)
{
    struct scheduler_io *io = context;

    io->on_stopped(io->ctx);
}

static void on_memory_closed(uv_handle_t *timer)
{
    struct scheduler_io *io = timer->data;

    if (io->alerts)
        alert_io_close(io->alerts, ALERT_STOP_MS, on_alerts_closed, io);
    else
        io->on_stopped(io->ctx);
}

static void on_closed(void *context)
{
    struct scheduler_io *io = context;

    scheduler_io_dump(io);
    uv_close((uv_handle_t *)&io->memory, on_memory_closed);
}

void scheduler_io_stop(struct scheduler_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                       void *ctx)
{
    io->on_stopped = on_stopped;
    io->ctx = ctx;
    driver_stop(io->driver, timeout_ms, on_closed);
}

void scheduler_io_dump(struct scheduler_io *io)
{
    driver_dump(io->driver);
}

struct scheduler_io *scheduler_io_free(struct scheduler_io *io)
{
    if (!io)
        return NULL;
    driver_free(io->driver);
    alert_io_free(io->alerts);
    scheduler_free(io->machine);
    access_free(io->access);
    free(io);
    return NULL;
}
