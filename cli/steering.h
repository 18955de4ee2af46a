// SPDX-License-Identifier: Apache-2.0
/*
 * Steering: a command that changes what a job does
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
 * steering_ask() - give the command to a job
 * @seen:   the status on which the user has decided
 * @answer: an Answer, which the caller gives to wire_free()
 *
 * The job may have gone on since. If it was turned or changed, or has left the phase that --phase
 * names, the answer is SUPERSEDED, and its reason says so.
 *
 * Return: as session_ask().
 */
int steering_ask(struct session *s, const struct steering *steering,
                 const Drover__V1__JobStatus *seen, int64_t deadline, struct wire_message *answer);

/* Prints an answer in the format of --output. */
void steering_print(const struct steering *steering, const Drover__V1__Answer *answer);
