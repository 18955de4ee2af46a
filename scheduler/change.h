// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with Migrate, or with a Retry that changes its step: makes the other definition
 */
#pragma once

#include "scheduler/steer_op.h"

/* Makes the definition that a Migrate asks for: its steps get the numbers that they have in the
 * definition of the job, which the operation's digest names. Puts it into the operation, and the
 * steps that differ into @o->steps and @o->differences. Stores it, then calls @then. Or answers why
 * that is not possible. */
void change_migrate(struct scheduler *s, struct steer_op *o, op_fn *then);

/* The same for a Retry that changes the first of @o->steps. @from: the definition of the job. */
void change_step(struct scheduler *s, struct steer_op *o, const struct workflow *from, op_fn *then);

/* Whether a command is a Retry that gives a step other terms or other arguments. */
bool change_is_retry(const Drover__V1__Control *m);

/* The names of the fields that it gives, for the history. */
const char *change_what(struct scheduler *s, const Drover__V1__Retry *m);
