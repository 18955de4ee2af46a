// SPDX-License-Identifier: Apache-2.0
/*
 * Views of steps
 */
#pragma once

#include "cli/table.h"

/* Return: the state of a step, such as "RUNNING"; "QUEUED" or "SENT" if it is in flight and no
 * agent is known to have begun it. */
const char *view_step_state(const Drover__V1__StepStatus *step);

/* Appends details of the state of a step: "next try in 4s, card_declined: no money". Quoted texts
 * are not made harmless here: the caller does that by table_add() or view_text(). */
void view_step_detail(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                      struct buf *out);

/* The columns of a table of steps: name, actor, state, attempt, elapsed time, details. */
#define VIEW_STEP_COLUMNS 6
#define VIEW_UNTIMED INT64_C(-1)
void view_step_titles(struct table *t, bool timed);

/* Adds the cells of a step. @elapsed_ms: VIEW_UNTIMED leaves its cell empty. */
void view_step_cells(struct table *t, const Drover__V1__StepStatus *step,
                     const Drover__V1__JobStatus *job, int64_t elapsed_ms);
