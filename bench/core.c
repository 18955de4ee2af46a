// SPDX-License-Identifier: Apache-2.0
/*
 * Core: one job in the simulator, in which callgrind counts the instructions of the machines
 *
 *     core STEPS      a chain; nothing fails, and no other job is in flight
 */
#include <stdio.h>

#include "base/log.h"
#include "peer.h"
#include "world/story.h"
#include "world/world.h"

static enum world_verdict nothing(void *ctx, const char *process, const char *what)
{
    return WORLD_GOES_ON;
}

int main(int argc, char **argv)
{
    int steps = argc == 2 ? bench_number(argv[1], 1) : 1;
    struct simstore *store = simstore_new(SIM_DROVER_LUA);
    struct timeline t;
    struct plan plan;
    struct world_result result;
    Drover__V1__Workflow *w;

    log_set_level((enum log_level)(LOG_ERROR + 1));
    timeline_init(&t, 1, NULL);
    w = plan_workflow(&t, (uint32_t)steps);
    for (uint32_t i = 1; i < (uint32_t)steps; i++)
        plan_after(&t, w, i, i - 1);
    story_plan(&plan, w);
    plan.handlers.most_ms = 1;
    world_play(&(struct world_config){&plan, &t, store, nothing}, &result);
    timeline_deinit(&t);
    simstore_free(store);
    bench_check(!*result.violation, result.violation);
    return 0;
}
