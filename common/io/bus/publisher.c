// SPDX-License-Identifier: Apache-2.0
/*
 * Publisher: the link that sends and learns what became of it
 *
 * That a message was written to the socket proves nothing: only the broker's confirm does. So a
 * message goes from `waiting` to `wire` as it is sent, and leaves when it is confirmed, refused or
 * past its time. A lost connection moves what is on the wire back to the front of `waiting`, in
 * order.
 *
 * A confirm that does not come would be waited for as long as the connection stays up. So it is
 * given up over a message that has been on the wire for long while none is confirmed, or one is
 * that was sent to the same place later: a queue confirms in order. Where others are confirmed and
 * nothing of that place, it is the queue that is slow, and another connection would not help.
 *
 * The broker may end the connection over a message, and would again each time that it is sent: some
 * versions do so over an address of direct reply-to that no node knows. What was on the wire when
 * that has happened is sent one at a time. A message over which the connection has ended twice, the
 * second time with it alone on the wire, is refused: see direct.c. Any other message has two
 * tries more: brokers end connections for reasons of their own.
 *
 * Where nothing was confirmed yet to the same place over this connection, a refusal may be its
 * fault: the message is sent over another one, up to three times. See renewal.c.
 *
 * An alarm at the broker is announced only to a connection that publishes, and from then on the
 * broker reads nothing. The first message of a connection is therefore sent alone: in a lasting
 * alarm a reconnect costs one message in the broker's inbound buffer, not a window full. That the
 * broker reads on shows by its answer to a method behind the message, not by the confirm: the queue
 * may have lost its leader, and the other messages must not wait for that.
 *
 * link.c calls it by publisher_role, bus.c to inspect queues.
 */
#include "io/bus/publisher.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/bus/encode.h"
#include "io/bus/topology.h"
#include "model/reply_to.h"

#define LONGEST 6 /* times confirm_ms: half an hour, as RabbitMQ waits for an ack */

/* How long a message in doubt keeps the others back: by then the broker has confirmed it, or closed
 * over it; or its queue confirms nothing, as one without a majority. */
#define ALONE_IN_DOUBT_MS 10000

#define RENEW_WITHIN_MS 500
#define RENEWALS_MAX 3 /* for one message */

#define CLOSINGS_DIRECT 2 /* of the connection, over a message to direct reply-to ... */
#define CLOSINGS_OTHER 4  /* ... or elsewhere: brokers have other reasons, too */

static struct publisher *publisher_of(struct link *link)
{
    return container_of(link, struct publisher, link);
}

static struct outgoing *first(const struct list *list)
{
    return list_empty(list) ? NULL : list_entry(list->next, struct outgoing, node);
}

static struct outgoing *last(const struct list *list)
{
    return list_empty(list) ? NULL : list_entry(list->prev, struct outgoing, node);
}

/* --- outcomes --------------------------------------------------------------------------------- */

static void settle(struct publisher *p, struct outgoing *m, enum bus_outcome outcome)
{
    list_remove(&m->node);
    m->outcome = outcome;
    list_append(&p->link.settled, &m->node);
}

static void drop_bound(struct publisher *p, struct list *messages)
{
    list_foreach_safe(it, messages) {
        struct outgoing *m = list_entry(it, struct outgoing, node);

        if (m->message.bound)
            settle(p, m, BUS_NACKED);
    }
}

static bool is_pulse(const struct outgoing *m)
{
    assert(m->message.exchange); /* set for each message */
    return strcmp(m->message.exchange, BUS_PULSE_EXCHANGE) == 0;
}

static void settle_wire(struct publisher *p, struct outgoing *m, bool accepted)
{
    p->n_wire--;
    if (!is_pulse(m))
        p->heard = clock_monotonic_ms();
    if (accepted && direct_is(m))
        direct_taken(&p->direct, m);
    if (accepted)
        renewal_taken(&p->renewal, m);
    if (accepted && !m->returned)
        task_queues_routed(&p->task_queues, &p->link, m);
    if (!accepted)
        settle(p, m, BUS_NACKED);
    else
        settle(p, m, !m->returned ? BUS_CONFIRMED : m->resent ? BUS_NACKED : BUS_RETURNED);
}

/* Keeps a refused message for another connection. */
static bool keep_refused(struct publisher *p, struct outgoing *m)
{
    bool may_be_lost = m->message.transient && m->id == 0; /* as a pulse */
    const int64_t now = clock_monotonic_ms();

    if (p->link.closing || m->renewals == RENEWALS_MAX || may_be_lost || m->message.bound ||
        direct_is(m) || !renewal_refused(&p->renewal, m, now))
        return false;
    m->renewals++;
    p->n_wire--;
    p->heard = now;
    list_remove(&m->node);
    list_append(&p->refused, &m->node);
    return true;
}

/* Notes whom a confirm has passed over. */
static void pass(struct publisher *p, const struct outgoing *confirmed)
{
    list_foreach(it, &p->wire) {
        struct outgoing *m = list_entry(it, struct outgoing, node);

        if (m == confirmed)
            break;
        m->passed |= strcmp(m->message.exchange, confirmed->message.exchange) == 0 &&
                     strcmp(m->message.key, confirmed->message.key) == 0;
    }
}

/* basic.ack and basic.nack: one tag, or all up to it. A tag that is unknown is not ours to judge:
 * the broker names each once. */
static void on_confirm(struct publisher *p, uint64_t tag, bool multiple, bool accepted)
{
    p->reads = READS;
    list_foreach_safe(it, &p->wire) {
        struct outgoing *m = list_entry(it, struct outgoing, node);

        if (m->tag > tag)
            break;
        if (!multiple && m->tag == tag)
            pass(p, m);
        if ((multiple || m->tag == tag) && (accepted || !keep_refused(p, m)))
            settle_wire(p, m, accepted);
    }
}

static int publisher_method(struct link *link, amqp_method_number_t method, const void *arguments)
{
    struct publisher *p = publisher_of(link);

    if (method == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = arguments;

        on_confirm(p, ack->delivery_tag, ack->multiple, true);
        return 0;
    }
    if (method == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = arguments;

        on_confirm(p, nack->delivery_tag, nack->multiple, false);
        return 0;
    }
    if (method == AMQP_BASIC_QOS_OK_METHOD && p->reads != READS_UNKNOWN) {
        p->reads = READS;
        return 0;
    }
    return link_fail_out_of_place(link, method);
}

/* basic.return comes before the confirm of the same message. */
static void publisher_returned(struct link *link, int64_t serial)
{
    struct publisher *p = publisher_of(link);

    list_foreach(it, &p->wire) {
        struct outgoing *m = list_entry(it, struct outgoing, node);

        if ((int64_t)m->serial == serial) {
            m->returned = true;
            task_queues_returned(&p->task_queues, link, m);
            return;
        }
    }
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool is_in_doubt(const struct outgoing *m)
{
    return m && m->in_doubt;
}

/* Whether one more message may be on the wire. */
static bool has_room(struct publisher *p, int64_t now)
{
    const struct outgoing *before = last(&p->wire), *next = first(&p->waiting);
    int64_t until;

    if (p->reads == READS_ASKED)
        return false;
    if (!is_in_doubt(before) && !is_in_doubt(next))
        return p->n_wire < p->link.config->max_unconfirmed || is_pulse(next);
    until = before ? before->wired + ALONE_IN_DOUBT_MS : now;
    if (now >= until)
        return true;
    link_tick_within(&p->link, until - now);
    return false;
}

/* By a method that changes nothing where nothing is consumed with acks. It is no call, which would
 * have to be answered soon: the line may be slow, and the message large. */
static int ask_whether_it_reads(struct publisher *p)
{
    amqp_basic_qos_t qos = {0};

    p->reads = READS_ASKED;
    return link_put_method(&p->link, AMQP_BASIC_QOS_METHOD, &qos);
}

static int send_first(struct publisher *p, int64_t now)
{
    struct outgoing *m = first(&p->waiting);
    int r;

    if (m->message.not_after && now >= m->message.not_after) {
        settle(p, m, m->sent ? BUS_EXPIRED : BUS_UNSENT);
        return 0;
    }
    if (m->message.ask_after && now >= m->message.ask_after && !m->sent) {
        settle(p, m, BUS_WAITED);
        return 0;
    }
    if (direct_is(m) && direct_shuns(&p->direct, m, now)) {
        settle(p, m, BUS_NACKED);
        return 0;
    }
    list_remove(&m->node);
    list_append(&p->wire, &m->node);
    p->n_wire++;
    m->tag = ++p->last_tag;
    m->wired = now;
    m->returned = m->passed = false;
    m->resent = m->sent;
    r = encode_publish(&p->link, m, now);
    m->sent = true; /* also when the call fails: the broker may have got it whole */
    return r || p->reads != READS_UNKNOWN ? r : ask_whether_it_reads(p);
}

void publisher_allow(struct publisher *p, const char *actor)
{
    task_queues_allow(&p->task_queues, &p->link, &p->waiting, actor);
}

void publisher_take(struct publisher *p, struct list *messages)
{
    struct list *node;

    while ((node = list_pop(messages))) {
        bool pulse = is_pulse(list_entry(node, struct outgoing, node));

        list_append(pulse ? p->waiting.next : &p->waiting, node);
    }
    if (p->link.state != LINK_UP && p->link.state != LINK_CLOSING)
        drop_bound(p, &p->waiting);
}

/* ---- inspections ---- */

void publisher_inspect(struct publisher *p, const char *queue, bus_inspect_cb cb, void *ctx)
{
    p->inspection = (struct inspection){.cb = cb, .ctx = ctx};
    snprintf(p->inspection.queue, sizeof(p->inspection.queue), "%s", queue);
}

static int on_counts(struct link *link, const void *arguments)
{
    struct inspection *i = &publisher_of(link)->inspection;
    const amqp_queue_declare_ok_t *ok = arguments;

    if (i->asked) { /* else another question has replaced it */
        i->messages = ok->message_count;
        i->consumers = ok->consumer_count;
    }
    return 0;
}

/* A queue that does not exist has no messages and no consumers. The marker is declared with the
 * next connection, if it can be. */
static int on_inspected(struct link *link, bool refused)
{
    struct inspection *i = &publisher_of(link)->inspection;
    bool declares = link->config->declare && !link->queues->quorum;

    if (refused && link->not_found && declares && strcmp(i->queue, BUS_MARKER) == 0)
        return link_fail(link, LINK_E_LOST, "queue %s is gone", BUS_MARKER);
    i->answered = i->asked;
    return 0;
}

/* Over the side channel: that there is no such queue must not close the one with the confirms. */
static int inspect(struct publisher *p)
{
    int r = link_side_begin(&p->link, on_inspected);

    p->inspection.asked = true;
    return r ? r : topology_inspect(&p->link, p->inspection.queue, on_counts);
}

/* ---- missing confirms ---- */

/* A message whose confirm will not come, as far as can be told; NULL: none. Where confirms of
 * messages to other places come, its queue may have lost its majority: that is waited for longer.
 */
static const struct outgoing *unconfirmed(const struct publisher *p, int64_t now)
{
    const int confirm_ms = p->link.config->confirm_ms;
    int64_t before = now - confirm_ms;

    if (p->held_up > before)
        return NULL;
    list_foreach(it, &p->wire) {
        const struct outgoing *m = list_entry(it, struct outgoing, node);

        if (m->wired > before)
            break;
        if (m->passed || p->heard <= before || m->wired <= now - LONGEST * (int64_t)confirm_ms)
            return m;
    }
    return NULL;
}

static int mind_confirms(struct publisher *p)
{
    int64_t now = clock_monotonic_ms();
    const struct outgoing *m = unconfirmed(p, now);

    if (p->link.blocked)
        p->held_up = now;
    if (!m || p->link.blocked)
        return 0;
    return link_fail(&p->link, LINK_E_LOST, "no confirm of a message to %s %s for %lld s, of %d",
                     m->message.exchange, m->message.key, (long long)(now - m->wired) / 1000,
                     p->n_wire);
}

static bool must_ask(const struct publisher *p)
{
    return task_queues_must_ask(&p->task_queues, &p->link, first(&p->waiting));
}

/* Begins an inspection, or a question about a task queue, over the side channel. */
static int send_aside(struct publisher *p)
{
    const struct inspection *i = &p->inspection;

    if (!link_side_is_free(&p->link))
        return 0;
    if (*i->queue && !i->asked)
        return inspect(p);
    return must_ask(p) ? task_queues_ask(&p->task_queues, &p->link, first(&p->waiting)) : 0;
}

static bool may_send(struct publisher *p, int64_t now)
{
    const struct link *link = &p->link;

    return !link->blocked && !link_is_full(link) && !*p->task_queues.asked &&
           !list_empty(&p->waiting) && !must_ask(p) && has_room(p, now);
}

/* Makes another connection once nothing is on the wire, so that nothing is sent twice for it; but
 * waits only as long as confirms come. */
static int renew(struct publisher *p, int64_t now)
{
    const struct outgoing *m = first(&p->refused);
    int64_t since = p->renewal.due > p->heard ? p->renewal.due : p->heard;

    if (!list_empty(&p->wire) && now < since + RENEW_WITHIN_MS) {
        link_tick_within(&p->link, since + RENEW_WITHIN_MS - now);
        return 0;
    }
    return link_fail(&p->link, LINK_E_LOST,
                     "messages to exchange '%s' with key %s are refused, perhaps over this "
                     "connection only",
                     m->message.exchange, m->message.key);
}

static int publisher_send(struct link *link)
{
    struct publisher *p = publisher_of(link);
    struct task_queues *queues = &p->task_queues;
    const int64_t now = clock_monotonic_ms();
    int r = mind_confirms(p);

    if (!r && !link->blocked && p->renewal.due && p->renewal.due <= now)
        return renew(p, now);
    if (!r && p->renewal.due > now)
        link_tick_within(link, p->renewal.due - now);
    task_queues_hold(queues, link, &p->waiting);
    task_queues_release(queues, link, &p->waiting);
    while (!r && may_send(p, now)) {
        r = send_first(p, now);
        task_queues_hold(queues, link, &p->waiting);
    }
    return r ? r : send_aside(p);
}

/* --- the link --------------------------------------------------------------------------------- */

static int publisher_setup(struct link *link)
{
    amqp_confirm_select_t confirms = {0};
    /* Has to be the channel that publishes the requests. */
    amqp_basic_consume_t direct = {.queue = amqp_cstring_bytes(REPLY_TO_DIRECT), .no_ack = 1};
    int r = topology_ensure(link);

    if (!r)
        r = link_call(link, LINK_CHANNEL, AMQP_CONFIRM_SELECT_METHOD, &confirms,
                      AMQP_CONFIRM_SELECT_OK_METHOD, NULL, "confirm mode");
    if (r || !link->config->direct_reply)
        return r;
    return link_call(link, LINK_CHANNEL, AMQP_BASIC_CONSUME_METHOD, &direct,
                     AMQP_BASIC_CONSUME_OK_METHOD, NULL, "direct reply-to");
}

static bool publisher_idle(struct link *link)
{
    struct publisher *p = publisher_of(link);

    return list_empty(&p->waiting) && list_empty(&p->wire) && list_empty(&p->refused) &&
           list_empty(&p->task_queues.held);
}

static int publisher_deliver(struct link *link, const amqp_basic_deliver_t *deliver)
{
    link->assembly.source = link->config->direct_source;
    return 0;
}

static void refuse(struct publisher *p, struct outgoing *m)
{
    log_warn("bus_publish_refused", LOG_S("why", p->link.why),
             LOG_S("exchange", m->message.exchange), LOG_S("key", m->message.key));
    settle_wire(p, m, false);
}

/* Whether the last message on the wire was sent alone: it is the only one; or it was in doubt, and
 * the one before had its time. */
static bool was_alone(const struct publisher *p, const struct outgoing *m, bool in_doubt)
{
    if (m->node.prev == &p->wire)
        return true;
    return in_doubt &&
           m->wired - list_entry(m->node.prev, struct outgoing, node)->wired >= ALONE_IN_DOUBT_MS;
}

/* The broker closes the channel over one message (no such exchange, no right to it), or the
 * connection, and takes the confirms of the others with it. Which one it was shows when they are
 * sent again one at a time. */
static void blame(struct publisher *p)
{
    struct outgoing *m = last(&p->wire);
    bool channel = p->link.close_method == (AMQP_BASIC_PUBLISH_METHOD & 0xffff);
    bool in_doubt = is_in_doubt(m); /* before this one */

    if (!channel && !p->link.closed_over)
        return;
    list_foreach(it, &p->wire) {
        struct outgoing *one = list_entry(it, struct outgoing, node);

        one->in_doubt = true;
        one->closings += !channel;
    }
    if (!m || !was_alone(p, m, in_doubt))
        return;
    if (!channel && m->closings < (direct_is(m) ? CLOSINGS_DIRECT : CLOSINGS_OTHER))
        return;
    if (!channel && direct_is(m))
        direct_closed(&p->direct, m, clock_monotonic_ms());
    if (!channel)
        m->isolated = strdup(p->link.why); /* without memory it is refused without a word */
    refuse(p, m);
}

/* Settles the messages that are bound to the connection, and those that may be lost and must not
 * arrive twice. One of these over which the broker may have closed is sent again all the same: that
 * shows whether it was this one. */
static void drop_unwanted(struct publisher *p)
{
    list_foreach_safe(it, &p->wire) {
        struct outgoing *m = list_entry(it, struct outgoing, node);

        if (m->message.transient && m->id == 0 && !m->in_doubt && !is_pulse(m))
            settle(p, m, BUS_NACKED);
    }
    drop_bound(p, &p->wire);
    drop_bound(p, &p->waiting);
}

/* Puts the refused messages back to where they were on the wire, by their tags. */
static void take_refused(struct publisher *p)
{
    struct list *later = &p->wire; /* from the end: refusals come nearly in order */

    while (!list_empty(&p->refused)) {
        struct list *last = p->refused.prev;
        uint64_t tag = list_entry(last, struct outgoing, node)->tag;

        list_remove(last);
        while (later != &p->wire && list_entry(later, struct outgoing, node)->tag < tag)
            later = later->next;
        while (later->prev != &p->wire && list_entry(later->prev, struct outgoing, node)->tag > tag)
            later = later->prev;
        list_append(later, last); /* before it */
        later = last;
    }
}

static void publisher_lost(struct link *link)
{
    struct publisher *p = publisher_of(link);

    blame(p);
    drop_unwanted(p);
    take_refused(p);
    list_move_all(&p->wire, &p->task_queues.held); /* publisher_send() holds them again */
    list_move_all(&p->wire, &p->waiting);
    list_move_all(&p->waiting, &p->wire);
    renewal_begin(&p->renewal, clock_monotonic_ms());
    p->n_wire = 0;
    p->last_tag = 0;
    p->reads = READS_UNKNOWN;
    p->inspection.asked = p->inspection.answered = false;
    task_queues_lost(&p->task_queues, link);
}

void publisher_init(struct publisher *p)
{
    list_init(&p->waiting);
    list_init(&p->wire);
    list_init(&p->refused);
    task_queues_init(&p->task_queues);
    direct_init(&p->direct);
}

void publisher_deinit(struct publisher *p)
{
    task_queues_deinit(&p->task_queues);
    direct_deinit(&p->direct);
    link_deinit(&p->link);
}

const struct link_role publisher_role = {
    .name = "bus-publish",
    .setup = publisher_setup,
    .send = publisher_send,
    .idle = publisher_idle,
    .method = publisher_method,
    .deliver = publisher_deliver,
    .returned = publisher_returned,
    .lost = publisher_lost,
    .adapt = topology_adapt,
};
