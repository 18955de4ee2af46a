// SPDX-License-Identifier: Apache-2.0
/*
 * Crowding: gives waiting requests back to the broker, for an agent that has a free slot
 */
#pragma once

#include <stdbool.h>

#include "agent/timer.h"

struct crowding {
    struct timer timer; /* all slots have been taken for long enough */
    bool paused;        /* the consumers are cancelled */
};

/* Runs at the end of each agent_step(): sees to it that the agent holds no more requests than it
 * has slots for. */
void crowding_watch(struct agent *a);
