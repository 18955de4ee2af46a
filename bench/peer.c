// SPDX-License-Identifier: Apache-2.0
/*
 * Peer: one blocking connection to the broker, by frames
 *
 * See bench/peer.h. Called by the programs of bench: core, foreign, limit and load.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

void bench_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench: %s failed\n", what);
    exit(1);
}

int bench_port(const char *variable)
{
    const char *port = getenv(variable);

    if (!port) {
        fprintf(stderr, "bench: %s is not in the environment\n", variable);
        exit(1);
    }
    return atoi(port);
}

int bench_number(const char *text, int least)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end || end == text || value < least || value > 10000000) {
        fprintf(stderr, "bench: %s is no number from %d on\n", text, least);
        exit(2);
    }
    return (int)value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_print(int jobs, int steps, double seconds, double *latency)
{
    qsort(latency, (size_t)jobs, sizeof(*latency), by_value);
    printf("{\"jobs\": %d, \"steps\": %d, \"seconds\": %.3f, \"steps_per_second\": %.1f, "
           "\"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
           jobs, jobs * steps, seconds, jobs * steps / seconds, 1e3 * latency[jobs / 2],
           1e3 * latency[jobs * 99 / 100]);
}

double bench_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check_rpc(struct amqp_peer *peer, const char *what)
{
    bench_check(amqp_get_rpc_reply(peer->connection).reply_type == AMQP_RESPONSE_NORMAL, what);
}

void amqp_peer_open(struct amqp_peer *peer, uint16_t prefetch)
{
    const char *vhost = getenv("DROVER_TEST_AMQP_VHOST");
    int port = bench_port("DROVER_TEST_AMQP_PORT");
    amqp_socket_t *socket;

    *peer = (struct amqp_peer){.connection = amqp_new_connection()};
    socket = amqp_tcp_socket_new(peer->connection);
    bench_check(socket && !amqp_socket_open(socket, "127.0.0.1", port), "connecting");
    bench_check(amqp_login(peer->connection, vhost ? vhost : "/", 1, 131072, 0,
                           AMQP_SASL_METHOD_PLAIN, "guest", "guest")
                        .reply_type == AMQP_RESPONSE_NORMAL,
                "login");
    amqp_channel_open(peer->connection, 1);
    check_rpc(peer, "channel.open");
    amqp_confirm_select(peer->connection, 1);
    check_rpc(peer, "confirm.select");
    amqp_basic_qos(peer->connection, 1, 0, prefetch, false);
    check_rpc(peer, "basic.qos");
}

void amqp_peer_declare(struct amqp_peer *peer, const char *queue, enum amqp_peer_queue type)
{
    bool private = type == AMQP_PEER_PRIVATE;
    const char *word = type == AMQP_PEER_QUORUM ? "quorum" : "classic";
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes("x-queue-type")};
    amqp_table_t arguments = {.num_entries = 1, .entries = &entry};

    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = amqp_cstring_bytes(word);
    amqp_queue_declare(peer->connection, 1, amqp_cstring_bytes(queue), false, !private, private,
                       private, arguments);
    check_rpc(peer, "queue.declare");
}

void amqp_peer_consume(struct amqp_peer *peer, const char *queue, bool no_ack)
{
    amqp_basic_consume(peer->connection, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, false,
                       no_ack, false, amqp_empty_table);
    check_rpc(peer, "basic.consume");
}

void amqp_peer_publish(struct amqp_peer *peer, const char *exchange, const char *key,
                       const char *reply_to, const void *body, size_t len)
{
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = peer->transient ? 1 : 2};
    amqp_bytes_t bytes = {.len = len, .bytes = (void *)body};

    if (reply_to) {
        properties._flags |= AMQP_BASIC_REPLY_TO_FLAG;
        properties.reply_to = amqp_cstring_bytes(reply_to);
    }
    if (peer->type) {
        properties._flags |= AMQP_BASIC_TYPE_FLAG;
        properties.type = amqp_cstring_bytes(peer->type);
    }
    peer->published++;
    bench_check(!amqp_basic_publish(peer->connection, 1, amqp_cstring_bytes(exchange),
                                    amqp_cstring_bytes(key), false, false, &properties, bytes),
                "publish");
}

void amqp_peer_ack(struct amqp_peer *peer, uint64_t tag, bool multiple)
{
    bench_check(!amqp_basic_ack(peer->connection, 1, tag, multiple), "ack");
}

static struct amqp_item read_delivery(struct amqp_peer *peer, const amqp_basic_deliver_t *deliver)
{
    struct amqp_item item = {.type = AMQP_ITEM_DELIVERY, .tag = deliver->delivery_tag};
    amqp_message_t message;

    bench_check(amqp_read_message(peer->connection, 1, &message, 0).reply_type ==
                    AMQP_RESPONSE_NORMAL,
                "reading a message");
    item.body = amqp_bytes_malloc_dup(message.body);
    amqp_destroy_message(&message);
    return item;
}

static void note_confirm(struct amqp_peer *peer, const amqp_basic_ack_t *ack)
{
    if (ack->multiple)
        for (uint64_t tag = peer->confirmed + 1; tag < ack->delivery_tag; tag++)
            peer->early[tag % AMQP_PEER_WINDOW] = true;
    peer->early[ack->delivery_tag % AMQP_PEER_WINDOW] = true;
    while (peer->early[(peer->confirmed + 1) % AMQP_PEER_WINDOW])
        peer->early[++peer->confirmed % AMQP_PEER_WINDOW] = false;
}

struct amqp_item amqp_peer_next(struct amqp_peer *peer, int timeout_ms)
{
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000L};
    amqp_frame_t frame;
    int r;

    amqp_maybe_release_buffers(peer->connection);
    r = amqp_simple_wait_frame_noblock(peer->connection, &frame, &timeout);
    if (r == AMQP_STATUS_TIMEOUT)
        return (struct amqp_item){.type = AMQP_ITEM_NONE};
    bench_check(r == AMQP_STATUS_OK && frame.frame_type == AMQP_FRAME_METHOD, "reading a frame");
    if (frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD)
        return read_delivery(peer, frame.payload.method.decoded);
    bench_check(frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "a confirm");

    const amqp_basic_ack_t *ack = frame.payload.method.decoded;

    note_confirm(peer, ack);
    return (struct amqp_item){.type = AMQP_ITEM_CONFIRM, .tag = ack->delivery_tag};
}
