// SPDX-License-Identifier: Apache-2.0
/*
 * Submit: one job, until it is recorded
 */
#pragma once

#include "cli/session.h"

/**
 * submit_job() - submit and wait for a receipt that is final
 *
 * A scheduler that takes no new work now is asked again until the deadline.
 *
 * Return: as session_ask(); with 0 the receipt's code is not RETRY_LATER.
 */
int submit_job(struct session *s, const Drover__V1__Submit *job, int64_t deadline,
               struct wire_message *receipt);

/* The exit code for a receipt. */
int submit_exit(const Drover__V1__Receipt *receipt);
