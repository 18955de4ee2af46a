// SPDX-License-Identifier: Apache-2.0
/*
 * The operation of a command: what steer.c and change.c share
 */
#pragma once

#include "scheduler/transition.h"

/* Carries out one command. */
struct steer_op {
    struct transition_op transition;
    struct ops_refusal refusal;
    uint32_t *steps; /* those named, or those that differ; owned */
    uint32_t n_steps;
    /* of a command that gives the job another definition, which is op.definition.workflow: */
    char *differences; /* how each of the steps differs; owned */
    uint32_t n_gone;   /* of the steps, those that are gone */
    op_fn *stored;     /* called when the other definition is stored */
};

static inline struct steer_op *steer_of(struct op *op)
{
    return container_of(op, struct steer_op, transition.op);
}
