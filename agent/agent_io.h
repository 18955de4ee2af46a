// SPDX-License-Identifier: Apache-2.0
/*
 * The agent bound to the real bus, loop and handlers
 */
#pragma once

#include <uv.h>

#include "base/rng.h"
#include "io/config.h"

struct agent_io;

/**
 * agent_io_new() - create, connect in the background, consume the task queues of all actors
 * @seed: from the kernel
 *
 * Return: 0 or -errno. *out is to be freed in any case.
 */
int agent_io_new(struct agent_io **out, uv_loop_t *loop, const struct config *config,
                 const struct rng *seed);

/* Takes nothing new, finishes what runs, flushes, closes; on_stopped when all is gone. What still
 * runs after @timeout_ms is killed, and is the broker's to deliver again. */
void agent_io_stop(struct agent_io *io, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx);

/* Logs the counters, and each run under way. */
/* Kills every handler that still runs, at once. */
void agent_io_abandon(struct agent_io *io);

void agent_io_dump(struct agent_io *io);

/* After on_stopped, or after a failed agent_io_new(). Accepts NULL; returns NULL. */
struct agent_io *agent_io_free(struct agent_io *io);
