// SPDX-License-Identifier: Apache-2.0
/*
 * Topology: the exchanges and queues of the wire contract
 *
 * Declaring is for development and for the operator's tool: in production the daemons have no
 * right to it and only check.
 *
 * Called by bus_link.c for all of it, by bus_publisher.c and bus_consumer.c for single queues.
 */
#include <stdio.h>

#include "base/id.h"
#include "io/bus/bus_internal.h"
#include "model/wire.h"

#define TASK_EXCHANGE "drover.tasks"
#define TASK_PREFIX "drover.task."
#define EXPIRED_EXCHANGE "drover.expired"
#define PULSE_EXCHANGE BUS_PULSE_EXCHANGE

static const struct {
    const char *name;
    const char *type;
} exchanges[] = {
    {"drover.submit", "direct"},  {TASK_EXCHANGE, "direct"},  {WIRE_REPLY_QUEUE, "direct"},
    {"drover.control", "direct"}, {"drover.events", "topic"}, {EXPIRED_EXCHANGE, "fanout"},
    {"drover.dead", "fanout"},    {PULSE_EXCHANGE, "direct"},
};

static const struct {
    const char *name; /* of the queue, and of the exchange that it is bound to */
    const char *key;
} queues[] = {
    {"drover.submit", "submit"}, {WIRE_REPLY_QUEUE, "reply"}, {"drover.control", "control"},
    {EXPIRED_EXCHANGE, ""},      {"drover.dead", ""},
};

static amqp_bytes_t text(const char *s)
{
    return amqp_cstring_bytes(s);
}

static int declare_exchange(struct link *link, amqp_channel_t channel, const char *name,
                            const char *type, bool passive)
{
    char what[BUS_WHY_LEN];

    amqp_exchange_declare(link->amqp, channel, text(name), text(type), passive, 1, 0, 0,
                          amqp_empty_table);
    snprintf(what, sizeof(what), "exchange %s", name);
    return link_check_rpc(link, what);
}

static int declare_queue(struct link *link, amqp_channel_t channel, const char *name,
                         const char *dead_letter_exchange, bool passive)
{
    amqp_table_entry_t entries[2];
    amqp_table_t arguments = {.entries = entries};
    char what[BUS_WHY_LEN];

    if (dead_letter_exchange)
        entries[arguments.num_entries++] =
            table_text("x-dead-letter-exchange", dead_letter_exchange);
    if (link->bus->config.quorum)
        entries[arguments.num_entries++] = table_text("x-queue-type", "quorum");
    amqp_queue_declare(link->amqp, channel, text(name), passive, 1, 0, 0, arguments);
    snprintf(what, sizeof(what), "queue %s", name);
    return link_check_rpc(link, what);
}

static int bind_queue(struct link *link, amqp_channel_t channel, const char *name,
                      const char *exchange, const char *key)
{
    char what[BUS_WHY_LEN];

    amqp_queue_bind(link->amqp, channel, text(name), text(exchange), text(key), amqp_empty_table);
    snprintf(what, sizeof(what), "binding of queue %s to exchange %s", name, exchange);
    return link_check_rpc(link, what);
}

/* The broker routes each message of exchange @from to exchange @to as well, with its key. */
static int bind_exchange(struct link *link, amqp_channel_t channel, const char *to,
                         const char *from)
{
    char what[BUS_WHY_LEN];

    amqp_exchange_bind(link->amqp, channel, text(to), text(from), amqp_empty_bytes,
                       amqp_empty_table);
    snprintf(what, sizeof(what), "binding of exchange %s to exchange %s", to, from);
    return link_check_rpc(link, what);
}

/* By way of the exchange of all actors: where its queue is gone and made anew, one binding is. */
static int declare_reply(struct link *link, amqp_channel_t channel, const char *actor, bool passive)
{
    char name[sizeof(WIRE_REPLY_EXCHANGE) + ID_NAME_MAX];
    int r;

    snprintf(name, sizeof(name), WIRE_REPLY_EXCHANGE "%s", actor);
    r = declare_exchange(link, channel, name, "fanout", passive);
    return r || passive ? r : bind_exchange(link, channel, WIRE_REPLY_QUEUE, name);
}

int topology_declare_task(struct link *link, amqp_channel_t channel, const char *actor)
{
    char name[sizeof(TASK_PREFIX) + ID_NAME_MAX];
    int r = declare_reply(link, channel, actor, false);

    snprintf(name, sizeof(name), TASK_PREFIX "%s", actor);
    if (!r)
        r = declare_queue(link, channel, name, EXPIRED_EXCHANGE, false);
    return r ? r : bind_queue(link, channel, name, TASK_EXCHANGE, actor);
}

/* An exchange without which nothing works. That there is one for pulses shows when a queue is bound
 * to it. */
static bool is_needed(const char *exchange)
{
    return strcmp(exchange, PULSE_EXCHANGE) != 0;
}

int topology_declare_pulse(struct link *link, const char *queue)
{
    amqp_table_entry_t entries[] = {table_text("x-queue-type", "classic")};
    amqp_table_t arguments = {array_size(entries), entries};
    int r;

    amqp_queue_declare(link->amqp, BUS_SIDE_CHANNEL, text(queue), 0, 0, 1, 1, arguments);
    r = link_check_rpc(link, "pulse queue");
    /* It is empty: nothing leads to it yet. */
    if (!r)
        r = link_check_reply(link, "reading the pulse queue",
                             amqp_basic_get(link->amqp, BUS_SIDE_CHANNEL, text(queue), 1));
    return r ? r : bind_queue(link, BUS_SIDE_CHANNEL, queue, PULSE_EXCHANGE, link->bus->pulse_key);
}

static int ensure_fixed(struct link *link, bool passive)
{
    int r;

    for (size_t i = 0; i < array_size(exchanges); i++) {
        if (passive && !is_needed(exchanges[i].name))
            continue;
        r = declare_exchange(link, BUS_CHANNEL, exchanges[i].name, exchanges[i].type, passive);
        if (r)
            return r;
    }
    for (size_t i = 0; i < array_size(queues); i++) {
        r = declare_queue(link, BUS_CHANNEL, queues[i].name, NULL, passive);
        if (!r && !passive)
            r = bind_queue(link, BUS_CHANNEL, queues[i].name, queues[i].name, queues[i].key);
        if (r)
            return r;
    }
    return 0;
}

/* The task queues that this process consumes. */
static int ensure_tasks(struct link *link, bool passive)
{
    const struct bus_config *config = &link->bus->config;
    int r = 0;

    for (int i = 0; i < config->n_queues && !r; i++) {
        const struct bus_queue *queue = &config->queues[i];

        if (!queue->actor)
            continue;
        r = passive ? declare_queue(link, BUS_CHANNEL, queue->name, NULL, true)
                    : topology_declare_task(link, BUS_CHANNEL, queue->actor);
        if (!r && passive)
            r = declare_reply(link, BUS_CHANNEL, queue->actor, true);
    }
    return r;
}

int topology_ensure(struct link *link)
{
    bool passive = !link->bus->config.declare;
    int r = ensure_fixed(link, passive);

    return r ? r : ensure_tasks(link, passive);
}
