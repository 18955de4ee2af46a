// SPDX-License-Identifier: Apache-2.0
/*
 * Controls: gives schedulers commands about jobs, and asks them about jobs and workflows
 *
 * An answer RETRY_LATER is no result: the Control is sent again after a pause, until the deadline.
 * All functions return as session_ask(); an answer is given to wire_free() by the caller.
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

/* Sends a Control until it is answered with a code other than RETRY_LATER. @answer: an Answer. */
int control_ask(struct session *s, const Drover__V1__Control *m, int64_t deadline,
                struct wire_message *answer);

/* Asks for the status of a job with its first step only. client/job_status.h reads all steps. */
int control_query(struct session *s, const char *job, int64_t deadline,
                  struct wire_message *answer);

/* Asks for a page of the history of a job. @from: number of its first entry. */
int control_history(struct session *s, const char *job, uint64_t from, int64_t deadline,
                    struct wire_message *answer);

/* Asks for a page of jobs, newest first. @question: the filters, all of which a job must meet; for
 * the next page its `after` is the `next` of the answer. */
int control_list_jobs(struct session *s, const Drover__V1__ListJobs *question, int64_t deadline,
                      struct wire_message *answer);

/* Has the requests of an actor that are in flight sent again. @actor: WIRE_ALL_ACTORS for all.
 * @reason: NULL for none. */
int control_resend(struct session *s, const char *actor, const char *reason, int64_t deadline,
                   struct wire_message *answer);

/* Asks for a page of registered workflows, or for one of them. */
int control_list_workflows(struct session *s, const Drover__V1__ListWorkflows *question,
                           int64_t deadline, struct wire_message *answer);
