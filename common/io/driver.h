// SPDX-License-Identifier: Apache-2.0
/*
 * Driver: a role machine bound to the real world
 *
 * Owns the bus, the store and the timer of one process and runs one machine on one loop thread:
 * turns what arrives into events, performs the effects in their order, arms the timer for when the
 * machine wants to be asked next. A turn ends, and the machine hears a tick, when everything that
 * was there has been handed over; what leaves together leaves in one write.
 *
 * Messages are consumed only once the store was up: nothing can be recorded before.
 *
 * It also watches over itself. A pulse goes round through the broker each health.pulse; where none
 * comes back for health.stall although nothing is known to be wrong, the process ends with status 1
 * (io/vitals.h). What it knows of itself it tells over HTTP where health.listen is set
 * (io/health.h).
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/log_field.h"
#include "io/bus.h"
#include "io/config.h"
#include "io/metrics.h"
#include "io/store.h"
#include "model/effect.h"

struct driver;

/* The machine as the driver sees it. Each takes the monotonic time in ms, appends effects, and
 * returns when it wants its next tick. What a role has no use for is NULL. */
struct driver_machine {
    /* @run: of the server that answers: another one after each start */
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
    /* The broker has closed the connection over this publish until it was given up: it is in
     * drover.dead now. @key: where it was to go; @job: "" for none */
    int64_t (*isolated)(void *machine, int64_t now, const char *key, const char *job,
                        struct effects *out);
    int64_t (*tick)(void *machine, int64_t now, struct effects *out);
    int64_t (*stop)(void *machine, int64_t now, struct effects *out);
    bool (*idle)(const void *machine); /* nothing under way: a stopping process may leave */
    void (*role)(void *context, const struct effect *effect); /* EFFECT_ROLE */
};

struct driver_health {
    const char *listen; /* "": nowhere */
    int64_t pulse_ms;
    int64_t stall_ms; /* 0: never */
};

struct driver_config {
    const struct driver_machine *machine;
    void *machine_object;
    void *context; /* for role() and figures(); usually what owns the driver */
    const struct bus_config *bus;
    const struct store_config *store; /* NULL: a role without a store */
    struct driver_health health;
    const struct metric_set *metrics;      /* of the role, and called like it */
    const void *(*figures)(void *context); /* what they tell of, as it is now */
};

/* What the configuration says of bus and store; texts stay the configuration's. The role adds what
 * it consumes. @service: shown by the broker as the connection's name. */
struct bus_config driver_bus_config(const struct config *config, const char *service);
struct store_config driver_store_config(const struct config *config);
struct driver_health driver_health_config(const struct config *config);

/* Return: 0 or -errno; brokers and stores that cannot be reached are no error here. */
int driver_new(struct driver **out, uv_loop_t *loop, const struct driver_config *config);

/* The effects list, for a role that feeds its machine events of its own: append to it, then call
 * driver_perform() with when the machine wants its next tick. */
struct effects *driver_effects(struct driver *d);
void driver_perform(struct driver *d, int64_t next_tick);

int64_t driver_now(void);

struct bus *driver_bus(struct driver *d);     /* NULL before the store was up */
struct store *driver_store(struct driver *d); /* NULL for a role without one */

/* A trace_fn that logs, at debug, where log_enabled(): what comes in and what the driver performs
 * is told by itself, EFFECT_ROLE by the role. */
void driver_trace(void *ctx, const char *event, const struct log_field *fields, int n);

/* A role that consumes nothing has no pulse but the questions it asks: the broker has answered one,
 * after so long. */
void driver_pulse_back(struct driver *d, int64_t took_us);

/* Logs all figures, the role's and the driver's own. */
void driver_dump(struct driver *d);

/* Stops consuming, lets the machine finish until it is idle or the time is over, closes everything.
 * on_closed runs when the driver may be freed. */
void driver_stop(struct driver *d, int timeout_ms, void (*on_closed)(void *context));
struct driver *driver_free(struct driver *d);
