// SPDX-License-Identifier: Apache-2.0
/*
 * drover-scheduler: the main() of the daemon
 *
 * Gives daemon_main() (io/daemon/daemon.h) the functions of scheduler_io.c. No other part calls it.
 */
#include "io/daemon/daemon.h"
#include "scheduler/access_config.h"
#include "scheduler/scheduler_io.h"

static int check(const struct config *config, struct problem *problem)
{
    CLEANUP(access_free) struct access *access = NULL;

    return access_read(&access, config, problem);
}

static int start(void **object, uv_loop_t *loop, const struct config *config,
                 const struct rng *seed)
{
    return scheduler_io_new((struct scheduler_io **)object, loop, config, seed);
}

static void stop(void *object, int timeout_ms, void (*stopped)(void *context), void *context)
{
    scheduler_io_stop(object, timeout_ms, stopped, context);
}

static void dump(void *object)
{
    scheduler_io_dump(object);
}

static void release(void *object)
{
    scheduler_io_free(object);
}

int main(int argc, char **argv)
{
    static const struct daemon_role role = {
        .name = "scheduler",
        .summary = "Records jobs, orders their steps, dispatches them and records the results.",
        .role = CONFIG_SCHEDULER,
        .check = check,
        .start = start,
        .stop = stop,
        .dump = dump,
        .free = release,
    };

    return daemon_main(argc, argv, &role);
}
