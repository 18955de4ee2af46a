// SPDX-License-Identifier: Apache-2.0
/*
 * Heartbeats: Progress of runs. With heartbeats it sets LockedUntil to three heartbeats from now,
 * but not past the lease; without, it is evidence that the run has begun
 */
#pragma once

#include "agent/run.h"

/* Where a step asks for no heartbeats, the agent publishes Progress once, as evidence that it has
 * begun: when the run has lasted for this share of its lease (a quarter) or for this time,
 * whichever is shorter. */
#define HEARTBEAT_EVIDENCE_SHARE 4
#define HEARTBEAT_EVIDENCE_MS 10000

/* The run has got a slot: publishes Progress now, or when it is due. */
void heartbeat_start(struct agent *a, struct run *run);
/* The run has lost its slot, or is being stopped. */
void heartbeat_stop(struct agent *a, struct run *run);
