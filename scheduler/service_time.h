// SPDX-License-Identifier: Apache-2.0
/*
 * Service times: how long each action takes, and how many requests its agents take at once
 */
#pragma once

#include "model/wire.h"
#include "model/workflow.h"

struct scheduler;

/* A batch holds at most so much work for each slot of an agent. */
#define SERVICE_TIME_BATCH_US 5000
#define SERVICE_TIME_SLOW_MS 1000 /* a longer action counts as this long */
/* Each success takes a sixteenth off a service time: 200 ms count as 21 after 35 of them. */
#define SERVICE_TIME_FADES 16
#define SERVICE_TIME_KEEPS 64  /* replies for which the smallest batch of any agent counts */
#define SERVICE_TIMES_MAX 1024 /* actions whose service time is known */

struct service_times {
    struct service_time *known; /* oldest first */
};

/* Notes from a recorded reply how long its action took and how many requests the agent takes. */
void service_time_note(struct scheduler *s, const struct workflow *w,
                       const Drover__V1__StepReply *m);
/* The number of such requests that a message may hold, by the slots of the agents and the service
 * time of the action. */
unsigned service_time_room(const struct scheduler *s, const char *actor, const char *action);
void service_time_free_all(struct scheduler *s);
