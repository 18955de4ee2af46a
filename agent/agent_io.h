// SPDX-License-Identifier: Apache-2.0
/*
 * Agent IO: binds the agent's machine to the bus, the loop and the handlers
 *
 * main.c calls it, from the loop's thread.
 */
#pragma once

#include <uv.h>

#include "base/rng.h"
#include "io/config/config.h"

struct agent_io;

/**
 * agent_io_new() - create the agent and start it
 * @out:    NULL before; the caller frees it with agent_io_free(), also after an error
 * @config: borrowed until agent_io_free()
 * @seed:   copied; from the kernel
 *
 * It connects in the background, and then consumes the task queues of all its actors. Also makes
 * the process a subreaper, and keeps its programs from getting more rights than it has.
 *
 * Return: 0 or -errno; -EPERM or -ENOENT where programs cannot be run, which was logged.
 */
int agent_io_new(struct agent_io **out, uv_loop_t *loop, const struct config *config,
                 const struct rng *seed);

/* Takes no further request, finishes the runs, publishes their replies, and closes; then calls
 * on_stopped(ctx). Kills the runs that have not ended after @timeout_ms; the broker delivers their
 * requests again, unless they were acknowledged. */
void agent_io_stop(struct agent_io *io, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx);

/* Files of certificates may have changed: has handlers read them again. */
void agent_io_reload(struct agent_io *io);

/* Ends every run at once, for a process that is about to exit. */
void agent_io_abandon(struct agent_io *io);

/* Logs each run under way and the counters. */
void agent_io_dump(struct agent_io *io);

/* To be called after on_stopped, or after a failed agent_io_new(). Accepts NULL; returns NULL. */
struct agent_io *agent_io_free(struct agent_io *io);
