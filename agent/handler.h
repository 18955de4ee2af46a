// SPDX-License-Identifier: Apache-2.0
/*
 * Handlers: what does the work of an action
 *
 * A handler starts runs on the loop thread and never blocks it. A run ends by itself or when it is
 * stopped, which the machine asks for at the end of its lease at the latest; however it ends,
 * done() is called exactly once, later, from the loop. A handler knows nothing of brokers: it gets
 * a request and gives a result.
 *
 *     builtin   noop, echo, sleep, fail: for demonstrations, tests and benchmarks
 *     exec      one process for each run
 *     http      one HTTP request for each run
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "agent/agent.h"
#include "agent/agent_config.h"
#include "base/list.h"

struct handler_run;

/* The run has ended; @run is gone when this returns, and the result with it. */
typedef void handler_done_fn(struct handler_run *run, const struct agent_result *result);

/* How far the run is: @fraction from 0 to 1, negative where that is not known. @note may be any
 * text; it is used within the call. */
typedef void handler_progress_fn(struct handler_run *run, double fraction, const char *note);

/* The head of every handler's own run. */
struct handler_run {
    struct list link; /* the owner's, unlinked at first; to be unlinked by done() */
    const struct handler *handler;
    const struct agent_run *run;
    handler_done_fn *done;
    handler_progress_fn *progress; /* from the loop, as often as there is something to tell */
    void *context;                 /* the owner's */
};

struct handler {
    const char *name; /* in configuration */

    /**
     * start() - begin a run
     * @head: copied to the head of the run
     *
     * What cannot be started is a result too. done() is never called from within start() or stop().
     */
    struct handler_run *(*start)(uv_loop_t *loop, const struct agent_action *action,
                                 const struct handler_run *head);

    /* Ends a run before its time: politely, or at once. Harmless when repeated. */
    void (*stop)(struct handler_run *run, bool at_once);

    /* No run is under way and none will come: lets go of what was kept between runs. Closing may
     * take turns of the loop. NULL where nothing is kept. */
    void (*close)(void);
};

/* Path of drover-keep, which runs the programs of `exec`; NULL: beside this program. */
extern const char *handler_exec_keeper;

/* Whether it is there, and where that is. */
bool handler_exec_possible(const char **path);

extern const struct handler handler_builtin;
extern const struct handler handler_exec;
extern const struct handler handler_http;

/* True where there is a builtin action of this name. */
bool handler_builtin_known(const char *name);
