// SPDX-License-Identifier: Apache-2.0
/*
 * Handlers: the code that carries out an action
 *
 * agent_io.c calls them, on the loop's thread. A handler starts runs and never blocks that thread.
 * A run ends by itself, or because it is stopped, which the machine does at the end of its lease at
 * the latest. In each case the handler calls done() exactly once, later, from the loop. A handler
 * does not know the broker: it takes a request and returns a result.
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

/* The run has ended. @run and @result are freed when this returns. */
typedef void handler_done_fn(struct handler_run *run, const struct agent_result *result);

/* The run reports how far it is. @fraction: 0 to 1, negative if not known. @note: any text;
 * borrowed during the call. */
typedef void handler_progress_fn(struct handler_run *run, double fraction, const char *note);

/* The first member of each handler's own struct of a run. */
struct handler_run {
    struct list link; /* of the caller of start(), unlinked at first; done() must unlink it */
    const struct handler *handler;
    const struct agent_run *run;
    handler_done_fn *done;
    handler_progress_fn *progress; /* called from the loop, at each report */
    void *context;                 /* of the caller of start() */
};

struct handler {
    const char *name; /* in the configuration */

    /**
     * start() - begin a run
     * @action: borrowed until the run has ended
     * @head:   copied to the head of the run
     *
     * There is no error: a run that cannot start ends with a result that says so. done() is never
     * called from within start() or stop().
     *
     * Return: the run, which the handler owns.
     */
    struct handler_run *(*start)(uv_loop_t *loop, const struct agent_action *action,
                                 const struct handler_run *head);

    /* Has a run end early: as soon as it can, or, with @at_once, immediately. Harmless when
     * repeated. */
    void (*stop)(struct handler_run *run, bool at_once);

    /* Files of certificates may have changed: the handler reads them again for what begins from now
     * on. May be repeated. NULL where the handler keeps nothing of files. */
    void (*reload)(void);

    /* Releases what the handler keeps between runs. Called when no run is under way and none will
     * start. Closing may take further iterations of the loop. NULL where the handler keeps
     * nothing. */
    void (*close)(void);
};

/* Path of drover-keep, which runs the programs of the handler exec. NULL: in the folder of this
 * program. Tests set it. */
extern const char *handler_exec_keeper;

/* Return: whether drover-keep is there and executable; else errno is set. @path: where it is
 * expected; static. */
bool handler_exec_possible(const char **path);

extern const struct handler handler_builtin;
extern const struct handler handler_exec;
extern const struct handler handler_http;

/* Return: how many requests have failed in a way that a person must mend. */
uint64_t handler_http_refused(void);

/* Return: whether the handler builtin has an action of this name. */
bool handler_builtin_known(const char *name);
