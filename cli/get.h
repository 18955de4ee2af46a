// SPDX-License-Identifier: Apache-2.0
/*
 * Get: the status of a job, put together from its pages
 */
#pragma once

#include "cli/session.h"

/**
 * get_status() - ask until every step is there
 * @with_data: also input, results and error details
 * @answer:    an Answer, to be given to wire_free(); with a status, all its pages are in that
 *
 * The pages are read one after another: in a job that moves meanwhile the header is the oldest
 * part.
 *
 * Return: as session_ask().
 */
int get_status(struct session *s, const char *job, bool with_data, int64_t deadline,
               struct wire_message *answer);

/* How many steps the status says there are; never more than a job can have. */
uint32_t get_steps_total(const Drover__V1__JobStatus *status);
