// SPDX-License-Identifier: Apache-2.0
/*
 * Client batches: Receipts and JobEvents that go to one client together
 *
 * A client says in its Submit that it reads them (Submit.batches). Messages of one kind for one
 * address that come within a millisecond then share a message: see pace.h. One that is alone is
 * published as it is, with its correlation id; the messages of a batch name their jobs.
 *
 * Called by on_submit.c and notification.c; scheduler.c flushes the batches.
 */
#include "scheduler/client_batch.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/publish.h"
#include "scheduler/state.h"

struct client_batch {
    struct list link; /* in client_batches.waiting */
    struct publish *publish;
    const ProtobufCMessageDescriptor *type; /* of the messages in it */
    bool json;
    struct buf body;
    struct buf alone; /* the first message, if no other one comes */
    char *reply_to;   /* owned, as the next three */
    char *sender;
    char *correlation; /* of the first message, as the next one */
    char *job;
};

static const struct publish_kind plain = {0};

static struct client_batch *of_link(struct list *link)
{
    return list_entry(link, struct client_batch, link);
}

static void free_batch(struct client_batch *b)
{
    list_remove(&b->link);
    buf_deinit(&b->body);
    buf_deinit(&b->alone);
    free(b->reply_to);
    free(b->sender);
    free(b->correlation);
    free(b->job);
    free(b);
}

static const ProtobufCMessageDescriptor *batch_type(const struct client_batch *b)
{
    return b->type == &drover__v1__receipt__descriptor ? &drover__v1__receipts__descriptor
                                                       : &drover__v1__job_events__descriptor;
}

static void send(struct scheduler *s, struct client_batch *b)
{
    bool alone = b->publish->n == 1;
    struct buf *body = alone ? &b->alone : &b->body;
    struct bus_message *m;

    if (b->json && !alone)
        buf_puts(body, "]}");
    m = publish_send(s, b->publish, alone ? b->type : batch_type(b),
                     effects_copy(s->out, buf_or_abort(body)), b->json);
    m->exchange = "";
    m->key = effects_str(s->out, b->reply_to);
    m->correlation_id = alone ? effects_str(s->out, b->correlation) : NULL;
    if (alone && b->type == &drover__v1__job_event__descriptor)
        m->job = effects_str(s->out, b->job);
    m->sender = effects_str(s->out, b->sender);
    m->mandatory = true;
    free_batch(b);
}

static struct client_batch *find(struct scheduler *s, const struct client_message *m)
{
    list_foreach(it, &s->client_batches.waiting) {
        struct client_batch *b = of_link(it);

        if (b->type == m->body->descriptor && b->json == m->json &&
            strcmp(b->reply_to, m->reply_to) == 0 && strcmp(b->sender, m->sender) == 0)
            return b;
    }
    return NULL;
}

static struct client_batch *begin(struct scheduler *s, const struct op *op,
                                  const struct client_message *m)
{
    struct client_batch *b = or_abort(calloc(1, sizeof(*b)));

    b->publish = publish_new(s, CLIENT_BATCH_MAX, &plain);
    b->type = m->body->descriptor;
    b->json = m->json;
    b->reply_to = or_abort(strdup(m->reply_to));
    b->sender = or_abort(strdup(m->sender));
    b->correlation = or_abort(strdup(m->correlation));
    b->job = or_abort(strdup(op->job));
    (void)wire_encode(m->body, m->json, &b->alone);
    (void)buf_or_abort(&b->alone); /* now: it may not be read for a while, or never */
    if (b->json)
        buf_printf(&b->body, "{\"%s\":[", batch_type(b)->fields[0].name);
    list_append(&s->client_batches.waiting, &b->link);
    return b;
}

/* Protobuf merges fields that follow each other: the bodies of two batches, one behind the other,
 * are a batch. */
static void append(struct client_batch *b, const ProtobufCMessage *message)
{
    Drover__V1__Receipts receipts = DROVER__V1__RECEIPTS__INIT;
    Drover__V1__JobEvents events = DROVER__V1__JOB_EVENTS__INIT;

    if (b->json) {
        if (b->publish->n > 0)
            buf_puts(&b->body, ",");
        (void)wire_encode(message, true, &b->body);
    } else if (b->type == &drover__v1__receipt__descriptor) {
        receipts.receipts = (Drover__V1__Receipt *[]){(Drover__V1__Receipt *)message};
        receipts.n_receipts = 1;
        (void)wire_encode(&receipts.base, false, &b->body);
    } else {
        events.events = (Drover__V1__JobEvent *[]){(Drover__V1__JobEvent *)message};
        events.n_events = 1;
        (void)wire_encode(&events.base, false, &b->body);
    }
}

void client_batch_add(struct scheduler *s, struct op *op, const struct client_message *m)
{
    struct client_batch *b = find(s, m);
    size_t before;

    if (!b)
        b = begin(s, op, m);
    before = b->body.len;
    append(b, m->body);
    publish_add(s, b->publish, op, buf_or_abort(&b->body).len - before);
    pace_add(&s->client_batches.pace, s->now);
    if (b->publish->n == CLIENT_BATCH_MAX || b->body.len >= CLIENT_BATCH_BYTES)
        send(s, b);
}

void client_batch_flush(struct scheduler *s)
{
    struct client_batches *all = &s->client_batches;

    if (client_batch_next(s) > s->now)
        return;
    pace_sent(&all->pace, s->now);
    while (!list_empty(&all->waiting))
        send(s, of_link(all->waiting.next));
}

int64_t client_batch_next(const struct scheduler *s)
{
    const struct client_batches *all = &s->client_batches;

    return list_empty(&all->waiting) ? INT64_MAX : pace_when(&all->pace, s->now);
}

void client_batch_free(struct scheduler *s)
{
    list_foreach_safe(it, &s->client_batches.waiting)
        free_batch(of_link(it));
}
