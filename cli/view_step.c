// SPDX-License-Identifier: Apache-2.0
/*
 * Views of steps: their state and its details, and rows of a table
 *
 * See cli/view_step.h. Called by view_job.c, follow_changes.c and follow_screen.c.
 */
#include "cli/view_step.h"

#include <inttypes.h>

#include "client/job_status.h"

/* QUEUED: the step has heartbeats, so an agent would have sent Progress when it began: no agent has
 * the request. SENT: without heartbeats a missing Progress says nothing. */
const char *view_step_state(const Drover__V1__StepStatus *step)
{
    bool in_flight = step->state == DROVER__V1__STEP_STATE__STEP_STATE_RUNNING ||
                     step->state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;

    if (in_flight && !step->begun)
        return step->heartbeat_ms > 0 ? "QUEUED" : "SENT";
    return view_word(&drover__v1__step_state__descriptor, (int)step->state);
}

static enum view_color state_color(Drover__V1__StepState state)
{
    switch (state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
        return VIEW_BLUE;
    case DROVER__V1__STEP_STATE__STEP_STATE_DONE:
        return VIEW_GREEN;
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTED:
        return VIEW_YELLOW;
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return VIEW_RED;
    default:
        return VIEW_DIM;
    }
}

/* Appends the separator before every part except the first. */
static void part(struct buf *out, size_t begin)
{
    if (out->len > begin)
        buf_puts(out, ", ");
}

static void detail_progress(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    if (step->fraction > 0 && step->fraction <= 1) {
        part(out, begin);
        view_bar(out, step->fraction, 12);
        buf_printf(out, " %.0f%%", step->fraction * 100);
    }
    if (*step->note) {
        part(out, begin);
        buf_puts(out, step->note);
    }
}

static void detail_counts(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    const struct {
        uint32_t n;
        const char *one;
        const char *many;
    } counts[] = {
        {step->failures, "failure", "failures"},
        {step->expiries, "lease expired", "leases expired"},
        {step->unstarted, "request that no agent took", "requests that no agent took"},
    };

    for (size_t i = 0; i < array_size(counts); i++) {
        if (counts[i].n == 0)
            continue;
        part(out, begin);
        buf_printf(out, "%" PRIu32 " %s", counts[i].n,
                   counts[i].n == 1 ? counts[i].one : counts[i].many);
    }
}

static void detail_error(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    const Drover__V1__Error *e = step->last_error;

    if (!e || (!*e->class_ && !*e->message))
        return;
    part(out, begin);
    buf_printf(out, "%s%s%s", e->class_, *e->class_ && *e->message ? ": " : "", e->message);
}

static void detail_until(const char *what, int64_t until, int64_t now, struct buf *out,
                         size_t begin)
{
    if (until <= 0)
        return;
    part(out, begin);
    buf_puts(out, what);
    view_duration(out, view_span(now, until));
}

/* Only Kill ends a job while a step is in flight; it does not stop the handler. */
static void detail_flight(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                          struct buf *out, size_t begin)
{
    bool ended = job_status_has_ended(job);

    detail_progress(step, out, begin);
    if (ended) {
        part(out, begin);
        buf_puts(out, "in flight when the job ended");
    }
    if (!ended || step->until > job->now)
        detail_until(ended ? "an agent may be at it for " : "lease ends in ", step->until, job->now,
                     out, begin);
}

void view_step_detail(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                      struct buf *out)
{
    size_t begin = out->len;

    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_WAITING:
        if (step->waiting > 0 && !job_status_has_ended(job))
            buf_printf(out, "waits for %" PRIu32 " of %zu", step->waiting, step->n_after);
        break;
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
        detail_flight(step, job, out, begin);
        break;
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
        if (!job_status_has_ended(job))
            detail_until("next try in ", step->until, job->now, out, begin);
        break;
    default:
        break;
    }
    if (step->state != DROVER__V1__STEP_STATE__STEP_STATE_DONE) {
        detail_counts(step, out, begin);
        detail_error(step, out, begin);
    }
    if (*step->agent) {
        part(out, begin);
        buf_printf(out, "at %s", step->agent);
    }
}

void view_step_titles(struct table *t, bool timed)
{
    static const char *const titles[] = {"STEP", "ACTOR", "STATE", "ATTEMPT"};

    for (size_t i = 0; i < array_size(titles); i++)
        table_add(t, VIEW_BOLD, "%s", titles[i]);
    table_add(t, VIEW_BOLD, "%s", timed ? "ELAPSED" : "");
    table_add(t, VIEW_BOLD, "DETAIL");
}

void view_step_cells(struct table *t, const Drover__V1__StepStatus *step,
                     const Drover__V1__JobStatus *job, int64_t elapsed_ms)
{
    CLEANUP(buf_deinit) struct buf elapsed = {0};
    CLEANUP(buf_deinit) struct buf detail = {0};

    if (elapsed_ms >= 0)
        view_duration(&elapsed, elapsed_ms);
    view_step_detail(step, job, &detail);
    table_add(t, VIEW_PLAIN, "%s", step->name);
    table_add(t, VIEW_DIM, "%s", step->actor);
    table_add(t, state_color(step->state), "%s", view_step_state(step));
    if (step->attempt > 0)
        table_add(t, VIEW_PLAIN, "%" PRIu32, step->attempt);
    else
        table_add(t, VIEW_PLAIN, "%s", "");
    table_add(t, VIEW_DIM, "%s", buf_str(&elapsed));
    table_add(t, VIEW_PLAIN, "%s", buf_str(&detail));
}
