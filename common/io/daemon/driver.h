// SPDX-License-Identifier: Apache-2.0
/*
 * Driver: connects a machine with bus, store and time
 *
 * The driver owns the bus, the store and the timer of a process and runs one machine on the thread
 * of the loop: it turns deliveries, answers and outcomes into events, performs the effects in their
 * order, and sets the timer to the next tick that the machine wants. When all that has arrived was
 * handed to the machine, the machine gets a tick; the messages and calls that then leave leave in
 * one write.
 *
 * The driver consumes messages only once the store was up, because nothing can be recorded before.
 *
 * It also watches over the process. Each health.pulse it sends a pulse through the broker; if none
 * comes back for health.stall, although the broker is connected and not blocked, it ends the
 * process with status 1 (io/daemon/vitals.h). If health.listen is set it serves health and metrics
 * over HTTP (io/daemon/health.h).
 *
 * Called by *_io.c of scheduler, agent and supervisor.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/log_field.h"
#include "io/bus/bus.h"
#include "io/config/config.h"
#include "io/daemon/metrics.h"
#include "io/store/store.h"
#include "model/effect.h"

struct driver;

/* The step function of a machine, one function for each kind of event. Each takes the monotonic
 * time in ms, appends effects to @out, and returns the time of the next tick that the machine
 * wants. Those that a role does not need are NULL. */
struct driver_machine {
    /* @run: of the server, another one after each of its starts and promotions */
    int64_t (*store_up)(void *machine, int64_t now, uint32_t partitions, const char *run,
                        struct effects *out);
    int64_t (*store_down)(void *machine, int64_t now, struct effects *out);
    int64_t (*bus_down)(void *machine, int64_t now, struct effects *out);
    int64_t (*delivery)(void *machine, int64_t now, const struct bus_delivery *d,
                        struct effects *out);
    int64_t (*answer)(void *machine, int64_t now, uint64_t id, const struct store_answer *answer,
                      struct effects *out);
    int64_t (*outcome)(void *machine, int64_t now, uint64_t id, enum bus_outcome outcome,
                       struct effects *out);
    /* The bus has given up a publish because the broker has closed the connection over it twice; it
     * is in drover.dead now. @key: its routing key; @job: "" for none */
    int64_t (*isolated)(void *machine, int64_t now, const char *key, const char *job,
                        struct effects *out);
    /* See bus_callbacks.on_lost. */
    int64_t (*lost)(void *machine, int64_t now, const char *actor, struct effects *out);
    int64_t (*tick)(void *machine, int64_t now, struct effects *out);
    int64_t (*stop)(void *machine, int64_t now, struct effects *out);
    bool (*idle)(const void *machine); /* nothing is in progress: a process that stops may end */
    void (*role)(void *context, const struct effect *effect); /* EFFECT_ROLE */
    void (*bus_up)(void *context);
};

struct driver_health {
    const char *listen; /* for address_parse(); "" for no server */
    int64_t pulse_ms;
    int64_t stall_ms; /* 0 for never */
};

struct driver_config {
    const struct driver_machine *machine;
    void *machine_object;
    void *context; /* for role() and figures(); usually the owner of the driver */
    const struct bus_config *bus;
    const struct store_config *store; /* NULL for a role without a store */
    struct driver_health health;
    const struct metric_set *metrics;      /* of the role, with its name */
    const void *(*figures)(void *context); /* the struct of figures for metrics, as of now */
};

/* Makes the configuration of health; its text points into @config. */
struct driver_health driver_health_config(const struct config *config);

/* @config: not kept, but what it points to is.
 * Return: 0 or -errno; a broker or store that cannot be reached is no error here. */
int driver_new(struct driver **out, uv_loop_t *loop, const struct driver_config *config);

/* For a role that gives its machine events of its own: the machine appends to driver_effects(),
 * then the role calls driver_perform() with the time of the next tick that the machine wants. */
struct effects *driver_effects(struct driver *d);
void driver_perform(struct driver *d, int64_t next_tick);

/* Return: the monotonic time in ms that the machine gets. */
int64_t driver_now(void);

struct bus *driver_bus(struct driver *d);     /* NULL before the store was up */
struct store *driver_store(struct driver *d); /* NULL for a role without one */

/* A trace_fn that logs at level debug. The driver traces all events and effects except EFFECT_ROLE,
 * which the role traces. */
void driver_trace(void *ctx, const char *event, const struct log_field *fields, int n);

/* For a role that consumes nothing, whose pulses are questions to the broker: the broker has
 * answered one after @took_us. */
void driver_pulse_back(struct driver *d, int64_t took_us);

/* Logs the figures of the role and of the driver. */
void driver_dump(struct driver *d);

/* Stops consuming, waits until the machine is idle or @timeout_ms are over, then closes everything.
 * on_closed(context) runs when the driver may be freed. */
void driver_stop(struct driver *d, int timeout_ms, void (*on_closed)(void *context));
/* @d: closed, or its driver_new() has failed, or NULL. Return: NULL. */
struct driver *driver_free(struct driver *d);
