// SPDX-License-Identifier: Apache-2.0
/*
 * Why: makes the reason code and the sentence for the job and for each step
 *
 * Called by why.c.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "cli/why.h"
#include "client/job_status.h"

#define OVERDUE_MS 5000 /* a supervisor that runs has acted by then */
#define ERROR_COLUMNS 120

/* ---- parts of sentences ---- */

/* Appends a time such as "12:03:10Z", with the date if that is another day. */
static void put_time(struct buf *out, int64_t when, int64_t now)
{
    char iso[CLOCK_ISO_LEN + 1], today[CLOCK_ISO_LEN + 1];

    clock_iso(when, iso);
    clock_iso(now, today);
    if (strncmp(iso, today, strlen("2026-01-31T")) == 0)
        buf_printf(out, "%.8sZ", iso + strlen("2026-01-31T"));
    else
        buf_printf(out, "%.19sZ", iso);
}

static void put_agent(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (!*step->agent)
        return;
    buf_puts(out, ", at agent ");
    view_text(out, step->agent, 0);
}

static void put_last_error(struct buf *out, const Drover__V1__StepStatus *step)
{
    const Drover__V1__Error *e = step->last_error;

    if (!e || (!*e->class_ && !*e->message))
        return;
    buf_printf(out, ", last error ");
    view_text(out, e->class_, 0);
    buf_puts(out, *e->class_ && *e->message ? ": " : "");
    view_text(out, e->message, ERROR_COLUMNS);
    put_agent(out, step);
}

/* Such as " after 3 of 10 failures and 1 of 5 leases that ended without an answer". */
static void put_counts(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (step->failures > 0)
        buf_printf(out, " after %" PRIu32 " of %" PRIu32 " failures", step->failures,
                   step->maximum_attempts);
    if (step->expiries > 0)
        buf_printf(out, " %s %" PRIu32 " of %" PRIu32 " leases that ended without an answer",
                   step->failures > 0 ? "and" : "after", step->expiries, step->maximum_expiries);
}

static void put_next(struct buf *out, const struct why *why, const Drover__V1__StepStatus *step)
{
    if (step->until <= 0)
        return;
    if (*why->job->hold && step->until <= why->job->now) {
        buf_puts(out, ", to be tried again when the job is resumed");
        return;
    }
    buf_puts(out, ", next ");
    put_time(out, step->until, why->job->now);
    if (*why->job->hold)
        buf_puts(out, " if the job is resumed by then");
}

static void put_unstarted(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (step->unstarted > 0)
        buf_printf(out, ", no agent is known to have begun the last %" PRIu32 " request%s",
                   step->unstarted, step->unstarted == 1 ? "" : "s");
}

/* Appends @state, after "its undo " and @verb if it is about the undo of the step. */
static void put_subject(struct buf *out, const Drover__V1__StepStatus *step, const char *verb,
                        const char *state)
{
    buf_printf(out, "%s%s%s", step->undo ? "its undo " : "", step->undo ? verb : "", state);
}

/* Whether a supervisor should have acted on this time (Unix ms; 0: there is none). */
static bool is_overdue(int64_t until, int64_t now)
{
    return until > 0 && view_span(until, now) > OVERDUE_MS;
}

static void put_no_supervisor(struct buf *out)
{
    buf_puts(out, "; no supervisor has checked since: is one running?");
}

/* Appends why a lease that is over has not ended the dispatch. */
static void put_lease_overdue(struct buf *out, const struct why *why)
{
    if (why->args->from_store)
        buf_puts(out, "; no supervisor has checked since, or `drover.replies` has no consumer");
    else if (why->replies.consumers == 0)
        buf_puts(out, "; nothing expires while `drover.replies` has no consumer");
    else if (why->replies.messages > 0)
        buf_printf(out, "; expiry waits for the %" PRIu32 " messages in `drover.replies`",
                   why->replies.messages);
    else
        put_no_supervisor(out);
}

/* Appends a command that the user can give, for a job and perhaps one of its steps. */
static void put_advice(struct buf *out, const char *before, const char *job, const char *step)
{
    buf_puts(out, before);
    view_text(out, job, 0);
    buf_puts(out, *step ? " " : "");
    view_text(out, step, 0);
    buf_putc(out, '`');
}

/* ---- the sentence about a step ---- */

static const char *say_no_agent(const struct why *why, const Drover__V1__StepStatus *step,
                                struct why_step *w)
{
    buf_printf(&w->sentence, "no agent on `drover.task.%s`", step->actor);
    if (w->unanswered_since > 0) {
        buf_puts(&w->sentence, " since ");
        put_time(&w->sentence, w->unanswered_since, why->job->now);
    }
    put_unstarted(&w->sentence, step);
    return "NO_AGENT";
}

static const char *say_leased(const struct why *why, const Drover__V1__StepStatus *step,
                              struct why_step *w)
{
    const struct session_queue *queue = why_facts_queue(why, step);
    bool overdue = is_overdue(step->until, why->job->now);

    if (why_facts_has_no_consumer(why, step))
        return say_no_agent(why, step, w);
    if (overdue)
        buf_puts(&w->sentence, "its lease ended ");
    else
        put_subject(&w->sentence, step, "is ", "leased until ");
    put_time(&w->sentence, step->until, why->job->now);
    if (overdue)
        put_lease_overdue(&w->sentence, why);
    else if (queue && queue->messages > 0 && !step->begun)
        buf_printf(&w->sentence,
                   ", or one of the %" PRIu32 " requests that wait in `drover.task.%s`",
                   queue->messages, step->actor);
    if (!overdue && step->unstarted > 0 && !step->begun)
        buf_printf(&w->sentence, ", after %" PRIu32 " that no agent is known to have begun",
                   step->unstarted);
    put_agent(&w->sentence, step);
    if (*step->note) {
        buf_puts(&w->sentence, ", ");
        view_text(&w->sentence, step->note, ERROR_COLUMNS);
    }
    return overdue ? "OVERDUE" : "LEASED";
}

static const char *say_backoff(const struct why *why, const Drover__V1__StepStatus *step,
                               struct why_step *w)
{
    bool overdue = is_overdue(step->until, why->job->now);

    if (why_facts_has_no_consumer(why, step))
        return say_no_agent(why, step, w);
    if (*why->job->hold && step->until <= why->job->now) {
        buf_puts(&w->sentence, "to be tried again when the job is resumed");
        put_last_error(&w->sentence, step);
        return "HELD";
    }
    put_subject(&w->sentence, step, "is ", "backing off");
    put_counts(&w->sentence, step);
    put_unstarted(&w->sentence, step);
    put_next(&w->sentence, why, step);
    put_last_error(&w->sentence, step);
    if (overdue) /* unlike leases, timers do not depend on drover.replies */
        put_no_supervisor(&w->sentence);
    return overdue ? "OVERDUE" : "BACKOFF";
}

static const char *say_parked(const struct why *why, const Drover__V1__StepStatus *step,
                              struct why_step *w)
{
    bool overdue = is_overdue(step->until, why->job->now) && !*why->job->hold;

    put_subject(&w->sentence, step, "is ", "parked");
    put_counts(&w->sentence, step);
    put_next(&w->sentence, why, step);
    put_last_error(&w->sentence, step);
    if (step->until <= 0)
        put_advice(&w->sentence, "; until a person says `drover retry ", why->job->job_id,
                   step->name);
    else if (overdue)
        put_no_supervisor(&w->sentence);
    return "PARKED";
}

static const char *say_failed(const struct why *why, const Drover__V1__StepStatus *step,
                              struct why_step *w)
{
    put_subject(&w->sentence, step, "has ", "failed for good");
    put_counts(&w->sentence, step);
    put_last_error(&w->sentence, step);
    return "FAILED";
}

static const char *say_resting(const struct why *why, struct why_step *w)
{
    if (*why->job->ending) {
        buf_puts(&w->sentence, "not sent any more, because the job ends");
        return "ENDING";
    }
    if (w->waits > 0) {
        buf_printf(&w->sentence, "waits for %s", buf_str(&w->names));
        if (w->waits > WHY_NAMES_SHOWN)
            buf_printf(&w->sentence, " and %" PRIu32 " more", w->waits - WHY_NAMES_SHOWN);
        return "WAITS";
    }
    if (why->job->phase == DROVER__V1__PHASE__PHASE_PENDING) {
        buf_puts(&w->sentence, "the job has not started");
        return "PENDING";
    }
    if (*why->job->hold) {
        buf_puts(&w->sentence, "to be sent when the job is resumed");
        return "HELD";
    }
    if (why->job->changing) {
        buf_puts(&w->sentence, "waits until a step is undone, for a change of the job");
        return "CHANGE";
    }
    buf_puts(&w->sentence, "is sent next");
    return "NEXT";
}

const char *why_reason_step(const struct why *why, const Drover__V1__StepStatus *step,
                            struct why_step *w)
{
    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
        return job_status_has_ended(why->job) ? NULL : say_leased(why, step, w);
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
        return job_status_has_ended(why->job) ? NULL : say_backoff(why, step, w);
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
        return job_status_has_ended(why->job) ? NULL : say_parked(why, step, w);
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return say_failed(why, step, w);
    default:
        return job_status_has_ended(why->job) || why_facts_is_there(step) ? NULL
                                                                          : say_resting(why, w);
    }
}

/* ---- the sentence about the job ---- */

static void say_held(struct buf *out, const Drover__V1__JobStatus *job)
{
    bool late = strcmp(job->hold, "deadline") == 0;

    buf_printf(out, "held%s", late ? " past its complete_by" : "");
    if (*job->held_by) {
        buf_puts(out, " by ");
        view_text(out, job->held_by, 0);
    }
    if (job->held_at > 0) {
        buf_puts(out, " since ");
        put_time(out, job->held_at, job->now);
    }
    if (*job->held_reason) {
        buf_puts(out, ", reason: ");
        view_text(out, job->held_reason, 0);
    }
    put_advice(out, "; `drover resume ", job->job_id, "");
    buf_puts(out, " lets it go on");
}

/* Appends the deadline if it still bounds the job. */
static void put_bound(struct buf *out, const Drover__V1__JobStatus *job)
{
    if (job->desired != DROVER__V1__STATE__STATE_ACTIVE || job->complete_by <= job->now)
        return;
    buf_puts(out, "; to be complete by ");
    put_time(out, job->complete_by, job->now);
}

const char *why_reason_job(const Drover__V1__JobStatus *job, struct buf *out)
{
    if (job_status_has_ended(job)) {
        buf_printf(out, "has ended: %s%s", view_job_state(job), *job->reason ? ", " : "");
        view_text(out, job->reason, 0);
        return "ENDED";
    }
    if (*job->hold) {
        say_held(out, job);
        return "HELD";
    }
    if (job->phase == DROVER__V1__PHASE__PHASE_PENDING) {
        buf_puts(out, job->start_at < job->now ? "was to start " : "starts ");
        put_time(out, job->start_at, job->now);
        if (is_overdue(job->start_at, job->now))
            put_no_supervisor(out);
        return "PENDING";
    }
    if (*job->ending) {
        buf_puts(out, "ends as FAILED, ");
        view_text(out, job->ending, 0);
        buf_puts(out, ", when nothing is in flight any more");
        return "ENDING";
    }
    if (job->next_try_at > 0) {
        buf_puts(out, "was taken back, and is brought forward again ");
        put_time(out, job->next_try_at, job->now);
        if (is_overdue(job->next_try_at, job->now))
            put_no_supervisor(out);
        return "RESTS";
    }
    buf_printf(out, "%" PRIu32 " of %" PRIu32 " steps are not %s yet", job->steps_open,
               job->steps_total, view_word(&drover__v1__state__descriptor, (int)job->desired));
    buf_puts(out, *job->cause ? "; turned: " : "");
    view_text(out, job->cause, 0);
    put_bound(out, job);
    return "PROCESSING";
}
