// SPDX-License-Identifier: Apache-2.0
/*
 * The simulator's bus: queues, deliveries and links
 *
 * See bus.h, and bus_internal.h for the other parts. Called by the world and the checker.
 */
#include <assert.h>
#include <string.h>

#include "bus/bus_internal.h"
#include "model/wire.h"
#include "world/digest.h"
#include "world/grid.h"

int64_t simbus_delay(const struct simbus *bus)
{
    return timeline_between(bus->t, 0, bus->faults->delay_ms);
}

struct wire *simbus_wire(struct simbus *bus, struct simlink *link, void (*fire)(struct event *))
{
    struct wire *w = timeline_alloc(bus->t, sizeof(*w));

    w->event.fire = fire;
    w->link = link;
    w->epoch = link ? link->epoch : 0;
    w->wipes = bus->wipes;
    w->restarts = bus->restarts;
    return w;
}

uint64_t simbus_wire_digest(const struct wire *w, uint64_t d)
{
    return digest_number(digest_str(d, w->link->name), w->epoch);
}

uint64_t simbus_lane(const struct simlink *link, bool to_process)
{
    return digest_number(digest_number((uintptr_t)link, link->epoch), to_process);
}

/* ---- queues ---- */

static void dispatch(struct simqueue *q);
static void route_expired(struct simbus *bus, const struct message *m);

static struct message *head(const struct simqueue *q)
{
    return list_empty(&q->messages) ? NULL : list_entry(q->messages.next, struct message, link);
}

/* As in RabbitMQ, a message expires only at the head of its queue. */
static void expire_head(struct simqueue *q)
{
    for (struct message *m; (m = head(q)) && m->expires && m->expires <= q->bus->t->now;) {
        list_remove(&m->link);
        q->n--;
        if (q->dead_letters)
            route_expired(q->bus, m);
    }
    if (head(q) && head(q)->expires)
        timeline_add(q->bus->t, &q->expiry, head(q)->expires - q->bus->t->now);
}

static void on_expiry(struct event *e)
{
    struct simqueue *q = container_of(e, struct simqueue, expiry);

    expire_head(q);
    dispatch(q);
}

struct simqueue *simbus_queue(struct simbus *bus, const char *name, bool dead_letters)
{
    struct simqueue *q = bus->queues;

    while (q && strcmp(q->name, name) != 0)
        q = q->next;
    if (q)
        return q;
    q = timeline_alloc(bus->t, sizeof(*q));
    q->bus = bus;
    q->name = timeline_str(bus->t, name);
    q->dead_letters = dead_letters;
    q->expiry.fire = on_expiry;
    list_init(&q->messages);
    q->next = bus->queues;
    bus->queues = q;
    return q;
}

void simbus_drop(struct simbus *bus, const struct message *m)
{
    if (bus->watch)
        bus->watch->dropped(bus->watch->ctx, &m->content, m->redelivered);
    grid_met(bus->t, FAULT_LOST,
             m->number > 0 ? grid_of_delivery(&m->content) : grid_of_message(&m->content));
}

void simqueue_delete(struct simqueue *q)
{
    q->deleted = true;
    list_foreach(l, &q->messages)
        simbus_drop(q->bus, list_entry(l, struct message, link));
    list_init(&q->messages);
    q->n = 0;
}

void simqueue_restore(struct simqueue *q)
{
    q->deleted = q->wiped = false;
}

uint32_t simqueue_messages(const struct simqueue *q)
{
    return q->n;
}

uint32_t simqueue_taken(const struct simqueue *q)
{
    return q->n + q->kept;
}

uint32_t simqueue_consumers(const struct simqueue *q)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < q->n_consumers; i++)
        n += q->consumers[i]->up;
    return n;
}

void simqueue_add(struct simqueue *q, struct message *m, bool front)
{
    if (q->deleted) {
        simbus_drop(q->bus, m);
        return;
    }
    if (!front)
        m->number = ++q->taken;
    m->queue = q;
    list_append(front ? q->messages.next : &q->messages, &m->link);
    q->n++;
    dispatch(q);
}

/* ---- deliveries ---- */

uint64_t simbus_content_digest(const struct bus_message *m)
{
    uint64_t d = digest_str(digest_str(DIGEST_INIT, m->exchange), m->key);

    d = digest_str(digest_bytes(d, m->body), m->type);
    return digest_number(digest_number(d, (uint64_t)m->not_after), m->resent);
}

uint64_t simbus_message_digest(const struct message *m)
{
    return digest_number(digest_number(simbus_content_digest(&m->content), (uint64_t)m->expires),
                         m->redelivered);
}

static struct simconsumer *consumer_of(struct simlink *link, const struct simqueue *q)
{
    for (uint32_t i = 0; i < link->n_consumers; i++)
        if (link->consumers[i].queue == q)
            return &link->consumers[i];
    return NULL;
}

static bool is_ready(struct simlink *link, const struct simqueue *q)
{
    const struct simconsumer *c = consumer_of(link, q);

    return link->up && !link->paused && (c->prefetch == 0 || c->unacked < c->prefetch);
}

/* Any consumer: whose turn it is in RabbitMQ depends on everything before. */
static struct simlink *any_ready(struct simqueue *q)
{
    struct simlink *links[array_size(q->consumers)];
    uint32_t n = 0;

    for (uint32_t i = 0; i < q->n_consumers; i++)
        if (is_ready(q->consumers[i], q))
            links[n++] = q->consumers[i];
    return n > 0 ? links[timeline_choose(q->bus->t, n)] : NULL;
}

static struct simlink *next_ready(struct simqueue *q)
{
    if (timeline_explored(q->bus->t))
        return any_ready(q);
    for (uint32_t i = 0; i < q->n_consumers; i++) {
        struct simlink *link = q->consumers[(q->turn + i) % q->n_consumers];

        if (is_ready(link, q)) {
            q->turn += i + 1;
            return link;
        }
    }
    return NULL;
}

static void on_arrival(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);

    if (w->link->epoch != w->epoch || !w->link->up)
        return;
    w->link->callbacks->on_delivery(w->link->ctx, &w->message->delivery, w->message->content.type);
}

/* The actor, as io/bus reports it: that of the task queue, or of the exchange an agent may publish
 * to. */
static const char *actor_of(const struct message *m)
{
    const char *exchange = m->content.exchange;

    if (m->dead)
        return "";
    if (strcmp(exchange, "drover.tasks") == 0)
        return m->content.key;
    return text(wire_reply_actor(exchange));
}

static void set_delivery(struct message *m, uint64_t handle, int source)
{
    m->delivery = (struct bus_delivery){
        .handle = handle,
        .source = source,
        .redelivered = m->redelivered,
        .batch = strcmp(text(m->content.type), "drover.v1.Submits") == 0,
        .body = m->content.body,
        .content_type = text(m->content.content_type),
        .message_id = text(m->content.message_id),
        .correlation_id = text(m->content.correlation_id),
        .reply_to = text(m->content.reply_to),
        .user_id = "",
        .traceparent = text(m->content.traceparent),
        .job = text(m->content.job),
        .step = text(m->content.step),
        .died_of = m->dead ? "expired" : "",
        .actor = actor_of(m),
        .resent = m->content.resent,
    };
}

void simlink_deliver(struct simlink *link, struct message *m, int source)
{
    struct wire *w = simbus_wire(link->bus, link, on_arrival);

    set_delivery(m, ++link->last_handle, source);
    m->handed = link->bus->t->now;
    w->message = m;
    w->event.lane = simbus_lane(link, true);
    w->event.eager = link->eager;
    w->event.digest = simbus_wire_digest(w, simbus_message_digest(m));
    w->event.held_until = link->held_until;
    timeline_add(link->bus->t, &w->event, simbus_delay(link->bus));
}

static void dispatch(struct simqueue *q)
{
    struct simlink *link;

    expire_head(q);
    while (head(q) && (link = next_ready(q))) {
        struct message *m = head(q);

        if (m->number < q->delivered)
            grid_met(q->bus->t, FAULT_OVERTAKEN, grid_of_delivery(&m->content));
        else
            q->delivered = m->number;
        m->consumer = consumer_of(link, q);
        m->consumer->unacked++;
        list_remove(&m->link);
        q->n--;
        list_append(&link->unacked, &m->link);
        if (q->bus->watch && q->dead_letters)
            q->bus->watch->delivered(q->bus->watch->ctx, &m->content);
        simlink_deliver(link, m, m->consumer->source);
        expire_head(q);
    }
}

static struct message *unacked_find(const struct simlink *link, uint64_t handle)
{
    list_foreach(l, &link->unacked) {
        struct message *m = list_entry(l, struct message, link);

        if (m->delivery.handle == handle)
            return m;
    }
    return NULL;
}

const struct bus_delivery *simlink_delivery(const struct simlink *link, uint64_t handle)
{
    struct message *m = unacked_find(link, handle);

    return m ? &m->delivery : NULL;
}

int64_t simlink_age(const struct simlink *link, uint64_t handle)
{
    const struct message *m = unacked_find(link, handle);

    return m ? link->bus->t->now - m->since : 0;
}

int64_t simlink_held(const struct simlink *link, uint64_t handle)
{
    const struct message *m = unacked_find(link, handle);

    return m ? link->bus->t->now - m->handed : 0;
}

static bool carries(const struct message *m, const struct simqueue *q, const char *what)
{
    return m->queue == q && memmem(m->content.body.data, m->content.body.len, what, strlen(what));
}

bool simlink_other_copy(const struct simlink *link, uint64_t handle, const char *what,
                        const char *by, int64_t at)
{
    const struct message *this = unacked_find(link, handle);

    list_foreach(l, &this->queue->messages) {
        const struct message *m = list_entry(l, struct message, link);

        if (m->redelivered && carries(m, this->queue, what))
            return true;
    }
    for (uint32_t i = 0; i < link->bus->n_links; i++) {
        bool its_own = strcmp(link->bus->links[i]->name, by) == 0;

        list_foreach(l, &link->bus->links[i]->unacked) {
            const struct message *m = list_entry(l, struct message, link);

            if (m != this && (m->redelivered || (its_own && m->handed <= at)) &&
                carries(m, this->queue, what))
                return true;
        }
    }
    return false;
}

void simlink_ack(struct simlink *link, uint64_t handle)
{
    struct message *m = unacked_find(link, handle);

    if (!m)
        return;
    list_remove(&m->link);
    m->consumer->unacked--;
    dispatch(m->queue);
}

/* ---- messages ---- */

struct message *simbus_message(struct simbus *bus, const struct bus_message *content)
{
    struct message *m = timeline_alloc(bus->t, sizeof(*m));

    m->content = *content;
    m->since = bus->t->now;
    list_init(&m->link);
    if (content->expires)
        m->expires = content->not_after;
    return m;
}

static void route_expired(struct simbus *bus, const struct message *m)
{
    struct bus_message content = m->content;
    struct message *dead;

    content.expires = false;
    grid_met(bus->t, FAULT_LATE, grid_of_delivery(&content));
    tell(bus->t, "broker", "the request for %s/%s expires in %s", text(content.job),
         text(content.step), m->queue->name);
    dead = simbus_message(bus, &content);
    dead->dead = true;
    simqueue_add(simbus_queue(bus, "drover.expired", false), dead, false);
}

/* ---- links ---- */

struct simbus *simbus_new(struct timeline *t, const struct simbus_faults *faults, bool forgets)
{
    struct simbus *bus = timeline_alloc(t, sizeof(*bus));

    bus->t = t;
    bus->faults = faults;
    bus->forgets = forgets;
    list_init(&bus->held);
    return bus;
}

void simbus_watch(struct simbus *bus, const struct simbus_watch *watch)
{
    bus->watch = watch;
}

void simlink_open(struct simlink *link, struct simbus *bus)
{
    if (!link->bus) {
        assert(bus->n_links < array_size(bus->links));
        bus->links[bus->n_links++] = link;
        link->bus = bus;
    }
    link->epoch++;
    link->open = link->up = true;
    link->paused = link->blocked = false;
    list_init(&link->unacked);
    list_init(&link->publishes);
    simlink_declare(link);
}

static void subscribe(struct simqueue *q, struct simlink *link)
{
    for (uint32_t i = 0; i < q->n_consumers; i++)
        if (q->consumers[i] == link)
            return;
    assert(q->n_consumers < array_size(q->consumers));
    q->consumers[q->n_consumers++] = link;
}

bool simlink_consumes(const struct simlink *link, const struct simqueue *q)
{
    for (uint32_t i = 0; i < link->n_consumers; i++)
        if (link->consumers[i].queue == q)
            return true;
    return false;
}

void simlink_consume(struct simlink *link, struct simqueue *q, int source, uint32_t prefetch)
{
    struct simconsumer *c = consumer_of(link, q);

    if (!c) {
        assert(link->n_consumers < SIMLINK_CONSUMERS);
        c = &link->consumers[link->n_consumers++];
    }
    *c = (struct simconsumer){.queue = q, .source = source, .prefetch = prefetch};
    simqueue_declare(q);
    subscribe(q, link);
    dispatch(q);
}

/* All unacknowledged messages go back to the front of their queues, in order, as redelivered. */
static void give_back(struct simlink *link)
{
    struct list back = LIST_INIT(back);

    while (!list_empty(&link->unacked)) {
        struct list *last = link->unacked.prev;

        list_remove(last);
        list_append(&back, last);
    }
    for (struct list *l; (l = list_pop(&back));) {
        struct message *m = list_entry(l, struct message, link);

        m->consumer->unacked--;
        m->redelivered = true;
        simqueue_add(m->queue, m, true);
    }
}

void simlink_requeue(struct simlink *link, uint64_t handle)
{
    struct message *m = unacked_find(link, handle);

    if (!m)
        return;
    list_remove(&m->link);
    m->consumer->unacked--;
    m->redelivered = true;
    simqueue_add(m->queue, m, true);
}

void simlink_want(struct simlink *link, bool deliveries)
{
    link->paused = !deliveries;
    for (uint32_t i = 0; deliveries && i < link->n_consumers; i++)
        dispatch(link->consumers[i].queue);
}

static void on_back(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);
    struct simlink *link = w->link;

    if (link->epoch != w->epoch)
        return;
    link->up = true;
    simlink_declare(link);
    list_foreach_safe(l, &link->publishes)
        simlink_send_again(list_entry(l, struct publish, link));
    for (uint32_t i = 0; i < link->n_consumers; i++)
        dispatch(link->consumers[i].queue);
}

static void cut(struct simlink *link)
{
    link->epoch++;
    link->up = link->blocked = false;
    simlink_forget_confirms(link);
    give_back(link);
}

void simlink_lose(struct simlink *link, int64_t back_after)
{
    struct wire *w;

    if (!link->up)
        return;
    cut(link);
    w = simbus_wire(link->bus, link, on_back);
    w->event.digest = simbus_wire_digest(w, digest_str(DIGEST_INIT, "back"));
    timeline_add(link->bus->t, &w->event, back_after);
}

void simlink_close(struct simlink *link)
{
    cut(link);
    link->open = false;
    list_init(&link->publishes);
}

/* ---- digests ---- */

static uint64_t queue_digest(const struct simqueue *q)
{
    uint64_t d = digest_number(digest_str(DIGEST_INIT, q->name), q->deleted);

    list_foreach(l, &q->messages)
        d = digest_number(d, simbus_message_digest(list_entry(l, struct message, link)));
    return d;
}

static uint64_t link_digest(const struct simlink *link)
{
    uint64_t d = digest_str(DIGEST_INIT, link->name);

    d = digest_number(d, (uint64_t)link->open << 2 | (uint64_t)link->up << 1 | link->paused);
    d = digest_number(d, link->epoch);
    list_foreach(l, &link->unacked) {
        const struct message *m = list_entry(l, struct message, link);

        d = digest_str(digest_number(d, simbus_message_digest(m)), m->queue->name);
    }
    list_foreach(l, &link->publishes)
        d = digest_number(d, simbus_publish_digest(list_entry(l, struct publish, link)));
    return d;
}

uint64_t simbus_digest(const struct simbus *bus)
{
    uint64_t sum = 0;

    for (const struct simqueue *q = bus->queues; q; q = q->next)
        sum += queue_digest(q);
    for (uint32_t i = 0; i < bus->n_links; i++)
        sum += link_digest(bus->links[i]);
    return sum;
}
