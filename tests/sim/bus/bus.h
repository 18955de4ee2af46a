// SPDX-License-Identifier: Apache-2.0
/*
 * The simulator's bus: the part of RabbitMQ that Drover uses, and what io/bus/bus.h promises
 *
 * Queues with a prefetch for each consumer, unacknowledged deliveries that come back with the
 * redelivered flag, expiration with dead-lettering to drover.expired, mandatory returns, confirms
 * that come later. A link is the connection of one process. When it is lost, confirms and
 * acknowledgements are lost with it, and publishes without an outcome are sent again on the next
 * one, as io/bus/bus.h promises.
 *
 * Faults, by rate: messages are lost, doubled or kept for long; publishes are refused, confirmed
 * late or never, or not read while the broker raises an alarm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "model/effect.h"
#include "world/timeline.h"

struct simbus;
struct simqueue;

/* Rates are in millionths of the messages. */
struct simbus_faults {
    uint32_t lost;
    uint32_t doubled;
    uint32_t kept;
    uint32_t refused;
    uint32_t withheld;   /* the confirm comes late, on a connection that stays up */
    uint32_t never;      /* of these: it never comes */
    uint32_t closed;     /* the broker closes the connection over it, each time */
    uint32_t alarm;      /* the broker reads no publishes for a while, this one included */
    int64_t kept_ms;     /* maximum */
    int64_t withheld_ms; /* maximum */
    int64_t alarm_ms;
    int64_t delay_ms; /* of everything on the network, maximum */
};

struct simlink_callbacks {
    void (*on_delivery)(void *ctx, const struct bus_delivery *d, const char *type);
    void (*on_outcome)(void *ctx, uint64_t id, enum bus_outcome outcome);
    void (*on_send)(void *ctx,
                    const struct bus_message *m);  /* called before each time it is sent */
    void (*on_unconfirmed)(void *ctx);             /* a confirm is missing: closes the connection */
    void (*on_lost)(void *ctx, const char *actor); /* a message to it was returned */
};

#define SIMLINK_CONSUMERS 8

struct simconsumer {
    struct simqueue *queue;
    int source;
    uint32_t prefetch; /* 0: no limit */
    uint32_t unacked;
};

/* The connection of one process; a part of the process. */
struct simlink {
    struct simbus *bus;
    const char *name;
    const char *direct; /* its direct reply-to address, once it has asked for one */
    const struct simlink_callbacks *callbacks;
    void *ctx;
    const int64_t *held_until; /* see struct event */
    int64_t clock;             /* the monotonic time of the process, less that of the world */
    uint64_t epoch;
    uint64_t last_handle;
    bool open;    /* the process is alive */
    bool up;      /* connected */
    bool paused;  /* wants no deliveries */
    bool blocked; /* has been told of an alarm: sends nothing */
    bool
        daemon; /* declares all exchanges and queues of Drover; others declare those they consume */
    bool eager; /* see struct event; of what reaches the process */
    int direct_source;
    struct simconsumer consumers[SIMLINK_CONSUMERS];
    uint32_t n_consumers;
    struct list unacked;
    struct list publishes; /* without an outcome */
    struct event patience; /* until a confirm is missing, where confirms may be late */
    int64_t heard;         /* when it last got a confirm */
    int64_t held_up;       /* until then by an alarm */
};

/* @forgets: messages that are `cached` are transient */
struct simbus *simbus_new(struct timeline *t, const struct simbus_faults *faults, bool forgets);

/* Of all queues and links. */
uint64_t simbus_digest(const struct simbus *bus);

/* Begins an alarm, which ends after @lasts ms. There must be none. */
void simbus_alarm(struct simbus *bus, int64_t lasts);

/* The broker restarts without any data; the caller then loses all links. */
void simbus_wipe(struct simbus *bus);

/* The broker restarts without its transient messages; the caller has lost all links. */
void simbus_restart(struct simbus *bus);

/* Callbacks about messages. */
struct simbus_watch {
    /* The broker has taken or refused it; its sender does not know yet. @lost: the message was
     * lost. */
    void (*published)(void *ctx, const struct bus_message *m, enum bus_outcome outcome, bool lost);
    /* It has left the queue of an actor for a consumer. */
    void (*delivered)(void *ctx, const struct bus_message *m);
    /* It was lost with its queue; @delivered: it was delivered, and not acknowledged. */
    void (*dropped)(void *ctx, const struct bus_message *m, bool delivered);
    void *ctx;
};

/* @watch is kept, not copied. */
void simbus_watch(struct simbus *bus, const struct simbus_watch *watch);

/* Finds or creates it. @dead_letters: messages that expire in it go to drover.expired. */
struct simqueue *simbus_queue(struct simbus *bus, const char *name, bool dead_letters);

/* Deletes a queue: until it is restored, messages to it are dropped, and mandatory ones returned.
 * */
void simqueue_delete(struct simqueue *queue);
void simqueue_restore(struct simqueue *queue);
uint32_t simqueue_messages(const struct simqueue *queue);
/* Includes messages that the queue has taken and that are not in it yet: RabbitMQ has confirmed
 * them. */
uint32_t simqueue_taken(const struct simqueue *queue);
uint32_t simqueue_consumers(const struct simqueue *queue);

/* Opens a link; the caller has set name, callbacks, ctx, held_until and clock. */
void simlink_open(struct simlink *link, struct simbus *bus);
void simlink_consume(struct simlink *link, struct simqueue *queue, int source, uint32_t prefetch);
bool simlink_consumes(const struct simlink *link, const struct simqueue *queue);
void simlink_publish(struct simlink *link, const struct bus_message *m, uint64_t id);
void simlink_ack(struct simlink *link, uint64_t handle);
void simlink_requeue(struct simlink *link, uint64_t handle);
void simlink_want(struct simlink *link, bool deliveries);

/* The body of an unacknowledged delivery, and whether it was redelivered; NULL: no such delivery.
 * */
const struct bus_delivery *simlink_delivery(const struct simlink *link, uint64_t handle);

/* How long the broker has had it, in ms; 0: no such delivery. */
int64_t simlink_age(const struct simlink *link, uint64_t handle);

/* How long it has been delivered to this link. */
int64_t simlink_held(const struct simlink *link, uint64_t handle);

/* Whether another message of the same queue contains @text, so that it will have the effects that
 * the process @by was told of @at: a message that is redelivered, or one that this process has had
 * since before that. A copy that was never delivered has none of these effects. */
bool simlink_other_copy(const struct simlink *link, uint64_t handle, const char *text,
                        const char *by, int64_t at);

/* The connection breaks, and is there again after @back_after ms. */
void simlink_lose(struct simlink *link, int64_t back_after);

/* The process has ended. */
void simlink_close(struct simlink *link);
