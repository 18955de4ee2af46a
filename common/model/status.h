// SPDX-License-Identifier: Apache-2.0
/*
 * Status: from a job in the store to the messages of proto/ that show it
 *
 * Texts in the messages are in the memory of @fx and valid until its reset. Called by the scheduler
 * for answers and events, by model/listing, and by the command line.
 */
#pragma once

#include "drover/v1/control.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"
#include "model/workflow.h"

/* Return: the enum value for a word of the store, such as "PENDING" or "SUCCEEDED"; UNSPECIFIED if
 * the word is unknown or empty. */
Drover__V1__Phase status_phase(struct bytes word);
Drover__V1__Outcome status_outcome(struct bytes word);

/* Sets all fields of @m except the input and the steps. @m: initialised; @id: of the job. */
void status_job(struct effects *fx, Drover__V1__JobStatus *m, struct bytes id,
                const struct ops_job *job);

/**
 * status_failure() - the failure because of which a job does not get where it was to go
 * @step: set to the name of the step, "" for none
 *
 * Return: NULL if there is no such failure; otherwise its error, without details. If no agent has
 * reported one, its class is the reason: DEATHS or DEADLINE.
 */
Drover__V1__Error *status_failure(struct effects *fx, const struct ops_job *job, const char **step);

/* Makes an Error without details. @class: DEATHS or DEADLINE; "", not NULL, if the error is the one
 * that an agent has @reported (NULL for none). Return: NULL if there is neither. */
Drover__V1__Error *status_error(struct effects *fx, const char *class,
                                const Drover__V1__Error *reported);

/* Sets the steps and the input. @w: the definition of the job. The caller then calls
 * status_steps_free(). */
void status_steps(struct effects *fx, Drover__V1__JobStatus *m, const struct ops_job *job,
                  const struct workflow *w);

/* Frees what status_steps() has unpacked; m->n_steps must be as status_steps() has set it. */
void status_steps_free(Drover__V1__JobStatus *m);

/* Unpacks the labels that the store keeps of a job: a Submit with nothing else; NULL for none. The
 * caller frees it like any Submit. */
Drover__V1__Submit *status_labels(struct bytes encoded);
