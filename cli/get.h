// SPDX-License-Identifier: Apache-2.0
/*
 * Get: the status of a job, merged from its pages
 *
 * Called by the commands get, run, watch and why.
 */
#pragma once

#include "client/session.h"

/**
 * get_status() - ask until all steps are read
 * @with_data: also input, results and error details
 * @answer:    an Answer, which the caller gives to wire_free(); its status has all pages
 *
 * The pages are read one after another: if the job goes on meanwhile, the fields of the job are
 * older than its steps.
 *
 * Return: as session_ask().
 */
int get_status(struct session *s, const char *job, bool with_data, int64_t deadline,
               struct wire_message *answer);

/* Return: the number of steps that the status names, but at most WIRE_STEPS_MAX. */
uint32_t get_steps_total(const Drover__V1__JobStatus *status);
