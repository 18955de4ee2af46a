// SPDX-License-Identifier: Apache-2.0
/*
 * Events for anyone who listens, on drover.events: how each is published, and steps as they are
 * dispatched. Alerts stand in alert.c, ends of jobs in notice.c.
 */
#include "scheduler/machine.h"

struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word)
{
    struct bus_message *message = op_publish(s, op, &m->base, false, NULL);

    message->exchange = "drover.events";
    message->key = effects_printf(s->out, "%s.%s", w && *w->name ? w->name : "unnamed", word);
    message->job = effects_str(s->out, op->job);
    return message;
}

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
