// SPDX-License-Identifier: Apache-2.0
/*
 * Loading: the jobs that the command line asks for
 */
#pragma once

#include "cli/command.h"
#include "client/jobs.h"

enum {
    LOAD_E_USAGE = JOBS_E_INVALID + 1, /* the options do not fit together */
};

/**
 * load_jobs() - make the jobs that the command line asks for
 *
 * Reads the operand FILE and --input @FILE, applies the options, gives an id to each job that has
 * none, and checks each as a scheduler does.
 *
 * Return: 0, -errno, JOBS_E_INVALID or LOAD_E_USAGE with @problem set.
 */
int load_jobs(const struct args *args, struct jobs *out, struct problem *problem);

/* Complains of an error of load_jobs(). Return: the exit code. */
int load_complain(int error, const struct problem *problem);
