// SPDX-License-Identifier: Apache-2.0
/*
 * History of a job: from the lines of the store to the messages of proto/
 *
 * Called by the scheduler, which answers the command History, and by the command line.
 */
#pragma once

#include "drover/v1/control.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"
#include "model/workflow.h"

/* Sets m->history and m->history_first, in the memory of @fx. @w: the definition of the job, which
 * names its steps. */
void history_entries(struct effects *fx, Drover__V1__Answer *m, const struct ops_history *found,
                     const struct workflow *w);
