// SPDX-License-Identifier: Apache-2.0
/*
 * Following: a job that is shown until it ends
 *
 * Only the files follow*.c include it: follow.c asks, follow_changes.c appends what has changed,
 * and follow_screen.c redraws a list of steps.
 */
#pragma once

#include <stdio.h>

#include "cli/command.h"
#include "client/session.h"

/* Between two questions while nothing changes; times on the screen change as often. */
#define FOLLOW_POLL_MAX_MS 1000

/* What was last shown of a step. Times are monotonic ms, 0 for never. */
struct follow_seen {
    Drover__V1__StepState state;
    uint32_t attempt;
    int64_t began;  /* when this process first saw the step under way */
    int64_t rested; /* came to rest */
};

struct follow {
    const struct args *args;
    struct session *session;
    const char *job;
    FILE *progress_to;     /* where changes are shown as text */
    bool live;             /* redraws instead of appending */
    bool job_known;        /* a receipt or a status has shown that the job exists */
    bool gets_step_events; /* this process gets the step events of the job */
    int64_t began;
    int64_t answered;            /* when the last status came; monotonic ms */
    struct wire_message current; /* the newest Answer */
    struct follow_seen *seen;    /* by index of the step */
    size_t n_seen;
    bool changed;
    size_t drawn; /* lines on the screen */
};

/* Return: the newest status; NULL if there is none. */
static inline const Drover__V1__JobStatus *follow_status(const struct follow *f)
{
    return f->current.answer ? f->current.answer->status : NULL;
}

/* Whether its phase is PROCESSED or ERROR. */
static inline bool follow_has_ended(const Drover__V1__JobStatus *status)
{
    return status->phase == DROVER__V1__PHASE__PHASE_PROCESSED ||
           status->phase == DROVER__V1__PHASE__PHASE_ERROR;
}

/* ---- follow_changes.c ---- */

/* Compares the newest status with what was shown last, and prints the changes. */
void follow_changes_take(struct follow *f);

/* Appends the JobEvent of the end, as JSON. */
void follow_changes_end(const struct follow *f, struct buf *out);

/* Return: what was last shown of a step; NULL if its index is beyond those that the job has had. */
struct follow_seen *follow_changes_seen(const struct follow *f, const Drover__V1__StepStatus *step);

bool follow_changes_at_rest(Drover__V1__StepState state);
bool follow_changes_not_begun(Drover__V1__StepState state);

/* ---- follow_screen.c ---- */

/* Draws the newest status over what was drawn before. */
void follow_screen_draw(struct follow *f);

/* Whether the last summary is printed as the result, not drawn over the progress. */
bool follow_screen_summary_is_result(const struct follow *f);

/* Appends the summary of the newest status, cut to @columns. */
void follow_screen_summary(const struct follow *f, size_t columns, int64_t now, struct buf *out);
