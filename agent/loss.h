// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: reports to the schedulers that the requests of an actor are lost with its queue
 */
#pragma once

struct agent;

/* The task queue of an actor is not there, or was deleted. Reports it until a scheduler will read
 * the report; then AGENT_DECLARE has the bus declare the queue. */
void loss_report(struct agent *a, const char *actor);
