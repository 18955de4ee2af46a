// SPDX-License-Identifier: Apache-2.0
/*
 * Topology: the exchanges and queues of the wire contract
 *
 * Declaring is for development and for the operator's tool: in production the daemons have no
 * right to it and only check.
 *
 * Called by publisher.c and consumer.c.
 */
#include "io/bus/topology.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "io/bus/table.h"
#include "model/wire.h"

#define TASK_EXCHANGE "drover.tasks"
#define TASK_PREFIX "drover.task."
#define PULSE_EXCHANGE BUS_PULSE_EXCHANGE

static const struct {
    const char *name;
    const char *type;
} exchanges[] = {
    {"drover.submit", "direct"},  {TASK_EXCHANGE, "direct"},  {WIRE_REPLY_QUEUE, "direct"},
    {"drover.control", "direct"}, {"drover.events", "topic"}, {TOPOLOGY_EXPIRED, "fanout"},
    {"drover.dead", "fanout"},    {PULSE_EXCHANGE, "direct"},
};

static const struct {
    const char *name; /* of the queue, and of the exchange that it is bound to */
    const char *key;
} queues[] = {
    {"drover.submit", "submit"},
    {"drover.control", "control"},
    {TOPOLOGY_EXPIRED, ""},
    {"drover.dead", ""},
};

static amqp_bytes_t text(const char *s)
{
    return amqp_cstring_bytes(s);
}

static int declare_exchange(struct link *link, uint16_t channel, const char *name, const char *type,
                            bool passive)
{
    amqp_exchange_declare_t declare = {
        .exchange = text(name), .type = text(type), .passive = passive, .durable = 1};

    return link_call(link, channel, AMQP_EXCHANGE_DECLARE_METHOD, &declare,
                     AMQP_EXCHANGE_DECLARE_OK_METHOD, NULL, "exchange %s", name);
}

static int declare_queue(struct link *link, uint16_t channel, const char *name,
                         const char *dead_letter_exchange, bool passive)
{
    amqp_table_entry_t entries[2];
    amqp_queue_declare_t declare = {
        .queue = text(name), .passive = passive, .durable = 1, .arguments.entries = entries};
    int *n = &declare.arguments.num_entries;

    if (dead_letter_exchange)
        entries[(*n)++] = table_text("x-dead-letter-exchange", dead_letter_exchange);
    /* not left out: a virtual host may have another default */
    entries[(*n)++] = table_text("x-queue-type", link->queues->quorum ? "quorum" : "classic");
    return link_call(link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare,
                     AMQP_QUEUE_DECLARE_OK_METHOD, NULL, "queue %s", name);
}

static int bind_queue(struct link *link, uint16_t channel, const char *name, const char *exchange,
                      const char *key)
{
    amqp_queue_bind_t bind = {
        .queue = text(name), .exchange = text(exchange), .routing_key = text(key)};

    return link_call(link, channel, AMQP_QUEUE_BIND_METHOD, &bind, AMQP_QUEUE_BIND_OK_METHOD, NULL,
                     "binding of queue %s to exchange %s", name, exchange);
}

/* The broker routes each message of exchange @from to exchange @to as well, with its key. */
static int bind_exchange(struct link *link, uint16_t channel, const char *to, const char *from)
{
    amqp_exchange_bind_t bind = {.destination = text(to), .source = text(from)};

    return link_call(link, channel, AMQP_EXCHANGE_BIND_METHOD, &bind, AMQP_EXCHANGE_BIND_OK_METHOD,
                     NULL, "binding of exchange %s to exchange %s", to, from);
}

/* By way of the exchange of all actors: where its queue is gone and made anew, one binding is. */
static int declare_reply(struct link *link, uint16_t channel, const char *actor, bool passive)
{
    char name[sizeof(WIRE_REPLY_EXCHANGE) + ID_NAME_MAX];
    int r;

    snprintf(name, sizeof(name), WIRE_REPLY_EXCHANGE "%s", actor);
    r = declare_exchange(link, channel, name, "fanout", passive);
    return r || passive ? r : bind_exchange(link, channel, WIRE_REPLY_QUEUE, name);
}

static int declare_marker(struct link *link, bool passive)
{
    amqp_table_entry_t entries[] = {
        table_text("x-queue-type", "classic"),
        table_number("x-max-length", 1),
    };
    amqp_queue_declare_t declare = {
        .queue = text(BUS_MARKER),
        .passive = passive,
        .durable = 1,
        .arguments = {array_size(entries), entries},
    };
    int r = declare_exchange(link, LINK_CHANNEL, BUS_MARKER, "fanout", passive);

    if (!r)
        r = link_call(link, LINK_CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &declare,
                      AMQP_QUEUE_DECLARE_OK_METHOD, NULL, "queue %s", BUS_MARKER);
    return r || passive ? r : bind_queue(link, LINK_CHANNEL, BUS_MARKER, BUS_MARKER, "");
}

static bool is_all(const char *actor)
{
    return strcmp(actor, WIRE_ALL_ACTORS) == 0;
}

static const char *queue_of(const char *actor, char name[BUS_QUEUE_MAX + 1])
{
    if (is_all(actor))
        snprintf(name, BUS_QUEUE_MAX + 1, WIRE_REPLY_QUEUE);
    else
        snprintf(name, BUS_QUEUE_MAX + 1, TASK_PREFIX "%s", actor);
    return name;
}

static int find_queue(struct link *link, uint16_t channel, const char *actor)
{
    char name[BUS_QUEUE_MAX + 1];

    return declare_queue(link, channel, queue_of(actor, name), NULL, true);
}

int topology_find(struct link *link, uint16_t channel, const char *actor)
{
    int r = is_all(actor) ? 0 : declare_reply(link, channel, actor, true);

    return r ? r : find_queue(link, channel, actor);
}

/* Whether the last refusal was that of a call for @what, which does not exist. */
static bool is_missing(const struct link *link, const char *what)
{
    size_t len = strlen(what);

    return link->not_found && strncmp(link->why, what, len) == 0 && link->why[len] == ':';
}

enum topology_missing topology_missing(const struct link *link, const char *actor)
{
    char name[BUS_QUEUE_MAX + 1], what[BUS_QUEUE_MAX + 16];

    snprintf(what, sizeof(what), "exchange " WIRE_REPLY_EXCHANGE "%s", actor);
    if (is_missing(link, what))
        return TOPOLOGY_ALL;
    snprintf(what, sizeof(what), "queue %s", queue_of(actor, name));
    return is_missing(link, what) ? TOPOLOGY_QUEUE : TOPOLOGY_NOTHING;
}

static int declare_replies(struct link *link, uint16_t channel)
{
    int r = declare_queue(link, channel, WIRE_REPLY_QUEUE, NULL, false);

    return r ? r : bind_queue(link, channel, WIRE_REPLY_QUEUE, WIRE_REPLY_QUEUE, "reply");
}

static int declare_task(struct link *link, uint16_t channel, const char *actor)
{
    char name[BUS_QUEUE_MAX + 1];
    int r = declare_reply(link, channel, actor, false);

    queue_of(actor, name);
    if (!r)
        r = declare_queue(link, channel, name, TOPOLOGY_EXPIRED, false);
    return r ? r : bind_queue(link, channel, name, TASK_EXCHANGE, actor);
}

int topology_declare(struct link *link, uint16_t channel, const char *actor)
{
    return is_all(actor) ? declare_replies(link, channel) : declare_task(link, channel, actor);
}

int topology_inspect(struct link *link, const char *queue, link_answered answered)
{
    amqp_queue_declare_t declare = {.queue = text(queue), .passive = 1};

    return link_call(link, LINK_SIDE_CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &declare,
                     AMQP_QUEUE_DECLARE_OK_METHOD, answered, "inspection of queue %s", queue);
}

/* An exchange without which nothing works. That there is one for pulses shows when a queue is bound
 * to it. */
static bool is_needed(const char *exchange)
{
    return strcmp(exchange, PULSE_EXCHANGE) != 0;
}

int topology_declare_pulse(struct link *link, const char *queue, const char *key)
{
    amqp_table_entry_t entries[] = {table_text("x-queue-type", "classic")};
    amqp_queue_declare_t declare = {
        .queue = text(queue),
        .exclusive = 1,
        .auto_delete = 1,
        .arguments = {array_size(entries), entries},
    };
    amqp_basic_get_t get = {.queue = text(queue), .no_ack = 1};
    int r = link_call(link, LINK_SIDE_CHANNEL, AMQP_QUEUE_DECLARE_METHOD, &declare,
                      AMQP_QUEUE_DECLARE_OK_METHOD, NULL, "pulse queue");

    /* It is empty: nothing leads to it yet. */
    if (!r)
        r = link_call(link, LINK_SIDE_CHANNEL, AMQP_BASIC_GET_METHOD, &get,
                      AMQP_BASIC_GET_EMPTY_METHOD, NULL, "reading the pulse queue");
    return r ? r : bind_queue(link, LINK_SIDE_CHANNEL, queue, PULSE_EXCHANGE, key);
}

/* But for the queue of replies, which topology_declare() declares. */
static int ensure_fixed(struct link *link, bool passive)
{
    int r;

    for (size_t i = 0; i < array_size(exchanges); i++) {
        if (passive && !is_needed(exchanges[i].name))
            continue;
        r = declare_exchange(link, LINK_CHANNEL, exchanges[i].name, exchanges[i].type, passive);
        if (r)
            return r;
    }
    for (size_t i = 0; i < array_size(queues); i++) {
        r = declare_queue(link, LINK_CHANNEL, queues[i].name, NULL, passive);
        if (!r && !passive)
            r = bind_queue(link, LINK_CHANNEL, queues[i].name, queues[i].name, queues[i].key);
        if (r)
            return r;
    }
    return 0;
}

/* Checks the queue of replies, the task queues that this process consumes, and the exchanges for
 * their replies. */
static int check_actors(struct link *link)
{
    const struct bus_config *config = link->config;
    int r = find_queue(link, LINK_CHANNEL, WIRE_ALL_ACTORS);

    for (int i = 0; i < config->n_queues && !r; i++) {
        const char *actor = config->queues[i].actor;

        if (!actor)
            continue;
        r = find_queue(link, LINK_CHANNEL, actor);
        if (!r)
            r = declare_reply(link, LINK_CHANNEL, actor, true);
    }
    return r;
}

int topology_ensure(struct link *link)
{
    bool passive = !link->config->declare;
    int r = ensure_fixed(link, passive);

    if (!r && link->config->marker && !link->queues->quorum)
        r = declare_marker(link, passive);
    return r || !passive ? r : check_actors(link);
}

/* Whether a queue has the type that it was not to be declared with, in the words of the broker. */
static bool has_type(const char *why, const char *type)
{
    const char *current = strstr(why, "'x-queue-type'") ? strstr(why, "but current is") : NULL;

    return current && strstr(current, type);
}

bool topology_adapt(struct link *link)
{
    struct link_queues *found = link->queues;
    bool quorum = has_type(link->why, "'quorum'");
    /* none: it was made without the argument */
    bool classic = has_type(link->why, "'classic'") || has_type(link->why, "current is none");

    if (!link->config->as_found || !(quorum || classic))
        return false;
    if (found->kept) /* by the other link; or there are queues of both types */
        return found->quorum == quorum;
    *found = (struct link_queues){.quorum = quorum, .kept = true};
    log_info(
        "queues_kept", LOG_S("type", quorum ? "quorum" : "classic"),
        LOG_S("what", quorum ? "classic queues are faster on one node: see deploy/change_queues.py"
                             : "rabbitmq.replication none is faster on one node"),
        LOG_S("why", link->why));
    return true;
}
