// SPDX-License-Identifier: Apache-2.0
/*
 * Control: commands about one job
 */
#pragma once

#include "base/id.h"
#include "cli/session.h"

/**
 * control_init() - begin a command
 * @job: kept
 * @id:  takes the command's new id, and must live as long as @m
 *
 * It is sent in the name of user@host.
 */
void control_init(Drover__V1__Control *m, const char *job, char id[ID_TOKEN_LEN + 1]);

/* Return: as session_ask(); @answer is an Answer. */
int control_ask(struct session *s, const Drover__V1__Control *m, int64_t deadline,
                struct wire_message *answer);

/* Asks for a job's status without its steps but the first. Return: as session_ask(). */
int control_look(struct session *s, const char *job, int64_t deadline, struct wire_message *answer);

/* For a command that no longer follows @job, because of what session_ask() or session_wait()
 * returned; where a status was @seen that had not ended, says so. Return: the exit code. */
int control_leave(const struct session *s, int error, const char *job, bool seen);

/* Complains unless the answer is good news. Return: the exit code. */
int control_exit(const Drover__V1__Answer *answer);
