// SPDX-License-Identifier: Apache-2.0
/*
 * Change: another lease, wait, heartbeat, policy, actor or action for one step of one job
 *
 * What that gives is a definition of its own, with the name and the version of the job's and
 * another digest, as a migration makes one.
 */
#pragma once

#include "base/str.h"
#include "model/workflow.h"

enum {
    CHANGE_E_UNFIT = 1,
};

/**
 * change_apply() - put a change into a definition
 * @out:    a new reference, released by the caller
 * @step:   the number of the step that is changed
 * @change: what is given in it replaces what the step has; passed wire_check()
 *
 * Return: 0, -ENOMEM, or CHANGE_E_UNFIT with @problem saying what cannot be.
 */
int change_apply(struct workflow **out, const struct workflow *from, uint32_t step,
                 const Drover__V1__Step *change, struct problem *problem);

/* Whether it gives nothing: what is 0, or an empty text, is not given. */
bool change_is_empty(const Drover__V1__Step *change);

/* Moves what a change gives into another one, or into a step: a singular message is merged, all
 * else replaced. What it replaces is @change's then; the caller still frees both. */
void change_move(Drover__V1__Step *to, Drover__V1__Step *change);

/* Appends the names of the fields that a change gives, such as "lock_ms,retry.jitter". */
void change_fields(const Drover__V1__Step *change, struct buf *out);
