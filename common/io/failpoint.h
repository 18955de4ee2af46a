// SPDX-License-Identifier: Apache-2.0
/*
 * Failpoints: where a test makes a process crash, stall, lose or repeat
 *
 * The boundaries between what the store has recorded, what the broker has, and what was done. They
 * are in the binaries that are shipped, so that what is tested is what runs, and do nothing unless
 * the environment says DROVER_FAILPOINTS_ALLOW=1. Then DROVER_FAILPOINTS, or the file that
 * DROVER_FAILPOINTS_FILE names, which may be changed while the process runs, holds
 *
 *     POINT=TERM[->TERM...]      separated by ; or line ends; # begins a comment
 *     TERM: [P%][N*]TASK[(ARGUMENT)][@TEXT]
 *
 * The first term that applies is performed: one with N at most N times, one with P as often as P in
 * 100, one with TEXT where the message or the arguments of the call contain it.
 *
 *     off                nothing
 *     return             what the boundary does fails; each point says how
 *     drop, double       of a message: it is lost, it is sent twice
 *     sleep(T), delay(T) the thread sleeps, or is busy; T in ms, or such as 2s
 *     pause              the thread stands until the file changes
 *     yield              the thread lets others run
 *     print(TEXT)        in the log only
 *     clock(+T)          the clock of this process goes forward, or back, from here on
 *     panic              abort()
 *     crash              _exit(FAILPOINT_CRASHED): no destructor, no flush, no goodbye
 *
 * Each time one is performed but `off` the log says so before: event failpoint, with the point and
 * the task. That is also how tests count. A file that is wrong is told in the log and changes
 * nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/str.h"
#include "model/effect.h"

#define FAILPOINT_CRASHED 86

/* What the caller has to do; everything else has been done. Only what the point can do. */
enum failpoint_act {
    FAILPOINT_GO,
    FAILPOINT_RETURN,
    FAILPOINT_DROP,
    FAILPOINT_DOUBLE,
};

struct failpoint_info {
    char name[64];  /* "store.record.before" */
    char what[128]; /* for people */
    bool can_return;
    bool can_drop;
    bool can_double;
};

/* The nth of all there are, from 0. Return: false past the last. */
bool failpoint_at(size_t n, struct failpoint_info *out);

/**
 * failpoint_init() - take what the environment says; once, before any thread starts
 *
 * Return: 0, or 1 and @problem is set.
 */
int failpoint_init(struct problem *problem);

/* Takes @spec in the place of what there was, and counts anew. Return: 0, or 1, @problem is set and
 * nothing has changed. */
int failpoint_set(const char *spec, struct problem *problem);

extern bool failpoint_armed_; /* for the functions here only */

enum failpoint_act failpoint_hit(const char *group, const char *name, const char *when,
                                 const struct bytes *payload, size_t n);

/**
 * failpoint() - the process is at a boundary
 * @group:   with the other two the name of the point, "store.record.before"
 * @name:    "" for none
 * @when:    "" for none
 * @payload: what is about to pass it, for TEXT
 *
 * May block, and may not return. Thread-safe. Costs a branch where nothing is set.
 */
static inline enum failpoint_act failpoint(const char *group, const char *name, const char *when,
                                           const struct bytes *payload, size_t n)
{
    if (__builtin_expect(!failpoint_armed_, true))
        return FAILPOINT_GO;
    return failpoint_hit(group, name, when, payload, n);
}

enum failpoint_act failpoint_hit_message(const struct bus_message *m, const char *when);

/* The same of a message that is published: publish.<kind>.@when. */
static inline enum failpoint_act failpoint_message(const struct bus_message *m, const char *when)
{
    if (__builtin_expect(!failpoint_armed_, true))
        return FAILPOINT_GO;
    return failpoint_hit_message(m, when);
}
