// SPDX-License-Identifier: Apache-2.0
/*
 * Migration: a newer version of a definition, for a job that is under way with another one
 *
 * A job names its steps by number, in its records, tokens and history. So the steps that are in
 * both versions keep their numbers, and the others take what is free; what that gives is a
 * definition of its own, with the name and the version of the newer one. Steps that are not what
 * they were, in anything that a dispatch goes by or in what they wait for, differ. The store sees
 * to it that none of them is in flight, that what those of other work may have done is undone
 * before, and that those which are gone were not even sent.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "model/workflow.h"

enum {
    MIGRATION_E_UNFIT = 1,
};

enum migration_how {
    MIGRATION_OTHER = ' ', /* other work */
    MIGRATION_ANEW = '!',  /* likewise, and by the person's word also where it may have been done */
    MIGRATION_TERMS = 't', /* the same work: its lease, wait, heartbeat or policy are others */
};

/* How a step differs from another one: MIGRATION_OTHER or MIGRATION_TERMS. */
enum migration_how migration_how(const struct workflow_step *from, const struct workflow_step *to);

/* Steps that may differ: one store call looks at them all. */
#define MIGRATION_DIFFERING_MAX 1000

struct migration {
    struct workflow *arranged; /* owned; the very one it came from where no step had to move */
    uint32_t *differing;       /* numbers of the old version; owned */
    char *hows;                /* of each of them, see enum migration_how; owned */
    uint32_t n_differing;
    uint32_t n_gone; /* so many of them, the first, are in no step's place any more */
};

/**
 * migration_plan() - arrange a newer version by the numbers of an older one
 * @from: what the job has now
 * @to:   what it is to have: of the same name
 *
 * Return: 0, -ENOMEM, or MIGRATION_E_UNFIT with @problem saying why it cannot be. On 0 the caller
 * releases @out.
 */
int migration_plan(struct migration *out, const struct workflow *from, struct workflow *to,
                   struct problem *problem);

void migration_deinit(struct migration *m);
