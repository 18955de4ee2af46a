// SPDX-License-Identifier: Apache-2.0
/*
 * List: pages of jobs that the filters of the command line find
 *
 * Called by the command list and by cli/bulk.
 */
#pragma once

#include "client/session.h"

struct args;

/**
 * list_page() - ask for jobs, newest first
 * @args:   the filters, all of which a job must meet
 * @after:  `next` of the page before, or ""
 * @limit:  jobs, at most WIRE_LIST_MAX
 * @answer: an Answer, which the caller gives to wire_free()
 *
 * Return: as session_ask().
 */
int list_page(struct session *s, const struct args *args, const char *after, uint32_t limit,
              int64_t deadline, struct wire_message *answer);

/* Whether the scheduler has applied filters by need; one of before build 46 does not know them and
 * answers with all jobs. Complains if it has not. */
bool list_knows_needs(const struct args *args, const Drover__V1__Answer *answer);
