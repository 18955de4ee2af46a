// SPDX-License-Identifier: Apache-2.0
/*
 * drover-agent: the program. Hands the agent's functions to daemon_main() (io/daemon/daemon.h)
 */
#include "agent/agent_config.h"
#include "agent/agent_io.h"
#include "io/daemon/daemon.h"

static int check(const struct config *config, struct problem *problem)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    int r = agent_setup_read(&setup, config_root(config), problem);

    return r ? r : agent_setup_check_files(setup, problem);
}

static int start(void **self, uv_loop_t *loop, const struct config *config, const struct rng *seed)
{
    return agent_io_new((struct agent_io **)self, loop, config, seed);
}

static void stop(void *self, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx)
{
    agent_io_stop(self, timeout_ms, on_stopped, ctx);
}

static void dump(void *self)
{
    agent_io_dump(self);
}

static void reload(void *self)
{
    agent_io_reload(self);
}

static void abandon(void *self)
{
    agent_io_abandon(self);
}

static void release(void *self)
{
    agent_io_free(self);
}

int main(int argc, char **argv)
{
    static const struct daemon_role role = {
        .name = "agent",
        .summary =
            "Takes requests for its actors, runs the handler of each actor, and publishes the "
            "replies.",
        .role = CONFIG_AGENT,
        .check = check,
        .start = start,
        .abandon = abandon,
        .stop = stop,
        .dump = dump,
        .reload = reload,
        .free = release,
    };

    return daemon_main(argc, argv, &role);
}
