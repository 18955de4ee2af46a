// SPDX-License-Identifier: Apache-2.0
/*
 * Publishes of the agent's machine: replies, Progress and dead letters
 *
 * The other files of the machine call it. Replies are gathered over an iteration of the loop. A
 * reply is published again until the broker has confirmed it or its lease is over.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine.h"
#include "agent/settings.h"
#include "base/log.h"
#include "base/utf8.h"

/* ---- the reply of a run ---- */

/* Copies @from to *memory, and moves *memory behind the copy. Return: the copy. */
static char *text_keep(char **memory, struct bytes from, size_t max, bool lines)
{
    char *text = *memory;

    *memory += utf8_copy(text, from, max, lines) + 1;
    return text;
}

static void set_result(struct run *run, const struct agent_result *result)
{
    struct bytes type = bytes_str(result->content_type);
    char *memory = or_abort(malloc(type.len + 1 + result->result.len));

    run->memory = memory;
    run->reply.achieved = run->seen.request->desired;
    if (type.len + result->result.len == 0)
        return;
    drover__v1__payload__init(&run->result);
    run->result.content_type = text_keep(&memory, type, WIRE_CONTENT_TYPE_MAX, false);
    run->result.data.data = (uint8_t *)memory;
    run->result.data.len = result->result.len;
    if (result->result.len > 0)
        memcpy(memory, result->result.data, result->result.len);
    run->reply.result = &run->result;
}

static void set_error(struct run *run, const struct agent_result *result)
{
    struct bytes class = bytes_str(result->class);
    struct bytes message = bytes_str(result->message);
    char *memory = or_abort(malloc(class.len + message.len + result->details.len + 3));

    run->memory = memory;
    run->reply.achieved = DROVER__V1__STATE__STATE_UNKNOWN;
    drover__v1__error__init(&run->error);
    run->error.class_ = text_keep(&memory, class, WIRE_ERROR_CLASS_MAX, false);
    run->error.message = text_keep(&memory, message, WIRE_ERROR_MESSAGE_MAX, false);
    run->error.details = text_keep(&memory, result->details, WIRE_ERROR_DETAILS_MAX, true);
    run->error.verdict = result->verdict;
    run->error.effect = result->effect;
    run->error.retry_after_ms = result->retry_after_ms > 0 ? result->retry_after_ms : 0;
    run->reply.error = &run->error;
}

void reply_set(struct agent *a, struct run *run, const struct agent_result *result)
{
    static const struct agent_result too_large = {
        .class = "RESULT_TOO_LARGE",
        .message = "the result exceeds the limit",
        .verdict = DROVER__V1__VERDICT__VERDICT_PERMANENT,
    };
    const Drover__V1__StepRequest *request = run->seen.request;

    if (result->ok && bytes_str(result->content_type).len + result->result.len > WIRE_RESULT_MAX)
        result = &too_large;
    free(take(run->memory));
    drover__v1__step_reply__init(&run->reply);
    run->reply.job_id = request->job_id;
    run->reply.step = request->step;
    run->reply.token = request->token;
    run->reply.agent = (char *)a->config.name;
    run->reply.duration_ms = a->now - run->started;
    run->reply.batch = settings_actor(&a->config, request->actor)->batch;
    if (result->ok)
        set_result(run, result);
    else
        set_error(run, result);
}

void reply_gather(struct agent *a, struct run *run)
{
    list_append(&a->replies[run->delivery->message.json], &run->link);
    pace_came(&a->replying, a->now);
}

/* ---- messages ---- */

/* Each actor has its exchange: the scheduler refuses a reply that came by that of another actor. */
static const char *reply_exchange(struct agent *a, const struct delivery *about)
{
    return effects_printf(a->out, WIRE_REPLY_EXCHANGE "%s", about->actor);
}

/* Adds the publish of a message, in the format, protobuf or JSON, in which its request came. */
static struct bus_message *replies_message(struct agent *a, uint64_t id,
                                           const Drover__V1__Replies *body,
                                           const struct delivery *about)
{
    bool json = about->message.json;
    struct bytes packed = wire_pack(a->out, &body->base, json);
    struct bus_message *m = &effects_add(a->out, EFFECT_PUBLISH, id)->publish;

    m->exchange = reply_exchange(a, about);
    m->key = "reply";
    m->body = packed;
    m->content_type = wire_content_type(json);
    m->type = body->base.descriptor->name;
    return m;
}

/* Adds headers for people who look at the broker. Only for a message of one run. */
static void set_headers(struct agent *a, struct bus_message *m, const struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    m->job = effects_str(a->out, request->job_id);
    m->step = effects_str(a->out, request->step);
    m->attempt = request->attempt;
    if (*request->traceparent)
        m->traceparent = effects_str(a->out, request->traceparent);
}

static struct publish *publish_new(struct agent *a)
{
    struct publish *p = or_abort(calloc(1, sizeof(*p)));

    p->id = ++a->last_id;
    HASH_ADD(hh, a->publishes, id, sizeof(p->id), p);
    return p;
}

/* Publishes Progress, not mandatory. @id: what gets the outcome: a run, or SUSPECT_PROGRESS.
 * @about: the delivery of the request. @not_after: monotonic ms. */
static struct bus_message *progress_send(struct agent *a, uint64_t id, const struct delivery *about,
                                         Drover__V1__Progress *progress, int64_t not_after)
{
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    struct publish *p = publish_new(a);
    struct bus_message *m;

    progress->agent = (char *)a->config.name;
    body.progress = &progress;
    body.n_progress = 1;
    p->progress = id;
    p->sent = a->now;
    m = replies_message(a, p->id, &body, about);
    m->not_after = not_after;
    m->expires = true;
    m->transient = true;
    return m;
}

/* Publishes Progress of a run. A heartbeat is never published again after a refusal, as the next
 * one follows. It expires when the next one is due: later it would renew the lease of an agent that
 * may be gone. Progress that is evidence alone is valid during the lease, as it says how long ago
 * the request was received, and it asks for no answer. */
void progress_publish(struct agent *a, const struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;
    Drover__V1__Progress progress = DROVER__V1__PROGRESS__INIT;
    bool beats = request->heartbeat_ms > 0;
    int64_t not_after = beats ? a->now + run_heartbeat(run) : run->seen.deadline;
    struct bus_message *m;

    progress.job_id = request->job_id;
    progress.step = request->step;
    progress.token = request->token;
    progress.fraction = run->fraction;
    progress.note = (char *)run->note;
    progress.elapsed_ms = a->now - run->delivery->received;
    m = progress_send(a, run->seen.id, run->delivery, &progress, not_after);
    set_headers(a, m, run);
    m->reply_to = beats ? "amq.rabbitmq.reply-to" : NULL;
}

void progress_of_suspect(struct agent *a, const struct suspect *s)
{
    Drover__V1__Progress progress = DROVER__V1__PROGRESS__INIT;

    progress.job_id = s->job;
    progress.step = s->step;
    progress.token = s->token;
    progress.fraction = -1;
    progress.elapsed_ms = a->now - s->delivery->received;
    progress_send(a, SUSPECT_PROGRESS, s->delivery, &progress, a->now + MACHINE_EVIDENCE_MS);
}

/* ---- sending ---- */

void publish_free(struct agent *a, struct publish *p)
{
    timer_stop(a, &p->again);
    HASH_DEL(a->publishes, p);
    if (p->dead)
        delivery_drop(p->dead);
    free(p->reason);
    free(p);
}

static void send_dead(struct agent *a, const struct publish *p)
{
    struct bytes body = effects_copy(a->out, p->dead->body);
    const char *reason = effects_str(a->out, p->reason);
    struct bus_message *m = &effects_add(a->out, EFFECT_PUBLISH, p->id)->publish;

    m->exchange = "drover.dead";
    m->key = "";
    m->body = body;
    m->content_type = wire_content_type(body.len > 0 && body.data[0] == '{');
    m->reason = reason;
}

/* Ends the runs whose lease is over, and takes their replies out of the message. */
static void drop_late(struct agent *a, struct publish *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (a->now >= p->runs[i]->seen.deadline)
            run_silent(a, p->runs[i]);
        else
            p->runs[n++] = p->runs[i];
    }
    p->n = n;
}

static int64_t earliest_deadline(const struct publish *p)
{
    int64_t earliest = INT64_MAX;

    for (size_t i = 0; i < p->n; i++)
        if (p->runs[i]->seen.deadline < earliest)
            earliest = p->runs[i]->seen.deadline;
    return earliest;
}

static void send_replies(struct agent *a, struct publish *p)
{
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    Drover__V1__StepReply *list[AGENT_REPLIES];
    struct bus_message *m;

    drop_late(a, p);
    if (p->n == 0) {
        publish_free(a, p);
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        list[i] = &p->runs[i]->reply;
    body.replies = list;
    body.n_replies = p->n;
    m = replies_message(a, p->id, &body, p->runs[0]->delivery);
    m->mandatory = true;
    m->transient = a->config.transient;
    m->not_after = earliest_deadline(p);
    if (p->n == 1) {
        set_headers(a, m, p->runs[0]);
        m->message_id = effects_str(a->out, p->runs[0]->seen.request->token);
    }
}

static void publish_send(struct agent *a, struct publish *p)
{
    if (p->dead)
        send_dead(a, p);
    else
        send_replies(a, p);
}

static size_t reply_size(const struct run *run)
{
    size_t details = run->reply.error ? strlen(run->error.details) : 0;

    return wire_payload_size(run->reply.result) + details + MACHINE_REPLY_BASE;
}

/* The reply to such an attempt travels alone: if it kills the schedulers that read it, the
 * properties of the message tell which request it is about. */
static bool is_retry(const struct run *run)
{
    return run->seen.request->attempt > 1;
}

/* Moves replies from the list into one message: those of one actor, as many as fit into @limit
 * bytes. */
static void take_together(struct publish *p, struct list *gathered, size_t limit)
{
    const char *actor = list_entry(gathered->next, struct run, link)->delivery->actor;
    size_t size = 0;

    for (struct list *at = gathered->next, *next; at != gathered && p->n < AGENT_REPLIES;
         at = next) {
        struct run *run = list_entry(at, struct run, link);

        next = at->next;
        if (run->delivery->actor != actor)
            continue;
        size += reply_size(run);
        if (p->n > 0 && (size > limit || is_retry(run) || is_retry(p->runs[0])))
            break;
        list_remove(&run->link);
        p->runs[p->n++] = run;
    }
}

static void flush(struct agent *a, struct list *gathered, size_t limit)
{
    while (!list_empty(gathered)) {
        struct publish *p = publish_new(a);

        take_together(p, gathered, limit);
        publish_send(a, p);
    }
}

void replies_flush(struct agent *a)
{
    if (pace_when(&a->replying, a->now) > a->now ||
        (list_empty(&a->replies[0]) && list_empty(&a->replies[1])))
        return;
    pace_leave(&a->replying, a->now);
    flush(a, &a->replies[0], WIRE_MESSAGE_MAX);
    flush(a, &a->replies[1], WIRE_MESSAGE_MAX / MACHINE_JSON_GROWTH);
}

void dead_letter(struct agent *a, struct delivery *d, const struct bus_delivery *from,
                 const char *reason)
{
    struct publish *p = publish_new(a);
    uint8_t *body = or_abort(malloc(from->body.len + 1));

    if (from->body.len > 0)
        memcpy(body, from->body.data, from->body.len);
    d->body = bytes_of(body, from->body.len);
    p->dead = d;
    p->reason = or_abort(strdup(reason));
    delivery_hold(d);
    a->stats.dead_letters++;
    log_often(LOG_WARN, "dead_letter", LOG_S("reason", reason), LOG_I("bytes", from->body.len));
    send_dead(a, p);
}

/* ---- outcomes ---- */

static void on_confirmed(struct agent *a, struct publish *p)
{
    a->stats.replies += p->n;
    for (size_t i = 0; i < p->n; i++) {
        recent_add(&a->ended, bytes_str(p->runs[i]->seen.request->token));
        run_end(a, p->runs[i]);
    }
    if (p->dead)
        delivery_settle(a, p->dead);
    publish_free(a, p);
}

static void on_publish_again(struct agent *a, struct timer *t)
{
    publish_send(a, container_of(t, struct publish, again));
}

/* The queue is missing, or full: a person may repair that while the leases last. So the message is
 * published again after a pause, at the latest when the first lease ends. */
static void on_refused(struct agent *a, struct publish *p)
{
    unsigned doublings =
        p->refusals < MACHINE_REFUSED_DOUBLINGS ? p->refusals : MACHINE_REFUSED_DOUBLINGS;
    int64_t wait = (int64_t)MACHINE_REFUSED_MS << doublings;
    int64_t when = a->now + wait + (int64_t)rng_below(&a->rng, (uint64_t)wait / 10);
    int64_t end = earliest_deadline(p);

    p->refusals++;
    a->stats.refusals++;
    log_warn("publish_refused",
             LOG_S("exchange", p->dead ? "drover.dead" : reply_exchange(a, p->runs[0]->delivery)),
             LOG_I("replies", p->n), LOG_I("again_ms", wait));
    timer_set(a, &p->again, when < end ? when : end, on_publish_again);
}

static void on_progress_outcome(struct agent *a, struct publish *p, enum bus_outcome outcome)
{
    uint64_t id = p->progress;
    int64_t sent = p->sent;

    publish_free(a, p);
    if (id == SUSPECT_PROGRESS)
        suspects_told(a);
    else if (outcome == BUS_CONFIRMED)
        run_renewed(a, id, sent);
    else
        run_not_renewed(a, id);
}

void on_outcome(struct agent *a, uint64_t id, enum bus_outcome outcome)
{
    struct publish *p;

    HASH_FIND(hh, a->publishes, &id, sizeof(id), p);
    assert(p);
    if (p->progress) {
        on_progress_outcome(a, p, outcome);
        return;
    }
    switch (outcome) {
    case BUS_CONFIRMED:
        on_confirmed(a, p);
        break;
    case BUS_WAITED: /* unreachable: the agent does not set ask_after */
    case BUS_UNSENT:
    case BUS_EXPIRED: /* one lease is over; the other replies are sent again */
        publish_send(a, p);
        break;
    case BUS_RETURNED:
    case BUS_NACKED:
        on_refused(a, p);
        break;
    }
}
