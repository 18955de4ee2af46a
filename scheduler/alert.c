// SPDX-License-Identifier: Apache-2.0
/*
 * Alerts: events that ask a person to act, or to know
 *
 * An alert about one job (a step is parked, a deadline has passed, a job has ended as no command
 * has asked for) is a notification in the outbox until the broker has confirmed it: see
 * notification.c. Each is published on its own.
 *
 * An actor without an agent, or without a queue, is one cause for all steps that wait for it. The
 * store records that the alert was published, so one scheduler of many publishes it. A
 * scheduler asks the store first. If the answer is NEWS it has a minute to publish the alert and,
 * when the broker has confirmed it, to record that; else the cause is news again for all
 * schedulers. When a step that had to wait is answered the cause is over. The scheduler always
 * records that, because another one may meet the next alert.
 *
 * The log and scheduler.alert_command get one alert for each cause (reason, error class, actor and
 * workflow) and alert_interval: the first at once, and at the end of the interval the last of those
 * that followed, with their number. So does drover.events for dead letters. An alert about the
 * store is not held back by others.
 *
 * Called by the files of the machine that find a cause.
 */
#include <inttypes.h>
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
#define FAILED "FAILED"
#define COMPENSATED "COMPENSATED"
#define COMPENSATION_FAILED "COMPENSATION_FAILED"
#define TORN "TORN"
#define DEAD_LETTER "DEAD_LETTER"
#define SERVED "SERVED" /* the causes of an actor are over */

/* ---- causes that the store was asked about ---- */

/* The memory of this process, which only saves calls to the store. */
static struct asked *asked_find(struct scheduler *s, const char *cause)
{
    struct asked *asked;

    HASH_FIND(hh, s->asked_causes, cause, strlen(cause), asked);
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
        if (HASH_COUNT(s->asked_causes) >= MACHINE_ASKED_MAX)
            asked_free(s);
        asked = or_abort(malloc(sizeof(*asked) + len + 1));
        memcpy(asked->cause, cause, len + 1);
        HASH_ADD_KEYPTR(hh, s->asked_causes, asked->cause, len, asked);
    }
    asked->again = s->now + MACHINE_ASK_AGAIN_MS;
}

static void asked_forget(struct scheduler *s, const char *cause)
{
    struct asked *asked = asked_find(s, cause);

    if (!asked)
        return;
    HASH_DEL(s->asked_causes, asked);
    free(asked);
}

void asked_free(struct scheduler *s)
{
    struct asked *asked, *next;

    HASH_ITER(hh, s->asked_causes, asked, next) {
        HASH_DEL(s->asked_causes, asked);
        free(asked);
    }
}

/* ---- the event ---- */

/* The command that helps, for a person who knows no more than the alert. @job and @step are
 * names, which a shell takes as they are. */
static const char *advice_of(struct effects *fx, const char *reason, const char *job,
                             const char *step)
{
    static const struct {
        const char *reason, *command; /* the job is added, and after a + the step */
    } commands[] = {
        {PARKED, "retry+"},
        {DEADLINE, "resume"},
        {FAILED, "retry"},
        {COMPENSATED, ""},
        {COMPENSATION_FAILED, "retry"},
        {NO_AGENT, ""},
        {UNROUTABLE, ""},
        {SILENT, ""},
        {REJECTED, ""},
        {OTHER_STEP, ""},
        {OTHER_ACTOR, ""},
        {DEAD_LETTER, ""},
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
    return strcmp(reason, TORN) == 0 ? effects_printf(fx, "drover kill %s", job) : "";
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

static const char *actor_of(const struct workflow *w, const struct alert *alert)
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

void alert_event(struct scheduler *s, Drover__V1__JobEvent *m, const struct op *op)
{
    const struct workflow_dispatch *d = dispatch_of(op->workflow, op->alert);
    const struct alert *alert = op->alert;

    drover__v1__job_event__init(m);
    m->kind = DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT;
    m->job_id = op->job;
    if (op->workflow)
        m->workflow = (char *)op->workflow->full_name;
    if (d) {
        m->step = (char *)op->workflow->steps[alert->step].name;
        m->actor = (char *)d->actor;
        m->action = (char *)d->action;
    }
    if (*alert->actor)
        m->actor = (char *)alert->actor;
    m->reason = (char *)alert->reason;
    m->at = alert->at;
    m->seq = alert->seq;
    m->count = alert->count;
    m->advice = (char *)advice_of(s->out, alert->reason, op->job, m->step);
    if (op->reason)
        m->error = letter_error(s->out, op->reason);
}

/* The error of the alert's own cause, not the one that an agent has reported for an earlier
 * attempt. NULL for none. */
static Drover__V1__Error *error_of(struct effects *fx, const char *reason,
                                   const Drover__V1__JobStatus *job,
                                   const Drover__V1__StepStatus *step)
{
    if (strcmp(reason, DEADLINE) == 0)
        return status_error(fx, DEADLINE, NULL);
    if (strcmp(reason, PARKED) == 0 && step)
        return status_error(fx, step->expiries >= step->maximum_expiries ? "DEATHS" : "",
                            step->last_error);
    return strcmp(reason, FAILED) == 0 || strcmp(reason, COMPENSATED) == 0 ||
                   strcmp(reason, COMPENSATION_FAILED) == 0
               ? job->error
               : NULL;
}

static void add_status(struct scheduler *s, Drover__V1__JobEvent *m,
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

/* ---- one alert for each cause and interval ---- */

/* Alerts of one cause within an interval, after the first. */
struct alert_group {
    UT_hash_handle hh;
    int64_t until;
    uint64_t more; /* their number; the last one is kept: */
    char *about;   /* see struct scheduler_alert */
    struct buf event;
    bool publishes; /* it is about no job, so the event is published as well */
    char cause[];
};

static struct alert_group *group_find(struct scheduler *s, const char *cause)
{
    struct alert_group *g;

    HASH_FIND_STR(s->alert_groups, cause, g);
    return g;
}

static void group_free(struct scheduler *s, struct alert_group *g)
{
    HASH_DEL(s->alert_groups, g);
    buf_deinit(&g->event);
    free(g->about);
    free(g);
}

void alert_groups_free(struct scheduler *s)
{
    while (s->alert_groups)
        group_free(s, s->alert_groups);
}

static void group_add(struct scheduler *s, const char *cause)
{
    size_t size = strlen(cause) + 1;
    struct alert_group *g = or_abort(calloc(1, sizeof(*g) + size));

    memcpy(g->cause, cause, size);
    g->until = s->now + s->alert_interval_ms;
    HASH_ADD_STR(s->alert_groups, cause, g);
}

/* Beyond MACHINE_CAUSES_MAX all causes of one reason are one, because a user may name any class
 * and workflow. */
static const char *cause_within(struct scheduler *s, const char *cause, const char *reason)
{
    bool room = HASH_COUNT(s->alert_groups) < MACHINE_CAUSES_MAX;

    return room || group_find(s, cause) ? cause : reason;
}

/* Gives an alert to the log and to the alert command. The log gets nothing of the data of a job. */
static void hand_over(struct scheduler *s, const Drover__V1__JobEvent *m, const char *about,
                      struct bytes event)
{
    struct scheduler_alert *alert = effects_alloc(s->out, sizeof(*alert));
    struct effect *e;

    log_often(LOG_WARN, "alert", LOG_S("reason", m->reason), LOG_S("job", m->job_id),
              LOG_S("workflow", m->workflow), LOG_S("step", m->step), LOG_S("actor", m->actor),
              LOG_S("action", m->action), LOG_S("class", m->error ? m->error->class_ : ""),
              LOG_I("count", m->count ? (int64_t)m->count : 1), LOG_S("advice", m->advice));
    alert->about = effects_str(s->out, about);
    alert->event = effects_text(s->out, event);
    e = effects_add(s->out, EFFECT_ROLE, 0);
    e->role.what = SCHEDULER_ALERT;
    e->role.object = alert;
}

/* Adds an alert to its cause. Return: whether it is the first. @publishes: the event of a later
 * one is published at the end of the interval. */
static bool is_first(struct scheduler *s, Drover__V1__JobEvent *m, const char *cause,
                     const char *about, bool publishes)
{
    const char *within = cause_within(s, cause, m->reason);
    struct alert_group *g = group_find(s, within);
    struct bytes event;

    if (!g) {
        group_add(s, within);
        hand_over(s, m, about, wire_pack(s->out, &m->base, true));
        return true;
    }
    g->more += m->count ? m->count : 1;
    m->count = g->more;
    event = wire_pack(s->out, &m->base, true);
    m->count = 0;
    buf_clear(&g->event);
    buf_append(&g->event, event.data, event.len);
    (void)buf_or_abort(&g->event);
    free(g->about);
    g->about = or_abort(strdup(about));
    g->publishes = publishes;
    return false;
}

static void publish_again(struct scheduler *s, const Drover__V1__JobEvent *m)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, "");

    event_publish(s, op, m, NULL, "alert");
    op_unref(s, op);
    item_unref(s, item);
}

/* Publishes the last of the alerts after the first. Return: whether there were any. */
static bool group_tell(struct scheduler *s, struct alert_group *g)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    struct bytes event = buf_bytes(&g->event);

    if (g->more == 0 || wire_decode(WIRE_EVENT, event, NULL, &m, NULL))
        return false;
    hand_over(s, m.event, g->about, event);
    if (g->publishes)
        publish_again(s, m.event);
    g->more = 0;
    return true;
}

static void group_end(struct scheduler *s, struct alert_group *g)
{
    if (!group_tell(s, g)) {
        group_free(s, g);
        return;
    }
    g->until = s->now + s->alert_interval_ms;
    HASH_DEL(s->alert_groups, g); /* it is the last one now */
    HASH_ADD_STR(s->alert_groups, cause, g);
}

void alert_stop(struct scheduler *s)
{
    while (s->alert_groups) {
        (void)group_tell(s, s->alert_groups);
        group_free(s, s->alert_groups);
    }
}

void alert_tick(struct scheduler *s)
{
    while (s->alert_groups && s->alert_groups->until <= s->now)
        group_end(s, s->alert_groups);
}

int64_t alert_next(const struct scheduler *s)
{
    return s->alert_groups ? s->alert_groups->until : INT64_MAX;
}

/* ---- publishing an alert ---- */

static void alert_again(struct scheduler *s, struct op *op);
static void told_call(struct scheduler *s, struct op *op);
static void told_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

/* All publishes have their outcome: records that the alert was published. If the broker refused
 * it the cause is news again in a minute, to any scheduler that meets it. */
static void cause_told(struct scheduler *s, struct op *op)
{
    if (op->returned)
        return;
    op->alert->what = OPS_CAUSE_TOLD;
    op_call(s, op, told_call, told_answered);
}

/* No other process knows of this alert: it is published until the broker confirms it. */
static void of_store_told(struct scheduler *s, struct op *op)
{
    if (!op->returned)
        return;
    op->returned = false;
    op->call = alert_again;
    op->open++;
    op_repeat_at(s, op, s->now + MACHINE_REFUSED_AGAIN_MS);
}

static void publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m)
{
    event_publish(s, op, m, op->workflow, "alert");
    op->then = op->seq > 0         ? notification_published
               : *op->alert->cause ? cause_told
                                   : of_store_told;
}

static void alert_again(struct scheduler *s, struct op *op)
{
    Drover__V1__JobEvent m;

    alert_event(s, &m, op);
    publish(s, op, &m);
    op_unref(s, op); /* held by the timer */
}

/* Whether an alert concerns all users, such as that an actor of registered workflows is absent:
 * then it is raised once for all their jobs. Users may name any number of other actors. */
static bool concerns_all(const struct scheduler *s, const struct op *op)
{
    return *op->alert->cause && op->workflow &&
           actor_is_registered(s, actor_of(op->workflow, op->alert));
}

/* If jobs have owners, the owners share the alert command; else the workflows do. */
static const char *about_of(const struct scheduler *s, const struct op *op,
                            const Drover__V1__JobEvent *m, const char *submitter)
{
    if (concerns_all(s, op))
        return op->alert->cause;
    return s->access->required && *submitter ? submitter : m->workflow;
}

static void tell(struct scheduler *s, struct op *op, const Drover__V1__JobStatus *job)
{
    bool letter = strcmp(op->alert->reason, DEAD_LETTER) == 0;
    Drover__V1__JobEvent m;
    const char *about, *cause;

    alert_event(s, &m, op);
    if (job)
        add_status(s, &m, job);
    s->stats.alerts++;
    about = about_of(s, op, &m, job ? job->submitter : "");
    cause = effects_printf(s->out, "%s %s %s %s", m.reason, m.error ? m.error->class_ : "", m.actor,
                           m.workflow);
    if (!*op->job && !letter) /* such as one about the store: not held back by others */
        hand_over(s, &m, about, wire_pack(s->out, &m.base, true));
    else if (!is_first(s, &m, cause, about, letter) && letter)
        return;
    publish(s, op, &m);
}

static void status_call(struct scheduler *s, struct op *op)
{
    bool step = op->alert->step != WORKFLOW_NONE;

    ops_inspect_job(s->out, op_call_id(s, op), id_partition(op->job, s->partitions), op->job,
                    step ? op->alert->step : 0, step ? 1 : 0, false, NULL);
}

static void status_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    struct ops_job job;

    if (ops_read_job(r, s->out, &job)) {
        tell(s, op, NULL);
        return;
    }
    status_job(s->out, &status, bytes_str(op->job), &job);
    if (bytes_is(job.definition, op->workflow->digest)) /* the job may have migrated since */
        status_steps(s->out, &status, &job, op->workflow);
    tell(s, op, &status);
    status_steps_free(&status);
}

void alert_publish(struct scheduler *s, struct op *op)
{
    if (*op->job && op->workflow)
        op_call(s, op, status_call, status_answered);
    else
        tell(s, op, NULL);
}

static void told_call(struct scheduler *s, struct op *op)
{
    ops_told(s->out, op_call_id(s, op), op->partition, op->alert->cause, op->alert->what,
             op->nonce);
}

static void told_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    if (op->alert->what == OPS_CAUSE_ASK && ops_read_told(r))
        alert_publish(s, op);
}

void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at)
{
    struct op *op = op_new(s, item, job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = (struct alert){.step = WORKFLOW_NONE, .at = at, .reason = reason};
    alert_publish(s, op);
    op_unref(s, op);
}

static struct op *letters_op(struct scheduler *s, struct item *item, const char *job)
{
    struct op *op = op_new(s, item, job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = (struct alert){.step = WORKFLOW_NONE, .at = s->checked_at, .reason = DEAD_LETTER};
    return op;
}

static void letters_call(struct scheduler *s, struct op *op)
{
    ops_letters(s->out, op_call_id(s, op), op->partition, s->letters.there,
                s->letters.own - s->letters.recorded);
    s->letters.recording = s->letters.own;
}

static void letters_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    s->letters.recorded = s->letters.recording;
    op->alert->count = ops_read_letters(r);
    if (op->alert->count > 0)
        alert_publish(s, op);
}

void alert_letters(struct scheduler *s)
{
    struct item *item = item_new(s, NULL);
    struct op *op = letters_op(s, item, "");

    op_call(s, op, letters_call, letters_answered);
    op_unref(s, op);
    item_unref(s, item);
}

/* The delivery does not wait for this alert: the broker may refuse it for a long time. */
void alert_dead(struct scheduler *s, const char *job, const char *reason)
{
    struct item *item = item_new(s, NULL);
    struct op *op = letters_op(s, item, job);

    op->reason = or_abort(strdup(reason));
    alert_publish(s, op);
    op_unref(s, op);
    item_unref(s, item);
}

/* Only this process knows of what was done to it, so it does not ask the store. */
void alert_now(struct scheduler *s, const char *job, const char *reason)
{
    struct item *item = item_new(s, NULL);

    alert_of_store(s, item, job, reason, s->checked_at);
    item_unref(s, item);
}

void alert_ignored(struct scheduler *s, const char *actor)
{
    struct item *item = item_new(s, NULL);
    struct op *op = op_new(s, item, "");

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert =
        (struct alert){.step = WORKFLOW_NONE, .at = s->checked_at, .reason = "REPLIES_IGNORED"};
    snprintf(op->alert->actor, sizeof(op->alert->actor), "%s", actor);
    alert_publish(s, op);
    op_unref(s, op);
    item_unref(s, item);
}

void alert_once_a_minute(struct scheduler *s, int64_t *told, const char *job, const char *reason)
{
    if (*told && s->now < *told + MACHINE_ALERT_AGAIN_MS)
        return;
    *told = s->now;
    alert_now(s, job, reason);
}

void alert_corrupt(struct scheduler *s, struct item *item, const char *job, int64_t at)
{
    struct op *op = op_new(s, item, job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert =
        (struct alert){.step = WORKFLOW_NONE, .at = at, .reason = TORN, .what = OPS_CAUSE_ASK};
    snprintf(op->alert->cause, sizeof(op->alert->cause), TORN " %s", job);
    op_call(s, op, told_call, told_answered);
    op_unref(s, op);
}

/* An operation of its own, because it may be published more than once. */
static struct op *alert_new(struct scheduler *s, const struct op *from, const struct alert *of,
                            struct workflow *w)
{
    struct op *op = op_new(s, from->item, from->job);

    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = *of;
    op->workflow = workflow_ref(w);
    return op;
}

/* Tells the store about a cause, or asks whether it is news. The partition follows from the
 * actor, so that each cause is in one of them. */
static void cause_report(struct scheduler *s, const struct op *from, const struct alert *alert,
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

static void cause_over(struct scheduler *s, const struct op *op, struct alert *alert,
                       struct workflow *w)
{
    static const char *const reasons[] = {NO_AGENT, UNROUTABLE, SILENT, REJECTED};

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

static const char *const of_jobs[] = {PARKED, DEADLINE, FAILED, COMPENSATED, COMPENSATION_FAILED};

/* The reason of an alert about a job; NULL if it is about an actor. */
static const char *reason_of_job(struct bytes reason)
{
    for (size_t i = 0; i < array_size(of_jobs); i++)
        if (bytes_is(reason, of_jobs[i]))
            return of_jobs[i];
    return NULL;
}

void alert_from_outbox(struct op *op, const struct ops_job *job, const char *step,
                       struct workflow *w)
{
    const char *reason = reason_of_job(job->reason);
    unsigned number, back;

    free(op->alert);
    op->alert = or_abort(malloc(sizeof(*op->alert)));
    *op->alert = (struct alert){
        .step = WORKFLOW_NONE,
        .at = job->updated,
        .seq = op->seq,
        .reason = reason ? reason : PARKED,
    };
    if (w && sscanf(step, "%u %u", &number, &back) == 2 && number < w->n_steps) {
        op->alert->step = number;
        op->alert->back = back > 0;
    }
    workflow_unref(op->workflow);
    op->workflow = w ? workflow_ref(w) : NULL;
}

/* The reason of an alert about an actor: the store is asked first whether it is news. */
static const char *cause_of(struct bytes reason)
{
    static const char *const causes[] = {UNROUTABLE, SILENT, REJECTED, OTHER_STEP, OTHER_ACTOR};

    for (size_t i = 0; i < array_size(causes); i++)
        if (bytes_is(reason, causes[i]))
            return causes[i];
    return NO_AGENT;
}

void alerts_raise(struct scheduler *s, const struct op *op, const struct ops_transition *transition,
                  struct workflow *w)
{
    for (uint32_t i = 0; i < transition->n_alerts; i++) {
        const struct ops_alert *of = &transition->alerts[i];
        struct bytes reason = of->reason;
        struct alert alert = {
            .step = of->step, .back = of->back, .at = transition->now, .seq = of->seq};

        if (reason_of_job(reason)) /* in the outbox: read as one that a dead scheduler left there */
            notification_new(s, op->item, op->job, of->seq, op->digest);
        else if (of->step >= w->n_steps)
            continue;
        else if (bytes_is(reason, SERVED))
            cause_over(s, op, &alert, w);
        else
            cause_met(s, op, &alert, cause_of(reason), w);
    }
}
