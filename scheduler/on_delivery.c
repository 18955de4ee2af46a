// SPDX-License-Identifier: Apache-2.0
/*
 * ON a delivery: decodes the message, and gives it to the file that handles its kind, or rejects it
 *
 * A redelivered message is a suspect first (poison.c); one of over 2 KiB may wait (intake.c).
 * Called by scheduler.c.
 */
#include "scheduler/on_delivery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "base/utf8.h"
#include "model/reply_to.h"
#include "scheduler/access.h"
#include "scheduler/allowance.h"
#include "scheduler/dead_letter.h"
#include "scheduler/intake.h"
#include "scheduler/on_control.h"
#include "scheduler/on_expired.h"
#include "scheduler/on_replies.h"
#include "scheduler/on_submit.h"
#include "scheduler/poison.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"
#include "scheduler/submits.h"

/* In place of a reason of wire_decode(). LIMIT: the sender may repeat the message later. DENIED:
 * the sender may not send it. */
#define LIMIT "LIMIT"
#define DENIED "DENIED"

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

/* A name from a message that was refused, for the answer: copied even if it is not a valid name;
 * empty if it is too long or not UTF-8. */
static char *name_said(const char *name)
{
    bool sane = strlen(name) <= ID_NAME_MAX && utf8_valid(bytes_str(name));

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
    publish_reply(s, op, &m.base);
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
    publish_reply(s, op, &m.base);
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
        dead_letter_send(s, item,
                         effects_printf(s->out, "%s%s%s %s", what, *problem->field ? " " : "",
                                        problem->field, problem->reason));
        return;
    }
    op = op_plain(s, item, "");
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

static bool is_counted(const struct item *item)
{
    return item->source == SCHEDULER_SUBMIT || item->source == SCHEDULER_CONTROL;
}

/* Deducts the units of a message from the allowance of its sender. */
static void spend(struct scheduler *s, const struct item *item)
{
    if (is_counted(item))
        allowance_spend(s, item->user, 1 + item->body.len / ALLOWANCE_BYTES);
}

/* Checks the allowance of the sender of a Submit or Control. Return: LIMIT if the sender must wait:
 * a large message is not even read then; else NULL. */
static const char *limit_reason(struct scheduler *s, const struct item *item,
                                struct problem *problem)
{
    if (!is_counted(item) || (item->redelivered ? allowance_admits_again(s, item->user)
                                                : allowance_admits(s, item->user)))
        return NULL;
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

/* ms between two lines of the log about messages that a restart of the broker would lose */
#define TRANSIENT_AGAIN_MS 60000

static bool is_question(const struct item *item)
{
    Drover__V1__Control__CommandCase command;

    if (item->source != SCHEDULER_CONTROL)
        return false;
    command = item->message.control->command_case;
    return command == DROVER__V1__CONTROL__COMMAND_QUERY ||
           command == DROVER__V1__CONTROL__COMMAND_HISTORY ||
           command == DROVER__V1__CONTROL__COMMAND_LIST_JOBS ||
           command == DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS;
}

/* A client that does not ask RabbitMQ to keep its Submits and commands has them confirmed, and
 * loses them when RabbitMQ restarts. */
static void note_transient(struct scheduler *s, const struct item *item)
{
    if (is_question(item))
        return;
    s->stats.transient++;
    if (s->transient_at && s->now < s->transient_at + TRANSIENT_AGAIN_MS)
        return;
    s->transient_at = s->now;
    log_warn("message_not_persistent",
             LOG_S("type", item->source == SCHEDULER_SUBMIT ? "Submit" : "Control"),
             LOG_S("user", item->user),
             LOG_S("why", "it is lost if RabbitMQ restarts before it is read: publish it with "
                          "delivery mode 2"));
}

static void read_submits(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    struct problem problem = {0};
    const char *limit = item->large ? limit_reason(s, item, &problem) : NULL;
    const char *bad = limit;

    if (!bad)
        bad = d->oversize ? "TOO_LARGE" : submits_read(s, item, d, &problem);
    if (!bad)
        return; /* each Submit is deducted by itself */
    if (!limit)
        spend(s, item);
    item->json = d->body.len > 0 && *d->body.data == '{';
    (void)set_reply_to(s, item, NULL);
    on_refused(s, item, d, bad, &problem);
}

/* Reads a message and begins what it asks for. */
static void read_message(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    struct problem problem = {0};
    const char *limit, *bad;

    poison_read(s, item);
    if (item->several) {
        read_submits(s, item, d);
        return;
    }
    limit = limit_reason(s, item, &problem);
    if (!limit)
        spend(s, item);
    if (item->source == SCHEDULER_REPLIES && on_replies_ignored(s, item))
        return;
    bad = limit && item->large ? limit : decode(item, d, limit ? NULL : &problem);

    item->json = item->message.base ? item->message.json : d->body.len > 0 && *d->body.data == '{';
    bad = limit ? limit : bad;
    if (!set_reply_to(s, item, bad ? NULL : &problem) || (!bad && !is_allowed(s, item, &problem)))
        bad = bad ? bad : DENIED;
    if (!bad && d->transient && (d->source == SCHEDULER_SUBMIT || d->source == SCHEDULER_CONTROL))
        note_transient(s, item);
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

static void on_done(struct scheduler *s, struct item *item)
{
    if (item->suspect)
        poison_done(s, item);
    intake_done(s, item);
    submits_done(s, item);
}

static const struct item_kind DELIVERY = {.give_up = dead_letter_send, .done = on_done};

void on_delivery_init(struct scheduler *s)
{
    intake_init(&s->intake, read_message);
}

void on_delivery(struct scheduler *s, const struct bus_delivery *d)
{
    struct item *item;

    if (intake_gives_back(s, d))
        return;
    item = item_new(s, d, &DELIVERY);
    item->several = d->batch && d->source == SCHEDULER_SUBMIT;
    intake_came(s, item);
    if (!poison_takes(s, item, d))
        intake_read(s, item, d);
    item_unref(s, item);
}
