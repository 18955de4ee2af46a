// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs to submit: Submit messages from files and options
 *
 * Called by the commands submit and run; steer uses payload_read().
 */
#pragma once

#include <stdint.h>

#include "base/rng.h"
#include "base/status.h"
#include "base/str.h"
#include "cli/command.h"

#define JOB_ID_LEN 26 /* characters of 5 bits: 48 bits of time and 80 random ones */

/* Makes a new id of [0-9A-Z] that sorts by time (a ULID); NUL-terminated. */
void job_id_make(int64_t unix_ms, struct rng *rng, char out[JOB_ID_LEN + 1]);

struct jobs {
    Drover__V1__Submit **items; /* owned */
    size_t n;
};

/* Accepts one that is all zero. */
void jobs_deinit(struct jobs *jobs);
static inline void jobs_deinit_p(struct jobs *jobs)
{
    jobs_deinit(jobs);
}

enum {
    JOB_E_INVALID = 1, /* a job is not valid */
    JOB_E_USAGE,       /* the options do not fit together */
};

/**
 * jobs_read() - read the JSON objects of a text, one after another
 * @out: the jobs are appended
 *
 * Return: 0, -ENOMEM, or JOB_E_INVALID with @problem set.
 */
int jobs_read(struct bytes text, struct jobs *out, struct problem *problem);

/**
 * jobs_load() - make the jobs that the command line asks for
 *
 * Reads the operand FILE and --input @FILE, applies the options, gives an id to each job that has
 * none, and checks each as a scheduler does.
 *
 * Return: 0, -errno, or JOB_E_... with @problem set.
 */
int jobs_load(const struct args *args, struct jobs *out, struct problem *problem);

/* Complains of an error of jobs_load(). Return: the exit code. */
int jobs_complain(int error, const struct problem *problem);

/* Makes a payload of @data: application/json if it is JSON, else text/plain if it is UTF-8, else
 * application/octet-stream. Return: the payload, which the caller frees with
 * drover__v1__payload__free_unpacked(…, NULL); NULL if memory is out. */
Drover__V1__Payload *payload_new(struct bytes data);

/* Makes the payload of an option --input: a text, or @FILE. Return: 0, or as file_read_operand().
 */
int payload_read(const char *input, Drover__V1__Payload **out, struct problem *problem);
