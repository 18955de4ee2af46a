// SPDX-License-Identifier: Apache-2.0
/*
 * Events for anyone who listens: steps as they go, and alerts
 *
 * An alert is told once for each cause. A parked step is a cause of its own. That an actor has no
 * agent, or no queue, is one cause for all steps that wait for it: the store remembers that it was
 * told, so that many schedulers tell it once. When a step that had to wait is answered, the cause
 * is over, and that is always said to the store: whoever meets the next one may be another process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

#define NO_AGENT "NO_AGENT"
#define UNROUTABLE "UNROUTABLE"
#define SERVED "SERVED" /* the causes above are over */

static const char *event_key(struct scheduler *s, const struct workflow *w, const char *kind)
{
    return effects_printf(s->out, "%s.%s", *w->name ? w->name : "unnamed", kind);
}

static struct bus_message *event_publish(struct scheduler *s, struct op *op,
                                         const Drover__V1__JobEvent *m, const char *key)
{
    struct bus_message *message = op_publish(s, op, &m->base, false, NULL);

    message->exchange = "drover.events";
    message->key = key;
    message->job = effects_str(s->out, op->job);
    return message;
}

/* ---- who was asked ---- */

/* The memory of this process, which only spares the store questions: NULL where @what was not asked
 * a moment ago. */
static struct told *told_find(struct scheduler *s, const char *what)
{
    struct told *told;

    HASH_FIND(hh, s->told, what, strlen(what), told);
    return told && s->now < told->again ? told : NULL;
}

static void told_keep(struct scheduler *s, const char *what)
{
    size_t len = strlen(what);
    struct told *told;

    HASH_FIND(hh, s->told, what, len, told);
    if (!told) {
        if (HASH_COUNT(s->told) >= MACHINE_TOLD_MAX)
            told_free(s);
        told = or_abort(malloc(sizeof(*told) + len + 1));
        memcpy(told->what, what, len + 1);
        HASH_ADD_KEYPTR(hh, s->told, told->what, len, told);
    }
    told->again = s->now + MACHINE_TELL_AGAIN_MS;
}

static void told_forget(struct scheduler *s, const char *what)
{
    struct told *told;

    HASH_FIND(hh, s->told, what, strlen(what), told);
    if (!told)
        return;
    HASH_DEL(s->told, told);
    free(told);
}

void told_free(struct scheduler *s)
{
    struct told *told, *next;

    HASH_ITER(hh, s->told, told, next) {
        HASH_DEL(s->told, told);
        free(told);
    }
}

/* ---- alerts ---- */

static void alert_publish(struct scheduler *s, struct op *op, const struct alert *alert)
{
    Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;
    struct effect *e;

    m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT;
    m.job_id = op->job;
    m.workflow = (char *)alert->workflow->full_name;
    m.reason = (char *)alert->reason;
    m.step = (char *)alert->workflow->steps[alert->step].name;
    m.at = alert->at;
    m.seq = alert->seq;
    s->stats.alerts++;
    log_warn("alert", LOG_S("reason", m.reason), LOG_S("job", op->job), LOG_S("step", m.step),
             LOG_S("actor", alert->workflow->steps[alert->step].forward.actor));
    event_publish(s, op, &m, event_key(s, alert->workflow, "alert"));
    e = effects_add(s->out, EFFECT_ROLE, 0);
    e->role.what = SCHEDULER_ALERT;
    e->role.object = effects_text(s->out, wire_pack(s->out, &m.base, true));
}

static void told_call(struct scheduler *s, struct op *op)
{
    ops_told(s->out, op_call_id(s, op), op->partition, op->alert->cause, op->alert->over);
}

static void told_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    if (!op->alert->over && ops_read_told(r))
        alert_publish(s, op, op->alert);
}

/* Finds out from the store whether it is news; where the actor is, that stands in one partition. */
static void told_ask(struct scheduler *s, const struct op *from, const struct alert *of,
                     const char *actor)
{
    struct op *op = op_new(s, from->item, from->job);

    op->partition = id_partition(actor, s->partitions);
    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = *of;
    op->workflow = workflow_ref(of->workflow);
    snprintf(op->alert->cause, sizeof(op->alert->cause), "%s %s", of->reason, actor);
    op_call(s, op, told_call, told_answered);
    op_unref(s, op);
}

static void served(struct scheduler *s, const struct op *op, struct alert *alert, const char *actor)
{
    static const char *const reasons[] = {NO_AGENT, UNROUTABLE};

    alert->over = true;
    for (size_t i = 0; i < array_size(reasons); i++) {
        alert->reason = reasons[i];
        told_forget(s, effects_printf(s->out, "%s %s", reasons[i], actor));
        told_ask(s, op, alert, actor);
    }
}

static void missed(struct scheduler *s, const struct op *op, struct alert *alert, const char *actor)
{
    const char *what = effects_printf(s->out, "%s %s", alert->reason, actor);

    if (told_find(s, what))
        return;
    told_keep(s, what);
    told_ask(s, op, alert, actor);
}

void alerts_raise(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                  struct workflow *w)
{
    for (uint32_t i = 0; i < driven->n_alerts && driven->alerts[i].step < w->n_steps; i++) {
        struct bytes reason = driven->alerts[i].reason;
        struct alert alert = {
            .workflow = w, .step = driven->alerts[i].step, .at = driven->now, .seq = driven->seq};
        const char *actor = w->steps[alert.step].forward.actor;

        if (bytes_is(reason, SERVED)) {
            served(s, op, &alert, actor);
        } else if (bytes_is(reason, "PARKED")) {
            alert.reason = "PARKED";
            alert_publish(s, op, &alert);
        } else {
            alert.reason = bytes_is(reason, UNROUTABLE) ? UNROUTABLE : NO_AGENT;
            missed(s, op, &alert, actor);
        }
    }
}

/* ---- steps ---- */

void step_events_tell(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                      const struct workflow *w)
{
    for (uint32_t i = 0; driven->step_events && i < driven->n_requests; i++) {
        Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;

        m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
        m.job_id = op->job;
        m.workflow = (char *)w->full_name;
        m.at = driven->now;
        m.seq = driven->seq;
        m.step = (char *)w->steps[driven->requests[i].step].name;
        m.step_state = DROVER__V1__STEP_STATE__STEP_STATE_RUNNING;
        m.attempt = driven->requests[i].attempt;
        m.steps_total = driven->steps;
        m.steps_open = driven->open;
        event_publish(s, op, &m, event_key(s, w, "step"))->transient = true;
    }
}
