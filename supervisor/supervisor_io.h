// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisor IO: binds the supervisor's machine to the bus, the store and the loop
 *
 * main.c calls it, from the loop's thread.
 */
#pragma once

#include <uv.h>

#include "io/config/config.h"
#include "io/daemon/driver.h"
#include "supervisor/supervisor.h"

struct supervisor_io;

/**
 * supervisor_io_new() - create the supervisor and start it
 * @out:     NULL before; the caller frees it with supervisor_io_free(), also after an error
 * @config:  borrowed until supervisor_io_free()
 * @seed:    copied; from the kernel
 * @once:    make one round, write what it does to standard output line by line, and end the
 *           process; with status 1 if the broker or the store does not answer
 * @dry_run: with @once: change nothing
 *
 * It connects in the background.
 *
 * Return: 0 or -errno.
 */
int supervisor_io_new(struct supervisor_io **out, uv_loop_t *loop, const struct config *config,
                      const struct rng *seed, bool once, bool dry_run);

/* Gives up the lead of its partitions, for at most @timeout_ms, and closes; then calls
 * on_stopped(ctx). */
void supervisor_io_stop(struct supervisor_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                        void *ctx);

/* Logs the counters. */
void supervisor_io_dump(struct supervisor_io *io);

/* To be called after on_stopped, or after a failed supervisor_io_new(). Accepts NULL; returns
 * NULL. */
struct supervisor_io *supervisor_io_free(struct supervisor_io *io);
