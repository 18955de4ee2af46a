// SPDX-License-Identifier: Apache-2.0
/*
 * Replies: gathered over an iteration of the loop, and published until the broker has them
 *
 * Called by running.c and waiting.c; agent.c flushes. A reply is published again until the broker
 * has confirmed it or its lease is over.
 */
#include "agent/replies.h"

#include "agent/outgoing.h"
#include "agent/state.h"

#define JSON_GROWTH 6 /* at most: a control character becomes \u0001 */

static_assert(JSON_GROWTH * (WIRE_RESULT_MAX + WIRE_ERROR_DETAILS_MAX + REPLY_BASE) <=
                  WIRE_MESSAGE_MAX,
              "any one reply fits a message");

/* A message with the replies of some runs of one actor. */
struct replies_message {
    struct outgoing outgoing;
    size_t n;
    struct run *runs[AGENT_REPLIES];
};

static struct replies_message *message_of(struct outgoing *o)
{
    return container_of(o, struct replies_message, outgoing);
}

/* ---- sending ---- */

/* Ends the runs whose lease is over, and takes their replies out of the message. */
static void drop_late(struct agent *a, struct replies_message *p)
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

static int64_t earliest_deadline(const struct replies_message *p)
{
    int64_t earliest = INT64_MAX;

    for (size_t i = 0; i < p->n; i++)
        if (p->runs[i]->seen.deadline < earliest)
            earliest = p->runs[i]->seen.deadline;
    return earliest;
}

static void send(struct agent *a, struct outgoing *o)
{
    struct replies_message *p = message_of(o);
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    Drover__V1__StepReply *list[AGENT_REPLIES];
    const struct delivery *first;
    struct bus_message *m;

    drop_late(a, p);
    if (p->n == 0) {
        outgoing_free(a, o);
        return;
    }
    first = p->runs[0]->delivery;
    for (size_t i = 0; i < p->n; i++)
        list[i] = &p->runs[i]->reply.message;
    body.replies = list;
    body.n_replies = p->n;
    m = outgoing_replies(a, o, &body, first->actor, first->message.json);
    m->mandatory = true;
    m->cached = true;
    m->not_after = earliest_deadline(p);
    if (p->n == 1) {
        outgoing_headers(a, m, p->runs[0]->seen.request);
        m->message_id = effects_str(a->out, p->runs[0]->seen.request->token);
    }
}

static void on_confirmed(struct agent *a, struct outgoing *o)
{
    struct replies_message *p = message_of(o);

    a->stats.replies += p->n;
    for (size_t i = 0; i < p->n; i++)
        run_answered(a, p->runs[i]);
    outgoing_free(a, o);
}

static void on_refused(struct agent *a, struct outgoing *o)
{
    const struct replies_message *p = message_of(o);

    outgoing_pause(a, o, outgoing_exchange(a, p->runs[0]->delivery->actor), p->n,
                   earliest_deadline(p));
}

/* send() drops replies whose lease is over and sends the rest again. */
static const struct outgoing_kind kind = {
    .confirmed = on_confirmed,
    .refused = on_refused,
    .resend = send,
};

/* ---- gathering ---- */

/* The reply to such an attempt travels alone: if it kills the schedulers that read it, the
 * properties of the message tell which request it is about. */
static bool is_retry(const struct run *run)
{
    return run->seen.request->attempt > 1;
}

/* Moves replies from the list into one message: those of one actor, as many as fit into @limit
 * bytes. */
static void take_together(struct replies_message *p, struct list *gathered, size_t limit)
{
    const char *actor = list_entry(gathered->next, struct run, link)->delivery->actor;
    size_t size = 0;

    for (struct list *at = gathered->next, *next; at != gathered && p->n < AGENT_REPLIES;
         at = next) {
        struct run *run = list_entry(at, struct run, link);

        next = at->next;
        if (run->delivery->actor != actor)
            continue;
        size += reply_size(&run->reply);
        if (p->n > 0 && (size > limit || is_retry(run) || is_retry(p->runs[0])))
            break;
        list_remove(&run->link);
        p->runs[p->n++] = run;
    }
}

static void flush(struct agent *a, struct list *gathered, size_t limit)
{
    while (!list_empty(gathered)) {
        struct replies_message *p = outgoing_new(a, sizeof(*p), &kind);

        take_together(p, gathered, limit);
        send(a, &p->outgoing);
    }
}

static bool are_gathered(const struct replies *r)
{
    return !list_empty(&r->gathered[0]) || !list_empty(&r->gathered[1]);
}

void replies_init(struct replies *r, unsigned few)
{
    list_init(&r->gathered[0]);
    list_init(&r->gathered[1]);
    r->pace.few = few;
}

void replies_gather(struct agent *a, struct run *run)
{
    list_append(&a->replies.gathered[run->delivery->message.json], &run->link);
    pace_add(&a->replies.pace, a->now);
}

void replies_flush(struct agent *a)
{
    struct replies *r = &a->replies;

    if (pace_when(&r->pace, a->now) > a->now || !are_gathered(r))
        return;
    pace_sent(&r->pace, a->now);
    flush(a, &r->gathered[0], WIRE_MESSAGE_MAX);
    flush(a, &r->gathered[1], WIRE_MESSAGE_MAX / JSON_GROWTH);
}

int64_t replies_next(const struct agent *a)
{
    return are_gathered(&a->replies) ? pace_when(&a->replies.pace, a->now) : INT64_MAX;
}
