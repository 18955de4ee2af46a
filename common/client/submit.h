// SPDX-License-Identifier: Apache-2.0
/*
 * Submit: submits a job and waits for its receipt
 */
#pragma once

#include "client/session.h"

/**
 * submit_job() - submit and wait for a final receipt
 * @receipt: a Receipt with a code other than RETRY_LATER; the caller gives it to wire_free()
 *
 * After RETRY_LATER, with which a scheduler refuses new jobs for now, it submits again.
 *
 * Return: as session_ask(). If that is not 0 the job may have been recorded; its id makes it safe
 * to submit it again.
 */
int submit_job(struct session *s, const Drover__V1__Submit *job, int64_t deadline,
               struct wire_message *receipt);
