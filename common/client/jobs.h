// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs to submit: read from JSON, with their ids, and checked
 */
#pragma once

#include "base/status.h"
#include "base/str.h"
#include "model/wire.h"

struct jobs {
    Drover__V1__Submit **items; /* owned */
    size_t n;
};

/* Accepts one that is all zero. */
void jobs_deinit(struct jobs *jobs);
static inline void jobs_deinit_p(struct jobs *jobs)
{
    jobs_deinit(jobs);
}

enum {
    JOBS_E_INVALID = 1, /* a job is not valid */
};

/* Adds an empty Submit. Return: 0 or -ENOMEM. */
int jobs_add(struct jobs *jobs);

/**
 * jobs_read() - read the JSON objects of a text, one after another
 * @out: the jobs are appended
 *
 * Return: 0, -ENOMEM, or JOBS_E_INVALID with @problem set.
 */
int jobs_read(struct bytes text, struct jobs *out, struct problem *problem);

/* Gives an id to each job that has none, and checks each as a scheduler does. Return: 0, -errno, or
 * JOBS_E_INVALID with @problem set. */
int jobs_complete(struct jobs *jobs, struct problem *problem);
