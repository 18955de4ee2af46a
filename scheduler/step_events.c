// SPDX-License-Identifier: Apache-2.0
/*
 * Step events: on drover.events for all who bind a queue there, and for the client that asked
 *
 * Called by transition.c, and by on_replies.c when a Progress shows that a step has begun.
 */
#include "scheduler/step_events.h"

#include <errno.h>
#include <stdlib.h>

#include "model/status.h"
#include "scheduler/event.h"
#include "scheduler/state.h"

void step_events_publish(struct scheduler *s, struct op *op,
                         const struct ops_transition *transition, const struct workflow *w)
{
    Drover__V1__Submit *labels;

    if (!transition->publish_step_events || transition->n_requests == 0)
        return;
    labels = status_labels(transition->labels);
    for (uint32_t i = 0; i < transition->n_requests; i++) {
        const struct ops_request *request = &transition->requests[i];
        Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;

        if (request->step >= w->n_steps)
            continue;
        m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
        m.job_id = op->job;
        m.workflow = (char *)w->full_name;
        m.at = transition->now;
        m.seq = transition->seq;
        m.step = (char *)w->steps[request->step].name;
        m.step_state = request->active ? DROVER__V1__STEP_STATE__STEP_STATE_RUNNING
                                       : DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
        m.attempt = request->attempt;
        m.steps_total = transition->steps;
        m.steps_open = transition->open;
        if (labels) {
            m.n_labels = labels->n_labels;
            m.labels = labels->labels;
        }
        event_publish(s, op, &m, w, "step")->transient = true;
    }
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
}

/* ---- step events for the client ---- */

static const struct {
    const char *event; /* word of the history */
    Drover__V1__StepEvent step_event;
    Drover__V1__StepState forward, back;
} STEP_EVENTS[] = {
    {"dispatched", DROVER__V1__STEP_EVENT__STEP_EVENT_SENT,
     DROVER__V1__STEP_STATE__STEP_STATE_RUNNING, DROVER__V1__STEP_STATE__STEP_STATE_REVERTING},
    {"began", DROVER__V1__STEP_EVENT__STEP_EVENT_BEGAN, DROVER__V1__STEP_STATE__STEP_STATE_RUNNING,
     DROVER__V1__STEP_STATE__STEP_STATE_REVERTING},
    {"done", DROVER__V1__STEP_EVENT__STEP_EVENT_DONE, DROVER__V1__STEP_STATE__STEP_STATE_DONE,
     DROVER__V1__STEP_STATE__STEP_STATE_DONE},
    {"undone", DROVER__V1__STEP_EVENT__STEP_EVENT_UNDONE,
     DROVER__V1__STEP_STATE__STEP_STATE_REVERTED, DROVER__V1__STEP_STATE__STEP_STATE_REVERTED},
    {"failed", DROVER__V1__STEP_EVENT__STEP_EVENT_FAILED,
     DROVER__V1__STEP_STATE__STEP_STATE_UNSPECIFIED,
     DROVER__V1__STEP_STATE__STEP_STATE_UNSPECIFIED},
    {"parked", DROVER__V1__STEP_EVENT__STEP_EVENT_PARKED, DROVER__V1__STEP_STATE__STEP_STATE_PARKED,
     DROVER__V1__STEP_STATE__STEP_STATE_PARKED},
};

/* No operation waits for the outcome, and the bus drops the event while the broker is away. */
static void publish_to_client(struct scheduler *s, const struct op *op,
                              const struct ops_step_events *all, const Drover__V1__JobEvent *m)
{
    struct bus_message *message = &effects_add(s->out, EFFECT_PUBLISH, 0)->publish;

    message->body = wire_pack(s->out, &m->base, all->json);
    message->content_type = wire_content_type(all->json);
    message->type = m->base.descriptor->name;
    message->exchange = "";
    message->key = effects_text(s->out, all->to.reply_to);
    message->correlation_id = effects_text(s->out, all->to.correlation);
    message->job = effects_str(s->out, op->job);
    message->sender = effects_text(s->out, all->submitter);
    message->transient = true;
}

static void publish_step(struct scheduler *s, const struct op *op,
                         const struct ops_step_events *all, const struct ops_step_event *e)
{
    Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;

    m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
    m.job_id = (char *)op->job;
    m.workflow = effects_text(s->out, all->workflow);
    m.seq = e->seq;
    m.at = e->at;
    m.step = effects_text(s->out, e->step);
    m.attempt = e->attempt;
    m.agent = effects_text(s->out, e->agent);
    m.steps_total = all->steps;
    m.steps_open = all->open;
    for (size_t i = 0; i < array_size(STEP_EVENTS); i++)
        if (bytes_is(e->event, STEP_EVENTS[i].event)) {
            m.step_event = STEP_EVENTS[i].step_event;
            m.step_state = e->back ? STEP_EVENTS[i].back : STEP_EVENTS[i].forward;
        }
    if (e->error.len > 0)
        m.error = drover__v1__error__unpack(NULL, e->error.len, e->error.data);
    publish_to_client(s, op, all, &m);
    drover__v1__error__free_unpacked(m.error, NULL);
}

static void steps_call(struct scheduler *s, struct op *op)
{
    ops_step_events(s->out, op_call_id(s, op), op->partition, op->job);
}

static void steps_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_step_events all;

    if (ops_read_step_events(r, s->out, &all) || all.to.reply_to.len == 0)
        return;
    for (uint32_t i = 0; i < all.n; i++)
        publish_step(s, op, &all, &all.events[i]);
}

/* The delivery that caused the event does not wait for this call. */
void step_events_to_client(struct scheduler *s, const char *job)
{
    struct item *item = item_internal(s);
    struct op *op = op_plain(s, item, job);

    op_call(s, op, steps_call, steps_answered);
    op_unref(s, op);
    item_unref(s, item);
}
