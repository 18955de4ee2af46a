// SPDX-License-Identifier: Apache-2.0
/*
 * Alert groups: one alert for each cause and interval
 *
 * The log and scheduler.alert_command get one alert for each cause (reason, error class, actor and
 * workflow) and alert_interval: the first at once, and at the end of the interval the last of those
 * that followed, with their number. So does drover.events for dead letters.
 *
 * Called by alert.c, and by scheduler.c for the time.
 */
#include "scheduler/alert_group.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/event.h"
#include "scheduler/state.h"

/* Alerts of one cause within an interval, after the first. */
struct alert_group {
    UT_hash_handle hh;
    int64_t until;
    uint64_t more; /* their number; the last one is kept: */
    char *about;   /* see struct scheduler_alert */
    struct buf event;
    bool publishes; /* it is about a dead letter, so the event is published as well */
    char cause[];
};

static struct alert_group *group_find(struct scheduler *s, const char *cause)
{
    struct alert_group *g;

    HASH_FIND_STR(s->alerts.groups, cause, g);
    return g;
}

static void group_free(struct scheduler *s, struct alert_group *g)
{
    HASH_DEL(s->alerts.groups, g);
    buf_deinit(&g->event);
    free(g->about);
    free(g);
}

void alert_group_free_all(struct scheduler *s)
{
    while (s->alerts.groups)
        group_free(s, s->alerts.groups);
}

static void group_add(struct scheduler *s, const char *cause)
{
    size_t size = strlen(cause) + 1;
    struct alert_group *g = or_abort(calloc(1, sizeof(*g) + size));

    memcpy(g->cause, cause, size);
    g->until = s->now + s->alerts.interval_ms;
    HASH_ADD_STR(s->alerts.groups, cause, g);
}

/* Beyond ALERT_CAUSES_MAX all causes of one reason are one, because a user may name any class
 * and workflow. */
static const char *cause_within(struct scheduler *s, const char *cause, const char *reason)
{
    bool room = HASH_COUNT(s->alerts.groups) < ALERT_CAUSES_MAX;

    return room || group_find(s, cause) ? cause : reason;
}

/* Gives an alert to the log and to the alert command. The log gets nothing of the data of a job. */
void alert_group_hand_over(struct scheduler *s, const Drover__V1__JobEvent *m, const char *about,
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
bool alert_group_add(struct scheduler *s, Drover__V1__JobEvent *m, const char *cause,
                     const char *about, bool publishes)
{
    const char *within = cause_within(s, cause, m->reason);
    struct alert_group *g = group_find(s, within);
    struct bytes event;

    if (!g) {
        group_add(s, within);
        alert_group_hand_over(s, m, about, wire_pack(s->out, &m->base, true));
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
    struct item *item = item_internal(s);
    struct op *op = op_plain(s, item, "");

    event_publish(s, op, m, NULL, "alert");
    op_unref(s, op);
    item_unref(s, item);
}

/* Publishes the last of the alerts after the first. Return: whether there were any. */
static bool group_publish_last(struct scheduler *s, struct alert_group *g)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    struct bytes event = buf_bytes(&g->event);

    if (g->more == 0 || wire_decode(WIRE_EVENT, event, NULL, &m, NULL))
        return false;
    alert_group_hand_over(s, m.event, g->about, event);
    if (g->publishes)
        publish_again(s, m.event);
    g->more = 0;
    return true;
}

static void group_end(struct scheduler *s, struct alert_group *g)
{
    if (!group_publish_last(s, g)) {
        group_free(s, g);
        return;
    }
    g->until = s->now + s->alerts.interval_ms;
    HASH_DEL(s->alerts.groups, g); /* it is the last one now */
    HASH_ADD_STR(s->alerts.groups, cause, g);
}

void alert_group_stop(struct scheduler *s)
{
    while (s->alerts.groups) {
        (void)group_publish_last(s, s->alerts.groups);
        group_free(s, s->alerts.groups);
    }
}

void alert_group_tick(struct scheduler *s)
{
    while (s->alerts.groups && s->alerts.groups->until <= s->now)
        group_end(s, s->alerts.groups);
}

int64_t alert_group_next(const struct scheduler *s)
{
    return s->alerts.groups ? s->alerts.groups->until : INT64_MAX;
}
