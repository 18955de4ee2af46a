// SPDX-License-Identifier: Apache-2.0
/*
 * Job: submissions made from files and options
 */
#pragma once

#include <stdint.h>

#include "base/rng.h"
#include "base/status.h"
#include "base/str.h"
#include "cli/command.h"

#define JOB_ID_LEN 26 /* 48 bits of time and 80 random ones, 5 a character */

/* A new id of [0-9A-Z] that sorts by time (as a ULID); NUL-terminated. */
void job_id_make(int64_t unix_ms, struct rng *rng, char out[JOB_ID_LEN + 1]);

struct jobs {
    Drover__V1__Submit **items; /* each to be freed as unpacked */
    size_t n;
};

/* All zero holds none. */
void jobs_deinit(struct jobs *jobs);
static inline void jobs_deinit_p(struct jobs *jobs)
{
    jobs_deinit(jobs);
}

enum {
    JOB_E_INVALID = 1, /* a job is not right */
    JOB_E_USAGE,       /* the options do not fit together */
};

/**
 * jobs_read() - the job objects of a text, one after another
 *
 * Return: 0, -ENOMEM, or JOB_E_INVALID with @problem set.
 */
int jobs_read(struct bytes text, struct jobs *out, struct problem *problem);

/**
 * jobs_load() - what the command line asks for
 *
 * Reads the FILE operand and whatever @FILE says, adds what the options say, gives an id to each
 * job without one, and checks each as a server would.
 *
 * Return: 0, -errno, or JOB_E_... with @problem set.
 */
int jobs_load(const struct args *args, struct jobs *out, struct problem *problem);

/* Complains of what jobs_load() returned. Return: the exit code. */
int jobs_complain(int error, const struct problem *problem);

/* The payload for --input: application/json where @data is that, else text/plain, else
 * application/octet-stream. To be freed as unpacked; NULL: no memory. */
Drover__V1__Payload *payload_new(struct bytes data);

/* The same of what --input says: a text, or @FILE. Return: 0, or as file_read_operand(). */
int payload_read(const char *input, Drover__V1__Payload **out, struct problem *problem);
