// SPDX-License-Identifier: Apache-2.0
/*
 * Alerts: events that ask a person to act, or to know
 *
 * alert.c publishes them, alert_event.c makes their events.
 */
#pragma once

#include "base/id.h"
#include "model/store_ops.h"
#include "model/workflow.h"
#include "scheduler/op.h"

/* Reasons. About an actor: the store is asked first whether its cause is news (alert_cause.c). */
#define ALERT_NO_AGENT "NO_AGENT"
#define ALERT_UNROUTABLE "UNROUTABLE"
#define ALERT_SILENT "SILENT"
#define ALERT_REJECTED "REJECTED"
#define ALERT_OTHER_STEP "OTHER_STEP"
#define ALERT_OTHER_ACTOR "OTHER_ACTOR"
#define ALERT_SERVED "SERVED" /* the causes of an actor are over */
/* About a job: they come from the outbox (notification.c). */
#define ALERT_PARKED "PARKED"
#define ALERT_DEADLINE "DEADLINE"
#define ALERT_FAILED "FAILED"
#define ALERT_COMPENSATED "COMPENSATED"
#define ALERT_COMPENSATION_FAILED "COMPENSATION_FAILED"
/* Others. */
#define ALERT_TORN "TORN"
#define ALERT_DEAD_LETTER "DEAD_LETTER"

/* ms between two alerts ISOLATED of this process, and between two inspections of drover.dead; also
 * the default alert interval. */
#define ALERT_AGAIN_MS 60000

/* What an alert says: about a job or a step of it, an actor, the store, or a dead letter. */
struct alert {
    uint32_t step; /* of the operation's own workflow, or WORKFLOW_NONE */
    bool back;     /* about the undo of the step */
    int64_t at;    /* the store's time, ms */
    uint64_t seq;  /* of a notification; else 0 */
    const char *reason;
    enum ops_cause what;          /* what the next call says of the cause */
    uint64_t count;               /* of dead letters; else 0 */
    char actor[ID_NAME_MAX + 1];  /* that the alert is about, if it has no step; else "" */
    char cause[16 + ID_NAME_MAX]; /* "": the store need not be asked whether it is news */
};

/* Publishes one alert. */
struct alert_op {
    struct op op;
    struct alert alert;
    char *letter;     /* why a message became a dead letter; owned; NULL: it is about none */
    op_fn *published; /* follows when the event has its outcome */
};

struct alerts {
    struct alert_asked *asked;  /* causes that the store was asked about: alert_cause.c */
    struct alert_group *groups; /* the one whose interval ends first is first */
    int64_t interval_ms;        /* see scheduler_config.alert_interval_ms */
    int64_t isolated_at;        /* time of the last alert ISOLATED; 0: never */
};

/* The alert whose first member @op is. */
struct alert_op *alert_of(struct op *op);
/* An op_free_fn, for kinds that have a struct alert_op as their first member. */
void alert_free(struct op *op);

/* A new alert, for the caller to publish. After a refusal of the broker it is published again:
 * no other process knows of it. The caller may set another `published`. */
struct alert_op *alert_new(struct scheduler *s, struct item *item, const char *job,
                           const struct alert *alert);
/* Publishes an alert, with the state of the job that it is about. */
void alert_publish(struct scheduler *s, struct alert_op *a);
/* A value for `published`: publishes again what the broker has refused. */
void alert_repeat_refused(struct scheduler *s, struct op *op);

/* Raises an alert about the store, or about what it has lost, as a part of @item. @at: the
 * store's time in ms. */
void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at);
/* Messages of this actor's agents were not read. */
void alert_ignored(struct scheduler *s, const char *actor);
/* The broker closed the connection over a message about this job; raised once a minute. */
void alert_isolated(struct scheduler *s, const char *job);

/* ---- the event (alert_event.c) ---- */

/* Fills in the event of an alert. */
void alert_event(struct scheduler *s, Drover__V1__JobEvent *m, const struct alert_op *a);
/* Adds the state of the job that it is about. */
void alert_event_status(struct scheduler *s, Drover__V1__JobEvent *m,
                        const Drover__V1__JobStatus *job);
/* The actor of the step that an alert is about; "" for none. */
const char *alert_event_actor(const struct workflow *w, const struct alert *alert);
