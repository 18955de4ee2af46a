// SPDX-License-Identifier: Apache-2.0
/*
 * The supervisor bound to the real bus, store and loop
 */
#pragma once

#include <uv.h>

#include "io/config.h"
#include "io/driver.h"
#include "supervisor/supervisor.h"

struct supervisor_io;

/**
 * supervisor_io_new() - start
 * @once:    one round, told line by line to standard output; then the process is ended, with status
 *           1 where broker or store do not answer
 * @dry_run: once, but change nothing
 *
 * Return: 0 or -errno. *out is to be freed in any case.
 */
int supervisor_io_new(struct supervisor_io **out, uv_loop_t *loop, const struct config *config,
                      const struct rng *seed, bool once, bool dry_run);

/* Gives its leases up, then closes; on_stopped when all is gone. */
void supervisor_io_stop(struct supervisor_io *io, int timeout_ms, void (*on_stopped)(void *ctx),
                        void *ctx);

/* Logs the counters. */
void supervisor_io_dump(struct supervisor_io *io);

/* After on_stopped, or after a failed supervisor_io_new(). Accepts NULL; returns NULL. */
struct supervisor_io *supervisor_io_free(struct supervisor_io *io);
