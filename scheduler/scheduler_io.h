// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler I/O: connects the machine (scheduler.h) with the bus, the store and the loop
 *
 * Called by main.c, on the loop thread.
 */
#pragma once

#include <uv.h>

#include "io/config/config.h"
#include "io/daemon/driver.h"
#include "scheduler/scheduler.h"

struct scheduler_io;

/**
 * scheduler_io_new() - create; connects in the background, consumes once the store is connected
 * @out:    NULL before the call; the caller frees it by scheduler_io_free(), also after an error
 * @config: must outlive the object
 * @seed:   from the kernel
 *
 * Return: 0 or -errno; -EINVAL if a workflow file is refused (logged).
 */
int scheduler_io_new(struct scheduler_io **out, uv_loop_t *loop, const struct config *config,
                     const struct rng *seed);

/* Stops consuming, finishes the work that was begun within @timeout_ms, then closes all. Calls
 * on_stopped(ctx) at the end. */
void scheduler_io_stop(struct scheduler_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                       void *ctx);

/* Logs the metrics. */
void scheduler_io_dump(struct scheduler_io *io);

/* After on_stopped, or after a failed scheduler_io_new(). Accepts NULL; returns NULL. */
struct scheduler_io *scheduler_io_free(struct scheduler_io *io);
