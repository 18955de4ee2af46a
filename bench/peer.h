// SPDX-License-Identifier: Apache-2.0
/*
 * The least AMQP that a benchmark needs: one blocking connection, frames read as they come
 *
 * Deliberately not the product's bus: the raw limit is measured with the bare library, and the load
 * generator must not profit from what it measures. Any failure ends the program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/bus/rabbitmq.h"

#define AMQP_PEER_WINDOW 65536 /* publishes without a confirm, at most */

struct amqp_peer {
    amqp_connection_state_t connection;
    uint64_t published;           /* delivery tag of the last publish, in confirm mode */
    uint64_t confirmed;           /* every tag up to here is confirmed ... */
    bool early[AMQP_PEER_WINDOW]; /* ... and these beyond it, by tag */
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
    AMQP_PEER_PRIVATE, /* as clients have for their answers: gone with them */
    AMQP_PEER_CLASSIC, /* durable */
    AMQP_PEER_QUORUM,
};

void amqp_peer_declare(struct amqp_peer *peer, const char *queue, enum amqp_peer_queue type);
void amqp_peer_consume(struct amqp_peer *peer, const char *queue, bool no_ack);

/* Persistent; to the default exchange where @exchange is "". */
void amqp_peer_publish(struct amqp_peer *peer, const char *exchange, const char *key,
                       const char *reply_to, const void *body, size_t len);
void amqp_peer_ack(struct amqp_peer *peer, uint64_t tag, bool multiple);

/* The next delivery or confirm; waits up to @timeout_ms for one. */
struct amqp_item amqp_peer_next(struct amqp_peer *peer, int timeout_ms);

/* What a run of jobs has come to, as JSON on standard output; sorts @latency, one for each job. */
void bench_print(int jobs, int steps, double seconds, double *latency);
/* A number of the command line, from @least on; else the program ends. */
int bench_number(const char *text, int least);
/* Ends the program with a message unless @ok. */
void bench_check(bool ok, const char *what);
/* A port on loopback, from the environment. */
int bench_port(const char *variable);
double bench_seconds(void);
