// SPDX-License-Identifier: Apache-2.0
/*
 * Events for anyone who listens: steps as they go, and alerts
 *
 * An alert is told once for each cause. A parked step is a cause of its own. That an actor has no
 * agent, or no queue, is one cause for all steps that wait for it: the store remembers that it was
 * told, so that many schedulers tell it once. Whoever is to tell has a minute for it, and says so
 * when the broker has confirmed; else another one tells. When a step that had to wait is answered,
 * the cause is over, and that is always said to the store: whoever meets the next one may be
 * another process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

#define NO_AGENT "NO_AGENT"
#define UNROUTABLE "UNROUTABLE"
#define SILENT "SILENT"
#define REJECTED "REJECTED"
#define OTHER_STEP "OTHER_STEP"
#define OTHER_ACTOR "OTHER_ACTOR"
#define PARKED "PARKED"
#define DEADLINE "DEADLINE"
#define TORN "TORN"
#define SERVED "SERVED" /* the causes above are over */

struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word)
{
    struct bus_message *message = op_publish(s, op, &m->base, false, NULL);

    message->exchange = "drover.events";
    message->key = effects_printf(s->out, "%s.%s", w && *w->name ? w->name : "unnamed", word);
    message->job = effects_str(s->out, op->job);
    return message;
}

/* ---- who was asked ---- */

/* The memory of this process, which only spares the store questions. */
static struct asked *asked_find(struct scheduler *s, const char *cause)
{
    struct asked *asked;

    HASH_FIND(hh, s->asked, cause, strlen(cause), asked);
    return asked;
}

static bool asked_lately(struct scheduler *s, const char *cause)
{
    const struct asked *asked = asked_find(s, cause);

    return asked && s->now < asked->again;
}

static void asked_keep(struct scheduler *s, const char *cause)
{
    struct asked *asked = asked_find(s, cause);
    size_t len = strlen(cause);

    if (!asked) {
        if (HASH_COUNT(s->asked) >= MACHINE_ASKED_MAX)
            asked_free(s);
        asked = or_abort(malloc(sizeof(*asked) + len + 1));
        memcpy(asked->cause, cause, len + 1);
        HASH_ADD_KEYPTR(hh, s->asked, asked->cause, len, asked);
    }
    asked->again = s->now + MACHINE_ASK_AGAIN_MS;
}

static void asked_forget(struct scheduler *s, const char *cause)
{
    struct asked *asked = asked_find(s, cause);

    if (!asked)
        return;
    HASH_DEL(s->asked, asked);
    free(asked);
}

void asked_free(struct scheduler *s)
{
    struct asked *asked, *next;

    HASH_ITER(hh, s->asked, asked, next) {
        HASH_DEL(s->asked, asked);
        free(asked);
    }
}

/* ---- alerts ---- */

static const char *actor_of(const struct workflow *w, const struct alert *alert)
{
    const struct workflow_step *step;

    if (alert->step == WORKFLOW_NONE)
        return "";
    step = &w->steps[alert->step];
    return alert->back ? step->revert.actor : step->forward.actor;
}

static void alert_again(struct scheduler *s, struct op *op);
static void told_call(struct scheduler *s, struct op *op);
static void told_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

/* Where the broker would not have it, the cause is news again in a minute, to whoever meets it. */
static void cause_told(struct scheduler *s, struct op *op)
{
    if (op->returned)
        return;
    op->alert->what = OPS_CAUSE_TOLD;
    op_call(s, op, told_call, told_answered);
}

/* Nobody else knows of it: it is sent until the broker has it. */
static void of_store_told(struct scheduler *s, struct op *op)
{
    if (!op->returned)
        return;
    op->returned = false;
    op->call = alert_again;
    op->open++;
    op_repeat_at(s, op, s->now + MACHINE_REFUSED_AGAIN_MS);
}

void alert_event(Drover__V1__JobEvent *m, const struct op *op)
{
    const struct alert *alert = op->alert;

    drover__v1__job_event__init(m);
    m->kind = DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT;
    m->job_id = op->job;
    if (op->workflow) {
        m->workflow = (char *)op->workflow->full_name;
        if (alert->step != WORKFLOW_NONE)
            m->step = (char *)op->workflow->steps[alert->step].name;
    }
    m->reason = (char *)alert->reason;
    m->at = alert->at;
    m->seq = alert->seq;
}

static void alert_send(struct scheduler *s, struct op *op)
{
    Drover__V1__JobEvent m;

    alert_event(&m, op);
    event_publish(s, op, &m, op->workflow, "alert");
    op->then = op->seq > 0 ? notice_told : *op->alert->cause ? cause_told : of_store_told;
}

static void alert_again(struct scheduler *s, struct op *op)
{
    alert_send(s, op);
    op_unref(s, op); /* what the timer held */
}

/* That an actor of registered workflows is absent, say: it is told once, for the jobs of all users.
 * Other actors are as many as somebody names. */
static bool concerns_all(const struct scheduler *s, const struct op *op)
{
    return *op->alert->cause && op->workflow &&
           is_of_workflows(s, actor_of(op->workflow, op->alert));
}

static void tell_now(struct scheduler *s, struct op *op, struct bytes submitter)
{
    Drover__V1__JobEvent m;
    struct effect *e;
    struct scheduler_alert *alert = effects_alloc(s->out, sizeof(*alert));

    alert_event(&m, op);
    s->stats.alerts++;
    log_often(LOG_WARN, "alert", LOG_S("reason", m.reason), LOG_S("job", op->job),
              LOG_S("step", m.step), LOG_S("actor", actor_of(op->workflow, op->alert)));
    alert_send(s, op);
    e = effects_add(s->out, EFFECT_ROLE, 0);
    e->role.what = SCHEDULER_ALERT;
    alert->about = concerns_all(s, op) ? effects_str(s->out, op->alert->cause)
                   : submitter.len > 0 ? effects_text(s->out, submitter)
                                       : effects_str(s->out, m.workflow);
    alert->event = effects_text(s->out, wire_pack(s->out, &m.base, true));
    e->role.object = alert;
}

static void look_call(struct scheduler *s, struct op *op)
{
    ops_inspect_job(s->out, op_call_id(s, op), id_partition(op->job, s->partitions), op->job, 0, 0,
                    false, NULL);
}

static void look_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_job job;
    bool known = ops_read_job(r, s->out, &job) == 0;

    tell_now(s, op, known ? job.submitter : BYTES_EMPTY);
}

/* Where jobs have owners their alerts share the command by those. */
void alert_tell(struct scheduler *s, struct op *op)
{
    if (s->access->required && *op->job && !concerns_all(s, op))
        op_call(s, op, look_call, look_answered);
    else
        tell_now(s, op, BYTES_EMPTY);
}

static void told_call(struct scheduler *s, struct op *op)
{
    ops_told(s->out, op_call_id(s, op), op->partition, op->alert->cause, op->alert->what,
             op->fresh);
}

static void told_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    if (op->alert->what == OPS_CAUSE_ASK && ops_read_told(r))
        alert_tell(s, op);
}

void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at)
{
    struct op *op = op_new(s, item, job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = (struct alert){.step = WORKFLOW_NONE, .at = at, .reason = reason};
    alert_tell(s, op);
    op_unref(s, op);
}

/* What others do to this process is told by it alone. */
void alert_now(struct scheduler *s, const char *job, const char *reason)
{
    struct item *item = item_new(s, NULL);

    alert_of_store(s, item, job, reason, s->looked_at);
    item_unref(s, item);
}

void alert_once_a_minute(struct scheduler *s, int64_t *told, const char *job, const char *reason)
{
    if (*told && s->now < *told + MACHINE_TOLD_AGAIN_MS)
        return;
    *told = s->now;
    alert_now(s, job, reason);
}

void alert_torn(struct scheduler *s, struct item *item, const char *job, int64_t at)
{
    struct op *op = op_new(s, item, job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert =
        (struct alert){.step = WORKFLOW_NONE, .at = at, .reason = TORN, .what = OPS_CAUSE_ASK};
    snprintf(op->alert->cause, sizeof(op->alert->cause), TORN " %s", job);
    op_call(s, op, told_call, told_answered);
    op_unref(s, op);
}

/* An op of its own, because it may have to be sent more than once. */
static struct op *alert_new(struct scheduler *s, const struct op *from, const struct alert *of,
                            struct workflow *w)
{
    struct op *op = op_new(s, from->item, from->job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = *of;
    op->workflow = workflow_ref(w);
    return op;
}

/* Says to the store what is with a cause, or finds out whether it is news; where the actor is, that
 * stands in one partition. */
static void cause_say(struct scheduler *s, const struct op *from, const struct alert *alert,
                      struct workflow *w, enum ops_cause what)
{
    struct op *op = alert_new(s, from, alert, w);

    op->partition = id_partition(actor_of(w, alert), s->partitions);
    op->alert->what = what;
    op_call(s, op, told_call, told_answered);
    op_unref(s, op);
}

static void set_cause(struct alert *alert, const char *reason, const struct workflow *w)
{
    alert->reason = reason;
    snprintf(alert->cause, sizeof(alert->cause), "%s %s", reason, actor_of(w, alert));
}

static void served(struct scheduler *s, const struct op *op, struct alert *alert,
                   struct workflow *w)
{
    static const char *const reasons[] = {NO_AGENT, UNROUTABLE, SILENT, REJECTED};

    for (size_t i = 0; i < array_size(reasons); i++) {
        set_cause(alert, reasons[i], w);
        asked_forget(s, alert->cause);
        cause_say(s, op, alert, w, OPS_CAUSE_OVER);
    }
}

static void missed(struct scheduler *s, const struct op *op, struct alert *alert,
                   const char *reason, struct workflow *w)
{
    set_cause(alert, reason, w);
    if (asked_lately(s, alert->cause))
        return;
    asked_keep(s, alert->cause);
    cause_say(s, op, alert, w, OPS_CAUSE_ASK);
}

/* What concerns one job is told without asking whether others were told of the like, and owed until
 * the broker has it: notice.c goes on with what is lost here. */
static void about_a_job(struct scheduler *s, const struct op *from, struct alert *alert,
                        const char *reason, struct workflow *w)
{
    struct op *op;

    alert->reason = reason;
    op = alert_new(s, from, alert, w);
    op->seq = alert->seq;
    alert_tell(s, op);
    op_unref(s, op);
}

void alert_owed(struct op *op, const struct ops_job *job, const char *step, struct workflow *w)
{
    unsigned number, back;

    free(op->alert);
    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = (struct alert){
        .step = WORKFLOW_NONE,
        .at = job->updated,
        .seq = op->seq,
        .reason = bytes_is(job->reason, DEADLINE) ? DEADLINE : PARKED,
    };
    if (w && sscanf(step, "%u %u", &number, &back) == 2 && number < w->n_steps) {
        op->alert->step = number;
        op->alert->back = back > 0;
    }
    workflow_unref(op->workflow);
    op->workflow = w ? workflow_ref(w) : NULL;
}

/* Of one actor: whether that is news the store is asked first. */
static const char *cause_of(struct bytes reason)
{
    static const char *const causes[] = {UNROUTABLE, SILENT, REJECTED, OTHER_STEP, OTHER_ACTOR};

    for (size_t i = 0; i < array_size(causes); i++)
        if (bytes_is(reason, causes[i]))
            return causes[i];
    return NO_AGENT;
}

void alerts_raise(struct scheduler *s, const struct op *op, const struct ops_driven *driven,
                  struct workflow *w)
{
    for (uint32_t i = 0; i < driven->n_alerts; i++) {
        const struct ops_alert *of = &driven->alerts[i];
        struct bytes reason = of->reason;
        struct alert alert = {
            .step = of->step, .back = of->back, .at = driven->now, .seq = of->seq};

        if (of->step == WORKFLOW_NONE)
            about_a_job(s, op, &alert, DEADLINE, w);
        else if (of->step >= w->n_steps)
            continue;
        else if (bytes_is(reason, SERVED))
            served(s, op, &alert, w);
        else if (bytes_is(reason, PARKED))
            about_a_job(s, op, &alert, PARKED, w);
        else
            missed(s, op, &alert, cause_of(reason), w);
    }
}

/* ---- steps ---- */

void step_events_tell(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                      const struct workflow *w)
{
    Drover__V1__Submit *labels;

    if (!driven->step_events || driven->n_requests == 0)
        return;
    labels = status_labels(driven->labels);
    for (uint32_t i = 0; i < driven->n_requests; i++) {
        const struct ops_request *request = &driven->requests[i];
        Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;

        if (request->step >= w->n_steps)
            continue;
        m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
        m.job_id = op->job;
        m.workflow = (char *)w->full_name;
        m.at = driven->now;
        m.seq = driven->seq;
        m.step = (char *)w->steps[request->step].name;
        m.step_state = request->active ? DROVER__V1__STEP_STATE__STEP_STATE_RUNNING
                                       : DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
        m.attempt = request->attempt;
        m.steps_total = driven->steps;
        m.steps_open = driven->open;
        if (labels) {
            m.n_labels = labels->n_labels;
            m.labels = labels->labels;
        }
        event_publish(s, op, &m, w, "step")->transient = true;
    }
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
}
