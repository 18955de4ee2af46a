// SPDX-License-Identifier: Apache-2.0
/*
 * Views of jobs
 */
#pragma once

#include "cli/view.h"

/* Return: the outcome, such as "SUCCEEDED"; while there is none "PARKED" or the phase. */
const char *view_job_state(const Drover__V1__JobStatus *job);

/* Appends the failure because of which the job does not get where it was to go: its step and its
 * error; nothing if there is none. */
void view_job_failure(const Drover__V1__JobStatus *job, struct buf *out);

/* Appends the header and the table of steps; also input, results and error details if the status
 * has them. */
void view_job(const Drover__V1__JobStatus *job, bool color, struct buf *out);

/* "[####------] 4 of 10 settled, 2 running, 1 parked" */
void view_job_progress(const Drover__V1__JobStatus *job, struct buf *out);
