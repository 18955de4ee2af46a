// SPDX-License-Identifier: Apache-2.0
/*
 * Groups: counts jobs that need attention by need, error class, actor and workflow
 */
#pragma once

#include "base/cleanup.h"
#include "cli/command.h"
#include "drover/v1/control.pb-c.h"

struct groups;

struct groups *groups_new(void);

/* Accepts NULL. Return: NULL. */
struct groups *groups_free(struct groups *g);
CLEANUP_DEFINE(struct groups *, groups_free)

/* Counts a job if it needs attention. */
void groups_add(struct groups *g, const Drover__V1__JobStatus *job);

/* Prints the groups to standard output, the largest first. Return: their number. */
size_t groups_print(struct groups *g, const struct args *args);
