// SPDX-License-Identifier: Apache-2.0
/*
 * Wait: waits until a job has ended
 */
#pragma once

#include "client/session.h"

/**
 * wait_until_ended() - ask for the status repeatedly, until the job has an outcome
 * @answer: on 0 an Answer, which the caller gives to wire_free(): the job has ended, or there is no
 *          such job
 * @seen:   set to whether a status has shown that the job had not ended
 *
 * It does not depend on events, which may get lost.
 *
 * Return: as session_ask().
 */
int wait_until_ended(struct session *s, const char *job, int64_t deadline,
                     struct wire_message *answer, bool *seen);
