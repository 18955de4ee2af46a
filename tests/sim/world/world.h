// SPDX-License-Identifier: Apache-2.0
/*
 * World: schedulers, agents, supervisors and clients over one simulated store and bus
 *
 * The machines are the production ones. The world gives them their events, performs their effects
 * in order, and lets them die before or after each effect: a machine is freed, and a new one takes
 * its place later. The plan and the timeline's chance decide everything. The checker checks every
 * step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "checker/check.h"
#include "store/store.h"
#include "world/plan.h"
#include "world/timeline.h"

struct world;

struct world_result {
    char violation[512]; /* "" for none */
    uint64_t hash;       /* of everything that happened */
    uint64_t events;
    uint64_t calls;
    int64_t simulated_ms;
    bool seen[FEATURES_];
};

enum world_verdict {
    WORLD_GOES_ON,
    WORLD_KILLS,    /* the process dies right before this */
    WORLD_CUTS,     /* it loses its connection to the broker right before this */
    WORLD_ALARMS,   /* the broker raises an alarm right before this */
    WORLD_WIPES,    /* the broker loses all its data right before this */
    WORLD_RESTARTS, /* the broker loses its transient messages right before this */
    /* for a handler that starts: */
    WORLD_HANGS,  /* it does not end by itself */
    WORLD_FAILS,  /* it fails, and may be tried again */
    WORLD_BREAKS, /* it fails for good */
    WORLD_STALLS, /* its agent stands still until long after the lease */
};

/* The decision of a narrative before each effect, instead of chance. @what is its line in a trace,
 * such as "store call=submit job=j1", "publish to=drover.reply.a0 type=Replies job=j1 step=s0
 * attempt=1", "ack", "start job=j1 step=s0 attempt=1"; or "idle". */
typedef enum world_verdict world_script(void *ctx, const char *process, const char *what);

struct world_config {
    const struct plan *plan;
    struct timeline *timeline;
    struct simstore *store; /* will be emptied */
    world_script *script;   /* NULL: chance decides */
    void *script_ctx;
};

struct world *world_new(const struct world_config *config);

/* Runs until all is at rest, an invariant is violated, or the time is up. */
void world_run(struct world *w, struct world_result *out);

/* Makes a world, runs it to its end, and frees it. After a violation it prints what has not come to
 * rest, if there is a trace. */
void world_play(const struct world_config *config, struct world_result *out);

/* For an explorer; see explore.h. */
uint64_t world_digest(void *world);
bool world_quiet(void *world);

/* What has not come to rest, for people. */
void world_describe(struct world *w, FILE *out);

/* Returns NULL. */
struct world *world_free(struct world *w);
