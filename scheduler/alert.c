// SPDX-License-Identifier: Apache-2.0
/*
 * Alerts: events that ask a person to act, or to know
 *
 * An alert about one job (a step is parked, a deadline has passed, a job has ended as no command
 * has asked for) is a notification in the outbox until the broker has confirmed it:
 * notification.c. Each is published on its own. An alert about an actor is one for all steps that
 * wait for the actor: alert_cause.c. An alert about the store, or about a message that was given
 * up, comes from this process alone. alert_group.c groups what the log and the alert command get.
 * An alert about the store is not held back by others.
 *
 * Called by the files that find a cause.
 */
#include "scheduler/alert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "model/status.h"
#include "scheduler/access.h"
#include "scheduler/alert_group.h"
#include "scheduler/event.h"
#include "scheduler/registration.h"
#include "scheduler/state.h"

struct alert_op *alert_of(struct op *op)
{
    return container_of(op, struct alert_op, op);
}

void alert_free(struct op *op)
{
    free(alert_of(op)->letter);
}

/* ---- publishing ---- */

static void publish_again(struct scheduler *s, struct op *op);

void alert_repeat_refused(struct scheduler *s, struct op *op)
{
    if (!op->returned)
        return;
    op->returned = false;
    op->send_call = publish_again;
    op->refs++;
    op_repeat_at(s, op, s->now + PUBLISH_REFUSED_AGAIN_MS);
}

static void publish(struct scheduler *s, struct alert_op *a, const Drover__V1__JobEvent *m)
{
    event_publish(s, &a->op, m, a->op.definition.workflow, "alert");
    a->op.then = a->published;
}

static void publish_again(struct scheduler *s, struct op *op)
{
    struct alert_op *a = alert_of(op);
    Drover__V1__JobEvent m;

    alert_event(s, &m, a);
    publish(s, a, &m);
    op_unref(s, op); /* the timer's reference */
}

/* Whether an alert concerns all users, such as that an actor of registered workflows is absent:
 * then it is raised once for all their jobs. Users may name any number of other actors. */
static bool concerns_all(const struct scheduler *s, const struct alert_op *a)
{
    const struct workflow *w = a->op.definition.workflow;

    return *a->alert.cause && w && registration_has_actor(s, alert_event_actor(w, &a->alert));
}

/* If jobs have owners, the owners share the alert command; else the workflows do. */
static const char *about_of(const struct scheduler *s, const struct alert_op *a,
                            const Drover__V1__JobEvent *m, const char *submitter)
{
    if (concerns_all(s, a))
        return a->alert.cause;
    return s->access->required && *submitter ? submitter : m->workflow;
}

static void raise_alert(struct scheduler *s, struct alert_op *a, const Drover__V1__JobStatus *job)
{
    bool letter = strcmp(a->alert.reason, ALERT_DEAD_LETTER) == 0;
    Drover__V1__JobEvent m;
    const char *about, *cause;

    alert_event(s, &m, a);
    if (job)
        alert_event_status(s, &m, job);
    s->stats.alerts++;
    about = about_of(s, a, &m, job ? job->submitter : "");
    cause = effects_printf(s->out, "%s %s %s %s", m.reason, m.error ? m.error->class_ : "", m.actor,
                           m.workflow);
    if (!*a->op.job && !letter) /* such as one about the store: not held back by others */
        alert_group_hand_over(s, &m, about, wire_pack(s->out, &m.base, true));
    else if (!alert_group_add(s, &m, cause, about, letter) && letter)
        return;
    publish(s, a, &m);
}

static void status_call(struct scheduler *s, struct op *op)
{
    const struct alert *alert = &alert_of(op)->alert;
    bool step = alert->step != WORKFLOW_NONE;

    ops_inspect_job(s->out, op_call_id(s, op), id_partition(op->job, s->partitions), op->job,
                    step ? alert->step : 0, step ? 1 : 0, false, NULL);
}

static void status_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    const struct workflow *w = op->definition.workflow;
    struct alert_op *a = alert_of(op);
    struct ops_job job;

    if (ops_read_job(r, s->out, &job)) {
        raise_alert(s, a, NULL);
        return;
    }
    status_job(s->out, &status, bytes_str(op->job), &job);
    if (bytes_is(job.definition, w->digest)) /* the job may have migrated since */
        status_steps(s->out, &status, &job, w);
    raise_alert(s, a, &status);
    status_steps_free(&status);
}

void alert_publish(struct scheduler *s, struct alert_op *a)
{
    if (*a->op.job && a->op.definition.workflow)
        op_call(s, &a->op, status_call, status_answered);
    else
        raise_alert(s, a, NULL);
}

/* ---- alerts of this process ---- */

struct alert_op *alert_new(struct scheduler *s, struct item *item, const char *job,
                           const struct alert *alert)
{
    struct alert_op *a = op_new(s, item, job, sizeof(*a), alert_free);

    a->alert = *alert;
    a->published = alert_repeat_refused;
    return a;
}

static void raise_now(struct scheduler *s, struct item *item, const char *job,
                      const struct alert *alert)
{
    struct alert_op *a = alert_new(s, item, job, alert);

    alert_publish(s, a);
    op_unref(s, &a->op);
}

void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at)
{
    raise_now(s, item, job, &(struct alert){.step = WORKFLOW_NONE, .at = at, .reason = reason});
}

void alert_ignored(struct scheduler *s, const char *actor)
{
    struct alert alert = {.step = WORKFLOW_NONE, .at = s->store_time, .reason = "REPLIES_IGNORED"};
    struct item *item = item_internal(s);

    snprintf(alert.actor, sizeof(alert.actor), "%s", actor);
    raise_now(s, item, "", &alert);
    item_unref(s, item);
}

void alert_isolated(struct scheduler *s, const char *job)
{
    int64_t *last = &s->alerts.isolated_at;
    struct item *item;

    if (*last && s->now < *last + ALERT_AGAIN_MS)
        return;
    *last = s->now;
    item = item_internal(s);
    alert_of_store(s, item, job, "ISOLATED", s->store_time);
    item_unref(s, item);
}
