// SPDX-License-Identifier: Apache-2.0
/*
 * Bus, the loop's side: hands over to the links once in each iteration, and calls back
 *
 * See io/bus/bus.h. The links of bus_internal.h report to the loop through this file.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "io/bus/bus_internal.h"
#include "io/failpoint.h"

#define CONFIRM_MS 300000    /* quorum queues confirm again when a majority has come back */
#define PULSE_REFUSALS_MAX 3 /* in a row; then none is sent for ... */
#define PULSE_AGAIN_MS 60000 /* ... so long: one that is refused costs a connection */

/* --- configuration ---------------------------------------------------------------------------- */

static void config_deinit(struct bus_config *config)
{
    free((void *)config->host);
    free((void *)config->vhost);
    free((void *)config->user);
    free((void *)config->password);
    free((void *)config->name);
}

static int config_default(int value, int otherwise)
{
    return value ? value : otherwise;
}

/* Return: 0 or -ENOMEM; config_deinit() is due in either case. */
static int config_copy(struct bus_config *to, const struct bus_config *from)
{
    *to = *from;
    to->host = strdup(from->host);
    to->vhost = strdup(from->vhost);
    to->user = strdup(from->user);
    to->password = strdup(from->password);
    to->name = strdup(from->name);
    if (!to->host || !to->vhost || !to->user || !to->password || !to->name)
        return -ENOMEM;
    to->heartbeat_s = config_default(from->heartbeat_s, 10);
    to->connect_timeout_ms = config_default(from->connect_timeout_ms, 5000);
    to->reconnect_min_ms = config_default(from->reconnect_min_ms, 100);
    to->reconnect_max_ms = config_default(from->reconnect_max_ms, 10000);
    to->confirm_ms = config_default(from->confirm_ms, CONFIRM_MS);
    to->max_unconfirmed = config_default(from->max_unconfirmed, 1024);
    to->pulse_again_ms = config_default(from->pulse_again_ms, PULSE_AGAIN_MS);
    return 0;
}

static bool consumes(const struct bus *bus)
{
    return bus->config.n_queues > 0;
}

/* --- hand-over to the links ------------------------------------------------------------------- */

static void hand_over(struct bus *bus);

static void on_acks_due(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, ack_timer);

    bus->acks_due = true;
    hand_over(bus);
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

/* Under bus->lock. */
static void hand_acks_over(struct bus *bus)
{
    size_t n = bus->acks.used + bus->requeues.used;

    bus->unacked -= n < bus->unacked ? n : bus->unacked;
    if (bus->acks_lost || acks_move_all(&bus->consumer.handed, &bus->acks) < 0 ||
        acks_move_all(&bus->consumer.handed_requeues, &bus->requeues) < 0) {
        bus->consumer.acks_lost = true;
        bus->acks.used = bus->requeues.used = 0;
        bus->acks_lost = false;
    }
    bus->acks_due = false;
}

static void hand_over(struct bus *bus)
{
    bool publishes = !list_empty(&bus->pending);
    bool acks = acks_leave(bus);

    uv_prepare_stop(&bus->flush);
    if (acks)
        uv_timer_stop(&bus->ack_timer);
    pthread_mutex_lock(&bus->lock);
    list_move_all(&bus->publisher.handed, &bus->pending);
    if (acks)
        hand_acks_over(bus);
    pthread_mutex_unlock(&bus->lock);
    if (bus->publisher.link.in_loop)
        link_send(&bus->publisher.link);
    else if (publishes)
        link_wake(&bus->publisher.link);
    if (acks && bus->consumer.link.in_loop)
        link_send(&bus->consumer.link);
    else if (acks)
        link_wake(&bus->consumer.link);
}

static void on_flush(uv_prepare_t *handle)
{
    hand_over(container_of(handle, struct bus, flush));
}

/* Has everything of this iteration of the loop handed over before it sleeps. */
static void hand_over_later(struct bus *bus)
{
    if (bus->state < BUS_JOINED)
        uv_prepare_start(&bus->flush, on_flush);
}

/* The text members of a message. */
static const size_t text_members[] = {
    offsetof(struct bus_message, exchange),     offsetof(struct bus_message, key),
    offsetof(struct bus_message, content_type), offsetof(struct bus_message, type),
    offsetof(struct bus_message, message_id),   offsetof(struct bus_message, correlation_id),
    offsetof(struct bus_message, reply_to),     offsetof(struct bus_message, traceparent),
    offsetof(struct bus_message, job),          offsetof(struct bus_message, step),
    offsetof(struct bus_message, reason),       offsetof(struct bus_message, actor),
    offsetof(struct bus_message, sender),
};

static const char **text_member(struct bus_message *m, size_t i)
{
    return (const char **)(void *)((char *)m + text_members[i]);
}

/* One allocation for the message and all that it points to. */
static struct outgoing *outgoing_new(const struct bus_message *from)
{
    struct bus_message m = *from;
    size_t sizes[array_size(text_members)];
    size_t total = m.body.len;
    struct outgoing *out;
    char *at;

    for (size_t i = 0; i < array_size(text_members); i++) {
        sizes[i] = *text_member(&m, i) ? strlen(*text_member(&m, i)) + 1 : 0;
        total += sizes[i];
    }
    out = malloc(sizeof(*out) + total);
    if (!out)
        return NULL;
    at = out->text;
    for (size_t i = 0; i < array_size(text_members); i++) {
        if (!sizes[i])
            continue;
        *text_member(&m, i) = memcpy(at, *text_member(&m, i), sizes[i]);
        at += sizes[i];
    }
    if (m.body.len > 0)
        m.body.data = memcpy(at, m.body.data, m.body.len);
    *out = (struct outgoing){.message = m};
    return out;
}

static void outgoing_free(struct outgoing *m)
{
    free(m->isolated);
    free(m);
}

static int publish(struct bus *bus, const struct bus_message *m, uint64_t id)
{
    struct outgoing *out = outgoing_new(m);

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
    pthread_mutex_lock(&bus->lock);
    list_append(&bus->settled, &m->node);
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
}

int bus_publish(struct bus *bus, const struct bus_message *m, uint64_t id)
{
    enum failpoint_act act;
    int r;

    assert(m->exchange && m->key);
    if (m->transient && id == 0 && (!bus->stats.up || bus->stats.blocked))
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
        .key = bus->pulse_key,
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
    pthread_mutex_lock(&bus->lock);
    bus->consumer.stop = !wanted;
    pthread_mutex_unlock(&bus->lock);
    link_recall(&bus->consumer.link, 0);
}

void bus_inspect(struct bus *bus, const char *queue, bus_inspect_cb cb, void *ctx)
{
    pthread_mutex_lock(&bus->lock);
    bus->inspection = (struct inspection){.serial = ++bus->last_inspection, .cb = cb, .ctx = ctx};
    snprintf(bus->inspection.queue, sizeof(bus->inspection.queue), "%s", queue);
    pthread_mutex_unlock(&bus->lock);
    link_recall(&bus->publisher.link, 0);
}

/* --- callbacks -------------------------------------------------------------------------------- */

/* What the threads had for the loop at one moment. */
struct snapshot {
    struct link_shared publisher;
    struct link_shared consumer;
    struct list settled;
    struct list deliveries;
    struct inspection inspection; /* where it was answered */
};

static void take_snapshot(struct bus *bus, struct snapshot *s)
{
    list_init(&s->settled);
    list_init(&s->deliveries);
    pthread_mutex_lock(&bus->lock);
    s->publisher = bus->publisher.link.shared;
    s->consumer = bus->consumer.link.shared;
    list_move_all(&s->settled, &bus->settled);
    list_move_all(&s->deliveries, &bus->deliveries);
    s->inspection = (struct inspection){0};
    if (bus->inspection.answered) {
        s->inspection = bus->inspection;
        bus->inspection = (struct inspection){0};
    }
    pthread_mutex_unlock(&bus->lock);
}

static bool was_lost(const struct link_shared *link, uint64_t connects_seen)
{
    return !link->up || link->connects != connects_seen;
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
static void report_links(struct bus *bus, const struct snapshot *s)
{
    const struct bus_callbacks *call = &bus->callbacks;
    bool publisher_lost = was_lost(&s->publisher, bus->seen.publisher_connects);
    bool consumer_lost = consumes(bus) && was_lost(&s->consumer, bus->seen.consumer_connects);
    uint64_t publisher_refusals = s->publisher.refusals - bus->seen.publisher_refusals;
    uint64_t consumer_refusals = s->consumer.refusals - bus->seen.consumer_refusals;
    bool running = bus->state == BUS_RUNNING;

    if (s->consumer.connects != bus->seen.consumer_connects)
        bus->unacked = 0; /* the broker has all of them back */
    bus->seen.publisher_connects = s->publisher.connects;
    bus->seen.consumer_connects = s->consumer.connects;
    bus->seen.publisher_refusals = s->publisher.refusals;
    bus->seen.consumer_refusals = s->consumer.refusals;
    bus->stats.connects = s->publisher.connects + s->consumer.connects;
    bus->stats.pulse =
        s->publisher.up && s->consumer.pulse && bus->pulse_refusals < PULSE_REFUSALS_MAX;
    if (bus->stats.up && (publisher_lost || consumer_lost)) {
        bus->stats.up = false;
        if (running && call->on_down)
            call->on_down(bus->ctx, publisher_lost ? s->publisher.why : s->consumer.why);
    }
    if (publisher_refusals && running && call->on_refused)
        call->on_refused(bus->ctx, s->publisher.why);
    if (consumer_refusals && running && call->on_refused)
        call->on_refused(bus->ctx, s->consumer.why);
    if (!bus->stats.up && s->publisher.up && (s->consumer.up || !consumes(bus))) {
        bus->stats.up = true;
        if (running && call->on_up)
            call->on_up(bus->ctx);
    }
    if (bus->stats.blocked != s->publisher.blocked) {
        bus->stats.blocked = s->publisher.blocked;
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
        outgoing_free(m);
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

/* The threads are gone: the handles follow, and then on_closed. */
static void close_handles(struct bus *bus)
{
    bus->state = BUS_JOINED;
    bus->n_handles = 6;
    close_handle(bus, (uv_handle_t *)&bus->async);
    close_handle(bus, (uv_handle_t *)&bus->flush);
    close_handle(bus, (uv_handle_t *)&bus->ack_timer);
    close_handle(bus, (uv_handle_t *)&bus->watchdog);
    close_handle(bus, (uv_handle_t *)&bus->close_timer);
    close_handle(bus, (uv_handle_t *)&bus->pulse_timer);
}

static void tell_to_close(struct bus *bus, struct link *link)
{
    pthread_mutex_lock(&bus->lock);
    link->shared.closing = true;
    pthread_mutex_unlock(&bus->lock);
    link_recall(link, 0);
}

/* Goes on closing as far as the threads have come. */
static void advance_close(struct bus *bus, const struct snapshot *s)
{
    if (bus->state == BUS_FLUSHING && s->publisher.ended) {
        pthread_join(bus->publisher.link.thread, NULL);
        bus->state = BUS_LEAVING;
        tell_to_close(bus, &bus->consumer.link);
    }
    if (bus->state == BUS_LEAVING && (s->consumer.ended || !consumes(bus))) {
        if (consumes(bus))
            pthread_join(bus->consumer.link.thread, NULL);
        close_handles(bus);
    }
}

void bus_catch_up(struct bus *bus)
{
    struct snapshot s;
    bool any;

    link_take(&bus->publisher.link);
    link_take(&bus->consumer.link);
    take_snapshot(bus, &s);
    any = !list_empty(&s.settled) || !list_empty(&s.deliveries);
    report_settled(bus, &s.settled); /* they came while their connection was there */
    report_links(bus, &s);
    report_deliveries(bus, &s.deliveries);
    if (s.inspection.answered && bus->state == BUS_RUNNING)
        s.inspection.cb(s.inspection.ctx, s.inspection.messages, s.inspection.consumers);
    if (any && bus->callbacks.on_batch_end)
        bus->callbacks.on_batch_end(bus->ctx);
    hand_over(bus); /* before the consumer is told to close: acks of these outcomes still go out */
    advance_close(bus, &s);
}

static void on_async(uv_async_t *handle)
{
    bus_catch_up(container_of(handle, struct bus, async));
}

/* --- start, watchdog and end ------------------------------------------------------------------ */

static bool is_stuck(const struct link *link, int64_t limit_ms)
{
    int64_t since = atomic_load(&link->busy_since);

    return since && clock_monotonic_ms() - since > limit_ms;
}

/* A peer that has stopped reading without a word keeps a thread in send(), where no heartbeat is
 * looked after: give the connection up as the thread itself would have. And a check of those that
 * the loop has, for their heartbeats and confirms. */
static void on_watchdog(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, watchdog);
    const struct bus_config *config = &bus->config;
    int64_t limit_ms = (int64_t)config->heartbeat_s * 2000 + config->connect_timeout_ms;

    pthread_mutex_lock(&bus->lock);
    if (is_stuck(&bus->publisher.link, limit_ms))
        link_shutdown(&bus->publisher.link);
    if (is_stuck(&bus->consumer.link, limit_ms))
        link_shutdown(&bus->consumer.link);
    pthread_mutex_unlock(&bus->lock);
    link_drive(&bus->publisher.link);
    link_drive(&bus->consumer.link);
    bus_catch_up(bus);
}

/* A person may have mended what was refused: one pulse more, and the queue is asked for again. */
static void on_pulse_again(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, pulse_timer);

    if (bus->pulse_refusals >= PULSE_REFUSALS_MAX)
        bus->pulse_refusals = PULSE_REFUSALS_MAX - 1;
    pthread_mutex_lock(&bus->lock);
    bus->consumer.pulse_again = true;
    pthread_mutex_unlock(&bus->lock);
    link_recall(&bus->consumer.link, 0);
    uv_async_send(&bus->async); /* what may be sent is found out there */
}

static void on_close_timeout(uv_timer_t *handle)
{
    struct bus *bus = container_of(handle, struct bus, close_timer);

    pthread_mutex_lock(&bus->lock);
    bus->publisher.link.shared.abandon = true;
    bus->consumer.link.shared.abandon = true;
    link_shutdown(&bus->publisher.link);
    link_shutdown(&bus->consumer.link);
    pthread_mutex_unlock(&bus->lock);
    link_recall(&bus->publisher.link, 0);
    link_recall(&bus->consumer.link, 0);
}

void bus_close(struct bus *bus, int timeout_ms, void (*on_closed)(void *ctx))
{
    assert(bus->state == BUS_RUNNING && on_closed);
    bus->state = BUS_FLUSHING;
    bus->on_closed = on_closed;
    hand_over(bus);
    bus_consume(bus, false);
    tell_to_close(bus, &bus->publisher.link);
    uv_timer_start(&bus->close_timer, on_close_timeout, (uint64_t)timeout_ms, 0);
}

/* Makes the key of pulses, with which the names of their queues begin. No other process has it. */
static void name_pulses(struct bus *bus)
{
    char token[ID_TOKEN_LEN + 1];

    id_token(rng_next(&bus->consumer.link.rng), token);
    snprintf(bus->pulse_key, sizeof(bus->pulse_key), BUS_PULSE_EXCHANGE ".%s", token);
}

/* What the loop needs in a bus that has no threads yet. Return: 0 or -errno. */
static int init_memory(struct bus *bus, const struct bus_config *config)
{
    int copied;
    int publishes;
    int consumes;

    pthread_mutex_init(&bus->lock, NULL);
    list_init(&bus->settled);
    list_init(&bus->deliveries);
    list_init(&bus->pending);
    list_init(&bus->open);
    publisher_init(&bus->publisher);
    bus->state = BUS_CLOSED; /* until it runs */
    copied = config_copy(&bus->config, config);
    publishes = link_init(&bus->publisher.link, bus, &publisher_role);
    consumes = link_init(&bus->consumer.link, bus, &consumer_role);
    name_pulses(bus);
    bus->lends = link_stack_suffices();
    return copied ? copied : publishes ? publishes : consumes;
}

static int init_handles(struct bus *bus, uv_loop_t *loop)
{
    int64_t watch_ms = link_idle_ms(&bus->publisher.link);
    int r = uv_async_init(loop, &bus->async, on_async);

    if (r)
        return r;
    uv_prepare_init(loop, &bus->flush);
    uv_timer_init(loop, &bus->ack_timer);
    uv_timer_init(loop, &bus->watchdog);
    uv_timer_init(loop, &bus->close_timer);
    uv_timer_init(loop, &bus->pulse_timer);
    uv_timer_start(&bus->watchdog, on_watchdog, (uint64_t)watch_ms, (uint64_t)watch_ms);
    if (bus->config.pulse && consumes(bus))
        uv_timer_start(&bus->pulse_timer, on_pulse_again, (uint64_t)bus->config.pulse_again_ms,
                       (uint64_t)bus->config.pulse_again_ms);
    return 0;
}

static int start_threads(struct bus *bus)
{
    struct link *publisher = &bus->publisher.link;
    int r = link_start(publisher);

    if (r || !consumes(bus))
        return r;
    r = link_start(&bus->consumer.link);
    if (r) {
        pthread_mutex_lock(&bus->lock);
        publisher->shared.abandon = true;
        link_shutdown(publisher);
        pthread_mutex_unlock(&bus->lock);
        link_recall(publisher, 0);
        pthread_join(publisher->thread, NULL);
    }
    return r;
}

int bus_new(struct bus **out, uv_loop_t *loop, const struct bus_config *config,
            const struct bus_callbacks *callbacks, void *ctx)
{
    struct bus *bus = calloc(1, sizeof(*bus));
    int r;

    if (!bus)
        return -ENOMEM;
    r = init_memory(bus, config);
    if (!r)
        r = init_handles(bus, loop);
    if (r) {
        bus_free(bus);
        return r;
    }
    bus->callbacks = *callbacks;
    bus->ctx = ctx;
    bus->state = BUS_RUNNING;
    r = start_threads(bus);
    if (r) {
        close_handles(bus); /* frees it, in the loop's own time */
        return r;
    }
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
        outgoing_free(list_entry(node, struct outgoing, open));
    while ((node = list_pop(&bus->deliveries)))
        free(list_entry(node, struct incoming, node));
    publisher_deinit(&bus->publisher);
    consumer_deinit(&bus->consumer);
    free(bus->acks.handles);
    free(bus->requeues.handles);
    config_deinit(&bus->config);
    pthread_mutex_destroy(&bus->lock);
    free(bus);
    return NULL;
}

void bus_stats(const struct bus *bus, struct bus_stats *out)
{
    *out = bus->stats;
    if (!list_empty(&bus->open)) {
        const struct outgoing *oldest = list_entry(bus->open.next, struct outgoing, open);

        out->oldest_unconfirmed = clock_monotonic_ms() - oldest->since;
    }
}

void bus_why(struct bus *bus, char *out, size_t size)
{
    const struct link_shared *p = &bus->publisher.link.shared, *c = &bus->consumer.link.shared;

    pthread_mutex_lock(&bus->lock);
    snprintf(out, size, "%s", p->why[0] ? p->why : c->why);
    pthread_mutex_unlock(&bus->lock);
}
