// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: see supervisor/command.h
 *
 * Called by supervisor.c and loss.c.
 */
#include "supervisor/command.h"

#include "base/log.h"
#include "model/wire.h"

#define COMMAND_EXPIRES_MS 60000 /* by then expire has named the job again */

void command_line(struct supervisor *s, const char *verb, const char *job, const char *kind,
                  const char *what)
{
    struct effect *e;
    const char *line = effects_printf(s->out, "%s %s%s%s%s%s", verb, job, *kind ? " " : "", kind,
                                      *what ? " " : "", what);

    if (!s->config.once)
        return;
    e = effects_add(s->out, EFFECT_ROLE, 0);
    e->role.what = SUPERVISOR_DECISION;
    e->role.object = (void *)line;
}

static void publish(struct supervisor *s, Drover__V1__Control *m)
{
    struct bytes body = wire_pack(s->out, &m->base, false);
    struct effect *e = effects_add(s->out, EFFECT_PUBLISH, ++s->last_id);

    e->publish.exchange = "drover.control";
    e->publish.key = "control";
    e->publish.body = body;
    e->publish.content_type = wire_content_type(false);
    e->publish.type = m->base.descriptor->name;
    e->publish.job = effects_str(s->out, m->job_id);
    e->publish.not_after = s->now + COMMAND_EXPIRES_MS;
    e->publish.expires = true;
    e->publish.mandatory = true;
    s->unconfirmed++;
}

void command_recover(struct supervisor *s, const struct ops_due *due, int64_t store_now)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Recover command = DROVER__V1__RECOVER__INIT;

    m.job_id = effects_text(s->out, due->job);
    m.issued_at = store_now;
    m.command_case = DROVER__V1__CONTROL__COMMAND_RECOVER;
    m.recover = &command;
    command.steps = due->steps;
    command.n_steps = due->n;
    publish(s, &m);
    s->stats.recovers++;
    log_often(LOG_INFO, "recover", LOG_S("job", m.job_id), LOG_I("steps", due->n));
}

void command_notify(struct supervisor *s, const struct ops_notification *n, int64_t store_now)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Notify command = DROVER__V1__NOTIFY__INIT;

    m.job_id = effects_text(s->out, n->job);
    m.issued_at = store_now;
    m.command_case = DROVER__V1__CONTROL__COMMAND_NOTIFY;
    m.notify = &command;
    command.seq = n->seq;
    publish(s, &m);
    s->stats.notifies++;
    log_often(LOG_INFO, "notify", LOG_S("job", m.job_id), LOG_I("seq", (int64_t)n->seq));
}

void command_notify_torn(struct supervisor *s, const char *job)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Notify command = DROVER__V1__NOTIFY__INIT;

    m.job_id = (char *)job;
    m.issued_at = s->offset_most == INT64_MAX ? 0 : s->now + s->offset_most;
    m.command_case = DROVER__V1__CONTROL__COMMAND_NOTIFY;
    m.notify = &command;
    command.torn = true;
    publish(s, &m);
    s->stats.notifies++;
}
