// SPDX-License-Identifier: Apache-2.0
/*
 * Agent IO: the driver of the agent's machine
 *
 * Implements agent_io.h for main.c. It hands events of the bus to the machine, starts and stops the
 * handlers that the machine asks for, and hands their results back.
 */
#include "agent/agent_io.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "agent/handler.h"
#include "base/log.h"
#include "base/pace.h"
#include "io/config/config_connections.h"
#include "io/daemon/driver.h"
#include "io/failpoint.h"
#include "model/trace.h"

struct agent_io {
    uv_loop_t *loop;
    struct agent_setup *setup;
    struct agent *agent;
    struct driver *driver;
    struct bus_queue *queues; /* one for each actor; their names are owned */
    struct list runs;         /* struct handler_run: under way */
    struct figures {
        struct agent_stats stats;
        uint64_t concurrency;
        uint64_t service_refused;
        uint64_t service_tls_expiry_ms; /* Unix ms; 0 for no certificate */
    } figures;                          /* as read last */
    bool closed; /* the driver is closed; on_stopped() follows the end of the last run */
    void (*on_stopped)(void *ctx);
    void *ctx;
};

/* ---- events of the driver ---- */

static int64_t step(void *agent, int64_t now, struct agent_event event, struct effects *out)
{
    event.now = now;
    return agent_step(agent, &event, out);
}

static int64_t on_delivery(void *agent, int64_t now, const struct bus_delivery *d,
                           struct effects *out)
{
    return step(agent, now, (struct agent_event){.type = AGENT_DELIVERY, .delivery = d}, out);
}

static int64_t on_outcome(void *agent, int64_t now, uint64_t id, enum bus_outcome outcome,
                          struct effects *out)
{
    return step(agent, now,
                (struct agent_event){.type = AGENT_OUTCOME, .id = id, .outcome = outcome}, out);
}

static int64_t on_lost(void *agent, int64_t now, const char *actor, struct effects *out)
{
    return step(agent, now, (struct agent_event){.type = AGENT_LOST, .lost_actor = actor}, out);
}

static int64_t on_tick(void *agent, int64_t now, struct effects *out)
{
    return step(agent, now, (struct agent_event){.type = AGENT_TICK}, out);
}

static int64_t on_stop(void *agent, int64_t now, struct effects *out)
{
    return step(agent, now, (struct agent_event){.type = AGENT_DRAIN}, out);
}

static bool is_idle(const void *agent)
{
    return agent_idle(agent);
}

/* ---- handlers ---- */

static void stopped_if_last(struct agent_io *io)
{
    if (list_empty(&io->runs))
        io->on_stopped(io->ctx);
}

static void at_run(const Drover__V1__StepRequest *request, const char *when)
{
    const struct bytes payload[] = {
        bytes_str(request->job_id),
        bytes_str(request->step),
        bytes_str(request->actor),
        bytes_str(request->action),
    };

    failpoint("run", "", when, payload, array_size(payload));
}

static void on_done(struct handler_run *run, const struct agent_result *result)
{
    struct agent_io *io = run->context;
    struct agent_event event = {.type = AGENT_DONE, .id = run->run->id, .result = result};

    if (log_enabled(LOG_DEBUG))
        trace_run("end", run->run->request, result->ok ? "ok" : result->class, driver_trace, NULL);
    list_remove(&run->link);
    if (io->closed) { /* no reply: the broker delivers the request again */
        stopped_if_last(io);
        return;
    }
    at_run(run->run->request, "after");
    driver_perform(io->driver, step(io->agent, driver_now(), event, driver_effects(io->driver)));
}

static void on_progress(struct handler_run *run, double fraction, const char *note)
{
    struct agent_io *io = run->context;
    struct agent_event event = {
        .type = AGENT_PROGRESS, .id = run->run->id, .progress = {fraction, note}};

    if (!io->closed)
        driver_perform(io->driver,
                       step(io->agent, driver_now(), event, driver_effects(io->driver)));
}

/* Return: the handler of the request, with its *action. The builtin handler gets an actor or action
 * that the configuration does not list, and answers with an error. */
static const struct handler *find_handler(const struct agent_io *io,
                                          const Drover__V1__StepRequest *request,
                                          const struct agent_action **action)
{
    static char none[] = "";
    static const struct agent_action unknown = {.builtin = none};
    const struct agent_served *served = agent_setup_actor(io->setup, request->actor);

    *action = served ? agent_served_action(served, request->action) : &unknown;
    if (*action || served->handler == &handler_builtin)
        return served ? served->handler : &handler_builtin;
    *action = &unknown;
    return &handler_builtin;
}

static void start(struct agent_io *io, struct agent_run *run)
{
    const struct agent_action *action;
    const struct handler *handler = find_handler(io, run->request, &action);
    const struct handler_run head = {
        .handler = handler, .run = run, .done = on_done, .progress = on_progress, .context = io};
    struct handler_run *started;

    at_run(run->request, "before");
    started = handler->start(io->loop, action, &head);
    run->driver = started;
    list_append(&io->runs, &started->link);
}

static void on_run(struct agent_io *io, const struct effect *effect)
{
    struct agent_run *run = effect->role.object;
    bool starts = effect->role.what == AGENT_START;
    struct handler_run *started;

    if (log_enabled(LOG_DEBUG))
        trace_run(starts ? "start" : "stop", run->request, NULL, driver_trace, NULL);
    if (starts) {
        start(io, run);
        return;
    }
    started = run->driver;
    started->handler->stop(started, false);
}

static void on_role(void *context, const struct effect *effect)
{
    struct agent_io *io = context;

    if (effect->role.what == AGENT_DECLARE)
        bus_declare(driver_bus(io->driver), effect->role.object);
    else
        on_run(io, effect);
}

/* ---- stop and release ---- */

void agent_io_abandon(struct agent_io *io)
{
    list_foreach(l, &io->runs) {
        struct handler_run *run = list_entry(l, struct handler_run, link);

        run->handler->stop(run, true);
    }
}

static void on_closed(void *context)
{
    struct agent_io *io = context;

    io->closed = true;
    agent_io_dump(io);
    agent_io_abandon(io);
    stopped_if_last(io);
}

void agent_io_stop(struct agent_io *io, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx)
{
    io->on_stopped = on_stopped;
    io->ctx = ctx;
    driver_stop(io->driver, timeout_ms, on_closed);
}

struct agent_io *agent_io_free(struct agent_io *io)
{
    if (!io)
        return NULL;
    assert(list_empty(&io->runs));
    for (size_t i = 0; io->setup && i < io->setup->n_actors; i++)
        if (io->setup->actors[i].handler->close)
            io->setup->actors[i].handler->close();
    driver_free(io->driver);
    agent_free(io->agent);
    for (size_t i = 0; io->queues && io->setup && i < io->setup->n_actors; i++)
        free((char *)io->queues[i].name);
    free(io->queues);
    agent_setup_free(io->setup);
    free(io);
    return NULL;
}

/* ---- metrics ---- */

#define AT(member) offsetof(struct figures, member)

static const struct metric figures[] = {
    {"concurrency", METRIC_GAUGE, AT(concurrency), "the most handlers that can be at work"},
    {"running", METRIC_GAUGE, AT(stats.running), "handlers at work"},
    {"waiting", METRIC_GAUGE, AT(stats.waiting), "requests that wait for a free slot"},
    {"requests", METRIC_COUNTER, AT(stats.requests), "requests received"},
    {"runs", METRIC_COUNTER, AT(stats.runs), "runs of handlers begun"},
    {"repeated_runs", METRIC_COUNTER, AT(stats.repeated),
     "runs of requests that were sent or delivered again, and may have run before"},
    {"succeeded", METRIC_COUNTER, AT(stats.succeeded), "attempts answered with success"},
    {"failed", METRIC_COUNTER, AT(stats.failed), "attempts answered with a failure"},
    {"retries", METRIC_COUNTER, AT(stats.retries), "runs again within a lease"},
    {"stopped", METRIC_COUNTER, AT(stats.stopped), "runs stopped at the end of their lease"},
    {"unwanted", METRIC_COUNTER, AT(stats.unwanted),
     "runs stopped because the job does not want them any more"},
    {"cut_off", METRIC_COUNTER, AT(stats.cut_off), "runs stopped because no Progress got through"},
    {"deferred", METRIC_COUNTER, AT(stats.deferred), "requests answered DEFER for want of a slot"},
    {"requeued", METRIC_COUNTER, AT(stats.requeued), "requests given back to their queue, unbegun"},
    {"silent", METRIC_COUNTER, AT(stats.silent), "attempts whose lease ended without an answer"},
    {"replies", METRIC_COUNTER, AT(stats.replies), "replies confirmed"},
    {"refusals", METRIC_COUNTER, AT(stats.refusals), "messages returned or refused by the broker"},
    {"suspects", METRIC_COUNTER, AT(stats.suspects), "requests an agent may have died of"},
    {"duplicates", METRIC_COUNTER, AT(stats.duplicates), "requests that were here already"},
    {"losses", METRIC_COUNTER, AT(stats.losses),
     "queues of actors that were deleted, or not there"},
    {"dead_letters", METRIC_COUNTER, AT(stats.dead_letters), "messages put into drover.dead"},
    {"service_refused", METRIC_COUNTER, AT(service_refused),
     "requests to services that failed in a way that a person must mend: see service_refused"},
    {"service_tls_expiry_ms", METRIC_GAUGE, AT(service_tls_expiry_ms),
     "when the first certificate of the agent for services (cert_file) expires, in seconds since "
     "1970; 0 without one"},
};

static const struct metric_set metrics = {"agent", figures, array_size(figures)};

/* A new connection to a service reads its cert_file, without SIGHUP, and so does this. */
static const void *read_figures(void *context)
{
    struct agent_io *io = context;

    agent_stats(io->agent, &io->figures.stats);
    io->figures.service_refused = handler_http_refused();
    io->figures.service_tls_expiry_ms = (uint64_t)agent_setup_expiry(io->setup) * 1000;
    return &io->figures;
}

/* ---- creation ---- */

static int make_queues(struct agent_io *io)
{
    io->queues = calloc(io->setup->n_actors, sizeof(*io->queues));
    if (!io->queues)
        return -ENOMEM;
    for (size_t i = 0; i < io->setup->n_actors; i++) {
        const char *actor = io->setup->actors[i].actor.name;
        char *name;

        if (asprintf(&name, "drover.task.%s", actor) < 0)
            return -ENOMEM;
        io->queues[i] = (struct bus_queue){.name = name, .actor = actor, .source = AGENT_REQUESTS};
    }
    return 0;
}

static int make_agent(struct agent_io *io, const struct config *config, const struct rng *seed)
{
    struct agent_actor *actors = calloc(io->setup->n_actors, sizeof(*actors));
    const struct agent_config agent_config = {
        .name = config->name,
        .concurrency = (unsigned)config->agent.concurrency,
        .few = PACE_FEW,
        .actors = actors,
        .n_actors = io->setup->n_actors,
    };
    int r;

    if (!actors)
        return -ENOMEM;
    for (size_t i = 0; i < io->setup->n_actors; i++) {
        actors[i] = io->setup->actors[i].actor;
        if (actors[i].early_ack_ms == 0) /* a longer lease might meet the broker's timeout */
            actors[i].early_ack_ms = config->agent.consumer_timeout_ms / 2;
    }
    r = agent_new(&io->agent, &agent_config, seed);
    io->figures.concurrency = agent_config.concurrency;
    free(actors);
    return r;
}

static int make_driver(struct agent_io *io, const struct config *config)
{
    static const struct driver_machine machine = {
        .delivery = on_delivery,
        .outcome = on_outcome,
        .lost = on_lost,
        .tick = on_tick,
        .stop = on_stop,
        .idle = is_idle,
        .role = on_role,
    };
    struct bus_config bus = config_bus(config, "drover-agent");

    /* The broker sends about as many requests as the agent has slots: the others wait in the queue,
     * where any agent can take them. The broker counts them for each queue, so each actor gets an
     * equal share, and at least one. */
    bus.prefetch = (uint16_t)(config->agent.concurrency / (int64_t)io->setup->n_actors);
    if (bus.prefetch == 0)
        bus.prefetch = 1;
    bus.queues = io->queues;
    bus.n_queues = (int)io->setup->n_actors;
    bus.direct_reply = true;
    bus.direct_source = AGENT_ANSWERS;
    bus.marker = false; /* it is for supervisors */
    return driver_new(&io->driver, io->loop,
                      &(struct driver_config){.machine = &machine,
                                              .machine_object = io->agent,
                                              .context = io,
                                              .bus = &bus,
                                              .health = driver_health_config(config),
                                              .metrics = &metrics,
                                              .figures = read_figures});
}

/* Checks that the agent can run the programs of its actors, and logs why not. Return: 0, -EPERM
 * where an actor has another user and the agent is not root, or -ENOENT where drover-keep is
 * missing. */
static int check_users(const struct agent_setup *setup)
{
    const char *keeper;
    bool shared = false;

    for (size_t i = 0; i < setup->n_actors; i++) {
        const struct agent_served *served = &setup->actors[i];

        if (served->user && geteuid() != 0) {
            log_error("user_not_possible", LOG_S("actor", served->actor.name),
                      LOG_S("user", served->user),
                      LOG_S("why", "only root can run programs as another user"));
            return -EPERM;
        }
        if (served->handler == &handler_exec && !handler_exec_possible(&keeper)) {
            log_error("keeper_missing", LOG_S("path", keeper), LOG_S("why", strerror(errno)));
            return -ENOENT;
        }
        shared = shared || (served->handler == &handler_exec && !served->user);
    }
    if (shared)
        log_info("programs_share_user",
                 LOG_S("why",
                       "programs run as the agent's user: they can send signals to it and to "
                       "each other; give each actor a user, or an agent of its own"));
    return 0;
}

int agent_io_new(struct agent_io **out, uv_loop_t *loop, const struct config *config,
                 const struct rng *seed)
{
    struct agent_io *io = calloc(1, sizeof(*io));
    int r;

    if (!io)
        return -ENOMEM;
    *out = io;
    io->loop = loop;
    list_init(&io->runs);
    /* No program that the agent runs gets rights that the agent does not have, such as by a
     * set-user-id bit. The agent adopts what drover-keep leaves behind if it is killed. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        return -errno;
    r = agent_setup_read(&io->setup, config_root(config), NULL);
    if (r > 0) /* unreachable: main.c has checked it */
        r = -EINVAL;
    if (!r)
        r = check_users(io->setup);
    if (!r)
        r = make_queues(io);
    if (!r)
        r = make_agent(io, config, seed);
    return r ? r : make_driver(io, config);
}

void agent_io_reload(struct agent_io *io)
{
    for (size_t i = 0; i < io->setup->n_actors; i++)
        if (io->setup->actors[i].handler->reload)
            io->setup->actors[i].handler->reload();
}

/* ---- the log of its state ---- */

void agent_io_dump(struct agent_io *io)
{
    list_foreach(l, &io->runs) {
        const struct agent_run *run = list_entry(l, struct handler_run, link)->run;

        log_info("running", LOG_S("job", run->request->job_id), LOG_S("step", run->request->step),
                 LOG_I("attempt", run->request->attempt),
                 LOG_I("left_ms", run->deadline - driver_now()));
    }
    driver_dump(io->driver);
}
