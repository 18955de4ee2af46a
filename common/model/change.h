// SPDX-License-Identifier: Apache-2.0
/*
 * Changes: another lease, wait, heartbeat, policy, actor or action for one step of one job
 *
 * The result is a definition of its own, with the name and the version of the job's definition and
 * another digest; so is the result of a migration. The scheduler applies changes (Retry.change),
 * model/wire_check checks them, and io/config/workflow_file makes them of the options --set of
 * `drover retry`.
 */
#pragma once

#include "base/str.h"
#include "model/workflow.h"

enum {
    CHANGE_E_UNFIT = 1,
};

/**
 * change_apply() - apply a change to one step of a definition
 * @out:    a new reference, which the caller releases
 * @from:   the definition that the job has; not changed
 * @step:   the number of the step that is changed
 * @change: the fields that it gives replace those of the step; wire_decode() has checked it
 *
 * Return: 0, -ENOMEM, or CHANGE_E_UNFIT; then @problem says what is not possible.
 */
int change_apply(struct workflow **out, const struct workflow *from, uint32_t step,
                 const Drover__V1__Step *change, struct problem *problem);

/* Whether @change gives no field. A field that is 0 or an empty text is not given. */
bool change_is_empty(const Drover__V1__Step *change);

/* Moves the fields that @change gives into @to, a step or another change: a singular message is
 * merged, every other field is replaced. @change then owns the values that were replaced; the
 * caller still frees both messages. */
void change_move(Drover__V1__Step *to, Drover__V1__Step *change);

/* Appends the names of the fields that @change gives to @out, such as "lock_ms,retry.jitter". */
void change_fields(const Drover__V1__Step *change, struct buf *out);
