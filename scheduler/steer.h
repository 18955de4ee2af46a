// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with a command: carries out what a person or a service asks of one job
 */
#pragma once

#include "scheduler/transition.h"

/* Carries out one command. */
struct steer_op {
    struct transition_op transition;
    struct buf payload; /* encoded */
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

/* Carries out the command in item->message. The operation takes a reference to @item; the caller
 * keeps its own. */
void steer(struct scheduler *s, struct item *item);
