// SPDX-License-Identifier: Apache-2.0
/*
 * Causes of alerts that many steps or jobs share: the store decides whether one is news
 *
 * An actor without an agent, or without a queue, is one cause for all steps that wait for it. The
 * store records that the alert was published, so one scheduler of many publishes it. A
 * scheduler asks the store first. If the answer is NEWS it has a minute to publish the alert and,
 * when the broker has confirmed it, to record that; else the cause is news again for all
 * schedulers. When a step that had to wait is answered the cause is over. The scheduler always
 * records that, because another one may meet the next alert.
 *
 * Called by transition.c and on_control.c.
 */
#include "scheduler/alert_cause.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/state.h"

/* ---- causes that the store was asked about ---- */

/* A cause that the store was asked about. A thousand steps that wait for one actor are one call. */
struct alert_asked {
    UT_hash_handle hh;
    int64_t again; /* time from which on the store is asked again */
    char cause[];
};

/* The memory of this process, which only saves calls to the store. */
static struct alert_asked *asked_find(struct scheduler *s, const char *cause)
{
    struct alert_asked *asked;

    HASH_FIND(hh, s->alerts.asked, cause, strlen(cause), asked);
    return asked;
}

static bool asked_lately(struct scheduler *s, const char *cause)
{
    const struct alert_asked *asked = asked_find(s, cause);

    return asked && s->now < asked->again;
}

static void asked_keep(struct scheduler *s, const char *cause)
{
    struct alert_asked *asked = asked_find(s, cause);
    size_t len = strlen(cause);

    if (!asked) {
        if (HASH_COUNT(s->alerts.asked) >= ALERT_ASKED_MAX)
            alert_cause_free_all(s);
        asked = or_abort(malloc(sizeof(*asked) + len + 1));
        memcpy(asked->cause, cause, len + 1);
        HASH_ADD_KEYPTR(hh, s->alerts.asked, asked->cause, len, asked);
    }
    asked->again = s->now + ALERT_ASK_AGAIN_MS;
}

static void asked_forget(struct scheduler *s, const char *cause)
{
    struct alert_asked *asked = asked_find(s, cause);

    if (!asked)
        return;
    HASH_DEL(s->alerts.asked, asked);
    free(asked);
}

void alert_cause_free_all(struct scheduler *s)
{
    struct alert_asked *asked, *next;

    HASH_ITER(hh, s->alerts.asked, asked, next) {
        HASH_DEL(s->alerts.asked, asked);
        free(asked);
    }
}

/* ---- asking the store ---- */

static void cause_call(struct scheduler *s, struct op *op)
{
    const struct alert *alert = &alert_of(op)->alert;

    ops_alert_cause(s->out, op_call_id(s, op), op->partition, alert->cause, alert->what, op->nonce);
}

static void cause_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct alert_op *a = alert_of(op);

    if (a->alert.what == OPS_CAUSE_ASK && ops_read_alert_cause(r))
        alert_publish(s, a);
}

/* The alert has its outcome: records that it was published. If the broker refused it the cause is
 * news again in a minute, to any scheduler that meets it. */
static void record_published(struct scheduler *s, struct op *op)
{
    if (op->returned)
        return;
    alert_of(op)->alert.what = OPS_CAUSE_PUBLISHED;
    op_call(s, op, cause_call, cause_answered);
}

static struct alert_op *cause_new(struct scheduler *s, struct item *item, const char *job,
                                  const struct alert *alert)
{
    struct alert_op *a = alert_new(s, item, job, alert);

    a->published = record_published;
    return a;
}

void alert_cause_corrupt(struct scheduler *s, struct item *item, const char *job, int64_t at)
{
    struct alert alert = {
        .step = WORKFLOW_NONE, .at = at, .reason = ALERT_TORN, .what = OPS_CAUSE_ASK};
    struct alert_op *a;

    snprintf(alert.cause, sizeof(alert.cause), ALERT_TORN " %s", job);
    a = cause_new(s, item, job, &alert);
    op_call(s, &a->op, cause_call, cause_answered);
    op_unref(s, &a->op);
}

/* ---- causes about an actor ---- */

/* Tells the store about a cause, or asks whether it is news: an operation of its own, because a
 * transition may have several alerts. The partition follows from the actor, so that each cause is
 * in one of them. */
static void cause_report(struct scheduler *s, const struct op *from, const struct alert *alert,
                         struct workflow *w, enum ops_cause what)
{
    struct alert_op *a = cause_new(s, from->item, from->job, alert);

    a->op.definition.workflow = workflow_ref(w);
    a->op.partition = id_partition(alert_event_actor(w, alert), s->partitions);
    a->alert.what = what;
    op_call(s, &a->op, cause_call, cause_answered);
    op_unref(s, &a->op);
}

static void set_cause(struct alert *alert, const char *reason, const struct workflow *w)
{
    alert->reason = reason;
    snprintf(alert->cause, sizeof(alert->cause), "%s %s", reason, alert_event_actor(w, alert));
}

static void cause_over(struct scheduler *s, const struct op *op, struct alert *alert,
                       struct workflow *w)
{
    static const char *const reasons[] = {ALERT_NO_AGENT, ALERT_UNROUTABLE, ALERT_SILENT,
                                          ALERT_REJECTED};

    for (size_t i = 0; i < array_size(reasons); i++) {
        set_cause(alert, reasons[i], w);
        asked_forget(s, alert->cause);
        cause_report(s, op, alert, w, OPS_CAUSE_OVER);
    }
}

static void cause_met(struct scheduler *s, const struct op *op, struct alert *alert,
                      const char *reason, struct workflow *w)
{
    set_cause(alert, reason, w);
    if (asked_lately(s, alert->cause))
        return;
    asked_keep(s, alert->cause);
    cause_report(s, op, alert, w, OPS_CAUSE_ASK);
}

static const char *cause_of(struct bytes reason)
{
    static const char *const causes[] = {ALERT_UNROUTABLE, ALERT_SILENT, ALERT_REJECTED,
                                         ALERT_OTHER_STEP, ALERT_OTHER_ACTOR};

    for (size_t i = 0; i < array_size(causes); i++)
        if (bytes_is(reason, causes[i]))
            return causes[i];
    return ALERT_NO_AGENT;
}

void alert_cause_raise(struct scheduler *s, const struct op *op, const struct ops_alert *of,
                       int64_t at, struct workflow *w)
{
    struct alert alert = {.step = of->step, .back = of->back, .at = at, .seq = of->seq};

    if (of->step >= w->n_steps)
        return;
    if (bytes_is(of->reason, ALERT_SERVED))
        cause_over(s, op, &alert, w);
    else
        cause_met(s, op, &alert, cause_of(of->reason), w);
}
