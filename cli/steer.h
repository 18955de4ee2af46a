// SPDX-License-Identifier: Apache-2.0
/*
 * Steer: commands that change what a job does, of one job or of all that a filter finds
 *
 * Each is recorded by a scheduler, and answered.
 */
#pragma once

#include "cli/command.h"
#include "cli/session.h"

/* One command, with room for what its message points to. */
struct steering {
    const struct args *args;
    Drover__V1__Control message; /* without job, id and if_seq */
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
    const char *done;             /* what to tell, behind the job's id */
    const char *unchanged;
};

/**
 * steer_ask() - give the command to a job that was seen
 * @seen: its status then
 *
 * The job may have gone on since. Where it has been turned or changed, or is not in the phase that
 * --where asks for any more, it is refused: SUPERSEDED, and the reason says so.
 *
 * Return: as session_ask(); @answer is an Answer.
 */
int steer_ask(struct session *s, const struct steering *steering, const Drover__V1__JobStatus *seen,
              int64_t deadline, struct wire_message *answer);

/* A job that was steered, in the format that was asked for. */
void steer_print(const struct steering *steering, const Drover__V1__Answer *answer);

/* The command for all jobs that the filters find, each as steer_ask(). Return: the exit code
 * (bulk.c). */
int bulk(const struct steering *steering);
