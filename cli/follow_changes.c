// SPDX-License-Identifier: Apache-2.0
/*
 * Following: prints what has changed since the last status, as lines or as JobEvents
 *
 * Called by follow.c and follow_screen.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/follow.h"
#include "cli/view.h"
#include "cli/view_step.h"
#include "client/job_status.h"
#include "model/json.h"

bool follow_changes_at_rest(Drover__V1__StepState state)
{
    return state == DROVER__V1__STEP_STATE__STEP_STATE_DONE ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTED ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_SKIPPED ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_FAILED;
}

bool follow_changes_not_begun(Drover__V1__StepState state)
{
    return state == DROVER__V1__STEP_STATE__STEP_STATE_WAITING ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_UNSPECIFIED;
}

struct follow_seen *follow_changes_seen(const struct follow *f, const Drover__V1__StepStatus *step)
{
    return step->index < f->n_seen ? &f->seen[step->index] : NULL;
}

static void put_line(const struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    CLEANUP(buf_deinit) struct buf detail = {0};

    buf_putc(out, '+');
    view_duration(out, clock_monotonic_ms() - f->began);
    buf_putc(out, ' ');
    view_text(out, step->name, 0);
    buf_printf(out, " %s", view_step_state(step));
    if (step->attempt > 1)
        buf_printf(out, ", attempt %u", step->attempt);
    if (step->state != DROVER__V1__STEP_STATE__STEP_STATE_DONE) /* `get` shows its agent */
        view_step_detail(step, follow_status(f), &detail);
    if (detail.len > 0) {
        buf_puts(out, ": ");
        view_text(out, buf_str(&detail), 0);
    }
    buf_putc(out, '\n');
}

static void event_init(const struct follow *f, Drover__V1__JobEvent *m)
{
    const Drover__V1__JobStatus *status = follow_status(f);

    drover__v1__job_event__init(m);
    m->job_id = status->job_id;
    m->workflow = status->workflow;
    m->seq = status->seq;
    m->at = status->now;
    m->turn = status->turn;
    m->phase = status->phase;
    m->outcome = status->outcome;
    m->reason = status->reason;
    m->steps_total = status->steps_total;
    m->steps_open = status->steps_open;
}

static void put_event(const Drover__V1__JobEvent *m, struct buf *out)
{
    json_from_message(&m->base, out);
    buf_putc(out, '\n');
}

static void put_step_event(const struct follow *f, const Drover__V1__StepStatus *step,
                           struct buf *out)
{
    Drover__V1__JobEvent m;

    event_init(f, &m);
    m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
    m.step = step->name;
    m.step_state = step->state;
    m.attempt = step->attempt;
    m.error = step->last_error;
    put_event(&m, out);
}

static void put_change(const struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    if (f->args->output == OUTPUT_TABLE && !f->live)
        put_line(f, step, out);
    else if (f->args->output == OUTPUT_JSONL)
        put_step_event(f, step, out);
}

static FILE *changes_to(const struct follow *f)
{
    return f->args->output == OUTPUT_TABLE ? f->progress_to : stdout;
}

static void take_step(struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    struct follow_seen *seen = follow_changes_seen(f, step);
    int64_t now = clock_monotonic_ms();

    if (!seen || (seen->state == step->state && seen->attempt == step->attempt))
        return;
    if (follow_changes_not_begun(seen->state) && !follow_changes_not_begun(step->state) &&
        !follow_changes_at_rest(step->state))
        seen->began = now;
    seen->rested = follow_changes_at_rest(step->state) ? now : 0;
    if (!follow_changes_not_begun(seen->state) || !follow_changes_not_begun(step->state))
        put_change(f, step, out);
    seen->state = step->state;
    seen->attempt = step->attempt;
    f->changed = true;
}

void follow_changes_take(struct follow *f)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const Drover__V1__JobStatus *status = follow_status(f);
    size_t total = job_status_steps(status);

    if (f->n_seen < total) { /* the first time, and after a migration to more steps */
        f->seen = or_abort(reallocarray(f->seen, total, sizeof(*f->seen)));
        memset(f->seen + f->n_seen, 0, (total - f->n_seen) * sizeof(*f->seen));
        f->n_seen = total;
    }
    f->changed = false;
    for (size_t i = 0; i < status->n_steps; i++)
        take_step(f, status->steps[i], &out);
    fputs(buf_str(&out), changes_to(f));
    fflush(changes_to(f));
}

void follow_changes_end(const struct follow *f, struct buf *out)
{
    const Drover__V1__JobStatus *status = follow_status(f);
    Drover__V1__JobEvent m;

    event_init(f, &m);
    m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED;
    m.step = status->failed_step;
    m.error = status->error;
    put_event(&m, out);
}
