// SPDX-License-Identifier: Apache-2.0
/*
 * Internal parts of the simulator's bus
 *
 *     bus.c          queues, deliveries, links
 *     bus_publish.c  routing of publishes, and their outcomes
 *     bus_alarm.c    a broker that is out of memory or disk
 *     bus_wipe.c     a broker that loses all data, or all transient messages
 */
#pragma once

#include "bus/bus.h"

struct message {
    struct list link; /* in a queue, or in a link's unacked */
    struct bus_message content;
    struct simqueue *queue;
    int64_t since;   /* when the broker took it */
    uint64_t number; /* its place in the order of arrival in the queue; 0: it has not arrived */
    int64_t expires; /* 0: never */
    bool redelivered;
    bool dead; /* has expired and was dead-lettered */
    /* while it is unacknowledged */
    int64_t handed; /* when it was delivered */
    struct simconsumer *consumer;
    struct bus_delivery delivery;
};

struct simqueue {
    struct simqueue *next;
    struct simbus *bus;
    const char *name;
    bool dead_letters;
    uint64_t taken;     /* messages, in all */
    uint64_t delivered; /* number of the last one that was delivered */
    bool deleted;
    bool wiped; /* deleted with all others; daemons declare it again when they start */
    struct list messages;
    uint32_t n;
    uint32_t kept; /* taken, but not in the list yet */
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
    uint32_t restarts;
    bool forgets;
    struct list held; /* publishes that wait for the end of the alarm */
    struct event alarm_end;
    const struct simbus_watch *watch; /* NULL: none */
};

/* One publish of a process that has no outcome yet. */
struct publish {
    struct list link;
    struct simlink *sender;
    struct bus_message content;
    uint64_t id;
    bool sent;
    bool taken;    /* by the broker, into a queue */
    bool waits;    /* for the end of an alarm, to be sent (again) */
    int64_t wired; /* when it was sent on this connection */
    bool judged;   /* whether `closes` is drawn */
    bool closes;   /* the broker closes the connection over it */
    int closings;  /* how often it did; then the sender gives the publish up */
    bool passed;   /* a later publish to the same place was confirmed */
};

/* A message or an answer on its way to or from the broker. */
struct wire {
    struct event event;
    struct simlink *link;
    uint64_t epoch;
    uint32_t wipes;    /* of the broker, when it was sent */
    uint32_t restarts; /* likewise */
    uint64_t taken;    /* of the queue, when it was sent */
    struct publish *publish;
    enum bus_outcome outcome;
    struct message *message;
};

static inline const char *text(const char *s)
{
    return s ? s : "";
}

/* ---- bus.c ---- */

/* How long a message that is sent now takes. */
int64_t simbus_delay(const struct simbus *bus);

/* A message that @link sends or gets on its present connection; @link may be NULL. */
struct wire *simbus_wire(struct simbus *bus, struct simlink *link, void (*fire)(struct event *));

/* Adds to @d for whom it is and on which connection. */
uint64_t simbus_wire_digest(const struct wire *w, uint64_t d);

/* A connection keeps the order in each direction; the next connection is independent of a lost one.
 * */
uint64_t simbus_lane(const struct simlink *link, bool to_process);

struct message *simbus_message(struct simbus *bus, const struct bus_message *content);

/* The message was lost with its queue, or could not be put into it. */
void simbus_drop(struct simbus *bus, const struct message *m);

/* Puts it at the end of the queue, or at its front. */
void simqueue_add(struct simqueue *q, struct message *m, bool front);

void simlink_deliver(struct simlink *link, struct message *m, int source);

uint64_t simbus_content_digest(const struct bus_message *m);
uint64_t simbus_message_digest(const struct message *m);

/* ---- bus_publish.c ---- */

/* Sends it to the broker, or sends it again. */
void simlink_send(struct publish *p);

/* The same on another connection; refuses a message that is bound to the one before. */
void simlink_send_again(struct publish *p);

/* The broker has read the message. */
void simbus_arrive(const struct wire *w, const struct bus_message *m);

/* The connection is lost: no confirm can come. */
void simlink_forget_confirms(struct simlink *link);

uint64_t simbus_publish_digest(const struct publish *p);

/* ---- bus_alarm.c ---- */

bool simbus_alarmed(const struct simbus *bus);

/* A publish during an alarm: the broker reads it after the alarm. */
void simbus_hold(struct simbus *bus, struct wire *w);

/* ---- bus_wipe.c ---- */

/* The process has connected: the queues that it declares exist again if the broker had lost them.
 * */
void simlink_declare(struct simlink *link);

/* The same for a queue that is about to be used, if its user may declare it. */
void simqueue_declare(struct simqueue *q);
