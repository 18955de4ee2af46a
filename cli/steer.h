// SPDX-License-Identifier: Apache-2.0
/*
 * Steering: commands that change what a job does, for one job or for all that a filter finds
 *
 * A scheduler records and answers each. Called by main() (the commands in steer.c) and cli/bulk.
 */
#pragma once

#include "cli/command.h"
#include "client/session.h"

/* A command, with what its message points to. */
struct steering {
    const struct args *args;
    Drover__V1__Control message; /* without job, id, reason and if_seq */
    union {
        Drover__V1__SetDesired set_desired;
        Drover__V1__Cancel cancel;
        Drover__V1__Kill kill;
        Drover__V1__Pause pause;
        Drover__V1__Resume resume;
        Drover__V1__Acknowledge acknowledge;
        Drover__V1__Retry retry;
        Drover__V1__Resolve resolve;
        Drover__V1__Migrate migrate;
    };
    Drover__V1__Payload *payload; /* owned */
    const char *done;             /* printed after the job id if the job has changed */
    const char *unchanged;        /* printed if it has not */
};

/**
 * steer_ask() - give the command to a job
 * @seen:   the status on which the user has decided
 * @answer: an Answer, which the caller gives to wire_free()
 *
 * The job may have gone on since. If it was turned or changed, or has left the phase that --phase
 * names, the answer is SUPERSEDED, and its reason says so.
 *
 * Return: as session_ask().
 */
int steer_ask(struct session *s, const struct steering *steering, const Drover__V1__JobStatus *seen,
              int64_t deadline, struct wire_message *answer);

/* Prints an answer in the format of --output. */
void steer_print(const struct steering *steering, const Drover__V1__Answer *answer);

/* Gives the command to all jobs that the filters find, by steer_ask() (bulk.c). Return: the exit
 * code. */
int bulk(const struct steering *steering);
