// SPDX-License-Identifier: Apache-2.0
/*
 * Status: a job as the store has it, in the words of the contract
 *
 * Texts live in the memory of the effects, and as long.
 */
#pragma once

#include "drover/v1/control.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"
#include "model/workflow.h"

Drover__V1__Phase status_phase(struct bytes word);
Drover__V1__Outcome status_outcome(struct bytes word);

/* All but data and steps. @m: initialised. */
void status_job(struct effects *fx, Drover__V1__JobStatus *m, struct bytes id,
                const struct ops_job *job);

/**
 * status_failure() - what has decided that a job does not get to where it was to go
 * @step: set to the name of the step, "" for none
 *
 * Return: NULL where nothing has failed; else its error, without details. Where no agent has
 * reported one its class is the reason, DEATHS or DEADLINE.
 */
Drover__V1__Error *status_failure(struct effects *fx, const struct ops_job *job, const char **step);

/* An Error without details. @class: where it is not what an agent has reported; "" or NULL: it is.
 * @reported: NULL for none. Return: NULL where there is neither. */
Drover__V1__Error *status_error(struct effects *fx, const char *class,
                                const Drover__V1__Error *reported);

/* Steps and input. @w: the job's definition. Then status_steps_free(). */
void status_steps(struct effects *fx, Drover__V1__JobStatus *m, const struct ops_job *job,
                  const struct workflow *w);

/* Frees what status_steps() has unpacked; all n_steps must be there. */
void status_steps_free(Drover__V1__JobStatus *m);

/* The labels as the store keeps them; NULL for none. Freed like any Submit. */
Drover__V1__Submit *status_labels(struct bytes encoded);
