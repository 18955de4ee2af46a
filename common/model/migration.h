// SPDX-License-Identifier: Apache-2.0
/*
 * Migration: a newer version of a definition, for a job in progress that has another version
 *
 * Records, tokens and history of a job name its steps by number. So the steps that are in both
 * versions keep their numbers, and the others get the numbers that are free. The result is a
 * definition of its own, with the name and the version of the newer one. A step *differs* if
 * something that a dispatch of it uses, or its dependencies, have changed. A step is *gone* if its
 * number is another step's, or none's, in the result. The store makes sure that no step that
 * differs is in flight, unless it becomes other work and no agent can have begun it; that one which
 * becomes other work and may have taken effect is first undone; and that one which is gone is
 * neither in flight nor ACTIVE nor UNKNOWN.
 *
 * Called by the scheduler, for Migrate and for a Retry that changes its step.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "model/store_schema.h"
#include "model/workflow.h"

enum {
    MIGRATION_E_UNFIT = 1,
};

/* Return: DIFFERENCE_OTHER if the steps are different work, otherwise DIFFERENCE_TERMS, also if
 * they are equal. */
enum difference migration_how(const struct workflow_step *from, const struct workflow_step *to);

/* Steps that may differ: one store call checks them all. */
#define MIGRATION_DIFFERING_MAX 1000

struct migration {
    struct workflow *arranged; /* owned; a reference to @to itself if no step had to move */
    uint32_t *differing;       /* their numbers in the old version; owned */
    char *differences;         /* an enum difference for each of them; owned */
    uint32_t n_differing;
    uint32_t n_gone; /* the first n_gone of them are gone */
};

/**
 * migration_plan() - arrange a newer version by the numbers of an older one
 * @from: the definition that the job has
 * @to:   the definition that it is to have; must have the same name
 *
 * Return: 0, -ENOMEM, or MIGRATION_E_UNFIT; then @problem says why it is not possible. On 0 the
 * caller releases @out with migration_deinit().
 */
int migration_plan(struct migration *out, const struct workflow *from, struct workflow *to,
                   struct problem *problem);

void migration_deinit(struct migration *m);
