// SPDX-License-Identifier: Apache-2.0
/*
 * Bus: RabbitMQ for one process
 *
 * The bus owns two connections: one publishes, the other consumes. The loop drives both. All
 * functions below are called, and all callbacks run, on the thread of the loop; none of them
 * blocks.
 *
 * What the bus promises:
 *  - It keeps a message that bus_publish() has taken until its outcome is known. If a connection is
 *    lost before the confirm has come, the bus sends the message again on the next one. So one
 *    publish can arrive twice; its outcome is reported once. A message whose time is over
 *    (not_after) is not sent again.
 *  - Only bus_ack() acknowledges a delivery. When the consuming connection is lost the broker
 *    delivers again. An ack of a delivery of the lost connection has no effect: its handle has the
 *    epoch of that connection.
 *  - If a confirm does not come in time (confirm_ms), the bus closes the connection and connects
 *    again.
 *  - It reconnects for ever, with capped and jittered backoff, and subscribes again.
 *  - If the broker closes the channel because of a message (the exchange does not exist, or the
 *    user has no right to it), the bus finds that message and refuses it (BUS_NACKED). It sends the
 *    others again.
 *  - If the broker refuses a message to where nothing was confirmed yet on this connection, the bus
 *    sends it on another one, up to three times: that of a process whose node has died may be to
 *    blame. It waits longer each time before it tries this again; where the wait would be longer
 *    than a second, it refuses the message at once (BUS_NACKED).
 *  - If the broker closes the connection because of a message, again and again, the bus reports
 *    that message (on_isolated), refuses it, and never sends it again.
 *  - A connection that is up may be useless: the broker may have forgotten the consumers. A pulse
 *    proves that it works, because it leaves by the publishing connection and comes back by the
 *    consuming one.
 *
 * The order of effects, everywhere: store, then publish (confirmed), then acknowledge.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/str.h"
#include "io/tls.h"
#include "model/effect.h"

struct bus;

/* An exchange and its queue. One transient message is in the queue as long as the broker was not
 * restarted: see supervisor/loss.h. No process consumes it. */
#define BUS_MARKER "drover.marker"

/* Sources of deliveries; the role knows what a source means. */
struct bus_queue {
    const char *name;  /* kept, not copied */
    const char *actor; /* not NULL: its task queue, declared with its dead-lettering; kept */
    int source;        /* handed back with each delivery */
};

#define BUS_HOLD_MS 5000 /* how long a queue that was deleted waits for bus_declare() */

struct bus_config {
    const char *host;        /* for hosts_parse() */
    int port;                /* of the hosts that name none */
    const char *spread;      /* the name of the process: decides in which order it tries hosts */
    bool insecure;           /* clear text may leave this machine */
    bool external;           /* log in by the certificate of @tls, without user and password */
    struct tls_context *tls; /* NULL: in clear text; kept, not copied */
    const char *tls_name;    /* for which the broker must have a certificate; NULL: host; kept */
    const char *vhost;
    const char *user;
    const char *password;
    const char *name;       /* shown by the broker as the connection's name */
    int heartbeat_s;        /* default 10 */
    int connect_timeout_ms; /* default 5000 */
    int reconnect_min_ms;   /* default 100 */
    int reconnect_max_ms;   /* default 2500: a broker that is back is to be used soon */
    uint16_t prefetch;      /* of the consumer */
    bool declare;           /* declare the topology, or only check exchanges and queues */
    bool quorum;            /* type of the queues that are declared ... */
    bool as_found;          /* ... but if there are some of the other type, all have that */
    bool cached;            /* messages that are `cached` are transient in classic queues */
    bool marker;            /* declare BUS_MARKER as well, if queues are classic */
    bool identify;       /* publishes say who has logged in (user_id), which the broker compares */
    int confirm_ms;      /* default 300000: before a publish counts as not confirmed; six
                            times that while others are */
    int max_unconfirmed; /* on the wire at a time, default 1024; the others wait */
    uint32_t max_message_bytes;     /* larger deliveries are handed over cut, with `oversize` set */
    const struct bus_queue *queues; /* to consume; kept, not copied */
    int n_queues;                   /* 0: there is no consuming connection */
    bool direct_reply;  /* also consume amq.rabbitmq.reply-to on the publishing channel ... */
    int direct_source;  /* ... and hand over what arrives with this source; no ack needed */
    bool pulse;         /* consume a queue of its own as well, for bus_pulse() */
    int pulse_again_ms; /* default 60000: how often it asks again for a refused pulse queue */
};

/* Frees a delivery that on_delivery handed over. Returns NULL. */
struct bus_delivery *bus_delivery_free(struct bus_delivery *d);

/* Any may be NULL except on_delivery where queues are consumed. */
struct bus_callbacks {
    void (*on_up)(void *ctx);                       /* both connections ready, topology there */
    void (*on_down)(void *ctx, const char *why);    /* was up, is not; it reconnects by itself */
    void (*on_refused)(void *ctx, const char *why); /* login, vhost or topology refused: a person
                                                       must act; the bus keeps trying */
    void (*on_delivery)(void *ctx, struct bus_delivery *d); /* moves ownership */
    void (*on_outcome)(void *ctx, uint64_t id, enum bus_outcome outcome);
    /* The broker has closed the connection because of this message again and again: the bus does
     * not send it any more. Runs before its on_outcome (BUS_NACKED). @m is valid during the call
     * only. */
    void (*on_isolated)(void *ctx, const struct bus_message *m, const char *why);
    void (*on_blocked)(void *ctx, bool blocked);  /* memory or disk alarm at the broker */
    void (*on_pulse)(void *ctx, int64_t took_us); /* a pulse has come back */
    /* The task queue of an actor was deleted, with all that was in it; or that of replies, then the
     * actor is WIRE_ALL_ACTORS. If config.declare is set the bus declares it only after
     * bus_declare(), or after BUS_HOLD_MS; it is not up before, and messages to the queue wait. */
    void (*on_lost)(void *ctx, const char *actor);
    void (*on_batch_end)(void *ctx); /* all deliveries and outcomes that had come are handed over */
};

struct bus_stats {
    bool up;
    bool blocked;
    bool pulse;        /* what bus_pulse() sends should come back */
    uint64_t connects; /* successful, of both connections */
    uint64_t refused;  /* connections, queues and rights that the broker has refused, and
                          certificates of brokers; a person must change something */
    uint64_t published;
    uint64_t confirmed;
    uint64_t returned;
    uint64_t delivered;
    uint64_t acked;
    uint64_t waiting;           /* in the bus, outcome not known */
    int64_t oldest_unconfirmed; /* age in ms, 0 for none */
    int64_t tls_expiry;         /* when the first certificate of the connections expires, ours or
                                   the broker's, in seconds since 1970; 0 for none */
};

/**
 * bus_new() - create, connect in the background
 * @config: copied except where noted
 * @ctx:    for the callbacks
 *
 * Return: 0 or -errno; being unreachable is not an error here.
 */
int bus_new(struct bus **out, uv_loop_t *loop, const struct bus_config *config,
            const struct bus_callbacks *callbacks, void *ctx);

/**
 * bus_publish() - send a message and learn its outcome (enum bus_outcome, in model/effect.h)
 * @id: the caller's id of the publish, an argument of on_outcome; 0: the outcome is not reported
 *
 * Never blocks and never refuses a message; the caller bounds how many have no outcome yet. A
 * transient message with the id 0 (Progress, step events to a client) is dropped while the broker
 * is away or reads nothing, and not sent again on another connection. Return: 0 or -ENOMEM.
 */
int bus_publish(struct bus *bus, const struct bus_message *m, uint64_t id);

/* Has the bus declare the queue of on_lost, because the loss is recorded. */
void bus_declare(struct bus *bus, const char *actor);

/* What the broker knows of a queue: messages that wait for a consumer, and consumers. */
typedef void (*bus_inspect_cb)(void *ctx, uint32_t messages, uint32_t consumers);

/* Inspects a queue. If the connection is lost the bus asks again on the next one. A queue that does
 * not exist has no messages and no consumers. An inspection that begins while another is under way
 * replaces it. */
void bus_inspect(struct bus *bus, const char *queue, bus_inspect_cb cb, void *ctx);

/* Sends a message from the publishing connection through the broker to the consuming one; on_pulse
 * runs when it arrives. Never acknowledged, and no part of the prefetch. Nothing is sent while
 * stats.pulse is false: the bus is not up, or the broker has refused the queue or the exchange. The
 * bus reports a refusal (on_refused, or the log) and otherwise goes on. It declares the queue and
 * the exchange again every pulse_again_ms, in case a person has mended the rights or the exchange.
 * Return: 0 or -ENOMEM. */
int bus_pulse(struct bus *bus);

#define BUS_ACK_MS 10 /* that an ack waits for others, at most */

/* Acknowledge one delivery. Acks are sent together, `multiple` where that is exact. */
void bus_ack(struct bus *bus, uint64_t handle);

/* Gives one delivery back to its queue, for any consumer, instead of the ack. */
void bus_requeue(struct bus *bus, uint64_t handle);

/* Whether deliveries are wanted, as they are at first. If not (basic.cancel), what was prefetched
 * still arrives or is given back at close. Pulses go on. */
void bus_consume(struct bus *bus, bool wanted);

/**
 * bus_close() - send the waiting messages, then close the connections
 * @on_closed: runs when all is gone, may free the bus; not NULL
 *
 * Outcomes are still reported and acks of the same iteration still sent; deliveries are not handed
 * over any more, the broker gets them back. It takes @timeout_ms at most, also when the broker has
 * stopped reading (but for a name server that does not answer); messages whose outcome is not known
 * then are dropped without one.
 */
void bus_close(struct bus *bus, int timeout_ms, void (*on_closed)(void *ctx));

/* After on_closed, or NULL. Returns NULL. */
struct bus *bus_free(struct bus *bus);

void bus_stats(const struct bus *bus, struct bus_stats *out);

/* Whether the broker loses messages that are `cached` when it restarts. Known while the bus is up.
 */
bool bus_may_lose(const struct bus *bus);

/* Why a connection was lost or refused last, or could not be made; "" for nothing. */
void bus_why(struct bus *bus, char *out, size_t size);
