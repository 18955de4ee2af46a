// SPDX-License-Identifier: Apache-2.0
/*
 * Clients: submit jobs, command them, and receive what is published to them
 *
 * Called by the other parts of the world; see parts.h.
 */
#include "world/parts.h"

#include <string.h>

#include "model/wire.h"

#define HALF 500000 /* millionths */
#define SOME 30000
#define SKEW_MS 3600000
#define BATCH_MAX 5         /* Submits in a message */
#define NAMED_AGAIN_MS 5000 /* ASK_AGAIN of common/store/head.lua */

static struct bytes pack(struct world *w, const ProtobufCMessage *m)
{
    uint8_t *body = effects_alloc(&w->t->arena, protobuf_c_message_get_packed_size(m));

    return bytes_of(body, protobuf_c_message_pack(m, body));
}

static const char *inbox(struct world *w, const struct process *client)
{
    return effects_printf(&w->t->arena, "client-%u.inbox", (unsigned)client->index + 1);
}

const char *client_queue(const struct client_job *job)
{
    return inbox(job->world, job->client);
}

/* ---- submitting: the same message until there is a Receipt ---- */

static bool in_same_batch(const struct client_job *job, const struct client_job *other)
{
    return other != job && other->batches && other->client == job->client && other->submitted &&
           !other->accepted;
}

/* The Submit of a job with some of those of its client that have no Receipt. Not all of them: the
 * traffic of many jobs would grow with the square of their number. */
static struct bytes batch_body(const struct client_job *job)
{
    struct world *w = job->world;
    const struct client_job *jobs[BATCH_MAX] = {job};
    Drover__V1__Submits all = DROVER__V1__SUBMITS__INIT;
    Drover__V1__Submit *list[BATCH_MAX];
    struct wire_message m[BATCH_MAX];
    struct bytes body;
    size_t n = 1;

    for (uint32_t i = 0; i < w->n_jobs && n < BATCH_MAX; i++)
        if (in_same_batch(job, &w->jobs[i]))
            jobs[n++] = &w->jobs[i];
    for (size_t i = 0; i < n; i++)
        if (wire_decode(WIRE_SUBMIT, jobs[i]->submit.body, NULL, &m[all.n_submits], NULL) == 0) {
            list[all.n_submits] = m[all.n_submits].submit;
            all.n_submits++;
        }
    all.submits = list;
    body = pack(w, &all.base);
    for (size_t i = 0; i < all.n_submits; i++)
        wire_free(&m[i]);
    return body;
}

static void on_submit(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, submit_event);
    struct world *w = job->world;
    struct bus_message message = job->submit;

    if (job->accepted)
        return;
    job->submitted = true;
    tell(w->t, job->client->name, "submit %s", job->id);
    if (job->batches) {
        message.type = "drover.v1.Submits";
        message.job = NULL;
        message.body = batch_body(job);
    }
    simlink_publish(&job->client->link, &message, 0);
    timeline_add(w->t, &job->submit_event, w->plan->client_retry_ms);
}

static struct bytes submit_body(struct world *w, struct client_job *job, const struct definition *d)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Payload input = DROVER__V1__PAYLOAD__INIT;
    Drover__V1__Label label = DROVER__V1__LABEL__INIT, *labels = &label;

    m.job_id = (char *)job->id;
    m.reply_to = (char *)client_queue(job);
    m.batches = job->batches;
    label.name = (char *)CHECKER_LABEL;
    label.value = (char *)job->id;
    m.labels = &labels;
    m.n_labels = 1;
    m.traceparent = (char *)effects_printf(&w->t->arena, CHECKER_TRACE, job->id);
    if (d->registered) /* a name without a version is enough if there is only one version */
        m.workflow = d->newer || timeline_chance(w->t, HALF) ? (char *)d->workflow->full_name
                                                             : (char *)d->workflow->name;
    else
        m.definition = (Drover__V1__Workflow *)d->workflow->message;
    input.content_type = (char *)"text/plain";
    input.data = (ProtobufCBinaryData){strlen(CHECKER_INPUT), (uint8_t *)CHECKER_INPUT};
    m.input = &input;
    if (w->plan->begins_at_ms)
        job->start_at = m.start_at = UNIX_EPOCH_MS + w->plan->begins_at_ms;
    else if (timeline_chance(w->t, w->plan->delayed))
        job->start_at = m.start_at =
            store_now(w) + w->plan->pace * timeline_between(w->t, 1, 10000);
    job->has_deadline = timeline_chance(w->t, w->plan->delayed);
    if (job->has_deadline) {
        int64_t within_ms = timeline_chance(w->t, HALF) ? 5000 : 100000;

        m.complete_by = (m.start_at ? m.start_at : store_now(w)) +
                        w->plan->pace * timeline_between(w->t, 1, within_ms);
    }
    if (timeline_chance(w->t, w->plan->disabled))
        m.desired = DROVER__V1__STATE__STATE_DISABLED;
    if (timeline_chance(w->t, w->plan->step_events))
        m.events = DROVER__V1__EVENTS__EVENTS_STEP;
    else if (timeline_chance(w->t, w->plan->step_replies))
        m.events = DROVER__V1__EVENTS__EVENTS_STEP_REPLY;
    return pack(w, &m.base);
}

/* ---- commands ---- */

static void on_command(struct event *e)
{
    struct command *c = container_of(e, struct command, event);
    struct client_job *job = c->job;
    struct world *w = job->world;
    struct bus_message message = {.exchange = "drover.control", .key = "control"};

    if (c->answered || job->too_late)
        return;
    message.body = pack(w, &c->message.base);
    message.type = c->message.base.descriptor->name;
    message.job = job->id;
    message.mandatory = true;
    tell(w->t, job->client->name, "%s", c->id);
    if (job->skew && c->message.issued_at)
        timeline_note(w->t, FEATURE_SKEWED);
    simlink_publish(&job->client->link, &message, 0);
    timeline_add(w->t, &c->event, w->plan->client_retry_ms);
}

struct command *client_command(struct client_job *job, const char *name, int64_t when)
{
    struct world *w = job->world;
    struct command *c = timeline_alloc(w->t, sizeof(*c));

    c->job = job;
    c->id = effects_printf(&w->t->arena, "%s-%s-%u", name, job->id, (unsigned)++job->n_commands);
    c->older = job->commands;
    job->commands = c;
    drover__v1__control__init(&c->message);
    c->message.job_id = (char *)job->id;
    c->message.command_id = (char *)c->id;
    c->message.reply_to = (char *)client_queue(job);
    if (timeline_chance(w->t, HALF))
        c->message.issued_at = UNIX_EPOCH_MS + when + job->skew;
    if (timeline_chance(w->t, SOME))
        c->message.if_seq = (uint64_t)timeline_between(w->t, 1, 30);
    c->event.fire = on_command;
    timeline_add(w->t, &c->event, when > w->t->now ? when - w->t->now : 0);
    return c;
}

/* Marks the last command, which has to be carried out whatever else happens. */
static void insist(struct client_job *job)
{
    job->commands->message.if_seq = 0;
    job->commands->message.issued_at = 0;
}

static void set_desired(struct client_job *job, Drover__V1__State desired, int64_t when)
{
    bool active = desired == DROVER__V1__STATE__STATE_ACTIVE;
    struct command *c = client_command(job, active ? "enable" : "disable", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_SET_DESIRED;
    c->message.set_desired = timeline_alloc(job->world->t, sizeof(*c->message.set_desired));
    drover__v1__set_desired__init(c->message.set_desired);
    c->message.set_desired->desired = desired;
}

static void cancel(struct client_job *job, int64_t when)
{
    struct command *c = client_command(job, "cancel", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_CANCEL;
    c->message.cancel = timeline_alloc(job->world->t, sizeof(*c->message.cancel));
    drover__v1__cancel__init(c->message.cancel);
}

static void kill_job(struct client_job *job, int64_t when)
{
    struct command *c = client_command(job, "kill", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_KILL;
    c->message.kill = timeline_alloc(job->world->t, sizeof(*c->message.kill));
    drover__v1__kill__init(c->message.kill);
}

static void pause_job(struct client_job *job, int64_t when)
{
    struct command *c = client_command(job, "pause", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_PAUSE;
    c->message.pause = timeline_alloc(job->world->t, sizeof(*c->message.pause));
    drover__v1__pause__init(c->message.pause);
}

static void resume(struct client_job *job, int64_t when)
{
    struct command *c = client_command(job, "resume", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_RESUME;
    c->message.resume = timeline_alloc(job->world->t, sizeof(*c->message.resume));
    drover__v1__resume__init(c->message.resume);
}

static void acknowledge(struct client_job *job, int64_t when)
{
    struct command *c = client_command(job, "acknowledge", when);

    c->message.command_case = DROVER__V1__CONTROL__COMMAND_ACKNOWLEDGE;
    c->message.acknowledge = timeline_alloc(job->world->t, sizeof(*c->message.acknowledge));
    drover__v1__acknowledge__init(c->message.acknowledge);
}

static char *any_step(struct client_job *job)
{
    const struct workflow *w = job->definition->workflow;

    return (char *)w->steps[timeline_between(job->world->t, 0, w->n_steps - 1)].name;
}

static Drover__V1__Payload *any_payload(struct client_job *job)
{
    Drover__V1__Payload *payload = timeline_alloc(job->world->t, sizeof(*payload));

    drover__v1__payload__init(payload);
    payload->data = (ProtobufCBinaryData){6, (uint8_t *)"edited"};
    return payload;
}

/* A longer lease, more tries, or the actor of a step. */
static Drover__V1__Step *any_change(struct client_job *job)
{
    struct timeline *t = job->world->t;
    const struct workflow *w = job->definition->workflow;
    Drover__V1__Step *m = timeline_alloc(t, sizeof(*m));

    drover__v1__step__init(m);
    switch (timeline_between(t, 0, 2)) {
    case 0:
        m->lock_ms = timeline_between(t, 1, 100) * job->world->plan->pace;
        break;
    case 1:
        m->retry = timeline_alloc(t, sizeof(*m->retry));
        drover__v1__policy__init(m->retry);
        m->retry->maximum_attempts = (uint32_t)timeline_between(t, 1, 9);
        break;
    default:
        m->actor = (char *)w->steps[timeline_between(t, 0, w->n_steps - 1)].forward.actor;
        break;
    }
    return m;
}

static void change_one(struct client_job *job, Drover__V1__Retry *m, const char *step)
{
    struct timeline *t = job->world->t;

    m->steps = timeline_alloc(t, sizeof(*m->steps));
    m->steps[m->n_steps++] = (char *)step;
    if (timeline_chance(t, HALF))
        m->arguments = any_payload(job);
    if (timeline_chance(t, HALF))
        m->change = any_change(job);
    m->begin_anew = (m->arguments || m->change) && timeline_chance(t, HALF);
}

/* All steps, or one of them, perhaps with a change or other arguments. */
static void retry(struct client_job *job, int64_t when, bool maybe_one)
{
    struct timeline *t = job->world->t;
    struct command *c = client_command(job, "retry", when);
    Drover__V1__Retry *m = timeline_alloc(t, sizeof(*m));

    drover__v1__retry__init(m);
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_RETRY;
    c->message.retry = m;
    if (!maybe_one || timeline_chance(t, HALF))
        return;
    change_one(job, m, any_step(job));
}

static void resolve(struct client_job *job, int64_t when)
{
    struct timeline *t = job->world->t;
    struct command *c = client_command(job, "resolve", when);
    Drover__V1__Resolve *m = timeline_alloc(t, sizeof(*m));

    drover__v1__resolve__init(m);
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_RESOLVE;
    c->message.resolve = m;
    m->step = any_step(job);
    m->state = timeline_chance(t, HALF) ? DROVER__V1__STATE__STATE_ACTIVE
                                        : DROVER__V1__STATE__STATE_DISABLED;
    m->result = any_payload(job);
}

/* To the newer version, or back from it. */
static void migrate(struct client_job *job, int64_t when)
{
    const struct definition *d = job->definition;
    struct command *c;

    if (!d->newer)
        return;
    c = client_command(job, "migrate", when);
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_MIGRATE;
    c->message.migrate = timeline_alloc(job->world->t, sizeof(*c->message.migrate));
    drover__v1__migrate__init(c->message.migrate);
    c->message.migrate->workflow = timeline_chance(job->world->t, HALF / 2)
                                       ? (char *)d->workflow->full_name
                                       : (char *)d->newer->full_name;
    c->message.migrate->begin_anew = timeline_chance(job->world->t, HALF / 2);
}

static void steer_as_planned(struct client_job *job, const struct plan_command *c, int64_t when)
{
    switch (c->what) {
    case PLAN_DISABLE:
        set_desired(job, DROVER__V1__STATE__STATE_DISABLED, when);
        break;
    case PLAN_ENABLE:
        set_desired(job, DROVER__V1__STATE__STATE_ACTIVE, when);
        break;
    case PLAN_CANCEL:
        cancel(job, when);
        break;
    case PLAN_KILL:
        kill_job(job, when);
        break;
    case PLAN_PAUSE:
        pause_job(job, when);
        break;
    case PLAN_RESUME:
        resume(job, when);
        break;
    case PLAN_RETRY:
        retry(job, when, false);
        break;
    }
    insist(job);
}

/* Most of these commands turn the job. */
static void steer(struct client_job *job, int64_t when)
{
    switch (timeline_between(job->world->t, 0, 18)) {
    case 0:
    case 1:
    case 2:
        set_desired(job, DROVER__V1__STATE__STATE_DISABLED, when);
        break;
    case 3:
    case 4:
    case 5:
        set_desired(job, DROVER__V1__STATE__STATE_ACTIVE, when);
        break;
    case 6:
        cancel(job, when);
        break;
    case 7:
        pause_job(job, when);
        resume(job, when + job->world->plan->pace * timeline_between(job->world->t, 0, 5000));
        break;
    case 8:
    case 9:
        retry(job, when, true);
        break;
    case 10:
    case 11:
    case 12:
    case 13:
        resolve(job, when);
        break;
    case 14:
    case 15:
        migrate(job, when);
        break;
    case 16:
    case 17:
        acknowledge(job, when);
        break;
    default:
        kill_job(job, when);
        break;
    }
}

static void on_query(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, query_event);

    if (!job->world->plan->asks_all) {
        ask_something(job);
        return;
    }
    ask_for_history(job, 1);
    ask_for_jobs(job, 1);
    ask_for_workflows(job);
}

/* The job exists although its Submit was refused as too late: a copy of the Submit was in time. The
 * client gives the commands that it has dropped. */
static void take_up_again(struct client_job *job)
{
    job->too_late = false;
    for (struct command *c = job->commands; c; c = c->older)
        if (!c->answered)
            timeline_add(job->world->t, &c->event, 0);
}

void client_end(struct world *w, const char *id, bool hard)
{
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        struct client_job *job = &w->jobs[i];

        if (strcmp(job->id, id) != 0)
            continue;
        if (job->too_late)
            take_up_again(job);
        if (hard) {
            kill_job(job, w->t->now);
        } else {
            resume(job, w->t->now);
            insist(job);
            cancel(job, w->t->now);
        }
        insist(job);
    }
}

uint64_t clients_digest(const struct world *w)
{
    uint64_t d = DIGEST_INIT;

    for (uint32_t i = 0; i < w->n_jobs; i++) {
        d = digest_number(d, (uint64_t)w->jobs[i].accepted << 1 | w->jobs[i].too_late);
        for (const struct command *c = w->jobs[i].commands; c; c = c->older)
            d = digest_number(digest_str(d, c->id), c->answered);
    }
    return d;
}

bool client_is_busy(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_jobs; i++)
        for (const struct command *c = w->jobs[i].commands; c; c = c->older)
            if (!c->answered && !w->jobs[i].too_late)
                return true;
    return false;
}

/* ---- receiving ---- */

static struct client_job *job_find(const struct world *w, const char *id)
{
    for (uint32_t i = 0; i < w->n_jobs; i++)
        if (strcmp(w->jobs[i].id, id) == 0)
            return &w->jobs[i];
    return NULL;
}

bool client_calls(const struct world *w, const char *job, uint32_t n, const char *step)
{
    const struct client_job *of = job_find(w, job);

    return of && !of->definition->newer &&
           strcmp(of->definition->workflow->steps[n].name, step) == 0;
}

/* Repeats the Submit until the store has the job: an old Receipt may still be on its way. */
static void on_again(struct event *e)
{
    struct client_job *job = container_of(e, struct client_job, again_event);
    struct world *w = job->world;

    if (!checker_lost(w->checker, job->id))
        return;
    job->accepted = false;
    timeline_add(w->t, &job->submit_event, 0);
    timeline_add(w->t, &job->again_event, w->plan->client_retry_ms);
}

void clients_submit_again(struct world *w)
{
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        struct client_job *job = &w->jobs[i];

        job->again_event.fire = on_again;
        if (checker_lost(w->checker, job->id))
            timeline_add(w->t, &job->again_event, w->plan->client_retry_ms);
    }
}

/* Gives up all commands about the job. */
static void is_too_late(struct client_job *job)
{
    job->accepted = job->too_late = true;
    for (struct command *c = job->commands; c; c = c->older)
        c->answered = true;
}

static void hear_receipt(struct world *w, const Drover__V1__Receipt *m)
{
    struct client_job *job = job_find(w, m->job_id);

    if (wrong_receipt(w, m))
        return;
    checker_receipt(w->checker, m);
    if (job && (m->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED ||
                m->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY))
        job->accepted = true;
    if (job && m->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED &&
        strcmp(m->field, "complete_by") == 0)
        is_too_late(job);
}

static struct command *command_find(const struct world *w, const char *id)
{
    for (uint32_t i = 0; i < w->n_jobs; i++)
        for (struct command *c = w->jobs[i].commands; c; c = c->older)
            if (strcmp(c->id, id) == 0)
                return c;
    return NULL;
}

static void hear_answer(struct world *w, const Drover__V1__Answer *m)
{
    struct command *c = command_find(w, m->command_id);

    if (wrong_answer(w, m))
        return;
    if (m->status)
        checker_status(w->checker, m->status);
    if (!c || c->answered ||
        (m->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB &&
         !checker_forgot(w->checker, c->job->id)))
        return; /* a command that overtook its Submit is repeated */
    c->answered = true;
    if (c->hear)
        c->hear(c->hear_ctx, m);
}

#define MENDED_MOST 3

/* A client that receives the alert of a parked step changes the step. */
static void hear_event(struct world *w, const Drover__V1__JobEvent *m)
{
    struct client_job *job = job_find(w, m->job_id);
    struct command *c;
    int64_t when;

    checker_event(w->checker, m);
    if (!job || m->step_event != DROVER__V1__STEP_EVENT__STEP_EVENT_PARKED ||
        job->mended == MENDED_MOST || !timeline_chance(w->t, HALF))
        return;
    job->mended++;
    when = w->t->now + w->plan->pace * timeline_between(w->t, 0, 1000);
    c = client_command(job, "mend", when);
    c->message.command_case = DROVER__V1__CONTROL__COMMAND_RETRY;
    c->message.retry = timeline_alloc(w->t, sizeof(*c->message.retry));
    drover__v1__retry__init(c->message.retry);
    change_one(job, c->message.retry, timeline_str(w->t, m->step));
    insist(job);
    if (timeline_chance(w->t, HALF)) { /* perhaps while the change waits */
        set_desired(job, DROVER__V1__STATE__STATE_DISABLED, when + timeline_between(w->t, 1, 100));
        insist(job);
    }
}

/* An Answer to a question that was repeated meanwhile, or a notification that was sent again on a
 * supervisor's request. */
static void note_late(const struct process *p, uint64_t handle, const char *type)
{
    static const struct {
        const char *type;
        uint32_t at;
    } types[] = {
        {"drover.v1.Receipt", AT(2)}, {"drover.v1.Answer", AT(14)}, {"drover.v1.JobEvent", AT(10)}};
    const struct world *w = p->world;
    int64_t age = simlink_age(&p->link, handle);

    for (size_t i = 0; i < array_size(types); i++)
        if (strcmp(type, types[i].type) == 0 &&
            age >= (types[i].at == AT(10) ? NAMED_AGAIN_MS : w->plan->client_retry_ms))
            grid_met(w->t, FAULT_LATE, types[i].at);
}

/* Return: whether it is one. */
static bool hear_batch(struct world *w, const struct bus_delivery *d, const char *type)
{
    if (strcmp(type, "drover.v1.Receipts") == 0) {
        Drover__V1__Receipts *m = drover__v1__receipts__unpack(NULL, d->body.len, d->body.data);

        for (size_t i = 0; m && i < m->n_receipts; i++)
            hear_receipt(w, m->receipts[i]);
        drover__v1__receipts__free_unpacked(m, NULL);
        return true;
    }
    if (strcmp(type, "drover.v1.JobEvents") == 0) {
        Drover__V1__JobEvents *m = drover__v1__job_events__unpack(NULL, d->body.len, d->body.data);

        for (size_t i = 0; m && i < m->n_events; i++)
            hear_event(w, m->events[i]);
        drover__v1__job_events__free_unpacked(m, NULL);
        return true;
    }
    return false;
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

    note_late(p, d->handle, type);
    if (hear_batch(p->world, d, type)) {
        simlink_ack(&p->link, d->handle);
        return;
    }
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
            hear_event(p->world, m.event);
    }
    simlink_ack(&p->link, d->handle);
}

/* ---- setup ---- */

static struct process *nth_client(struct world *w, uint32_t n)
{
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].role == ROLE_CLIENT && n-- == 0)
            return &w->processes[i];
    return NULL;
}

/* Commands that a plan leaves out count as answered. */
static void commands_begin(struct client_job *job)
{
    struct timeline *t = job->world->t;

    for (struct command *c = job->commands; c; c = c->older) {
        timeline_about(t, "%s", c->id);
        c->answered = !timeline_keeps(t);
    }
}

/* By a number of its own, so that all else is the same as without. What kills a process is counted
 * by the copies of its message: there are no batches where messages kill. */
static bool sends_batches(const struct world *w, uint32_t job)
{
    return w->plan->seed && w->faults.poison == 0 && w->plan->seed % 3 == 0 &&
           digest_number(digest_number(DIGEST_INIT, w->plan->seed), job) % 2 == 0;
}

static void job_begin(struct world *w, struct client_job *job, const char *id, uint32_t i)
{
    const struct definition *d =
        &w->definitions[timeline_between(w->t, 0, w->plan->n_definitions - 1)];
    int64_t when = w->plan->submit_after_ms + timeline_between(w->t, 0, w->plan->submit_within_ms);

    job->world = w;
    job->client = nth_client(w, i % w->counts[ROLE_CLIENT]);
    job->id = id;
    job->definition = d;
    job->batches = sends_batches(w, i);
    job->submit = (struct bus_message){
        .exchange = "drover.submit",
        .key = "submit",
        .body = submit_body(w, job, d),
        .type = "drover.v1.Submit",
        .job = job->id,
        .mandatory = true,
    };
    checker_job(w->checker, job->id, d->workflow, d->registered, job->start_at, job->has_deadline);
    if (timeline_chance(w->t, w->plan->skewed))
        job->skew = timeline_between(w->t, -SKEW_MS, SKEW_MS);
    job->submit_event.fire = on_submit;
    job->query_event.fire = on_query;
    timeline_add(w->t, &job->submit_event, when);
    for (uint32_t k = 0; k < w->plan->n_commands; k++)
        steer_as_planned(job, &w->plan->commands[k], when + w->plan->commands[k].after_ms);
    while (timeline_chance(w->t, w->plan->steers)) {
        int64_t within_ms = timeline_chance(w->t, HALF) ? 3000 : 15000;

        steer(job, when + w->plan->pace * timeline_between(w->t, 0, within_ms));
    }
    if (w->plan->asks_all)
        timeline_add(w->t, &job->query_event, when + w->plan->asks_all);
    else if (timeline_chance(w->t, w->plan->queries))
        timeline_add(w->t, &job->query_event,
                     when + w->plan->pace * timeline_between(w->t, 0, 10000));
    commands_begin(job);
    wrong_begin(job, when);
}

void clients_begin(struct world *w)
{
    for (uint32_t i = 0; i < w->n_processes; i++) {
        struct process *p = &w->processes[i];

        if (p->role == ROLE_CLIENT)
            simlink_consume(&p->link, simbus_queue(w->bus, inbox(w, p), false), 0, 0);
    }
    w->jobs = timeline_alloc(w->t, w->plan->jobs * sizeof(*w->jobs));
    for (uint32_t i = 0; i < w->plan->jobs; i++) {
        const char *id = effects_printf(&w->t->arena, "j%u", (unsigned)i + 1);

        timeline_about(w->t, "%s", id);
        if (timeline_keeps(w->t))
            job_begin(w, &w->jobs[w->n_jobs++], id, i);
    }
}
