// SPDX-License-Identifier: Apache-2.0
/*
 * Bus: hands over to its two links at the end of each iteration of the loop, and calls back
 *
 * See io/bus/bus.h. The files of the bus, each of which calls only those below it:
 *
 *     bus.c                    messages, acks and callbacks of the role that has the bus
 *     bus_config.c             a copy of its settings
 *     publisher.c, consumer.c  the two links: confirms, returns and alarms; deliveries and acks
 *     direct.c, topology.c     messages to direct reply-to; exchanges and queues
 *     actors.c                 task queues that were found, declared, or found deleted
 *     task_queues.c            those that messages go to: found or declared before they are sent
 *     renewal.c                refusals that may be the fault of a connection
 *     outgoing.c               a message on its way out
 *     link.c                   a connection: begin, heartbeats, loss, reconnects, end
 *     link_input.c             what the broker sends: the login, answers, deliveries
 *     link_calls.c             what goes to the broker: methods, messages, calls
 *     login.c, message.c       methods of the login; messages put together from frames
 *     frame.c                  frames, methods and properties, as bytes
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "io/bus/bus_config.h"
#include "io/bus/consumer.h"
#include "io/bus/publisher.h"
#include "io/failpoint.h"

#define PULSE_REFUSALS_MAX 3 /* in a row; then none is sent for pulse_again_ms */

struct bus {
    struct bus_config config;
    struct link_queues queues;
    struct hosts hosts;
    struct bus_callbacks callbacks;
    void *ctx;
    struct publisher publisher;
    struct consumer consumer; /* it connects only where queues are consumed */

    uv_prepare_t flush;     /* runs while something waits to be handed to the links */
    uv_timer_t close_timer; /* bounds bus_close() */
    uv_timer_t pulse_timer; /* the bus asks for the pulse queue again */
    uv_timer_t ack_timer;   /* acks that wait leave */
    int n_handles;          /* of these four, and of the two of each link, still open */
    struct list pending;    /* struct outgoing, to be handed over at the end of the iteration */
    struct list open;       /* struct outgoing, by their `open` */
    struct list settled;    /* struct outgoing, whose outcome failpoints have decided */
    struct acks acks;       /* to be handed over, soon */
    struct acks requeues;   /* to be handed over at the end of the iteration */
    size_t unacked;         /* deliveries that were handed to the role, of which no ack has left */
    bool acks_lost;
    bool acks_due; /* they have waited long enough */
    uint64_t serial;
    unsigned pulse_refusals; /* by the exchange, since one came back */
    bool catching_up;
    bool changed; /* while it was catching up */
    struct {
        uint64_t publisher_connects;
        uint64_t consumer_connects;
        uint64_t publisher_refusals;
        uint64_t consumer_refusals;
    } seen; /* at the last check of the links */
    struct bus_stats stats;
    enum {
        BUS_RUNNING,
        BUS_FLUSHING, /* the publisher ends once nothing waits for its confirm */
        BUS_LEAVING,  /* then the consumer, once the last acks are out */
        BUS_ENDED,    /* both links have ended */
        BUS_CLOSED,
    } state;
    void (*on_closed)(void *ctx);
};

/* Return: 0, -ENOMEM or -EINVAL. */
static int find_hosts(struct bus *bus)
{
    int r = hosts_parse(&bus->hosts, bus->config.host, bus->config.port);

    return r > 0 ? -EINVAL : r;
}

static bool consumes(const struct bus *bus)
{
    return bus->config.n_queues > 0;
}

/* --- hand-over to the links ------------------------------------------------------------------- */

static void catch_up(void *ctx);

static void on_acks_due(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, ack_timer);

    bus->acks_due = true;
    catch_up(bus);
}

/* An ack is an entry in the log of its queue, which a message that comes next has to wait for: so
 * it waits for others, unless the broker may hold deliveries back for it. The prefetch is that of
 * each queue; what is unacked is counted over all of them. */
static bool acks_leave(struct bus *bus)
{
    if (bus->requeues.used > 0 || bus->acks_lost)
        return true;
    if (bus->acks.used == 0)
        return false;
    if (bus->acks_due || bus->state != BUS_RUNNING || bus->unacked >= bus->config.prefetch)
        return true;
    if (!uv_is_active((uv_handle_t *)&bus->ack_timer))
        uv_timer_start(&bus->ack_timer, on_acks_due, BUS_ACK_MS, 0);
    return false;
}

static void hand_acks_over(struct bus *bus)
{
    size_t n = bus->acks.used + bus->requeues.used;

    bus->unacked -= n < bus->unacked ? n : bus->unacked;
    if (bus->acks_lost || acks_move_all(&bus->consumer.acks, &bus->acks) < 0 ||
        acks_move_all(&bus->consumer.requeues, &bus->requeues) < 0) {
        bus->consumer.acks_lost = true;
        bus->acks.used = bus->requeues.used = 0;
        bus->acks_lost = false;
    }
    bus->acks_due = false;
    uv_timer_stop(&bus->ack_timer);
}

static void hand_over(struct bus *bus)
{
    uv_prepare_stop(&bus->flush);
    publisher_take(&bus->publisher, &bus->pending);
    if (acks_leave(bus))
        hand_acks_over(bus);
    link_pass(&bus->publisher.link);
    if (consumes(bus))
        link_pass(&bus->consumer.link);
}

static void on_flush(uv_prepare_t *handle)
{
    catch_up(container_of(handle, struct bus, flush));
}

/* Has everything of this iteration of the loop handed over before it sleeps. */
static void hand_over_later(struct bus *bus)
{
    if (bus->state < BUS_ENDED)
        uv_prepare_start(&bus->flush, on_flush);
}

static int publish(struct bus *bus, const struct bus_message *m, uint64_t id)
{
    struct outgoing *out = bus_outgoing_new(m);

    if (!out)
        return -ENOMEM;
    out->id = id;
    out->serial = ++bus->serial;
    out->since = clock_monotonic_ms();
    list_append(&bus->open, &out->open);
    list_append(&bus->pending, &out->node);
    bus->stats.published++;
    bus->stats.waiting++;
    hand_over_later(bus);
    return 0;
}

/* Moves what was handed in last past the broker, for a failpoint: its outcome is @outcome. */
static void pretend(struct bus *bus, enum bus_outcome outcome)
{
    struct outgoing *m = list_entry(bus->pending.prev, struct outgoing, node);

    m->outcome = outcome;
    list_remove(&m->node);
    list_append(&bus->settled, &m->node);
}

int bus_publish(struct bus *bus, const struct bus_message *m, uint64_t id)
{
    enum failpoint_act act;
    int r;

    assert(m->exchange && m->key);
    if (m->transient && id == 0 &&
        (!bus->stats.up || bus->stats.blocked || link_is_full(&bus->publisher.link)))
        return 0;
    act = failpoint_message(m, "before");
    if (act == FAILPOINT_DOUBLE && (r = publish(bus, m, 0)) < 0)
        return r;
    r = publish(bus, m, id);
    if (r == 0 && (act == FAILPOINT_DROP || act == FAILPOINT_RETURN))
        pretend(bus, act == FAILPOINT_DROP ? BUS_CONFIRMED : BUS_NACKED);
    return r;
}

int bus_pulse(struct bus *bus)
{
    char sent[24];
    const struct bus_message m = {
        .exchange = BUS_PULSE_EXCHANGE,
        .key = bus->consumer.pulse_key,
        .message_id = sent,
        .transient = true,
    };

    if (!bus->stats.pulse)
        return 0;
    snprintf(sent, sizeof(sent), "%" PRIu64, uv_hrtime());
    return bus_publish(bus, &m, 0);
}

void bus_ack(struct bus *bus, uint64_t handle)
{
    if (!handle || failpoint("ack", "", "before", NULL, 0) == FAILPOINT_RETURN)
        return;
    if (acks_push(&bus->acks, handle) < 0)
        bus->acks_lost = true;
    bus->stats.acked++;
    hand_over_later(bus);
}

void bus_requeue(struct bus *bus, uint64_t handle)
{
    if (acks_push(&bus->requeues, handle) < 0)
        bus->acks_lost = true;
    hand_over_later(bus);
}

void bus_consume(struct bus *bus, bool wanted)
{
    bus->consumer.stop = !wanted;
    hand_over_later(bus);
}

void bus_declare(struct bus *bus, const char *actor)
{
    publisher_allow(&bus->publisher, actor);
    consumer_allow(&bus->consumer, actor);
    hand_over_later(bus);
}

void bus_inspect(struct bus *bus, const char *queue, bus_inspect_cb cb, void *ctx)
{
    publisher_inspect(&bus->publisher, queue, cb, ctx);
    hand_over_later(bus);
}

/* --- callbacks -------------------------------------------------------------------------------- */

static bool is_up(const struct link *link)
{
    return link->state == LINK_UP || link->state == LINK_CLOSING;
}

static bool was_lost(const struct link *link, uint64_t connects_seen)
{
    return !is_up(link) || link->connects != connects_seen;
}

/* What bus_pulse() sent says when it was sent. Others may write to the exchange, too. */
static void report_pulse(struct bus *bus, const struct bus_delivery *d)
{
    int64_t now = (int64_t)uv_hrtime();
    int64_t sent;

    if (!bytes_to_i64(bytes_str(d->message_id), &sent) || sent <= 0 || sent > now)
        return;
    bus->pulse_refusals = 0;
    if (bus->callbacks.on_pulse)
        bus->callbacks.on_pulse(bus->ctx, (now - sent) / 1000);
}

/* Levels, not edges: what went and came between two checks shows in the number of connects. */
static void report_links(struct bus *bus)
{
    const struct bus_callbacks *call = &bus->callbacks;
    const struct link *publisher = &bus->publisher.link, *consumer = &bus->consumer.link;
    bool publisher_lost = was_lost(publisher, bus->seen.publisher_connects);
    bool consumer_lost = consumes(bus) && was_lost(consumer, bus->seen.consumer_connects);
    bool publisher_refused = publisher->refusals != bus->seen.publisher_refusals;
    bool consumer_refused = consumer->refusals != bus->seen.consumer_refusals;
    bool running = bus->state == BUS_RUNNING;

    if (consumer->connects != bus->seen.consumer_connects)
        bus->unacked = 0; /* the broker has all of them back */
    bus->seen.publisher_connects = publisher->connects;
    bus->seen.consumer_connects = consumer->connects;
    bus->seen.publisher_refusals = publisher->refusals;
    bus->seen.consumer_refusals = consumer->refusals;
    bus->stats.connects = publisher->connects + consumer->connects;
    bus->stats.pulse =
        is_up(publisher) && bus->consumer.pulse && bus->pulse_refusals < PULSE_REFUSALS_MAX;
    if (bus->stats.up && (publisher_lost || consumer_lost)) {
        bus->stats.up = false;
        if (running && call->on_down)
            call->on_down(bus->ctx, publisher_lost ? publisher->reported : consumer->reported);
    }
    if (publisher_refused && running && call->on_refused)
        call->on_refused(bus->ctx, publisher->refusal);
    if (consumer_refused && running && call->on_refused)
        call->on_refused(bus->ctx, consumer->refusal);
    if (!bus->stats.up && is_up(publisher) && (!consumes(bus) || consumer_is_up(&bus->consumer))) {
        bus->stats.up = true;
        if (running && call->on_up)
            call->on_up(bus->ctx);
    }
    if (bus->stats.blocked != publisher->blocked) {
        bus->stats.blocked = publisher->blocked;
        if (running && call->on_blocked)
            call->on_blocked(bus->ctx, bus->stats.blocked);
    }
}

/* Where there is no right to write to the exchange each one costs a connection. */
static void count_refusal(struct bus *bus)
{
    if (++bus->pulse_refusals == PULSE_REFUSALS_MAX)
        bus->stats.pulse = false;
}

static void report_settled(struct bus *bus, struct list *settled)
{
    struct list *node;

    while ((node = list_pop(settled))) {
        struct outgoing *m = list_entry(node, struct outgoing, node);

        if (failpoint_message(&m->message, "after") == FAILPOINT_RETURN)
            m->outcome = BUS_NACKED;
        list_remove(&m->open);
        bus->stats.waiting--;
        bus->stats.confirmed += m->outcome == BUS_CONFIRMED;
        bus->stats.returned += m->outcome == BUS_RETURNED;
        if (m->isolated && bus->callbacks.on_isolated)
            bus->callbacks.on_isolated(bus->ctx, &m->message, m->isolated);
        if (m->id && bus->callbacks.on_outcome)
            bus->callbacks.on_outcome(bus->ctx, m->id, m->outcome);
        if (m->outcome == BUS_NACKED && strcmp(m->message.exchange, BUS_PULSE_EXCHANGE) == 0)
            count_refusal(bus);
        bus_outgoing_free(m);
    }
}

/* For failpoints: "submit", and "task" for those of all actors. */
static const char *queue_name(const struct bus *bus, int source)
{
    const struct bus_config *config = &bus->config;

    if (config->direct_reply && source == config->direct_source)
        return "answers";
    for (int i = 0; i < config->n_queues; i++) {
        if (config->queues[i].actor)
            return "task";
        if (config->queues[i].source == source)
            return config->queues[i].name + strlen("drover.");
    }
    return "";
}

/* Once the bus closes, deliveries are not handed over any more: the broker gets them back. */
static void report_deliveries(struct bus *bus, struct list *deliveries)
{
    struct list *node;

    while ((node = list_pop(deliveries))) {
        struct incoming *in = list_entry(node, struct incoming, node);

        if (in->pulse && bus->state == BUS_RUNNING)
            report_pulse(bus, &in->delivery);
        if (in->pulse || bus->state != BUS_RUNNING ||
            failpoint("delivery", queue_name(bus, in->delivery.source), "", &in->delivery.body,
                      1) == FAILPOINT_DROP) {
            bus_delivery_free(&in->delivery);
        } else {
            bus->stats.delivered++;
            bus->unacked += in->delivery.handle != 0;
            bus->callbacks.on_delivery(bus->ctx, &in->delivery);
        }
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct bus *bus = handle->data;

    if (--bus->n_handles > 0)
        return;
    bus->state = BUS_CLOSED;
    if (bus->on_closed)
        bus->on_closed(bus->ctx); /* may free the bus */
    else
        bus_free(bus); /* a bus_new() that failed late */
}

static void close_handle(struct bus *bus, uv_handle_t *handle)
{
    handle->data = bus;
    uv_close(handle, on_handle_closed);
}

/* The links have ended: the handles follow, and then on_closed. */
static void close_handles(struct bus *bus)
{
    uv_handle_t *const handles[] = {
        (uv_handle_t *)&bus->flush,
        (uv_handle_t *)&bus->ack_timer,
        (uv_handle_t *)&bus->close_timer,
        (uv_handle_t *)&bus->pulse_timer,
        (uv_handle_t *)&bus->publisher.link.timer,
        (uv_handle_t *)&bus->publisher.link.tick,
        (uv_handle_t *)&bus->consumer.link.timer,
        (uv_handle_t *)&bus->consumer.link.tick,
    };

    bus->state = BUS_ENDED;
    bus->n_handles = array_size(handles);
    for (size_t i = 0; i < array_size(handles); i++)
        close_handle(bus, handles[i]);
}

/* Goes on closing as far as the links have come. */
static void advance_close(struct bus *bus)
{
    if (bus->state == BUS_FLUSHING && bus->publisher.link.state == LINK_ENDED) {
        bus->state = BUS_LEAVING;
        if (consumes(bus))
            link_end(&bus->consumer.link);
    }
    if (bus->state == BUS_LEAVING && (!consumes(bus) || bus->consumer.link.state == LINK_ENDED))
        close_handles(bus);
}

static void report_lost(struct bus *bus, struct list *actors)
{
    char name[ID_NAME_MAX + 1];
    const char *actor;

    while ((actor = actors_in(actors, ACTOR_LOST))) {
        snprintf(name, sizeof(name), "%s", actor);
        actors_set(actors, name, ACTOR_MISSING);
        if (bus->callbacks.on_lost && bus->state == BUS_RUNNING)
            bus->callbacks.on_lost(bus->ctx, name);
    }
}

static void report_inspection(struct bus *bus)
{
    struct inspection done = bus->publisher.inspection;

    if (!done.answered)
        return;
    bus->publisher.inspection = (struct inspection){0};
    if (bus->state == BUS_RUNNING)
        done.cb(done.ctx, done.messages, done.consumers);
}

/* Reports what came, and hands over what that led to. */
static void report_all(struct bus *bus)
{
    struct list settled, deliveries;
    bool any;

    list_init(&settled);
    list_init(&deliveries);
    list_move_all(&settled, &bus->settled);
    list_move_all(&settled, &bus->publisher.link.settled);
    list_move_all(&deliveries, &bus->publisher.link.deliveries);
    list_move_all(&deliveries, &bus->consumer.link.deliveries);
    any = !list_empty(&settled) || !list_empty(&deliveries);
    report_settled(bus, &settled); /* they came while their connection was there */
    report_lost(bus, &bus->publisher.task_queues.actors);
    report_lost(bus, &bus->consumer.actors);
    report_links(bus);
    report_deliveries(bus, &deliveries);
    report_inspection(bus);
    if (any && bus->callbacks.on_batch_end)
        bus->callbacks.on_batch_end(bus->ctx);
    hand_over(bus); /* before the consumer is told to close: acks of these outcomes still go out */
    advance_close(bus);
}

/* A link that changes while this runs, or settles a message without sending it, has it run again.
 */
static void catch_up(void *ctx)
{
    struct bus *bus = ctx;

    bus->changed = true;
    if (bus->catching_up)
        return;
    bus->catching_up = true;
    while (bus->changed && bus->state < BUS_ENDED) {
        bus->changed = false;
        report_all(bus);
        bus->changed |= !list_empty(&bus->publisher.link.settled) || !list_empty(&bus->settled);
    }
    bus->catching_up = false;
}

/* --- start and end ---------------------------------------------------------------------------- */

/* A person may have mended what was refused: one pulse more, and the queue is asked for again. */
static void on_pulse_again(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, pulse_timer);

    if (bus->pulse_refusals >= PULSE_REFUSALS_MAX)
        bus->pulse_refusals = PULSE_REFUSALS_MAX - 1;
    consumer_ask_for_pulse(&bus->consumer);
    catch_up(bus); /* what may be sent is found out there */
}

static void on_close_timeout(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, close_timer);

    link_abandon(&bus->publisher.link);
    if (consumes(bus))
        link_abandon(&bus->consumer.link);
    catch_up(bus);
}

void bus_close(struct bus *bus, int timeout_ms, void (*on_closed)(void *ctx))
{
    assert(bus->state == BUS_RUNNING && on_closed);
    bus->state = BUS_FLUSHING;
    bus->on_closed = on_closed;
    bus->consumer.stop = true;
    bus->publisher.link.closing = true;
    uv_timer_start(&bus->close_timer, on_close_timeout, (uint64_t)timeout_ms, 0);
    hand_over_later(bus);
}

static int init_handles(struct bus *bus, uv_loop_t *loop)
{
    int publishes, consumed;

    bus->publisher.link.queues = bus->consumer.link.queues = &bus->queues;
    uv_prepare_init(loop, &bus->flush);
    uv_timer_init(loop, &bus->ack_timer);
    uv_timer_init(loop, &bus->close_timer);
    uv_timer_init(loop, &bus->pulse_timer);
    publishes = link_init(&bus->publisher.link, loop, &bus->config, &publisher_role, catch_up, bus);
    consumed = link_init(&bus->consumer.link, loop, &bus->config, &consumer_role, catch_up, bus);
    return publishes ? publishes : consumed;
}

static void start(struct bus *bus)
{
    const uint64_t again_ms = (uint64_t)bus->config.pulse_again_ms;

    consumer_init(&bus->consumer);
    link_start(&bus->publisher.link, &bus->hosts);
    if (consumes(bus))
        link_start(&bus->consumer.link, &bus->hosts);
    if (bus->config.pulse && consumes(bus))
        uv_timer_start(&bus->pulse_timer, on_pulse_again, again_ms, again_ms);
}

int bus_new(struct bus **out, uv_loop_t *loop, const struct bus_config *config,
            const struct bus_callbacks *callbacks, void *ctx)
{
    struct bus *bus = calloc(1, sizeof(*bus));
    int r;

    if (!bus)
        return -ENOMEM;
    list_init(&bus->settled);
    list_init(&bus->pending);
    list_init(&bus->open);
    publisher_init(&bus->publisher);
    list_init(&bus->consumer.actors);
    bus->callbacks = *callbacks;
    bus->ctx = ctx;
    r = init_handles(bus, loop);
    if (!r)
        r = bus_config_copy(&bus->config, config);
    if (!r)
        r = find_hosts(bus);
    if (r) {
        close_handles(bus); /* frees it, in the loop's own time */
        return r;
    }
    bus->queues.quorum = config->quorum;
    start(bus);
    *out = bus;
    return 0;
}

struct bus *bus_free(struct bus *bus)
{
    struct list *node;

    if (!bus)
        return NULL;
    assert(bus->state == BUS_CLOSED);
    while ((node = list_pop(&bus->open)))
        bus_outgoing_free(list_entry(node, struct outgoing, open));
    publisher_deinit(&bus->publisher);
    consumer_deinit(&bus->consumer);
    free(bus->acks.handles);
    free(bus->requeues.handles);
    bus_config_deinit(&bus->config);
    hosts_deinit(&bus->hosts);
    free(bus);
    return NULL;
}

static int64_t tls_expiry(const struct bus *bus)
{
    const struct link *publisher = &bus->publisher.link, *consumer = &bus->consumer.link;
    int64_t own = bus->config.tls ? tls_context_expiry(bus->config.tls) : 0;

    return tls_first_expiry(own, tls_first_expiry(publisher->peer_expiry, consumer->peer_expiry));
}

bool bus_may_lose(const struct bus *bus)
{
    return bus->config.cached && !bus->queues.quorum;
}

void bus_stats(const struct bus *bus, struct bus_stats *out)
{
    *out = bus->stats;
    out->tls_expiry = tls_expiry(bus);
    out->refused = bus->publisher.link.n_refused + bus->consumer.link.n_refused;
    if (!list_empty(&bus->open)) {
        const struct outgoing *oldest = list_entry(bus->open.next, struct outgoing, open);

        out->oldest_unconfirmed = clock_monotonic_ms() - oldest->since;
    }
}

void bus_why(struct bus *bus, char *out, size_t size)
{
    const struct link *publisher = &bus->publisher.link, *consumer = &bus->consumer.link;

    snprintf(out, size, "%s", publisher->reported[0] ? publisher->reported : consumer->reported);
}
