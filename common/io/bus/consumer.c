// SPDX-License-Identifier: Apache-2.0
/*
 * Consumer: the link that delivers, and acknowledges what the loop is done with
 *
 * A delivery tag is valid on its own connection only, so a handle has the number of the connection
 * (the epoch) in its upper bits. Acks of an earlier connection are ignored: the broker delivers
 * these messages again.
 *
 * Pulses come over the same channel, so that they show that it works. They are consumed without
 * acks, but their delivery tags count, so these tags are TAG_ACKED from the start.
 *
 * link.c calls it by consumer_role; bus.c hands acks over.
 */
#include "io/bus/consumer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "io/bus/topology.h"
#include "io/failpoint.h"
#include "model/wire.h"

#define HANDLE_TAG_BITS 40 /* leaves 24 for the epoch: one reconnect a second for 194 days */
#define HANDLE_TAG_MASK ((UINT64_C(1) << HANDLE_TAG_BITS) - 1)
#define HANDLE_EPOCH_MASK ((UINT64_C(1) << (64 - HANDLE_TAG_BITS)) - 1)
#define TAGS_SIZE_MIN 256
#define PULSE_TAG BUS_PULSE_EXCHANGE /* consumer tag; of other queues the tag is the name */

#define PULSE_QUEUE_LEN (BUS_PULSE_KEY_LEN + 24)

enum tag_state {
    TAG_OPEN,   /* delivered */
    TAG_ACKING, /* to be acknowledged by this call of consumer_send() */
    TAG_ACKED,  /* acknowledged singly, an earlier one is still open; or given back, or a pulse */
};

static struct consumer *consumer_of(struct link *link)
{
    return container_of(link, struct consumer, link);
}

/* --- handles ---------------------------------------------------------------------------------- */

static int acks_reserve(struct acks *acks, size_t n)
{
    size_t size = acks->size ? acks->size : 64;
    uint64_t *handles;

    while (size < n)
        size *= 2;
    if (size == acks->size)
        return 0;
    handles = reallocarray(acks->handles, size, sizeof(*handles));
    if (!handles)
        return -ENOMEM;
    acks->handles = handles;
    acks->size = size;
    return 0;
}

int acks_push(struct acks *acks, uint64_t handle)
{
    int r = acks_reserve(acks, acks->used + 1);

    if (r)
        return r;
    acks->handles[acks->used++] = handle;
    return 0;
}

int acks_move_all(struct acks *to, struct acks *from)
{
    int r = acks_reserve(to, to->used + from->used);

    if (r)
        return r;
    if (from->used > 0)
        memcpy(to->handles + to->used, from->handles, from->used * sizeof(*from->handles));
    to->used += from->used;
    from->used = 0;
    return 0;
}

/* --- tags ------------------------------------------------------------------------------------- */

static uint8_t *tag_state(struct consumer *c, uint64_t tag)
{
    return &c->tags[tag & (c->tags_size - 1)];
}

/* Makes room for one more tag. Return: 0 or -ENOMEM. */
static int tags_grow(struct consumer *c)
{
    struct consumer grown = *c;

    if (c->high - c->low < c->tags_size)
        return 0;
    grown.tags_size = c->tags_size ? c->tags_size * 2 : TAGS_SIZE_MIN;
    grown.tags = malloc(grown.tags_size);
    if (!grown.tags)
        return -ENOMEM;
    for (uint64_t tag = c->low + 1; tag <= c->high; tag++)
        *tag_state(&grown, tag) = *tag_state(c, tag);
    free(c->tags);
    c->tags = grown.tags;
    c->tags_size = grown.tags_size;
    return 0;
}

/* Whether a handle is of this connection. */
static bool current(const struct consumer *c, uint64_t handle)
{
    return handle >> HANDLE_TAG_BITS == (c->epoch & HANDLE_EPOCH_MASK);
}

static void mark_acks(struct consumer *c)
{
    for (size_t i = 0; i < c->acks.used; i++) {
        uint64_t tag = c->acks.handles[i] & HANDLE_TAG_MASK;

        if (!current(c, c->acks.handles[i]))
            continue;
        assert(tag > c->low && tag <= c->high && *tag_state(c, tag) == TAG_OPEN);
        *tag_state(c, tag) = TAG_ACKING;
    }
}

/* Moves low up to the first open tag. Return: the last TAG_ACKING tag that it has passed, 0 for
 * none. The ack must name such a tag: the others are settled, and the broker closes the channel
 * over a tag that it does not know. */
static uint64_t advance(struct consumer *c)
{
    uint64_t last = 0;

    while (c->low < c->high && *tag_state(c, c->low + 1) != TAG_OPEN) {
        c->low++;
        if (*tag_state(c, c->low) == TAG_ACKING)
            last = c->low;
    }
    return last;
}

static int send_ack(struct consumer *c, uint64_t tag, bool multiple)
{
    amqp_basic_ack_t ack = {.delivery_tag = tag, .multiple = multiple};

    return link_put_method(&c->link, AMQP_BASIC_ACK_METHOD, &ack);
}

/* Acknowledges all tags up to the first open one with one ack, the others one by one. */
static int send_acks(struct consumer *c)
{
    uint64_t last;
    int r = 0;

    mark_acks(c);
    last = advance(c);
    if (last)
        r = send_ack(c, last, true);
    for (size_t i = 0; i < c->acks.used && !r; i++) {
        uint64_t tag = c->acks.handles[i] & HANDLE_TAG_MASK;

        if (!current(c, c->acks.handles[i]) || tag <= c->low)
            continue;
        *tag_state(c, tag) = TAG_ACKED;
        r = send_ack(c, tag, false);
    }
    c->acks.used = 0;
    if (!r)
        r = link_flush(&c->link);
    if (!r)
        failpoint("ack", "", "after", NULL, 0);
    return r;
}

static int send_requeues(struct consumer *c)
{
    int r = 0;

    for (size_t i = 0; i < c->requeues.used && !r; i++) {
        uint64_t tag = c->requeues.handles[i] & HANDLE_TAG_MASK;
        amqp_basic_reject_t reject = {.delivery_tag = tag, .requeue = true};

        if (!current(c, c->requeues.handles[i]))
            continue;
        assert(tag > c->low && tag <= c->high && *tag_state(c, tag) == TAG_OPEN);
        *tag_state(c, tag) = TAG_ACKED;
        r = link_put_method(&c->link, AMQP_BASIC_REJECT_METHOD, &reject);
    }
    c->requeues.used = 0;
    return r;
}

/* --- the link --------------------------------------------------------------------------------- */

static int consume(struct consumer *c, const char *queue, const char *tag, bool no_ack)
{
    amqp_basic_consume_t consume = {
        .queue = amqp_cstring_bytes(queue),
        .consumer_tag = amqp_cstring_bytes(tag),
        .no_ack = no_ack,
    };

    return link_call(&c->link, LINK_CHANNEL, AMQP_BASIC_CONSUME_METHOD, &consume,
                     AMQP_BASIC_CONSUME_OK_METHOD, NULL, "consuming queue %s", queue);
}

/* Each connection has a pulse queue of its own, because the exclusive queue of a lost connection
 * may still exist. */
static const char *pulse_queue(const struct consumer *c, char *out, size_t size)
{
    snprintf(out, size, "%s.%llu", c->pulse_key, (unsigned long long)c->epoch);
    return out;
}

static int consume_queue(struct consumer *c, const struct bus_queue *queue)
{
    return consume(c, queue->name, queue->name, false);
}

/* Whose messages are lost if a queue is deleted; NULL: it loses none that the store knows. */
static const char *actor_of(const struct bus_queue *queue)
{
    if (queue->actor)
        return queue->actor;
    return strcmp(queue->name, WIRE_REPLY_QUEUE) == 0 ? WIRE_ALL_ACTORS : NULL;
}

/* Whether a queue that is to be consumed is there, as far as is known. */
static bool is_there(const struct consumer *c, const struct bus_queue *queue)
{
    const char *actor = actor_of(queue);

    return !actor || actors_state(&c->actors, actor) == ACTOR_UNKNOWN;
}

static int start_consuming(struct consumer *c)
{
    const struct bus_config *config = c->link.config;
    int r = 0;

    for (int i = 0; i < config->n_queues && !r; i++)
        if (is_there(c, &config->queues[i]))
            r = consume_queue(c, &config->queues[i]);
    c->stopped = false;
    return r;
}

/* ---- queues that are not there ---- */

/* Return: whether that is news. Without memory it is not reported; the connection is lost all the
 * same. */
static bool note_lost(struct consumer *c, const char *actor)
{
    if (actors_state(&c->actors, actor) != ACTOR_UNKNOWN ||
        actors_set(&c->actors, actor, ACTOR_LOST))
        return false;
    c->hold_until = clock_monotonic_ms() + BUS_HOLD_MS;
    return true;
}

/* A queue is not left away for ever for a loss that cannot be recorded. */
static void allow_overdue(struct consumer *c)
{
    int64_t now = clock_monotonic_ms();

    if (!c->link.config->declare || !actors_in(&c->actors, ACTOR_MISSING))
        return;
    if (now < c->hold_until)
        link_tick_within(&c->link, c->hold_until - now);
    else
        actors_move(&c->actors, ACTOR_MISSING, ACTOR_ALLOWED);
}

/* Looks for the queues, and declares those that are there, with their bindings, and those that may
 * be declared. After the first that was deleted setup() begins anew, without that one. */
static int ensure_queues(struct consumer *c)
{
    const struct bus_config *config = c->link.config;
    int r = 0;

    allow_overdue(c);
    for (int i = 0; i < config->n_queues && config->declare && !r; i++) {
        const char *actor = actor_of(&config->queues[i]);
        enum actor_state state = actor ? actors_state(&c->actors, actor) : ACTOR_MISSING;

        if (state == ACTOR_UNKNOWN)
            r = topology_find(&c->link, LINK_CHANNEL, actor);
        if (!r && (state == ACTOR_UNKNOWN || state == ACTOR_ALLOWED))
            r = topology_declare(&c->link, LINK_CHANNEL, actor);
        if (!r && state == ACTOR_ALLOWED)
            (void)actors_set(&c->actors, actor, ACTOR_DECLARED);
    }
    return r;
}

/* All that setup() has asked for is there. */
static void forget_missing(struct consumer *c)
{
    actors_forget(&c->actors, c->link.config->declare ? ACTOR_DECLARED : ACTOR_MISSING);
}

/* Notes which queue is not there. Where this process may not declare it, setup() fails until it is
 * there. */
static bool consumer_adapt(struct link *link)
{
    struct consumer *c = consumer_of(link);
    const struct bus_config *config = link->config;

    for (int i = 0; i < config->n_queues; i++) {
        const char *actor = actor_of(&config->queues[i]);
        enum topology_missing missing = actor ? topology_missing(link, actor) : TOPOLOGY_NOTHING;

        if (missing == TOPOLOGY_QUEUE)
            return note_lost(c, actor) && config->declare;
        if (missing == TOPOLOGY_ALL)
            return config->declare && actors_state(&c->actors, actor) == ACTOR_UNKNOWN &&
                   actors_set(&c->actors, actor, ACTOR_ALLOWED) == 0;
    }
    return topology_adapt(link);
}

static const struct bus_queue *queue_of(const struct consumer *c, const char *actor)
{
    const struct bus_config *config = c->link.config;

    for (int i = 0; i < config->n_queues; i++) {
        const char *of_queue = actor_of(&config->queues[i]);

        if (of_queue && strcmp(of_queue, actor) == 0)
            return &config->queues[i];
    }
    return NULL;
}

static int on_declared(struct link *link, bool refused)
{
    struct consumer *c = consumer_of(link);
    const struct bus_queue *queue = queue_of(c, c->declaring);

    c->declaring = NULL;
    if (refused)
        return LINK_E_REFUSED;
    (void)actors_set(&c->actors, actor_of(queue), ACTOR_UNKNOWN);
    return c->stopped ? 0 : consume_queue(c, queue);
}

/* Over the side channel, because deliveries of other queues come over this one. */
static int declare_allowed(struct consumer *c)
{
    const char *actor = actors_in(&c->actors, ACTOR_ALLOWED);
    int r;

    if (!actor || !link_side_is_free(&c->link))
        return 0;
    c->declaring = actor_of(queue_of(c, actor));
    r = link_side_begin(&c->link, on_declared);
    return r ? r : topology_declare(&c->link, LINK_SIDE_CHANNEL, c->declaring);
}

void consumer_allow(struct consumer *c, const char *actor)
{
    if (c->link.config->declare && actors_state(&c->actors, actor) == ACTOR_MISSING)
        (void)actors_set(&c->actors, actor, ACTOR_ALLOWED);
}

bool consumer_is_up(const struct consumer *c)
{
    return (c->link.state == LINK_UP || c->link.state == LINK_CLOSING) && list_empty(&c->actors);
}

/* ---- pulses, begin and end ---- */

/* The queues are consumed after that: work whose pulses cannot come back may be done twice. */
static int on_pulse_declared(struct link *link, bool refused)
{
    struct consumer *c = consumer_of(link);
    char queue[PULSE_QUEUE_LEN];
    int r = 0;

    c->pulse = !refused;
    c->pulse_asked = false;
    if (refused)
        link_report_refused(link);
    else
        r = consume(c, pulse_queue(c, queue, sizeof(queue)), PULSE_TAG, true);
    return r || c->stop || !c->stopped ? r : start_consuming(c);
}

/* Over the side channel, because a refusal closes the channel. */
static int declare_pulse(struct consumer *c)
{
    char queue[PULSE_QUEUE_LEN];
    int r = link_side_begin(&c->link, on_pulse_declared);

    c->pulse_asked = false;
    return r ? r
             : topology_declare_pulse(&c->link, pulse_queue(c, queue, sizeof(queue)), c->pulse_key);
}

void consumer_ask_for_pulse(struct consumer *c)
{
    c->pulse_asked = !c->pulse;
}

/* Not before: the calls that declare the exchange of pulses go over another channel. */
static int on_prefetch_set(struct link *link, const void *arguments)
{
    struct consumer *c = consumer_of(link);

    forget_missing(c);
    c->pulse_asked = link->config->pulse;
    if (c->pulse_asked && link_side_is_free(link))
        return declare_pulse(c);
    return c->stop ? 0 : start_consuming(c);
}

static int consumer_setup(struct link *link)
{
    struct consumer *c = consumer_of(link);
    amqp_basic_qos_t qos = {.prefetch_count = link->config->prefetch};
    int r = topology_ensure(link);

    c->epoch++;
    c->low = c->high = 0;
    c->stopped = true;
    c->pulse = c->pulse_asked = false;
    if (!r)
        r = ensure_queues(c);
    return r ? r
             : link_call(link, LINK_CHANNEL, AMQP_BASIC_QOS_METHOD, &qos, AMQP_BASIC_QOS_OK_METHOD,
                         on_prefetch_set, "prefetch");
}

/* Sends basic.cancel with no-wait: the broker does not answer it. */
static int stop_consuming(struct consumer *c)
{
    const struct bus_config *config = c->link.config;
    int r = 0;

    for (int i = 0; i < config->n_queues && !r; i++) {
        amqp_basic_cancel_t cancel = {
            .consumer_tag = amqp_cstring_bytes(config->queues[i].name),
            .nowait = 1,
        };

        r = link_put_method(&c->link, AMQP_BASIC_CANCEL_METHOD, &cancel);
    }
    c->stopped = true;
    return r;
}

static int consumer_send(struct link *link)
{
    struct consumer *c = consumer_of(link);
    int r = 0;

    if (c->stop && !c->stopped)
        r = stop_consuming(c);
    if (!r && c->requeues.used > 0)
        r = send_requeues(c);
    if (!r && c->acks.used > 0)
        r = send_acks(c);
    if (!r && !c->stop && c->stopped)
        r = start_consuming(c);
    if (!r && c->acks_lost)
        r = link_fail(link, LINK_E_LOST, "out of memory for acks");
    if (!r && c->pulse_asked && !c->pulse && link_side_is_free(link))
        r = declare_pulse(c);
    allow_overdue(c);
    return r ? r : declare_allowed(c);
}

static bool consumer_idle(struct link *link)
{
    return true; /* consumer_send() leaves no work, and without a connection acks are ignored */
}

/* Deliveries name their consumer, which is called like its queue. */
static const struct bus_queue *find_queue(const struct bus_config *config, amqp_bytes_t name)
{
    for (int i = 0; i < config->n_queues; i++)
        if (bytes_is(bytes_of(name.bytes, name.len), config->queues[i].name))
            return &config->queues[i];
    return NULL;
}

/* The exchange by which a reply came tells the actor. It proves the actor if each agent has a user
 * of the broker with rights to the exchanges of its own actors alone (deploy/accounts.py). */
static void set_actor(struct assembly *a, const struct bus_queue *queue, amqp_bytes_t exchange)
{
    char name[BUS_QUEUE_MAX + 1];
    const char *actor = queue->actor;

    snprintf(name, sizeof(name), "%.*s", (int)exchange.len, (const char *)exchange.bytes);
    if (!actor)
        actor = strcmp(queue->name, WIRE_REPLY_QUEUE) == 0 ? wire_reply_by(name) : "";
    snprintf(a->actor, sizeof(a->actor), "%s", actor);
}

static int consumer_deliver(struct link *link, const amqp_basic_deliver_t *deliver)
{
    struct consumer *c = consumer_of(link);
    bool pulse =
        bytes_is(bytes_of(deliver->consumer_tag.bytes, deliver->consumer_tag.len), PULSE_TAG);
    const struct bus_queue *queue = find_queue(link->config, deliver->consumer_tag);

    if ((!queue && !pulse) || deliver->delivery_tag != c->high + 1)
        return link_fail(link, LINK_E_LOST, "broker sent a delivery out of place");
    if (tags_grow(c) < 0)
        return link_fail(link, LINK_E_LOST, "out of memory for a delivery");
    c->high++;
    *tag_state(c, c->high) = pulse ? TAG_ACKED : TAG_OPEN;
    link->assembly.pulse = pulse;
    if (pulse && c->low + 1 == c->high)
        c->low = c->high; /* else the tags of an idle process would fill the memory */
    if (pulse)
        return 0;
    link->assembly.handle = (c->epoch & HANDLE_EPOCH_MASK) << HANDLE_TAG_BITS | c->high;
    link->assembly.source = queue->source;
    link->assembly.redelivered = deliver->redelivered;
    link->assembly.classic = !link->queues->quorum;
    set_actor(&link->assembly, queue, deliver->exchange);
    return 0;
}

static int consumer_method(struct link *link, amqp_method_number_t method, const void *arguments)
{
    const amqp_basic_cancel_t *cancel = arguments;
    const struct bus_queue *queue;

    if (method != AMQP_BASIC_CANCEL_METHOD)
        return link_fail_out_of_place(link, method);
    queue = find_queue(link->config, cancel->consumer_tag);
    if (queue && actor_of(queue))
        note_lost(consumer_of(link), actor_of(queue));
    else if (queue && strcmp(queue->name, TOPOLOGY_EXPIRED) == 0) /* requests were in it, too */
        note_lost(consumer_of(link), WIRE_ALL_ACTORS);
    return link_fail(link, LINK_E_LOST, "queue %.*s is gone", (int)cancel->consumer_tag.len,
                     (const char *)cancel->consumer_tag.bytes);
}

static void consumer_returned(struct link *link, int64_t serial)
{
    /* Nothing is published here. */
}

/* Whether the queues were declared that were to be is not known. */
static void allow_again(struct consumer *c)
{
    actors_move(&c->actors, ACTOR_DECLARED, ACTOR_ALLOWED);
}

static void consumer_lost(struct link *link)
{
    struct consumer *c = consumer_of(link);

    c->acks.used = c->requeues.used = 0;
    c->acks_lost = c->pulse = false;
    allow_again(c);
    c->declaring = NULL;
}

/* Makes the key of pulses, with which the names of their queues begin. No other process has it. */
void consumer_init(struct consumer *c)
{
    char token[ID_TOKEN_LEN + 1];

    id_token(rng_next(&c->link.rng), token);
    snprintf(c->pulse_key, sizeof(c->pulse_key), BUS_PULSE_EXCHANGE ".%s", token);
}

void consumer_deinit(struct consumer *c)
{
    free(c->acks.handles);
    free(c->requeues.handles);
    free(c->tags);
    actors_deinit(&c->actors);
    link_deinit(&c->link);
}

const struct link_role consumer_role = {
    .name = "bus-consume",
    .setup = consumer_setup,
    .send = consumer_send,
    .idle = consumer_idle,
    .method = consumer_method,
    .deliver = consumer_deliver,
    .returned = consumer_returned,
    .lost = consumer_lost,
    .adapt = consumer_adapt,
};
