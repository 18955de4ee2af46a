// SPDX-License-Identifier: Apache-2.0
#include "parts.h"

#include <string.h>

#include "model/wire.h"

#define HALF 500000 /* millionths */

static struct bytes pack(struct world *w, const ProtobufCMessage *m)
{
    uint8_t *body = effects_alloc(&w->t->arena, protobuf_c_message_get_packed_size(m));

    return bytes_of(body, protobuf_c_message_pack(m, body));
}

static const char *queue_of(struct world *w, const struct process *client)
{
    return effects_printf(&w->t->arena, "client-%u.inbox", (unsigned)client->index + 1);
}

/* ---- submitting: the same words until there is a receipt ---- */

static void on_submit(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, submit_event);
    struct world *w = job->world;

    if (job->accepted)
        return;
    tell(w->t, job->client->name, "submit %s", job->id);
    simlink_publish(&job->client->link, &job->submit, 0);
    timeline_add(w->t, &job->submit_event, w->plan->client_retry_ms);
}

static struct bytes submit_body(struct world *w, const struct client_job *job,
                                const struct definition *d)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Payload input = DROVER__V1__PAYLOAD__INIT;

    m.job_id = (char *)job->id;
    m.reply_to = (char *)queue_of(w, job->client);
    if (d->registered)
        m.workflow = timeline_chance(w->t, HALF) ? (char *)d->workflow->full_name
                                                 : (char *)d->workflow->name;
    else
        m.definition = (Drover__V1__Workflow *)d->workflow->message;
    input.content_type = (char *)"text/plain";
    input.data = (ProtobufCBinaryData){5, (uint8_t *)"input"};
    m.input = &input;
    if (timeline_chance(w->t, w->plan->delayed))
        m.start_at = store_now(w) + timeline_between(w->t, 1, 10000);
    if (timeline_chance(w->t, w->plan->delayed))
        m.complete_by =
            (m.start_at ? m.start_at : store_now(w)) + timeline_between(w->t, 1, 100000);
    if (timeline_chance(w->t, w->plan->disabled))
        m.desired = DROVER__V1__STATE__STATE_DISABLED;
    if (timeline_chance(w->t, w->plan->step_events))
        m.events = DROVER__V1__EVENTS__EVENTS_STEP;
    return pack(w, &m.base);
}

/* ---- commands ---- */

static void command(struct client_job *job, Drover__V1__Control *m, const char *id)
{
    struct world *w = job->world;
    struct bus_message message = {.exchange = "drover.control", .key = "control"};

    m->job_id = (char *)job->id;
    m->command_id = (char *)id;
    m->reply_to = (char *)queue_of(w, job->client);
    message.body = pack(w, &m->base);
    message.type = m->base.descriptor->name;
    message.job = job->id;
    message.mandatory = true;
    tell(w->t, job->client->name, "%s", id);
    simlink_publish(&job->client->link, &message, 0);
}

static void on_cancel(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, cancel_event);
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Cancel cancel = DROVER__V1__CANCEL__INIT;

    if (job->cancel_answered)
        return;
    m.command_case = DROVER__V1__CONTROL__COMMAND_CANCEL;
    m.cancel = &cancel;
    command(job, &m, effects_printf(&job->world->t->arena, "cancel-%s", job->id));
    timeline_add(job->world->t, &job->cancel_event, job->world->plan->client_retry_ms);
}

static void on_query(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, query_event);
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Query query = DROVER__V1__QUERY__INIT;

    query.with_data = true;
    m.command_case = DROVER__V1__CONTROL__COMMAND_QUERY;
    m.query = &query;
    command(job, &m, effects_printf(&job->world->t->arena, "query-%s", job->id));
}

void client_cancel(struct world *w, const char *id)
{
    for (uint32_t i = 0; i < w->plan->jobs; i++) {
        struct client_job *job = &w->jobs[i];

        if (strcmp(job->id, id) != 0)
            continue;
        job->cancel_answered = false;
        timeline_add(w->t, &job->cancel_event, 0);
    }
}

/* ---- hearing ---- */

static struct client_job *job_find(struct world *w, const char *id)
{
    for (uint32_t i = 0; i < w->plan->jobs; i++)
        if (strcmp(w->jobs[i].id, id) == 0)
            return &w->jobs[i];
    return NULL;
}

static void hear_receipt(struct world *w, const Drover__V1__Receipt *m)
{
    struct client_job *job = job_find(w, m->job_id);

    checker_receipt(w->checker, m);
    if (job && (m->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED ||
                m->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY))
        job->accepted = true;
}

static void hear_answer(struct world *w, const Drover__V1__Answer *m)
{
    struct client_job *job = job_find(w, m->job_id);

    if (m->status)
        checker_status(w->checker, m->status);
    /* a command that overtook its Submit is given again */
    if (job && strncmp(m->command_id, "cancel", 6) == 0 &&
        m->code != DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB)
        job->cancel_answered = true;
}

void client_delivery(struct process *p, const struct bus_delivery *d, const char *type)
{
    static const struct {
        const char *type;
        enum wire_type wire;
    } types[] = {
        {"drover.v1.Receipt", WIRE_RECEIPT},
        {"drover.v1.Answer", WIRE_ANSWER},
        {"drover.v1.JobEvent", WIRE_EVENT},
    };
    CLEANUP(wire_free) struct wire_message m = {0};
    struct problem problem;

    for (size_t i = 0; i < array_size(types); i++) {
        if (strcmp(type, types[i].type) != 0)
            continue;
        if (wire_decode(types[i].wire, d->body, NULL, &m, &problem))
            checker_fail(p->world->checker, "a client gets a %s that is broken: %s %s", type,
                         problem.field, problem.reason);
        else if (types[i].wire == WIRE_RECEIPT)
            hear_receipt(p->world, m.receipt);
        else if (types[i].wire == WIRE_ANSWER)
            hear_answer(p->world, m.answer);
        else
            checker_event(p->world->checker, m.event);
    }
    simlink_ack(&p->link, d->handle);
}

/* ---- the beginning ---- */

static struct process *nth_client(struct world *w, uint32_t n)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].role == ROLE_CLIENT && n-- == 0)
            return &w->processes[i];
    return NULL;
}

static void job_begin(struct world *w, struct client_job *job, uint32_t i)
{
    const struct definition *d =
        &w->definitions[timeline_between(w->t, 0, w->plan->n_definitions - 1)];
    int64_t when = timeline_between(w->t, 0, w->plan->submit_within_ms);

    job->world = w;
    job->client = nth_client(w, i % w->plan->clients);
    job->id = effects_printf(&w->t->arena, "j%u", (unsigned)i + 1);
    job->submit = (struct bus_message){
        .exchange = "drover.submit",
        .key = "submit",
        .body = submit_body(w, job, d),
        .type = "drover.v1.Submit",
        .job = job->id,
        .mandatory = true,
    };
    checker_job(w->checker, job->id, d->workflow, d->registered);
    job->submit_event.fire = on_submit;
    job->cancel_event.fire = on_cancel;
    job->query_event.fire = on_query;
    timeline_add(w->t, &job->submit_event, when);
    if (timeline_chance(w->t, w->plan->cancels))
        timeline_add(w->t, &job->cancel_event, when + timeline_between(w->t, 0, 10000));
    if (timeline_chance(w->t, w->plan->queries))
        timeline_add(w->t, &job->query_event, when + timeline_between(w->t, 0, 10000));
}

void clients_begin(struct world *w)
{
    for (uint32_t i = 0; i < w->n_processes; i++) {
        struct process *p = &w->processes[i];

        if (p->role == ROLE_CLIENT)
            simlink_consume(&p->link, simbus_queue(w->bus, queue_of(w, p), false), 0, 0);
    }
    w->jobs = timeline_alloc(w->t, w->plan->jobs * sizeof(*w->jobs));
    for (uint32_t i = 0; i < w->plan->jobs; i++)
        job_begin(w, &w->jobs[i], i);
}
