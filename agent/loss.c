// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: reports to the schedulers that the requests of an actor are lost with its queue
 *
 * The queue is declared only after the broker has confirmed the report. So if the agent ends
 * before, the queue is still not there, and the next process that is to declare it reports the
 * loss. Called by agent.c.
 */
#include "agent/loss.h"

#include <stdlib.h>

#include "agent/outgoing.h"
#include "agent/state.h"
#include "base/log.h"

struct loss_report {
    struct outgoing outgoing;
    char *actor; /* owned */
};

static struct loss_report *report_of(struct outgoing *o)
{
    return container_of(o, struct loss_report, outgoing);
}

static void send(struct agent *a, struct outgoing *o)
{
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    struct bus_message *m;

    body.requests_lost = true;
    m = outgoing_replies(a, o, &body, report_of(o)->actor, false);
    m->mandatory = true;
}

static void on_confirmed(struct agent *a, struct outgoing *o)
{
    const char *actor = effects_str(a->out, report_of(o)->actor);
    struct effect *e = effects_add(a->out, EFFECT_ROLE, 0);

    e->role.what = AGENT_DECLARE;
    e->role.object = (void *)actor;
    outgoing_free(a, o);
}

static void on_refused(struct agent *a, struct outgoing *o)
{
    outgoing_pause(a, o, outgoing_exchange(a, report_of(o)->actor), 0, INT64_MAX);
}

static void report_free(struct outgoing *o)
{
    free(report_of(o)->actor);
}

static const struct outgoing_kind kind = {
    .confirmed = on_confirmed,
    .refused = on_refused,
    .resend = send,
    .free = report_free,
};

void loss_report(struct agent *a, const char *actor)
{
    struct loss_report *report = outgoing_new(a, sizeof(*report), &kind);

    report->actor = or_abort(strdup(actor));
    a->stats.losses++;
    log_warn("requests_lost", LOG_S("actor", actor),
             LOG_S("why", "its queue was not there, or was deleted"));
    send(a, &report->outgoing);
}
