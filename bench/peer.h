// SPDX-License-Identifier: Apache-2.0
/*
 * The least AMQP that a benchmark needs: one blocking connection that reads frames as they come
 *
 * This does not use Drover's bus: the limit is measured with the bare library, and the load
 * generator must not profit from the code that it measures. Any failure ends the program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/bus/rabbitmq.h"

#define AMQP_PEER_WINDOW 65536 /* publishes without a confirm, at most */

struct amqp_peer {
    amqp_connection_state_t connection;
    bool transient;     /* from now on it publishes with delivery mode 1 */
    const char *type;   /* property of messages that it publishes from now on; NULL: none */
    uint64_t published; /* delivery tag of the last publish, in confirm mode */
    uint64_t confirmed; /* all tags up to here are confirmed */
    bool early[AMQP_PEER_WINDOW]; /* confirmed tags beyond that one */
};

struct amqp_item {
    enum {
        AMQP_ITEM_NONE, /* nothing arrived in time */
        AMQP_ITEM_DELIVERY,
        AMQP_ITEM_CONFIRM,
    } type;
    uint64_t tag;
    amqp_bytes_t body; /* free with amqp_bytes_free() */
};

/* Port and vhost ("/") from DROVER_TEST_AMQP_PORT and ..._VHOST, on loopback, as guest; confirm
 * mode on. */
void amqp_peer_open(struct amqp_peer *peer, uint16_t prefetch);

enum amqp_peer_queue {
    AMQP_PEER_PRIVATE, /* as clients use for answers; deleted with the connection */
    AMQP_PEER_CLASSIC, /* durable */
    AMQP_PEER_QUORUM,
    AMQP_PEER_TRANSIENT, /* durable and classic, for transient messages */
};

void amqp_peer_declare(struct amqp_peer *peer, const char *queue, enum amqp_peer_queue type);
void amqp_peer_consume(struct amqp_peer *peer, const char *queue, bool no_ack);

/* Publishes a message, a persistent one unless peer.transient; exchange "" is the default exchange.
 */
void amqp_peer_publish(struct amqp_peer *peer, const char *exchange, const char *key,
                       const char *reply_to, const void *body, size_t len);
void amqp_peer_ack(struct amqp_peer *peer, uint64_t tag, bool multiple);

/* Returns the next delivery or confirm; waits up to timeout_ms for one. */
struct amqp_item amqp_peer_next(struct amqp_peer *peer, int timeout_ms);

/* Prints the figures of a run of jobs as JSON; sorts `latency`, which has one value for each job.
 */
void bench_print(int jobs, int steps, double seconds, double *latency);
/* Reads a number of the command line; ends the program if it is below `least`. */
int bench_number(const char *text, int least);
/* Ends the program with a message unless ok. */
void bench_check(bool ok, const char *what);
/* Returns a port on loopback, from the environment. */
int bench_port(const char *variable);
double bench_seconds(void);
