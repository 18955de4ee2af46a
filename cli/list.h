// SPDX-License-Identifier: Apache-2.0
/*
 * List: pages of the jobs that the options name
 */
#pragma once

#include "cli/session.h"

struct args;

/**
 * list_page() - ask for jobs, newest first
 * @args:  phase, workflow, labels, since, before: all must hold
 * @after: where the page before says that it ends, or ""
 * @limit: at most WIRE_LIST_MAX
 *
 * Return: as session_ask(); @answer is an Answer.
 */
int list_page(struct session *s, const struct args *args, const char *after, uint32_t limit,
              int64_t deadline, struct wire_message *answer);

/* Whether the page has what was asked for: a scheduler of before build 46 does not know of filters
 * by need, and answers with all jobs. Complains where it has not. */
bool list_knows_needs(const struct args *args, const Drover__V1__Answer *answer);
