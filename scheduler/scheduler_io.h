// SPDX-License-Identifier: Apache-2.0
/*
 * The scheduler bound to the real bus, store and loop
 */
#pragma once

#include <uv.h>

#include "io/config.h"
#include "io/driver.h"
#include "scheduler/scheduler.h"

struct scheduler_io;

/**
 * scheduler_io_new() - create, connect in the background, consume once the store was up
 * @seed: from the kernel
 *
 * Return: 0 or -errno; -EINVAL where a workflow file is refused (logged). *out is to be freed in
 * any case.
 */
int scheduler_io_new(struct scheduler_io **out, uv_loop_t *loop, const struct config *config,
                     const struct rng *seed);

/* Stops consuming; finishes what was begun, then closes; on_stopped when all is gone. */
void scheduler_io_stop(struct scheduler_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                       void *ctx);

/* Logs the counters. */
void scheduler_io_dump(struct scheduler_io *io);

/* After on_stopped, or after a failed scheduler_io_new(). Accepts NULL; returns NULL. */
struct scheduler_io *scheduler_io_free(struct scheduler_io *io);
