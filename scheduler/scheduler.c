// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler: the machine's step function, its items, operations, store calls and publishes
 *
 * scheduler_step() gives each event to the file that handles it. Here an item is made for each
 * delivery and acknowledged at the end, a store call is repeated until it is answered, and each
 * publish is followed to its outcome. scheduler_io.c calls the functions of scheduler.h; the other
 * files of the machine call those of machine.h.
 */
#include "scheduler/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/reply_to.h"
#include "scheduler/machine.h"

/* In place of a reason of wire_decode(). LIMIT: the sender may repeat the message later. DENIED:
 * the sender may not send it. */
#define LIMIT "LIMIT"
#define DENIED "DENIED"

struct item *item_new(struct scheduler *s, const struct bus_delivery *d)
{
    struct item *item = or_abort(calloc(1, sizeof(*item)));

    item->open = 1; /* until all that the delivery asks for has begun */
    item->reply_to = or_abort(strdup(d ? d->reply_to : ""));
    item->correlation = or_abort(strdup(d ? d->correlation_id : ""));
    item->actor = or_abort(strdup(d ? d->actor : ""));
    item->user = or_abort(strdup(d ? d->user_id : ""));
    if (d) {
        uint8_t *body = or_abort(malloc(d->body.len + 1));

        if (d->body.len > 0)
            memcpy(body, d->body.data, d->body.len);
        item->handle = d->handle;
        item->source = d->source;
        item->redelivered = d->redelivered;
        item->body = bytes_of(body, d->body.len);
    }
    list_append(&s->items, &item->link);
    s->stats.open++;
    intake_came(s, item);
    return item;
}

static struct item *item_free(struct scheduler *s, struct item *item)
{
    intake_done(s, item);
    list_remove(&item->link);
    wire_free(&item->message);
    free(item->reply_to);
    free(item->actor);
    free(item->user);
    free(item->correlation);
    free(item->suspect);
    free((void *)item->body.data);
    free(item);
    s->stats.open--;
    return NULL;
}

void item_give_back(struct scheduler *s, struct item *item)
{
    if (item->handle)
        effects_add(s->out, EFFECT_REQUEUE, item->handle);
    item->handle = 0;
}

void item_unref(struct scheduler *s, struct item *item)
{
    assert(item->open > 0);
    if (--item->open > 0)
        return;
    if (item->registers && --s->registering == 0 && s->register_again)
        workflows_register(s);
    if (item->handle)
        effects_add(s->out, EFFECT_ACK, item->handle);
    if (item->suspect)
        suspects_done(s, item);
    item_free(s, item);
}

/* ---- ops ---- */

struct op *op_new(struct scheduler *s, struct item *item, const char *job)
{
    struct op *op = or_abort(calloc(1, sizeof(*op)));

    op->item = item;
    op->job = or_abort(strdup(job));
    op->partition = id_partition(job, s->partitions);
    op->open = 1; /* until its first call is in progress */
    nonces_next(&s->nonces, op->nonce);
    list_init(&op->link);
    item->open++;
    return op;
}

static struct op *op_free(struct scheduler *s, struct op *op)
{
    list_remove(&op->link);
    heap_remove(&s->timers, &op->timer);
    workflow_unref(op->workflow);
    buf_deinit(&op->buf);
    buf_deinit(&op->buf2);
    buf_deinit(&op->index);
    listing_free(op->listing);
    free(op->alert);
    free(op->delivery);
    free(op->held);
    free(op->steps);
    free(op->differences);
    free(op->tokens);
    free(op->reason);
    free(op->job);
    free(op);
    return NULL;
}

/* Releases one hold on the operation. While only the last one is left the operation goes on with
 * `then`; after that it is freed. */
void op_unref(struct scheduler *s, struct op *op)
{
    struct item *item = op->item;

    assert(op->open > 0);
    while (op->open == 1 && op->then) {
        op_fn *then = op->then;

        op->then = NULL;
        then(s, op);
    }
    if (--op->open > 0)
        return;
    op_free(s, op);
    item_unref(s, item);
}

uint64_t op_call_id(struct scheduler *s, struct op *op)
{
    struct call *call = or_abort(malloc(sizeof(*call) + sizeof(struct op *)));

    call->id = ++s->last_id;
    call->n = 1;
    call->ops[0] = op;
    HASH_ADD(hh, s->calls, id, sizeof(call->id), call);
    return call->id;
}

void op_call(struct scheduler *s, struct op *op, op_fn *call, op_answered_fn *answered)
{
    op->call = call;
    op->answered = answered;
    op->open++;
    call(s, op);
}

static void record_again(struct scheduler *s, struct op *op)
{
    list_append(&s->records[op->partition], &op->link);
    s->n_records++;
    pace_came(&s->recording, s->now);
}

static void on_recorded(struct scheduler *s, struct op *op, const struct ops_transition *transition,
                        struct workflow *w)
{
    switch (transition->code) {
    case OPS_RECORDED:
        s->stats.recorded++;
        if (op->reply)
            allowance_return_reply(s, op->item->actor);
        if (op->reply && w)
            service_time_note(s, w, op->reply);
        break;
    case OPS_UNKNOWN_JOB:
        s->stats.unknown++;
        log_often(LOG_INFO, "reply_unknown_job", LOG_S("job", op->job));
        break;
    case OPS_BEGUN:
        log_often(LOG_INFO, "request_begun", LOG_S("job", op->job),
                  LOG_S("token", ops_token_id(s->out, op->record.token)));
        break;
    case OPS_OTHER_STEP:
        item_dead_quietly(s, op->item,
                          effects_printf(s->out,
                                         "INVALID replies.step names another step than token %s",
                                         ops_token_id(s->out, op->record.token)));
        break;
    case OPS_OTHER_ACTOR:
        item_dead_quietly(
            s, op->item,
            effects_printf(
                s->out,
                "INVALID replies came from an agent of %s, and the step is not for that actor",
                op->item->actor));
        break;
    case OPS_DATA_FULL:
        record_new(s, op->item, OP_PERMANENT, op->job, op->record.token, "RESULT_TOO_LARGE",
                   "with this result the input and results of the job would exceed 64 MiB");
        break;
    default:
        s->stats.stale++;
        log_often(LOG_INFO, "reply_not_recorded", LOG_S("job", op->job),
                  LOG_S("token", ops_token_id(s->out, op->record.token)),
                  LOG_S("code", ops_code_name(transition->code)));
        break;
    }
    transition_apply(s, op, transition, w);
}

static void record_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_read(s, op, r, on_recorded);
}

void op_record(struct scheduler *s, struct op *op)
{
    memcpy(op->record.nonce, op->nonce, sizeof(op->nonce));
    op->record.jitter = (uint32_t)rng_below(&s->rng, 1000000);
    op_call(s, op, record_again, record_answered);
}

static void flush_partition(struct scheduler *s, uint32_t partition)
{
    struct list *queue = &s->records[partition];
    const struct op_record *records[MACHINE_RECORDS_PER_CALL];
    struct call *call =
        or_abort(malloc(sizeof(*call) + MACHINE_RECORDS_PER_CALL * sizeof(struct op *)));

    call->id = ++s->last_id;
    call->n = 0;
    while (call->n < MACHINE_RECORDS_PER_CALL && !list_empty(queue)) {
        struct op *op = list_entry(queue->next, struct op, link);

        if (op->alone && call->n > 0)
            break;
        list_remove(&op->link);
        records[call->n] = &op->record;
        call->ops[call->n++] = op;
        if (op->alone)
            break;
    }
    HASH_ADD(hh, s->calls, id, sizeof(call->id), call);
    ops_record(s->out, call->id, partition, s->name, records, call->n);
}

static void flush(struct scheduler *s)
{
    if (s->n_records == 0 || pace_when(&s->recording, s->now) > s->now)
        return;
    pace_leave(&s->recording, s->now);
    s->n_records = 0;
    for (uint32_t p = 0; p < s->partitions; p++)
        while (!list_empty(&s->records[p]))
            flush_partition(s, p);
}

/* ---- publishing ---- */

struct publish *publish_new(struct scheduler *s, unsigned room)
{
    struct publish *p = or_abort(calloc(1, sizeof(*p) + room * sizeof(*p->parts)));

    p->id = ++s->last_id;
    HASH_ADD(hh, s->publishes, id, sizeof(p->id), p);
    return p;
}

void publish_part(struct scheduler *s, struct publish *p, struct op *op, const char *token,
                  size_t bytes)
{
    struct part *part = &p->parts[p->n++];

    part->op = op;
    op->open++;
    if (token)
        memcpy(part->token, token, strnlen(token, WIRE_TOKEN_MAX));
    p->bytes += bytes;
    s->unconfirmed_bytes += bytes;
}

struct bus_message *publish_send(struct scheduler *s, struct publish *p,
                                 const ProtobufCMessageDescriptor *type, struct bytes body,
                                 bool json)
{
    struct bus_message *m = &effects_add(s->out, EFFECT_PUBLISH, p->id)->publish;

    m->body = body;
    m->content_type = wire_content_type(json);
    m->type = type ? type->name : NULL;
    return m;
}

struct bus_message *op_publish(struct scheduler *s, struct op *op, const ProtobufCMessage *body,
                               bool json, const char *token)
{
    struct publish *p = publish_new(s, 1);
    struct bytes packed = body ? wire_pack(s->out, body, json) : BYTES_EMPTY;

    publish_part(s, p, op, token, packed.len);
    return publish_send(s, p, body ? body->descriptor : NULL, packed, json);
}

/* The sender that is responsible for the address of an answer. If a sender has invented a direct
 * reply-to the bus sends no more direct replies for that sender. Agents that cannot be told
 * apart are one sender. */
static const char *sender_of(struct scheduler *s, const struct item *item)
{
    if (*item->user)
        return effects_str(s->out, item->user);
    if (item->source == SCHEDULER_REPLIES && (*item->actor || s->access->required))
        return effects_printf(s->out, "\n%s", item->actor);
    return "";
}

void op_reply(struct scheduler *s, struct op *op, const ProtobufCMessage *body)
{
    struct item *item = op->item;
    struct bus_message *m;

    if (!*item->reply_to)
        return;
    m = op_publish(s, op, body, item->json, NULL);
    m->exchange = "";
    m->key = effects_str(s->out, item->reply_to);
    m->correlation_id = effects_str(s->out, item->correlation);
    m->sender = sender_of(s, item);
    m->mandatory = true;
}

static void dead_send(struct scheduler *s, struct op *op);

/* The broker refused a dead letter. It is all that is left of a message, so it is published
 * again until the broker confirms it. */
static void dead_told(struct scheduler *s, struct op *op)
{
    if (!op->returned)
        return;
    op->returned = false;
    op->call = dead_send;
    op->open++;
    op_repeat_at(s, op, s->now + MACHINE_REFUSED_AGAIN_MS);
}

static void dead_publish(struct scheduler *s, struct op *op)
{
    const struct item *item = op->item;
    struct bus_message *m = op_publish(s, op, NULL, false, NULL);

    m->exchange = "drover.dead";
    m->key = "";
    m->body = effects_copy(s->out, item->body);
    m->content_type = wire_content_type(item->body.len > 0 && item->body.data[0] == '{');
    m->reason = effects_str(s->out, op->reason);
    m->mandatory = true;
    op->then = dead_told;
}

static void dead_send(struct scheduler *s, struct op *op)
{
    dead_publish(s, op);
    op_unref(s, op); /* held by the timer */
}

static void letter(struct scheduler *s, struct item *item, const char *reason)
{
    struct op *op = op_new(s, item, "");

    op->reason = or_abort(strdup(reason));
    s->stats.dead_letters++;
    log_often(LOG_WARN, "dead_letter", LOG_S("reason", reason), LOG_I("bytes", item->body.len));
    dead_publish(s, op);
    op_unref(s, op);
}

void item_dead(struct scheduler *s, struct item *item, const char *reason)
{
    letter(s, item, reason);
    s->letters.own++;
    alert_dead(s, "", reason);
}

void item_dead_quietly(struct scheduler *s, struct item *item, const char *reason)
{
    letter(s, item, reason); /* the inspection of drover.dead reports it, if no alert does */
}

static void part_told(struct scheduler *s, const struct part *part, enum bus_outcome outcome)
{
    struct op *op = part->op;

    if (outcome == BUS_RETURNED || outcome == BUS_NACKED) {
        op->returned |= !part->optional;
        if (part->token[0] && !part->again) {
            s->stats.unroutable++;
            record_new(s, op->item, outcome == BUS_RETURNED ? OP_UNROUTABLE : OP_REFUSED, op->job,
                       part->token, NULL, NULL);
        }
    } else if (outcome == BUS_WAITED && part->token[0]) {
        request_recheck(s, op->item, op->job, part->token);
    } else if (outcome == BUS_UNSENT && part->token[0] && !part->again) {
        s->stats.unstarted++; /* no agent can have it: no expiry to be counted */
        record_new(s, op->item, OP_UNSENT, op->job, part->token, NULL, NULL);
    }
    if (outcome == BUS_CONFIRMED && part->watched)
        watch(s, part->watched);
    else
        watched_free(part->watched);
    op_unref(s, op);
}

static void on_outcome(struct scheduler *s, uint64_t id, enum bus_outcome outcome)
{
    struct publish *p;

    HASH_FIND(hh, s->publishes, &id, sizeof(id), p);
    if (!p)
        return;
    HASH_DEL(s->publishes, p);
    s->unconfirmed_bytes -= p->bytes;
    for (unsigned i = 0; i < p->n; i++)
        part_told(s, &p->parts[i], outcome);
    free(p);
    transition_resume_stalled(s);
}

/* ---- answers of the store ---- */

void op_repeat_at(struct scheduler *s, struct op *op, int64_t when)
{
    if (heap_set(&s->timers, &op->timer, when))
        abort();
}

static void call_again(struct scheduler *s, struct op *op)
{
    s->stats.store_repeats++;
    op_repeat_at(s, op, s->now + MACHINE_REPEAT_MS);
}

/* "ERR …" says that the store function failed: repeated without end it would block its queue.
 * All other errors (out of memory, disk full, too few replicas, no right) pass or are repaired,
 * and are waited for. */
static bool is_our_fault(const struct store_answer *answer)
{
    return answer->result == STORE_ERROR && answer->n > 0 && answer->items[0].len > 4 &&
           memcmp(answer->items[0].data, "ERR ", 4) == 0;
}

/* The store refused a call. The cause may pass, but a message must not block its queue for ever. */
static void op_refused(struct scheduler *s, struct op *op, const struct store_answer *answer)
{
    char *why = effects_text(s->out, answer->n ? answer->items[0] : BYTES_EMPTY);

    if (!op->refused)
        log_error("store_refused", LOG_S("job", op->job), LOG_S("why", why));
    op->refused = true;
    if (answer->result == STORE_OOM && op->on_full && *op->item->reply_to) {
        op->on_full(s, op);
        op->then = NULL;
        op_unref(s, op);
        return;
    }
    if (answer->result == STORE_OOM && op->item->large) {
        item_dead(s, op->item, "STORE_FULL"); /* while it is held no other large one is read */
        op->then = NULL;
        op_unref(s, op);
        return;
    }
    op->alone = true; /* the records that shared the call are not to fail again */
    if (!is_our_fault(answer) || ++op->refusals < MACHINE_REPEATS || !op->item->handle) {
        call_again(s, op);
        return;
    }
    item_dead(s, op->item, "STORE_REFUSED");
    op->then = NULL;
    op_unref(s, op);
}

/* Units of a store call for a Control: what it has cost the store, and will cost the broker. */
static size_t units_of(const struct store_answer *answer)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < answer->n; i++)
        bytes += answer->items[i].len;
    return 1 + answer->n / ALLOWANCE_ITEMS + bytes / ALLOWANCE_BYTES;
}

static void on_answer(struct scheduler *s, uint64_t id, const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);
    struct call *call;

    HASH_FIND(hh, s->calls, &id, sizeof(id), call);
    if (!call)
        return;
    HASH_DEL(s->calls, call);
    for (int i = 0; i < call->n; i++) {
        struct op *op = call->ops[i];

        /* the store may have carried it out, and its requests are lost: as if the message were
         * redelivered */
        if (answer->result != STORE_OK)
            op->record.redelivered = op->submit.redelivered = op->again = true;
        if (answer->result == STORE_UNKNOWN) {
            op->on_full = NULL; /* the job may be recorded: it is too late to refuse it */
            op->alone = true;   /* what it sends again may use up the budget of a call */
            call_again(s, op);
        } else if (answer->result != STORE_OK) {
            op_refused(s, op, answer);
        } else {
            if (op->item->source == SCHEDULER_CONTROL)
                allowance_spend(s, op->item->user, units_of(answer));
            op->answered(s, op, &r);
            op_unref(s, op);
        }
    }
    free(call);
}

static void on_timers(struct scheduler *s)
{
    struct heap_node *n;

    while ((n = heap_first(&s->timers)) && n->when <= s->now) {
        struct op *op = container_of(n, struct op, timer);

        heap_remove(&s->timers, n);
        op->call(s, op);
    }
}

/* ---- deliveries ---- */

static const char *decode(struct item *item, const struct bus_delivery *d, struct problem *problem)
{
    static const enum wire_type types[] = {
        [SCHEDULER_SUBMIT] = WIRE_SUBMIT,
        [SCHEDULER_REPLIES] = WIRE_REPLIES,
        [SCHEDULER_CONTROL] = WIRE_CONTROL,
        [SCHEDULER_EXPIRED] = WIRE_REQUESTS,
    };
    const struct wire_properties properties = {
        .message_id = d->message_id,
        .reply_to = d->reply_to,
        .traceparent = d->traceparent,
    };
    int result;

    if (d->oversize)
        return "TOO_LARGE";
    result = wire_decode(types[d->source], d->body, &properties, &item->message, problem);
    if (result == -ENOMEM)
        abort();
    return wire_reason(result);
}

/* A name from a message that was refused, for the answer: as it is, even if it is not valid, but
 * not if it is longer than a name or no UTF-8. */
static char *name_said(const char *name)
{
    bool sane = strlen(name) <= ID_NAME_MAX && wire_utf8_valid(bytes_str(name));

    return (char *)(sane ? name : "");
}

static void reject_submit(struct scheduler *s, struct op *op, bool later, const char *field,
                          const char *reason)
{
    Drover__V1__Receipt m = DROVER__V1__RECEIPT__INIT;

    if (op->item->message.base)
        m.job_id = name_said(op->item->message.submit->job_id);
    m.code = later ? DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER
                   : DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED;
    m.field = (char *)field;
    m.reason = (char *)reason;
    op_reply(s, op, &m.base);
}

static void reject_control(struct scheduler *s, struct op *op, bool later, const char *field,
                           const char *reason, const char *message_id)
{
    const Drover__V1__Control *asked = op->item->message.control;
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.job_id = name_said(asked ? asked->job_id : "");
    m.command_id = name_said(asked ? asked->command_id : message_id);
    m.code = later ? DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER
                   : DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID;
    m.reason = (char *)effects_printf(s->out, "%s%s%s", field, *field ? ": " : "", reason);
    op_reply(s, op, &m.base);
}

/* Refuses a message. The sender that has asked for an answer gets one; all else becomes a dead
 * letter, for a person. */
static void on_refused(struct scheduler *s, struct item *item, const struct bus_delivery *d,
                       const char *what, const struct problem *problem)
{
    const char *reason = *problem->reason ? problem->reason : what;
    bool answers = item->source == SCHEDULER_SUBMIT || item->source == SCHEDULER_CONTROL;
    bool later = strcmp(what, LIMIT) == 0;
    struct op *op;

    if (!answers || !*item->reply_to) {
        item_dead(s, item,
                  effects_printf(s->out, "%s%s%s %s", what, *problem->field ? " " : "",
                                 problem->field, problem->reason));
        return;
    }
    op = op_new(s, item, "");
    if (later)
        s->stats.retry_later++;
    else
        s->stats.rejected++;
    if (item->source == SCHEDULER_SUBMIT)
        reject_submit(s, op, later, problem->field, reason);
    else
        reject_control(s, op, later, problem->field, reason, d->message_id);
    op_unref(s, op);
    wire_free(&item->message); /* its answer is packed */
}

/* Sets where answers go: to the queue named in the body, or else in the property, if access.c
 * allows it. */
static bool set_reply_to(struct scheduler *s, struct item *item, struct problem *problem)
{
    const char *said = reply_to_property_valid(item->reply_to) ? item->reply_to : "";
    bool asks = item->source == SCHEDULER_SUBMIT || item->source == SCHEDULER_CONTROL;
    bool allowed;

    if (item->message.base && item->source == SCHEDULER_SUBMIT)
        said = item->message.submit->reply_to;
    else if (item->message.base && item->source == SCHEDULER_CONTROL)
        said = item->message.control->reply_to;
    allowed = access_reply_to(s->access, item->user, said, asks ? problem : NULL);
    said = or_abort(strdup(allowed ? said : ""));
    free(item->reply_to);
    item->reply_to = (char *)said;
    /* Replies are read all the same; only their Progress is not answered. */
    return allowed || !asks;
}

/* Whether the sender has used up its allowance and has to wait. A large message is not even read
 * then. Return: LIMIT, or NULL; then the units of a Submit or Control are taken. */
static const char *over_limit(struct scheduler *s, const struct item *item, struct problem *problem)
{
    bool counts = item->source == SCHEDULER_SUBMIT || item->source == SCHEDULER_CONTROL;

    if (!counts || (item->redelivered ? allowance_admits_again(s, item->user)
                                      : allowance_admits(s, item->user))) {
        if (counts)
            allowance_spend(s, item->user, 1 + item->body.len / ALLOWANCE_BYTES);
        return NULL;
    }
    problem_set(problem, "user_id",
                "%s has taken as much as it may (security.submitters): repeat it later",
                item->user);
    return LIMIT;
}

/* Whether the sender may ask for this. */
static bool is_allowed(const struct scheduler *s, const struct item *item, struct problem *problem)
{
    if (item->source == SCHEDULER_SUBMIT)
        return access_submit(s->access, item->user, item->message.submit, problem);
    if (item->source == SCHEDULER_CONTROL)
        return access_control(s->access, item->user, item->message.control, problem);
    if (item->source == SCHEDULER_REPLIES)
        return access_replies(s->access, item->actor, problem);
    return true;
}

void item_handle(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    struct problem problem = {0};
    const char *limit = over_limit(s, item, &problem);
    const char *bad;

    if (item->source == SCHEDULER_REPLIES && replies_ignored(s, item))
        return;
    bad = limit && item->large ? limit : decode(item, d, limit ? NULL : &problem);

    item->json = item->message.base ? item->message.json : d->body.len > 0 && *d->body.data == '{';
    bad = limit ? limit : bad;
    if (!set_reply_to(s, item, bad ? NULL : &problem) || (!bad && !is_allowed(s, item, &problem)))
        bad = bad ? bad : DENIED;
    if (bad && item->source == SCHEDULER_REPLIES)
        allowance_takes_replies(s, item->actor, 10 + item->body.len / ALLOWANCE_BYTES);
    if (bad)
        on_refused(s, item, d, bad, &problem);
    else if (d->source == SCHEDULER_SUBMIT)
        on_submit(s, item, d);
    else if (d->source == SCHEDULER_REPLIES)
        on_replies(s, item);
    else if (d->source == SCHEDULER_EXPIRED)
        on_expired(s, item, d);
    else
        on_control(s, item);
}

static void on_delivery(struct scheduler *s, const struct bus_delivery *d)
{
    struct item *item;

    if (intake_gives_back(s, d))
        return;
    item = item_new(s, d);
    if (d->redelivered)
        suspects_add(s, item, d);
    else
        intake_read(s, item, d);
    item_unref(s, item);
}

/* ---- registering ---- */

void workflows_register(struct scheduler *s)
{
    s->register_again = s->registering > 0;
    for (size_t i = 0; i < s->n_registered && !s->register_again; i++) {
        struct item *item = item_new(s, NULL);

        s->registering++;
        item->registers = true;
        definition_keep(s, s->registered[i]);
        for (uint32_t p = 0; p < s->partitions; p++) {
            struct op *op = op_new(s, item, s->registered[i]->name);

            op->partition = p;
            op->workflow = workflow_ref(s->registered[i]);
            op->registered = true;
            definition_store(s, op, NULL);
            op_unref(s, op);
        }
        item_unref(s, item);
    }
}

static void on_store_up(struct scheduler *s, uint32_t partitions, const char *run)
{
    snprintf(s->run, sizeof(s->run), "%s", run);
    if (!s->partitions) {
        s->partitions = partitions;
        s->watermarks = or_abort(calloc(partitions, sizeof(*s->watermarks)));
        s->records = or_abort(calloc(partitions, sizeof(*s->records)));
        for (uint32_t p = 0; p < partitions; p++)
            list_init(&s->records[p]);
    }
    rollback_check(s); /* before any other call to the store */
    workflows_register(s);
}

int scheduler_register(struct scheduler *s, struct workflow *w)
{
    struct workflow **list = realloc(s->registered, (s->n_registered + 1) * sizeof(*s->registered));

    if (!list)
        return -ENOMEM;
    s->registered = list;
    s->registered[s->n_registered++] = workflow_ref(w);
    return 0;
}

/* ---- the functions of scheduler.h ---- */

int scheduler_new(struct scheduler **out, const struct scheduler_config *config,
                  const struct rng *seed)
{
    static const struct access everybody = {.operators = "", .supervisors = ""};
    struct scheduler *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->name = strdup(config->name);
    s->json_actors = strdup(config->json_actors ? config->json_actors : "");
    if (!s->name || !s->json_actors) {
        free(s->json_actors);
        free(s->name);
        free(s);
        return -ENOMEM;
    }
    s->rng = *seed;
    s->nonces = *config->nonces;
    s->access = config->access ? config->access : &everybody;
    s->horizon_ms = config->horizon_ms;
    s->bad_replies = config->bad_replies;
    s->other_actors = config->declared_actors;
    s->full_at = config->full_at ? config->full_at : 100;
    s->alert_interval_ms =
        config->alert_interval_ms ? config->alert_interval_ms : MACHINE_ALERT_AGAIN_MS;
    s->most_unconfirmed = config->most_unconfirmed;
    s->transient = config->transient;
    s->recording.few = s->dispatching.few = config->few;
    list_init(&s->batches);
    list_init(&s->items);
    list_init(&s->stalled);
    list_init(&s->accepted);
    list_init(&s->gone);
    list_init(&s->suspects);
    for (int source = 0; source < SCHEDULER_SOURCES; source++)
        list_init(&s->intakes[source].waiting);
    list_init(&s->watched);
    id_token(rng_next(&s->rng), s->incarnation);
    *out = s;
    return 0;
}

/* Forgets all work in progress: the broker still has every delivery that was not acknowledged. */
struct scheduler *scheduler_free(struct scheduler *s)
{
    struct call *call, *next_call;
    struct publish *publish, *next_publish;

    if (!s)
        return NULL;
    s->out = NULL;
    HASH_ITER(hh, s->publishes, publish, next_publish) {
        HASH_DEL(s->publishes, publish);
        for (unsigned i = 0; i < publish->n; i++) {
            struct op *op = publish->parts[i].op;

            watched_free(publish->parts[i].watched);
            op->then = NULL;
            if (--op->open == 0)
                op_free(s, op);
        }
        free(publish);
    }
    HASH_ITER(hh, s->calls, call, next_call) {
        HASH_DEL(s->calls, call);
        for (int i = 0; i < call->n; i++)
            if (--call->ops[i]->open == 0)
                op_free(s, call->ops[i]);
        free(call);
    }
    for (struct heap_node *n; (n = heap_first(&s->timers));)
        op_free(s, container_of(n, struct op, timer));
    for (uint32_t p = 0; p < s->partitions; p++)
        for (struct list *l; (l = list_pop(&s->records[p]));)
            op_free(s, list_entry(l, struct op, link));
    for (struct list *l; (l = list_pop(&s->stalled));)
        op_free(s, list_entry(l, struct op, link));
    for (struct list *l; (l = list_pop(&s->suspects));)
        op_free(s, list_entry(l, struct op, link));
    for (int source = 0; source < SCHEDULER_SOURCES; source++)
        for (struct list *l; (l = list_pop(&s->intakes[source].waiting));)
            op_free(s, list_entry(l, struct op, link));
    list_foreach_safe(l, &s->items)
        item_free(s, list_entry(l, struct item, link));
    for (size_t i = 0; i < s->n_registered; i++)
        workflow_unref(s->registered[i]);
    definitions_free(s);
    dispatch_free(s);
    watch_lost(s);
    asked_free(s);
    alert_groups_free(s);
    allowances_free(s);
    rollback_free(s);
    heap_deinit(&s->timers);
    free(s->registered);
    free(s->records);
    free(s->json_actors);
    free(s->name);
    free(s);
    return NULL;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_tick(const struct scheduler *s)
{
    const struct heap_node *n = heap_first(&s->timers);
    int64_t next = n ? n->when : INT64_MAX;

    if (s->suspect)
        next = earlier(next, s->suspect_until);
    if (s->n_records > 0)
        next = earlier(next, pace_when(&s->recording, s->now));
    if (!list_empty(&s->batches))
        next = earlier(next, pace_when(&s->dispatching, s->now));
    return earlier(earlier(next, watch_next(s)), alert_next(s));
}

int64_t scheduler_step(struct scheduler *s, const struct scheduler_event *event,
                       struct effects *out)
{
    s->now = event->now;
    s->out = out;
    switch (event->type) {
    case SCHEDULER_STORE_UP:
        on_store_up(s, event->partitions, event->run);
        break;
    case SCHEDULER_BUS_DOWN:
        suspects_lost(s);
        intake_lost(s);
        watch_lost(s);
        break;
    case SCHEDULER_DELIVERY:
        assert(s->partitions); /* the driver consumes only once the store is connected */
        on_delivery(s, event->delivery);
        break;
    case SCHEDULER_ANSWER:
        on_answer(s, event->id, event->answer);
        break;
    case SCHEDULER_OUTCOME:
        on_outcome(s, event->id, event->outcome);
        break;
    case SCHEDULER_QUEUE:
        watch_answered(s, event->queue.messages, event->queue.consumers);
        break;
    case SCHEDULER_MEMORY:
        s->store_full =
            event->memory.most > 0 && event->memory.used / s->full_at >= event->memory.most / 100;
        break;
    case SCHEDULER_ISOLATED:
        /* The driver has put it into drover.dead. If this alert does not report it the
         * inspection of that queue does. */
        s->stats.dead_letters++;
        alert_once_a_minute(s, &s->isolated_told, event->isolated.job, "ISOLATED");
        break;
    case SCHEDULER_STOP:
        alert_stop(s);
        break;
    case SCHEDULER_TICK:
        on_timers(s);
        suspects_tick(s);
        watch_tick(s);
        alert_tick(s);
        flush(s);
        dispatch_flush(s);
        break;
    }
    intake_go_on(s);
    return next_tick(s);
}

bool scheduler_idle(const struct scheduler *s)
{
    list_foreach(l, &s->items)
        if (!list_entry(l, struct item, link)->background)
            return false;
    return true;
}

void scheduler_stats(const struct scheduler *s, struct scheduler_stats *out)
{
    *out = s->stats;
    out->unread_bytes = s->unread_bytes;
    out->store_full = s->store_full;
}
