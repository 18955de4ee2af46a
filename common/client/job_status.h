// SPDX-License-Identifier: Apache-2.0
/*
 * Job status: the status of a job, merged from its pages
 */
#pragma once

#include "client/session.h"

/**
 * job_status_read() - ask until all steps are read
 * @with_data: also input, results and error details
 * @answer:    an Answer, which the caller gives to wire_free(); its status has all pages
 *
 * The pages are read one after another: if the job goes on meanwhile, the fields of the job are
 * older than its steps.
 *
 * Return: as session_ask().
 */
int job_status_read(struct session *s, const char *job, bool with_data, int64_t deadline,
                    struct wire_message *answer);

/* Return: the number of steps that the status names, but at most WIRE_STEPS_MAX. */
uint32_t job_status_steps(const Drover__V1__JobStatus *status);

/* Whether the job has an outcome. */
bool job_status_has_ended(const Drover__V1__JobStatus *status);
