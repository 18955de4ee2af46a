// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the simulator's bus
 *
 *     bus.c          queues, what is delivered from them, links
 *     bus_publish.c  where a publish goes, and how its sender hears of that
 *     bus_alarm.c    a broker that is out of memory or disk
 *     bus_wipe.c     a broker that loses all it had
 */
#pragma once

#include "bus.h"

struct message {
    struct list link; /* in a queue, or in a link's unacked */
    struct bus_message content;
    struct simqueue *queue;
    int64_t since;   /* when the broker took it */
    uint64_t number; /* in its queue, by when it came there; 0: it has not */
    int64_t expires; /* 0: never */
    bool redelivered;
    bool dead; /* expired, and was dead-lettered */
    /* while it is unacknowledged */
    int64_t handed; /* when it left for its consumer */
    struct simconsumer *consumer;
    struct bus_delivery delivery;
};

struct simqueue {
    struct simqueue *next;
    struct simbus *bus;
    const char *name;
    bool dead_letters;
    uint64_t taken;     /* messages, ever */
    uint64_t delivered; /* of these, the last one that was */
    bool deleted;
    bool wiped; /* deleted with all others: declared anew by whoever would at its start */
    struct list messages;
    uint32_t n;
    uint32_t kept; /* taken, to be in the list later */
    struct simlink *consumers[16];
    uint32_t n_consumers;
    uint32_t turn;
    struct event expiry;
};

struct simbus {
    struct timeline *t;
    const struct simbus_faults *faults;
    struct simqueue *queues;
    struct simlink *links[64];
    uint32_t n_links;
    uint32_t wipes;
    struct list held; /* what waits for the end of the alarm ... */
    struct event alarm_end;
    const struct simbus_watch *watch; /* NULL: nobody does */
};

/* One publish of a process, until it has an outcome. */
struct publish {
    struct list link;
    struct simlink *sender;
    struct bus_message content;
    uint64_t id;
    bool sent;
    bool taken;    /* by the broker, to a queue */
    bool waits;    /* for the end of an alarm, to be sent (again) */
    int64_t wired; /* when it was sent on this connection */
    bool judged;   /* whether the broker closes the connection over it: */
    bool closes;   /* it does ... */
    int closings;  /* ... so many times so far; then its sender gives it up */
    bool passed;   /* one that was sent after it, to the same place, is confirmed */
};

/* Something on its way: to the broker, or back. */
struct wire {
    struct event event;
    struct simlink *link;
    uint64_t epoch;
    uint32_t wipes; /* of the broker, when it set out */
    uint64_t taken; /* by the queue, likewise */
    struct publish *publish;
    enum bus_outcome outcome;
    struct message *message;
};

static inline const char *text(const char *s)
{
    return s ? s : "";
}

/* ---- bus.c ---- */

/* How long the net takes for what crosses it now. */
int64_t simbus_delay(const struct simbus *bus);

/* Something that @link sends or hears, on the connection that it has; @link may be NULL. */
struct wire *simbus_wire(struct simbus *bus, struct simlink *link, void (*fire)(struct event *));

/* Of what it is, @d, for whom, and on which connection. */
uint64_t simbus_wire_digest(const struct wire *w, uint64_t d);

/* A connection keeps order, each way; one that is lost has nothing to do with the next. */
uint64_t simbus_lane(const struct simlink *link, bool to_process);

struct message *simbus_message(struct simbus *bus, const struct bus_message *content);

/* A message that was in a queue, or was to be, is gone with it. */
void simbus_drop(struct simbus *bus, const struct message *m);

/* At the end of the queue, or at its front. */
void simqueue_add(struct simqueue *q, struct message *m, bool front);

void simlink_deliver(struct simlink *link, struct message *m, int source);

uint64_t simbus_content_digest(const struct bus_message *m);
uint64_t simbus_message_digest(const struct message *m);

/* ---- bus_publish.c ---- */

/* To the broker, once more where it was sent before. */
void simlink_send(struct publish *p);

/* The broker has read it. */
void simbus_arrive(const struct wire *w, const struct bus_message *m);

/* No confirm is waited for any more: the connection is gone. */
void simlink_forget_confirms(struct simlink *link);

uint64_t simbus_publish_digest(const struct publish *p);

/* ---- bus_alarm.c ---- */

bool simbus_alarmed(const struct simbus *bus);

/* A publish that has come while there is one: arrives when it is over. */
void simbus_hold(struct simbus *bus, struct wire *w);

/* ---- bus_wipe.c ---- */

/* Its process has a connection: what it declares is there, if the broker has lost it. */
void simlink_declare(struct simlink *link);

/* Likewise a queue that somebody is about to use, and may declare. */
void simqueue_declare(struct simqueue *q);
