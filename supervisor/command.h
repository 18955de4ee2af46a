// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: Recover and Notify, which the supervisor publishes, and the lines of a single round
 *
 * Used by the supervisor's machine alone.
 */
#pragma once

#include "supervisor/state.h"

/* Writes a line if this is a single round. @kind, @what: "" for none. */
void command_line(struct supervisor *s, const char *verb, const char *job, const char *kind,
                  const char *what);

/* Asks the schedulers to drive the steps of a job. @store_now: the store's time, ms. */
void command_recover(struct supervisor *s, const struct ops_due *due, int64_t store_now);

/* Asks them to publish a notification. */
void command_notify(struct supervisor *s, const struct ops_notification *n, int64_t store_now);

/* Has a scheduler raise an alert: the store cannot end a corrupt job by itself, a person must. */
void command_notify_torn(struct supervisor *s, const char *job);
