// SPDX-License-Identifier: Apache-2.0
/*
 * The simulator's bus: RabbitMQ's part of the topology, and the promises of io/bus/bus.h
 *
 * Queues with per-consumer prefetch, unacknowledged deliveries that come back with the redelivered
 * flag, expiration with dead-lettering to drover.expired, mandatory returns, confirms that come
 * later. A link is the connection of one process; when it is lost, confirms and acks go with it,
 * and what has no outcome is sent again on the next one, as io/bus/bus.h promises.
 *
 * Faults, by rate: messages are lost, doubled, or kept for long, publishes refused, not confirmed
 * for long, or not read while the broker raises an alarm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "model/effect.h"
#include "timeline.h"

struct simbus;
struct simqueue;

/* Rates in millionths of the messages. */
struct simbus_faults {
    uint32_t lost;
    uint32_t doubled;
    uint32_t kept;
    uint32_t refused;
    uint32_t owed;   /* confirms that do not come for long, on a connection that stays up */
    uint32_t never;  /* of these: that never do */
    uint32_t closed; /* over which the broker closes the connection, each time that they come */
    uint32_t alarm;  /* the broker reads no publishes for a while, this one included */
    int64_t kept_ms; /* at most this long */
    int64_t owed_ms; /* likewise */
    int64_t alarm_ms;
    int64_t delay_ms; /* of everything that crosses the net, at most */
};

struct simlink_callbacks {
    void (*on_delivery)(void *ctx, const struct bus_delivery *d, const char *type);
    void (*on_outcome)(void *ctx, uint64_t id, enum bus_outcome outcome);
    void (*on_send)(void *ctx, const struct bus_message *m); /* it leaves now, maybe once more */
    void (*on_unconfirmed)(void *ctx); /* a confirm is missing: the connection is to be lost */
};

#define SIMLINK_CONSUMERS 8

struct simconsumer {
    struct simqueue *queue;
    int source;
    uint32_t prefetch; /* 0: no bound */
    uint32_t unacked;
};

/* One process's connection; embedded in the process. */
struct simlink {
    struct simbus *bus;
    const char *name;
    const char *direct; /* its address of direct reply-to, once it has asked for one */
    const struct simlink_callbacks *callbacks;
    void *ctx;
    const int64_t *held_until; /* see struct event */
    int64_t clock;             /* the process's monotonic time less ours */
    uint64_t epoch;
    uint64_t last_handle;
    bool open;    /* the process lives */
    bool up;      /* connected */
    bool paused;  /* wants no deliveries */
    bool blocked; /* has heard of an alarm: sends nothing */
    bool daemon;  /* declares all that is drover's; others what they consume */
    bool eager;   /* see struct event: of what reaches the process */
    int direct_source;
    struct simconsumer consumers[SIMLINK_CONSUMERS];
    uint32_t n_consumers;
    struct list unacked;
    struct list publishes; /* without an outcome */
    struct event patience; /* with the broker, where it may owe confirms */
    int64_t heard;         /* when it confirmed something last */
    int64_t held_up;       /* until then by an alarm */
};

struct simbus *simbus_new(struct timeline *t, const struct simbus_faults *faults);

/* Of all queues and links. */
uint64_t simbus_digest(const struct simbus *bus);

/* An alarm begins, and there is none yet; ends by itself after @lasts ms. */
void simbus_alarm(struct simbus *bus, int64_t lasts);

/* The broker begins anew, with nothing; the caller has all links lost then. */
void simbus_wipe(struct simbus *bus);

/* Told what becomes of messages. */
struct simbus_watch {
    /* The broker has taken or refused it, before its sender knows; @lost: it went astray then. */
    void (*published)(void *ctx, const struct bus_message *m, enum bus_outcome outcome, bool lost);
    /* It has left the queue of an actor for a consumer. */
    void (*delivered)(void *ctx, const struct bus_message *m);
    /* It went with its queue; @delivered: somebody has had it, and not acknowledged it. */
    void (*dropped)(void *ctx, const struct bus_message *m, bool delivered);
    void *ctx;
};

/* @watch is kept, not copied. */
void simbus_watch(struct simbus *bus, const struct simbus_watch *watch);

/* Found or made. @dead_letters: what expires in it goes to drover.expired. */
struct simqueue *simbus_queue(struct simbus *bus, const char *name, bool dead_letters);

/* A deleted queue: messages are dropped, mandatory ones returned, until it is there again. */
void simqueue_delete(struct simqueue *queue);
void simqueue_restore(struct simqueue *queue);
uint32_t simqueue_messages(const struct simqueue *queue);
/* With those that it has taken and keeps: RabbitMQ confirms what stands in the queue. */
uint32_t simqueue_taken(const struct simqueue *queue);
uint32_t simqueue_consumers(const struct simqueue *queue);

/* Opens a link; name, callbacks, ctx, held_until and clock are set by the caller. */
void simlink_open(struct simlink *link, struct simbus *bus);
void simlink_consume(struct simlink *link, struct simqueue *queue, int source, uint32_t prefetch);
void simlink_publish(struct simlink *link, const struct bus_message *m, uint64_t id);
void simlink_ack(struct simlink *link, uint64_t handle);
void simlink_requeue(struct simlink *link, uint64_t handle);
void simlink_want(struct simlink *link, bool deliveries);

/* The body of an unacknowledged delivery, and whether it was a redelivery; NULL where there is none
 * of this handle. */
const struct bus_delivery *simlink_delivery(const struct simlink *link, uint64_t handle);

/* For how long the broker has had it, ms; 0 where there is none. */
int64_t simlink_age(const struct simlink *link, uint64_t handle);

/* ... and this link. */
int64_t simlink_held(const struct simlink *link, uint64_t handle);

/* True where @text stands in another message of the same queue that leads to what @by was told @at:
 * one that is delivered again, or that this one has had since before that. A copy that nobody had
 * yet leads to nothing of it. */
bool simlink_other_copy(const struct simlink *link, uint64_t handle, const char *text,
                        const char *by, int64_t at);

/* The connection breaks, and is there again after a while. */
void simlink_lose(struct simlink *link, int64_t back_after);

/* The process is gone. */
void simlink_close(struct simlink *link);
