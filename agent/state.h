// SPDX-License-Identifier: Apache-2.0
/*
 * State: what an agent's machine keeps in memory, by the file that works on it
 *
 * The headers of these files describe the parts. The files of the machine call each other in one
 * direction:
 *
 *     agent.c                             the step function: gives each event to the file for it
 *     on_requests.c on_answers.c          messages
 *     crowding.c suspect.c dead_letter.c  requests that wait, suspects, dead letters
 *     loss.c                              reports that requests are lost
 *     running.c waiting.c                 runs with a slot, and without
 *     heartbeat.c replies.c               their Progress, and their replies
 *     run.c outgoing.c                    runs and messages, from begin to end
 *     slots.c reply.c delivery.c settings.c timer.c
 *
 * What lies lower reports upwards by callbacks only: outgoing_kind, timer.fire, suspect_read_fn.
 *
 * Only the files of the machine include it.
 */
#pragma once

#include "agent/agent.h"
#include "agent/crowding.h"
#include "agent/delivery.h"
#include "agent/outgoing.h"
#include "agent/replies.h"
#include "agent/run.h"
#include "agent/slots.h"
#include "agent/suspect.h"
#include "agent/timer.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"

struct agent {
    /* what it is */
    struct agent_config config; /* with what it points to: settings.c */
    struct rng rng;
    bool draining;

    /* of the present agent_step() */
    int64_t now; /* monotonic ms */
    struct effects *out;

    /* work in progress */
    uint64_t last_id; /* of a run or a message */
    struct list deliveries;
    struct runs runs;
    struct list waiting; /* runs without a slot */
    struct slots slots;
    struct crowding crowding;
    struct suspects suspects;
    struct replies replies;
    struct outgoing *outgoing; /* messages without an outcome, by id */
    struct heap timers;

    struct agent_stats stats;
};
