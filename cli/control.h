// SPDX-License-Identifier: Apache-2.0
/*
 * Controls: asks schedulers about jobs and gives them commands
 *
 * Called by all commands that ask schedulers, except submit.
 */
#pragma once

#include "base/id.h"
#include "client/session.h"

/**
 * control_init() - set job, command id, time and sender of a Control
 * @job: kept; "" for none
 * @id:  set to a new command id; must be valid as long as @m
 *
 * The sender is user@host.
 */
void control_init(Drover__V1__Control *m, const char *job, char id[ID_TOKEN_LEN + 1]);

/* Sends a Control until it is answered with a code other than RETRY_LATER. @answer: an Answer; the
 * caller gives it to wire_free(). Return: as session_ask(). */
int control_ask(struct session *s, const Drover__V1__Control *m, int64_t deadline,
                struct wire_message *answer);

/* Asks for the status of a job with its first step only. Return: as session_ask(). */
int control_look(struct session *s, const char *job, int64_t deadline, struct wire_message *answer);

/* For a command that stops following @job because session_ask() or session_wait() has returned
 * @error. Complains; if @seen, a status has shown that the job has not ended, and the complaint
 * says so. Return: the exit code. */
int control_leave(const struct session *s, int error, const char *job, bool seen);

/* Complains unless the code of the answer is DONE or UNCHANGED. Return: the exit code. */
int control_exit(const Drover__V1__Answer *answer);
