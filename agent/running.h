// SPDX-License-Identifier: Apache-2.0
/*
 * Running: runs with a slot; their tries, and their end
 */
#pragma once

#include "agent/run.h"

/* Fills the free slots with waiting runs. */
void running_start(struct agent *a);
/* The handler of the run with this id has ended, or reports how far it is. */
void running_done(struct agent *a, uint64_t id, const struct agent_result *result);
void running_progress(struct agent *a, uint64_t id, double fraction, const char *note);
/* The job does not want the run any more: stops it. */
void running_unwanted(struct agent *a, struct run *run);
/* The agent is to end: ends all runs that no handler works on. Of the waiting ones, a run that came
 * in a batch, or whose message was acknowledged, is answered DEFER; the others are given back to
 * the broker. A run in BACKOFF is answered with its last failure. */
void running_drain(struct agent *a);
