// SPDX-License-Identifier: Apache-2.0
/*
 * The event of an alert: what it is about, why it was raised, and which command helps
 *
 * Called by alert.c, alert_cause.c and notification.c.
 */
#include <string.h>

#include "model/status.h"
#include "scheduler/alert.h"
#include "scheduler/state.h"

/* The command that helps, for a person who knows no more than the alert. @job and @step are
 * names, which a shell takes as they are. */
static const char *advice_of(struct effects *fx, const char *reason, const char *job,
                             const char *step)
{
    static const struct {
        const char *reason, *command; /* the job is added, and after a + the step */
    } commands[] = {
        {ALERT_PARKED, "retry+"},
        {ALERT_DEADLINE, "resume"},
        {ALERT_FAILED, "retry"},
        {ALERT_COMPENSATED, ""},
        {ALERT_COMPENSATION_FAILED, "retry"},
        {ALERT_NO_AGENT, ""},
        {ALERT_UNROUTABLE, ""},
        {ALERT_SILENT, ""},
        {ALERT_REJECTED, ""},
        {ALERT_OTHER_STEP, ""},
        {ALERT_OTHER_ACTOR, ""},
        {ALERT_DEAD_LETTER, ""},
    };

    for (size_t i = 0; *job && i < array_size(commands); i++) {
        const char *command = commands[i].command;
        size_t len = strcspn(command, "+");

        if (strcmp(commands[i].reason, reason) != 0)
            continue;
        if (len == 0)
            return effects_printf(fx, "drover why %s", job);
        return effects_printf(fx, "drover why %s; drover %.*s %s%s%s", job, (int)len, command, job,
                              command[len] ? " " : "", command[len] ? step : "");
    }
    return "";
}

static const struct workflow_dispatch *dispatch_of(const struct workflow *w,
                                                   const struct alert *alert)
{
    const struct workflow_step *step;

    if (!w || alert->step == WORKFLOW_NONE)
        return NULL;
    step = &w->steps[alert->step];
    return alert->back ? &step->revert : &step->forward;
}

const char *alert_event_actor(const struct workflow *w, const struct alert *alert)
{
    const struct workflow_dispatch *d = dispatch_of(w, alert);

    return d ? d->actor : "";
}

/* The error of a dead letter: the code is the class, the rest of the reason the message. */
static Drover__V1__Error *letter_error(struct effects *fx, const char *reason)
{
    Drover__V1__Error *e = effects_alloc(fx, sizeof(*e));
    size_t code = strcspn(reason, " ");

    drover__v1__error__init(e);
    e->class_ = effects_text(fx, bytes_of(reason, code));
    e->message = effects_text(fx, bytes_str(reason + code + (reason[code] != '\0')));
    return e;
}

void alert_event(struct scheduler *s, Drover__V1__JobEvent *m, const struct alert_op *a)
{
    const struct workflow *w = a->op.definition.workflow;
    const struct alert *alert = &a->alert;
    const struct workflow_dispatch *d = dispatch_of(w, alert);

    drover__v1__job_event__init(m);
    m->kind = DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT;
    m->job_id = a->op.job;
    if (w)
        m->workflow = (char *)w->full_name;
    if (d) {
        m->step = (char *)w->steps[alert->step].name;
        m->actor = (char *)d->actor;
        m->action = (char *)d->action;
    }
    if (*alert->actor)
        m->actor = (char *)alert->actor;
    m->reason = (char *)alert->reason;
    m->at = alert->at;
    m->seq = alert->seq;
    m->count = alert->count;
    m->advice = (char *)advice_of(s->out, alert->reason, a->op.job, m->step);
    if (a->letter)
        m->error = letter_error(s->out, a->letter);
}

/* The error of the alert's own cause, not the one that an agent has reported for an earlier
 * attempt. NULL for none. */
static Drover__V1__Error *error_of(struct effects *fx, const char *reason,
                                   const Drover__V1__JobStatus *job,
                                   const Drover__V1__StepStatus *step)
{
    if (strcmp(reason, ALERT_DEADLINE) == 0)
        return status_error(fx, ALERT_DEADLINE, NULL);
    if (strcmp(reason, ALERT_PARKED) == 0 && step)
        return status_error(fx, step->expiries >= step->maximum_expiries ? "DEATHS" : "",
                            step->last_error);
    return strcmp(reason, ALERT_FAILED) == 0 || strcmp(reason, ALERT_COMPENSATED) == 0 ||
                   strcmp(reason, ALERT_COMPENSATION_FAILED) == 0
               ? job->error
               : NULL;
}

void alert_event_status(struct scheduler *s, Drover__V1__JobEvent *m,
                        const Drover__V1__JobStatus *job)
{
    const Drover__V1__StepStatus *step = job->n_steps > 0 ? job->steps[0] : NULL;

    m->labels = job->labels;
    m->n_labels = job->n_labels;
    m->turn = job->turn;
    m->phase = job->phase;
    m->outcome = job->outcome;
    m->steps_total = job->steps_total;
    m->steps_open = job->steps_open;
    m->error = error_of(s->out, m->reason, job, step);
    if (!step)
        return;
    m->attempt = step->attempt;
    m->agent = step->agent;
    m->failures = step->failures;
    m->expiries = step->expiries;
    m->unstarted = step->unstarted;
}
