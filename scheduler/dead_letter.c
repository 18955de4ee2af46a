// SPDX-License-Identifier: Apache-2.0
/*
 * Dead letters: messages that are given up, in the queue drover.dead, and the alerts about them
 *
 * A dead letter is all that is left of a message, so it is published again until the broker
 * confirms it. Called by the on_*.c files, poison.c, record.c, notification.c
 * and op.c; watch.c inspects the queue.
 */
#include "scheduler/dead_letter.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/alert.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

/* ---- publishing ---- */

struct dead_letter_op {
    struct op op;
    char *reason; /* owned */
};

static struct dead_letter_op *letter_of(struct op *op)
{
    return container_of(op, struct dead_letter_op, op);
}

static void letter_free(struct op *op)
{
    free(letter_of(op)->reason);
}

static void publish_again(struct scheduler *s, struct op *op);

static void on_published(struct scheduler *s, struct op *op)
{
    if (!op->returned)
        return;
    op->returned = false;
    op->send_call = publish_again;
    op->refs++;
    op_repeat_at(s, op, s->now + PUBLISH_REFUSED_AGAIN_MS);
}

static void publish(struct scheduler *s, struct op *op)
{
    const struct item *item = op->item;
    struct bus_message *m = publish_message(s, op, NULL, false);

    m->exchange = "drover.dead";
    m->key = "";
    m->body = effects_copy(s->out, item->body);
    m->content_type = wire_content_type(item->body.len > 0 && item->body.data[0] == '{');
    if (item->several)
        m->type = drover__v1__submits__descriptor.name;
    m->reason = effects_str(s->out, letter_of(op)->reason);
    m->mandatory = true;
    op->then = on_published;
}

static void publish_again(struct scheduler *s, struct op *op)
{
    publish(s, op);
    op_unref(s, op); /* the timer's reference */
}

void dead_letter_send_quietly(struct scheduler *s, struct item *item, const char *reason)
{
    struct dead_letter_op *letter = op_new(s, item, "", sizeof(*letter), letter_free);

    letter->reason = or_abort(strdup(reason));
    s->stats.dead_letters++;
    log_often(LOG_WARN, "dead_letter", LOG_S("reason", reason), LOG_I("bytes", item->body.len));
    publish(s, &letter->op);
    op_unref(s, &letter->op);
}

void dead_letter_send(struct scheduler *s, struct item *item, const char *reason)
{
    dead_letter_send_quietly(s, item, reason);
    s->dead_letters.own++;
    dead_letter_alert(s, "", reason);
}

/* ---- alerts ---- */

static struct alert_op *letters_alert(struct scheduler *s, struct item *item, const char *job)
{
    return alert_new(
        s, item, job,
        &(struct alert){.step = WORKFLOW_NONE, .at = s->store_time, .reason = ALERT_DEAD_LETTER});
}

/* The delivery does not wait for this alert: the broker may refuse it for a long time. */
void dead_letter_alert(struct scheduler *s, const char *job, const char *reason)
{
    struct item *item = item_internal(s);
    struct alert_op *a = letters_alert(s, item, job);

    a->letter = or_abort(strdup(reason));
    alert_publish(s, a);
    op_unref(s, &a->op);
    item_unref(s, item);
}

/* ---- inspections ---- */

static void letters_call(struct scheduler *s, struct op *op)
{
    ops_dead_letters(s->out, op_call_id(s, op), op->partition, s->dead_letters.there,
                     s->dead_letters.own - s->dead_letters.recorded);
    s->dead_letters.recording = s->dead_letters.own;
}

static void letters_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct alert_op *a = alert_of(op);

    s->dead_letters.recorded = s->dead_letters.recording;
    a->alert.count = ops_read_dead_letters(r);
    if (a->alert.count > 0)
        alert_publish(s, a);
}

int64_t dead_letter_inspect_at(const struct scheduler *s)
{
    return s->partitions > 0 ? s->dead_letters.inspect_at : INT64_MAX;
}

void dead_letter_inspected(struct scheduler *s, uint64_t messages)
{
    struct item *item = item_internal(s);
    struct alert_op *a = letters_alert(s, item, "");

    s->dead_letters.there = messages;
    op_call(s, &a->op, letters_call, letters_answered);
    op_unref(s, &a->op);
    item_unref(s, item);
}
