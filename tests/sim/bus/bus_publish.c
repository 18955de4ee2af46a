// SPDX-License-Identifier: Apache-2.0
/*
 * Publishes: where they are routed, which faults strike them, and what outcome the sender gets
 */
#include <stdio.h>
#include <string.h>

#include "bus/bus_internal.h"
#include "model/wire.h"
#include "world/digest.h"
#include "world/grid.h"

#define DIRECT_REPLY "amq.rabbitmq.reply-to"
#define HALF 500000       /* millionths */
#define CONFIRM_MS 300000 /* see io/bus/bus.c */
#define LONGEST 6         /* intervals; see io/bus/publisher.c */
#define NEVER INT64_MAX
#define CLOSINGS 2 /* see io/bus/publisher.c */

/* ---- routing ---- */

/* As the broker makes it: a process id, in which the name of the node contains the owner's. */
static const char *direct_address(struct simlink *link)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t process[3 * 16] = {131, 103, 115}; /* an Erlang term: a process at a node with ... */
    char text[sizeof(process) / 3 * 4 + 1];
    int atom = (int)sizeof(process) - 4 - 9;

    if (link->direct)
        return link->direct;
    process[3] = (uint8_t)atom; /* ... a name of this length */
    snprintf((char *)process + 4, (size_t)atom + 1, "%s@%0*d", link->name,
             atom - (int)strlen(link->name) - 1, 0);
    for (size_t i = 0; i < sizeof(process) / 3; i++) {
        uint32_t bits =
            (uint32_t)process[3 * i] << 16 | (uint32_t)process[3 * i + 1] << 8 | process[3 * i + 2];

        for (size_t k = 0; k < 4; k++)
            text[4 * i + k] = DIGITS[bits >> (18 - 6 * k) & 63];
    }
    text[sizeof(text) - 1] = '\0';
    link->direct = effects_printf(&link->bus->t->arena, DIRECT_REPLY ".%s.a2V5", text);
    return link->direct;
}

static struct simlink *direct_link(struct simbus *bus, const char *key)
{
    for (uint32_t i = 0; i < bus->n_links; i++)
        if (strcmp(direct_address(bus->links[i]), key) == 0)
            return bus->links[i];
    return NULL;
}

/* Return: the queue that a message goes to; NULL: none takes it. */
static struct simqueue *route(struct simbus *bus, const struct bus_message *m)
{
    char name[256];
    struct simqueue *q;

    if (strcmp(m->exchange, "drover.events") == 0)
        return NULL;
    if (*m->exchange == '\0')
        snprintf(name, sizeof(name), "%s", m->key);
    else if (strcmp(m->exchange, "drover.tasks") == 0)
        snprintf(name, sizeof(name), "drover.task.%s", m->key);
    else
        snprintf(name, sizeof(name), "%s",
                 wire_reply_actor(m->exchange) ? WIRE_REPLY_QUEUE : m->exchange);
    for (q = bus->queues; q; q = q->next)
        if (strcmp(q->name, name) == 0) {
            if (m->actor)
                simqueue_declare(q);
            return q->deleted ? NULL : q;
        }
    return m->actor ? simbus_queue(bus, name, true) : NULL;
}

static void on_kept(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);
    struct simqueue *q = w->message->queue;

    q->kept--;
    if (w->taken != q->taken && w->wipes == q->bus->wipes)
        grid_met(q->bus->t, FAULT_OVERTAKEN, grid_of_message(&w->message->content));
    if (w->wipes == q->bus->wipes &&
        (w->restarts == q->bus->restarts || !w->message->content.transient))
        simqueue_add(q, w->message, false);
    else
        simbus_drop(q->bus, w->message);
}

static void take_in(struct simbus *bus, struct simqueue *q, const struct bus_message *content,
                    int64_t after)
{
    struct message *m = simbus_message(bus, content);
    struct wire *w;

    if (after == 0) {
        simqueue_add(q, m, false);
        return;
    }
    m->queue = q;
    q->kept++;
    w = simbus_wire(bus, NULL, on_kept);
    w->message = m;
    w->taken = q->taken;
    w->event.digest = digest_str(simbus_message_digest(m), q->name);
    timeline_add_roaming(bus->t, &w->event, after, bus->faults->kept_ms);
}

static void take_in_directly(struct simbus *bus, const struct bus_message *content)
{
    struct simlink *link = direct_link(bus, content->key);
    struct message *m;

    if (!link || !link->up)
        return;
    m = simbus_message(bus, content);
    simlink_deliver(link, m, link->direct_source);
}

/* The broker takes a message or refuses it. */
static enum bus_outcome broker_take(struct simbus *bus, struct publish *p,
                                    const struct bus_message *m)
{
    const struct simbus_faults *f = bus->faults;
    struct simqueue *q;
    bool lost = false;
    enum bus_outcome outcome = BUS_CONFIRMED;

    if (*m->exchange == '\0' && strncmp(m->key, DIRECT_REPLY ".", strlen(DIRECT_REPLY ".")) == 0) {
        take_in_directly(bus, m);
        return BUS_CONFIRMED;
    }
    q = route(bus, m);
    if (timeline_chance(bus->t, f->refused)) {
        outcome = BUS_NACKED;
        if (q && timeline_chance(bus->t, HALF)) {
            timeline_note(bus->t, FEATURE_MESSAGE_REFUSED_AND_KEPT);
            take_in(bus, q, m, 0);
        }
    } else if (!q)
        outcome = m->mandatory ? BUS_RETURNED : BUS_CONFIRMED;
    else if (timeline_chance(bus->t, f->lost))
        lost = true;
    else
        take_in(bus, q, m,
                timeline_chance(bus->t, f->kept)
                    ? simbus_delay(bus) + timeline_between(bus->t, 1, f->kept_ms)
                    : 0);
    if (q && outcome == BUS_CONFIRMED && timeline_chance(bus->t, f->doubled)) {
        timeline_note(bus->t, FEATURE_MESSAGE_DOUBLED);
        grid_met(bus->t, FAULT_DOUBLED, grid_of_delivery(m));
        take_in(bus, q, m, timeline_between(bus->t, 1, f->kept_ms));
    }
    if (q && outcome == BUS_CONFIRMED && !lost) {
        if (p->taken)
            grid_met(bus->t, FAULT_DOUBLED, grid_of_message(m));
        p->taken = true;
    }
    if (lost) {
        timeline_note(bus->t, FEATURE_MESSAGE_LOST);
        grid_met(bus->t, FAULT_LOST, grid_of_message(m));
        tell(bus->t, "broker", "loses %s %s", text(m->type), text(m->job));
    }
    if (outcome == BUS_RETURNED)
        grid_met(bus->t, FAULT_UNROUTABLE, grid_of_message(m));
    if (bus->watch)
        bus->watch->published(bus->watch->ctx, m, outcome, lost);
    return outcome;
}

uint64_t simbus_publish_digest(const struct publish *p)
{
    uint64_t d = digest_str(simbus_content_digest(&p->content), p->sender->name);

    return digest_number(digest_number(d, p->id), p->sent);
}

/* ---- missing confirms, as in io/bus/publisher.c ---- */

/* Marks the earlier publishes to the same place, whose confirms are still missing. */
static void pass(struct simlink *link, const struct publish *confirmed)
{
    link->heard = link->bus->t->now;
    list_foreach(l, &link->publishes) {
        struct publish *p = list_entry(l, struct publish, link);

        if (p == confirmed)
            break;
        p->passed |= strcmp(p->content.exchange, confirmed->content.exchange) == 0 &&
                     strcmp(p->content.key, confirmed->content.key) == 0;
    }
}

/* When the confirm of a message counts as missing if none comes before. */
static int64_t missed_at(const struct simlink *link, const struct publish *p)
{
    int64_t since = p->wired > link->held_up ? p->wired : link->held_up;

    int64_t at = CONFIRM_MS + (p->passed || since > link->heard ? since : link->heard);
    int64_t latest = p->wired + LONGEST * CONFIRM_MS;

    return at < latest                           ? at
           : latest > link->held_up + CONFIRM_MS ? latest
                                                 : link->held_up + CONFIRM_MS;
}

static void on_patience(struct event *e)
{
    struct simlink *link = container_of(e, struct simlink, patience);
    int64_t now = link->bus->t->now, next = INT64_MAX;

    list_foreach(l, &link->publishes) {
        struct publish *p = list_entry(l, struct publish, link);
        int64_t at = missed_at(link, p);

        if (p->waits || link->blocked)
            at = now + CONFIRM_MS;
        if (at < next)
            next = at;
    }
    if (next <= now) {
        timeline_note(link->bus->t, FEATURE_CONFIRM_MISSED);
        tell(link->bus->t, link->name, "misses a confirm");
        link->callbacks->on_unconfirmed(link->ctx);
    } else if (next < INT64_MAX) {
        timeline_add(link->bus->t, e, next - now);
    }
}

static void expect_confirm(struct simlink *link, struct publish *p)
{
    p->wired = link->bus->t->now;
    p->passed = false;
    if (link->bus->faults->withheld == 0 || heap_holds(&link->patience.node))
        return;
    link->patience.fire = on_patience;
    link->patience.held_until = link->held_until;
    timeline_add(link->bus->t, &link->patience, CONFIRM_MS);
}

void simlink_forget_confirms(struct simlink *link)
{
    timeline_cancel(link->bus->t, &link->patience);
    link->heard = link->held_up = 0;
}

/* ---- publishing ---- */

static void on_confirm(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);

    if (w->link->epoch != w->epoch)
        return;
    pass(w->link, w->publish);
    list_remove(&w->publish->link);
    if (w->publish->id)
        w->link->callbacks->on_outcome(w->link->ctx, w->publish->id, w->outcome);
    if (w->outcome == BUS_RETURNED && w->publish->content.actor)
        w->link->callbacks->on_lost(w->link->ctx, w->publish->content.actor);
}

static void confirm(struct simlink *link, struct publish *p, enum bus_outcome outcome,
                    int64_t after)
{
    struct wire *w = simbus_wire(link->bus, link, on_confirm);

    w->publish = p;
    w->outcome = outcome;
    w->event.lane = simbus_lane(link, true);
    w->event.eager = link->eager;
    w->event.digest =
        simbus_wire_digest(w, digest_number(simbus_publish_digest(p), (uint64_t)outcome + 1));
    w->event.held_until = link->held_until;
    timeline_add(link->bus->t, &w->event, after + simbus_delay(link->bus));
}

/* For how long the broker withholds a confirm; NEVER: for ever. It never comes if the connection
 * breaks or the process ends. */
static int64_t withholds(struct simbus *bus, const struct wire *w)
{
    if (!timeline_chance(bus->t, bus->faults->withheld))
        return 0;
    timeline_note(bus->t, FEATURE_CONFIRM_LATE);
    tell(bus->t, "broker", "does not confirm to %s", w->link->name);
    if (timeline_chance(bus->t, bus->faults->never))
        return NEVER;
    return timeline_between(bus->t, 1, bus->faults->withheld_ms);
}

static void name_draws(const struct wire *w, const struct bus_message *m)
{
    timeline_about(w->link->bus->t, "%s %s %s%s%s%s%s", w->link->name,
                   *m->exchange ? m->exchange : m->key, text(m->type), m->job ? " " : "",
                   text(m->job), m->step ? "/" : "", text(m->step));
}

static bool closes(struct simbus *bus, struct publish *p)
{
    if (bus->faults->closed && !p->judged) {
        p->judged = true;
        p->closes = timeline_chance(bus->t, bus->faults->closed);
    }
    return p->closes;
}

void simbus_arrive(const struct wire *w, const struct bus_message *m)
{
    struct simbus *bus = w->link->bus;
    bool connected = w->link->epoch == w->epoch && w->link->up;
    enum bus_outcome outcome;
    int64_t after;

    name_draws(w, m);
    if (connected && closes(bus, w->publish)) {
        timeline_note(bus->t, FEATURE_CONNECTION_CLOSED);
        tell(bus->t, "broker", "closes the connection of %s over %s", w->link->name, text(m->type));
        w->publish->closings++;
        w->link->callbacks->on_unconfirmed(w->link->ctx);
        return;
    }
    /* A message that was on its way when the connection broke may have arrived. */
    if (!connected && timeline_chance(bus->t, HALF))
        return;
    outcome = broker_take(bus, w->publish, m);
    if (outcome == BUS_RETURNED && m->resent)
        outcome = BUS_NACKED; /* the first copy may have found a queue */
    after = connected ? withholds(bus, w) : NEVER;
    if (after != NEVER)
        confirm(w->link, w->publish, outcome, after);
}

static void on_sent(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);
    struct simbus *bus = w->link->bus;

    if (w->wipes != bus->wipes || w->restarts != bus->restarts)
        return;
    name_draws(w, &w->publish->content);
    if (!simbus_alarmed(bus) && timeline_chance(bus->t, bus->faults->alarm))
        simbus_alarm(bus, timeline_between(bus->t, 1, bus->faults->alarm_ms));
    if (simbus_alarmed(bus))
        simbus_hold(bus, w);
    else
        simbus_arrive(w, &w->publish->content);
}

void simlink_send(struct publish *p)
{
    struct simlink *link = p->sender;
    struct wire *w;

    p->waits = link->blocked;
    if (p->waits)
        return;
    if (p->closings >= CLOSINGS) {
        confirm(link, p, BUS_NACKED, 0);
        return;
    }
    if (p->content.not_after && p->content.not_after <= link->bus->t->now) {
        grid_met(link->bus->t, FAULT_LATE, grid_of_message(&p->content));
        confirm(link, p, p->sent ? BUS_EXPIRED : BUS_UNSENT, 0);
        return;
    }
    if (p->content.ask_after && p->content.ask_after <= link->bus->t->now && !p->sent) {
        confirm(link, p, BUS_WAITED, 0);
        return;
    }
    p->content.resent |= p->sent;
    p->sent = true;
    expect_confirm(link, p);
    link->callbacks->on_send(link->ctx, &p->content);
    w = simbus_wire(link->bus, link, on_sent);
    w->publish = p;
    w->event.lane = simbus_lane(link, false);
    w->event.digest = simbus_wire_digest(w, simbus_publish_digest(p));
    timeline_add(link->bus->t, &w->event, simbus_delay(link->bus));
}

void simlink_send_again(struct publish *p)
{
    if (p->content.bound)
        confirm(p->sender, p, BUS_NACKED, 0);
    else
        simlink_send(p);
}

static struct bus_message message_copy(struct simlink *link, const struct bus_message *m)
{
    struct timeline *t = link->bus->t;
    struct bus_message copy = *m;

    copy.exchange = timeline_str(t, m->exchange);
    copy.key = timeline_str(t, m->key);
    copy.body = effects_copy(&t->arena, m->body);
    copy.content_type = timeline_str(t, m->content_type);
    copy.type = timeline_str(t, m->type);
    copy.message_id = timeline_str(t, m->message_id);
    copy.correlation_id = timeline_str(t, m->correlation_id);
    copy.reply_to = timeline_str(t, m->reply_to);
    copy.traceparent = timeline_str(t, m->traceparent);
    copy.job = timeline_str(t, m->job);
    copy.step = timeline_str(t, m->step);
    copy.reason = timeline_str(t, m->reason);
    copy.actor = timeline_str(t, m->actor);
    if (m->reply_to && strcmp(m->reply_to, DIRECT_REPLY) == 0)
        copy.reply_to = direct_address(link);
    copy.transient |= copy.cached && link->bus->forgets;
    if (copy.not_after)
        copy.not_after -= link->clock; /* from the clock of the process to that of the world */
    return copy;
}

void simlink_publish(struct simlink *link, const struct bus_message *m, uint64_t id)
{
    struct publish *p = timeline_alloc(link->bus->t, sizeof(*p));

    p->sender = link;
    p->content = message_copy(link, m);
    p->id = id;
    list_append(&link->publishes, &p->link);
    if (link->up)
        simlink_send(p); /* else once it is */
}
