// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to a Control, cut to what one message may hold
 *
 * steer.c chooses the code that answers a command. The Receipt of a Submit is in on_submit.c.
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/op.h"

/* Answers with a code and a reason, and nothing else. */
void answer_send(struct scheduler *s, struct op *op, Drover__V1__AnswerCode code,
                 const char *reason);

/**
 * answer_fit() - make an answer fit into a message
 * @page: number of items of its page, a field of @m: halved until it fits; NULL if it has no page
 *
 * Return: false if it cannot fit; then TOO_LARGE was answered.
 */
bool answer_fit(struct scheduler *s, struct op *op, Drover__V1__Answer *m, size_t *page);

/* Reads the state of the job that a Control is about; the digest of its definition goes into the
 * operation. Return: false if there is no such job, which was answered, or if the answer of the
 * store makes no sense, which was logged. */
bool answer_read_job(struct scheduler *s, struct op *op, struct ops_reader *r, struct ops_job *job);

/* Answers a Query with the state of a job and of its steps. */
void answer_status(struct scheduler *s, struct op *op, const struct ops_job *job,
                   const struct workflow *w);
