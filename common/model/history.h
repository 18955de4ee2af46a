// SPDX-License-Identifier: Apache-2.0
/*
 * History: what the store has noted of a job, in the words of the contract
 */
#pragma once

#include "drover/v1/control.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"
#include "model/workflow.h"

/* Sets m->history and m->history_first, in the memory of @fx. @w: the job's definition. */
void history_entries(struct effects *fx, Drover__V1__Answer *m, const struct ops_history *found,
                     const struct workflow *w);
