// SPDX-License-Identifier: Apache-2.0
/*
 * Stories: small workflows, and a plain world around one job
 *
 * For tests that follow one job. Everything is in the timeline's arena.
 */
#pragma once

#include "world/plan.h"

#define STORY_LEASE_MS 1000
#define STORY_HANDLER_MS 100 /* a run of a handler */

/* Three steps, one after the other, with reverts; if one fails for good the job turns back. */
Drover__V1__Workflow *story_chain(struct timeline *t);
Drover__V1__Workflow *story_saga(struct timeline *t);

/* One step, two parallel ones, and one that waits for both. */
Drover__V1__Workflow *story_diamond(struct timeline *t);

/* One step that is tried again; one that parks at its first failure until a person acts. */
Drover__V1__Workflow *story_patient(struct timeline *t);
Drover__V1__Workflow *story_one_try(struct timeline *t);

/* One daemon of each kind and one client with one job of this workflow. Nothing fails, and only
 * handlers take time. */
void story_plan(struct plan *plan, Drover__V1__Workflow *w);
