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
