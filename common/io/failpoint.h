// SPDX-License-Identifier: Apache-2.0
/*
 * Failpoints: places where a test makes a process crash, stall, lose or repeat
 *
 * They are at the boundaries between what the store has recorded, what the broker has, and what an
 * agent has done. The shipped binaries contain them, so that tests run what is shipped, and they do
 * nothing unless the environment has DROVER_FAILPOINTS_ALLOW=1. Then DROVER_FAILPOINTS, or the file
 * that DROVER_FAILPOINTS_FILE names, which may change while the process runs, holds
 *
 *     POINT=TERM[->TERM...]      separated by ; or line ends; one that begins with # is a comment
 *     TERM: [P%][N*]TASK[(ARGUMENT)][@TEXT]
 *
 * The first term that applies is performed: one with N at most N times, one with P in P percent of
 * the cases, one with TEXT if the message or the arguments of the call contain it.
 *
 *     off                nothing
 *     return             the action at the boundary fails; each point says how
 *     drop, double       the message is lost, or sent twice
 *     sleep(T), delay(T) the process sleeps, or is busy; T in ms, or such as 2s
 *     pause              the process waits until the file changes
 *     yield              the process lets others run
 *     print(TEXT)        only logs
 *     clock(+T)          moves the clock of this process forward, or back, from here on
 *     panic              abort()
 *     crash              _exit(FAILPOINT_CRASHED): no destructors, no flush
 *
 * Each task except `off` is logged before it is performed (event failpoint, with point and task);
 * tests count by that. A file that is wrong is reported in the log and changes nothing. Called by
 * io/bus, io/store, io/daemon/child, io/daemon and the agent; the command line lists the points.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/str.h"
#include "model/effect.h"

#define FAILPOINT_CRASHED 86

/* What the caller must do; all other tasks have been performed. A point returns only those that its
 * failpoint_info allows. */
enum failpoint_act {
    FAILPOINT_GO,
    FAILPOINT_RETURN,
    FAILPOINT_DROP,
    FAILPOINT_DOUBLE,
};

struct failpoint_info {
    char name[64];  /* "store.record.before" */
    char what[128]; /* a description for people */
    bool can_return;
    bool can_drop;
    bool can_double;
};

/* Describes the @n-th of all points, from 0. Return: false after the last one. */
bool failpoint_at(size_t n, struct failpoint_info *out);

/**
 * failpoint_init() - set the points of the environment; once
 *
 * Return: 0, or 1 with @problem set.
 */
int failpoint_init(struct problem *problem);

/* Replaces all points by those of @spec; each N counts from the beginning. Return: 0; or 1 with
 * @problem set, then nothing has changed. */
int failpoint_set(const char *spec, struct problem *problem);

extern bool failpoint_armed_; /* only for the inline functions below */

enum failpoint_act failpoint_hit(const char *group, const char *name, const char *when,
                                 const struct bytes *payload, size_t n);

/**
 * failpoint() - perform the task that is set for a boundary, where the process is now
 * @group:   first part of the name of the point, such as "store" of "store.record.before"
 * @name:    second part, "" for none
 * @when:    third part, "" for none
 * @payload: the message, arguments or answer, in which TEXT is searched; @n parts
 *
 * May block, and may not return. Costs one branch if no points are set.
 */
static inline enum failpoint_act failpoint(const char *group, const char *name, const char *when,
                                           const struct bytes *payload, size_t n)
{
    if (__builtin_expect(!failpoint_armed_, true))
        return FAILPOINT_GO;
    return failpoint_hit(group, name, when, payload, n);
}

enum failpoint_act failpoint_hit_message(const struct bus_message *m, const char *when);

/* The same for a message that is published: point publish.<kind>.@when. */
static inline enum failpoint_act failpoint_message(const struct bus_message *m, const char *when)
{
    if (__builtin_expect(!failpoint_armed_, true))
        return FAILPOINT_GO;
    return failpoint_hit_message(m, when);
}
