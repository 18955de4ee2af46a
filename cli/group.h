// SPDX-License-Identifier: Apache-2.0
/*
 * Group: jobs that need attention, counted by need, error class, actor and workflow
 */
#pragma once

#include "base/cleanup.h"
#include "cli/command.h"
#include "drover/v1/control.pb-c.h"

struct groups;

struct groups *groups_new(void);

/* Accepts NULL; returns NULL. */
struct groups *groups_free(struct groups *g);
CLEANUP_DEFINE(struct groups *, groups_free)

/* Counts a job, unless it needs nobody. */
void groups_add(struct groups *g, const Drover__V1__JobStatus *job);

/* To standard output, the largest first. Return: how many groups there are. */
size_t groups_print(struct groups *g, const struct args *args);
