// SPDX-License-Identifier: Apache-2.0
/*
 * List filters: the filters of the command line as a question to schedulers
 */
#pragma once

#include "cli/command.h"

struct list_filter {
    Drover__V1__ListJobs question; /* without after and limit; points into what follows */
    Drover__V1__Label labels[WIRE_LABELS_MAX];
    Drover__V1__Label *pointers[WIRE_LABELS_MAX];
};

/* @f: must not be moved. @args: must be valid as long as @f. */
void list_filter_init(struct list_filter *f, const struct args *args);

/* Accepts one that is all zero. */
void list_filter_deinit(struct list_filter *f);
static inline void list_filter_deinit_p(struct list_filter *f)
{
    list_filter_deinit(f);
}

/* Whether the scheduler has applied filters by need; one of before build 46 does not know them and
 * answers with all jobs. Complains if it has not. */
bool list_filter_applied(const struct args *args, const Drover__V1__Answer *answer);
