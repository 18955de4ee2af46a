// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: what their tests have in common
 *
 * Users with allowances, and a store whose memory the test sets.
 */
#pragma once

#include "machines/alone.h"
#include "scheduler/access.h"

#define SUBMIT(id)                                                                                 \
    "{\"jobId\": \"" id "\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "           \
    "\"hand\"}]}}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""

/* "ann", and all other users. A test that changes them sets them back. */
extern struct access_submitter user_groups[2];
extern struct access owner_access;

/* Restarts the scheduler with owner_access. */
void with_owners(struct alone *w);

void say_as(struct alone *w, const char *user, int source, const char *reply_to, const char *json);

/* The store uses @used of @most bytes; @most: 0 for no limit. */
void fill_store(struct alone *w, uint64_t used, uint64_t most);
