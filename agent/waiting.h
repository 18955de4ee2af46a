// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting: runs without a slot
 */
#pragma once

#include "agent/run.h"

/* A request may wait for a slot for this time, or for half its lease, whichever is shorter. */
#define WAITING_PATIENCE_MS 10000

/* Makes a run of a request, which waits for a slot; of a duplicate none. @request: part of @d. */
void waiting_add(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request);
/* Return: the run that has waited longest, which waits no more; NULL if none waits. */
struct run *waiting_take(struct agent *a);

/* Answers a waiting run DEFER; if its lease is over, see waiting_too_late(). */
void waiting_defer(struct agent *a, struct run *run);
/* Gives a waiting run back to the broker, with its followers. */
void waiting_give_back(struct agent *a, struct run *run);
/* The same for all that the broker delivers again alone. Those whose message was acknowledged are
 * answered DEFER, those of a batch go on waiting. */
void waiting_give_back_all(struct agent *a);
/* Ends a run that waits no more and whose lease is over: gives it back, or is silent. */
void waiting_too_late(struct agent *a, struct run *run);
