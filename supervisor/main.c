// SPDX-License-Identifier: Apache-2.0
/*
 * drover-supervisor: the program. Hands the supervisor's functions to daemon_main()
 * (io/daemon/daemon.h)
 */
#include "io/daemon/daemon.h"
#include "supervisor/supervisor_io.h"

static bool once, dry_run;

static int check(const struct config *config, struct problem *problem)
{
    if (!dry_run || once)
        return 0;
    problem_set(problem, "--dry-run", "goes with --once");
    return 1;
}

static int start(void **object, uv_loop_t *loop, const struct config *config,
                 const struct rng *seed)
{
    return supervisor_io_new((struct supervisor_io **)object, loop, config, seed, once, dry_run);
}

static void stop(void *object, int timeout_ms, void (*stopped)(void *context), void *context)
{
    supervisor_io_stop(object, timeout_ms, stopped, context);
}

static void dump(void *object)
{
    supervisor_io_dump(object);
}

static void release(void *object)
{
    supervisor_io_free(object);
}

int main(int argc, char **argv)
{
    static const struct daemon_switch switches[] = {
        {"once", "one round over everything, printed line by line, and exit", &once},
        {"dry-run", "with --once: print, and change nothing", &dry_run},
        {0},
    };
    static const struct daemon_role role = {
        .name = "supervisor",
        .summary = "Finds steps that are due, and asks the schedulers to go on with their jobs.",
        .role = CONFIG_SUPERVISOR,
        .switches = switches,
        .check = check,
        .start = start,
        .stop = stop,
        .dump = dump,
        .free = release,
    };

    return daemon_main(argc, argv, &role);
}
