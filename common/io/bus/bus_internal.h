// SPDX-License-Identifier: Apache-2.0
/*
 * Bus, inside: what its files share
 *
 *     bus.c            the loop's side: callbacks, hand-over, close
 *     bus_link.c       one connection and the thread that drives it
 *     bus_lend.c       ... and that lends it to the loop for as long as nothing can block
 *     bus_connect.c    how it comes about
 *     bus_frame.c      messages put together from frames
 *     bus_send.c       messages and methods taken apart into frames
 *     bus_topology.c   exchanges and queues
 *     bus_publisher.c  the publishing link: confirms, returns, alarms
 *     bus_direct.c     its messages to direct reply-to
 *     bus_consumer.c   the consuming link: deliveries, acks
 *
 * A link is driven by its own thread, or by the loop while that has it. No other thread touches it,
 * except for its struct link_shared and the hand-over lists of struct bus, which are under
 * bus->lock. A thread tells the loop with uv_async_send(), the loop tells a thread with an eventfd;
 * both only mean "check again".
 *
 * Functions of links return 0 or an enum link_error; the text for people is then in link->why.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/id.h"
#include "base/list.h"
#include "base/rng.h"
#include "io/bus/bus.h"
#include "io/bus/rabbitmq.h"

#define BUS_CHANNEL 1        /* everything goes over this one ... */
#define BUS_SIDE_CHANNEL 2   /* ... but what the broker may refuse without harm to the rest */
#define BUS_FRAME_MAX 131072 /* bytes, the broker's default */
#define BUS_WHY_LEN 256
#define BUS_TRACE_HEADER "traceparent"
#define BUS_JOB_HEADER "drover-job"
#define BUS_STEP_HEADER "drover-step"
#define BUS_DEATH_HEADER "x-first-death-reason" /* set by the broker */
#define BUS_RESENT_HEADER "drover-resent"
#define BUS_SERIAL_HEADER "drover-publish" /* names a mandatory message in its basic.return */
#define BUS_PULSE_EXCHANGE "drover.pulse"
#define BUS_PULSE_KEY_LEN (sizeof(BUS_PULSE_EXCHANGE) + ID_TOKEN_LEN) /* "drover.pulse.<token>" */

enum link_error {
    LINK_E_LOST = 1, /* the connection is gone or useless: connect again */
    LINK_E_REFUSED,  /* the broker said no: the same, but a person should know */
    LINK_E_DONE,     /* nothing went wrong: the link was asked to end */
};

/* A message on its way out. It is in bus->open from bus_publish() until its outcome was reported,
 * and with @node in one of the other lists of messages. */
struct outgoing {
    struct list node;
    struct list open;
    uint64_t id;     /* the caller's */
    uint64_t serial; /* ours, from 1, below 2^53 */
    uint64_t tag;    /* of the publish on the current channel */
    int64_t since;   /* CLOCK_MONOTONIC ms of bus_publish() */
    int64_t wired;   /* likewise of when it was sent on this connection */
    bool passed;     /* one that was sent after it, to the same place, is confirmed */
    bool sent;       /* or begun to be, on any connection */
    bool resent;     /* ... and this is not the first time */
    bool returned;
    bool in_doubt; /* was on the wire when the broker closed over a publish ... */
    int closings;  /* ... the connection, so many times */
    enum bus_outcome outcome;
    char *isolated; /* why the broker closed over it, again and again; NULL: it did not; owned */
    struct bus_message message; /* points into text */
    char text[];
};

/* A delivery on its way in. */
struct incoming {
    struct list node;
    bool pulse;                   /* ours, not the role's */
    struct bus_delivery delivery; /* points into text */
    char *body;                   /* where delivery.body is filled from */
    char text[];
};

/* A message between its method frame and its last body frame. */
struct assembly {
    enum {
        ASSEMBLY_NONE,
        ASSEMBLY_DELIVERY,
        ASSEMBLY_RETURN, /* only its serial matters */
    } kind;
    bool headed;   /* the header frame was there */
    uint64_t left; /* bytes of body still to come */
    uint64_t handle;
    int source;
    bool redelivered;
    bool pulse;
    char actor[ID_NAME_MAX + 1]; /* see struct bus_delivery */
    struct incoming *incoming;   /* a delivery, once headed; of its body ... */
    size_t stored;               /* ... so many bytes are there */
};

/* What the loop sees of a link. Under bus->lock. */
struct link_shared {
    int fd;       /* a dup of the socket, to shut it down with; -1 where not connected */
    bool closing; /* end when nothing is left to do */
    bool abandon; /* end now */
    bool ended;   /* the thread is about to return */
    bool lent;    /* the thread waits for the loop to have done with it */
    bool wanted;  /* the loop wants the thread to take orders before it lends again */
    int came_to;  /* link_error with which the loop gave it back; or 0 */
    bool up;
    bool blocked;
    bool pulse; /* pulses are consumed */
    uint64_t connects;
    uint64_t refusals;
    char why[BUS_WHY_LEN]; /* of the last loss or refusal */
};

struct link;

/* What distinguishes the two links. fetch() is called under bus->lock, the others are not; all by
 * the thread, or the loop, that has the link. */
struct link_role {
    const char *name;                 /* of the thread, and behind that of the connection */
    int (*ready)(struct link *link);  /* connected, topology there: set the channel up */
    void (*fetch)(struct link *link); /* fetch what the loop handed over */
    int (*send)(struct link *link);   /* send what can be sent */
    bool (*idle)(struct link *link);  /* nothing left to do; asked after send() */
    bool (*waits)(struct link *link); /* send() would make calls that wait for the broker */
    int (*method)(struct link *link, const amqp_method_t *method);
    int (*deliver)(struct link *link, const amqp_basic_deliver_t *deliver);
    void (*returned)(struct link *link, uint64_t serial);
    void (*lost)(struct link *link); /* the connection is gone, with all its tags */
};

struct link {
    struct bus *bus;
    const struct link_role *role;
    pthread_t thread;
    int wake; /* eventfd */
    struct link_shared shared;

    /* CLOCK_MONOTONIC ms since when the thread may be stuck in a call; 0: it is not. */
    _Atomic int64_t busy_since;

    bool in_loop; /* the loop has the link: changed by it, and only while the thread waits */

    /* The loop's own. */
    uv_poll_t *poll;     /* the socket, while it has the link ... */
    uint64_t room_until; /* ... and until when, in ms of the loop, it is known to take something */

    /* From here on: of the thread, or the loop, that has the link. */
    amqp_connection_state_t amqp;
    bool closing; /* as last seen */
    bool abandon;
    bool blocked;          /* by an alarm at the broker */
    uint16_t close_method; /* of class basic: over which the broker closed the channel; or 0 */
    bool closed_over;      /* the broker closed the connection, over something that it read */
    char why[BUS_WHY_LEN]; /* of the last error */
    struct assembly assembly;
    struct buf out;         /* whole frames, to be written; of them ... */
    size_t written;         /* ... so many bytes are */
    bool full;              /* the socket takes no more, and the loop does not wait for it */
    struct list deliveries; /* complete, to be handed over with ... */
    struct list settled;    /* ... messages whose outcome is known */
    struct rng rng;         /* for the jitter of reconnects */
};

/* A question about a queue, on its way there and back. Under bus->lock. */
#define BUS_QUEUE_MAX 255 /* bytes of a name, in AMQP */

struct inspection {
    char queue[BUS_QUEUE_MAX + 1]; /* "": nothing asked */
    uint64_t serial;               /* they count up; an answer to an earlier one is none */
    bool answered;
    uint32_t messages;
    uint32_t consumers;
    bus_inspect_cb cb;
    void *ctx;
};

/* Messages to addresses of direct reply-to (bus_direct.c). */
struct direct {
    struct list known;   /* nodes that have taken one */
    struct list shunned; /* nodes and senders, for which nothing is sent for a while */
};

struct publisher {
    struct link link;
    struct list handed;  /* from the loop; under bus->lock */
    struct list waiting; /* to be sent, in order */
    struct list wire;    /* sent, not confirmed, in order of tags */
    int n_wire;
    uint64_t last_tag;
    bool confirmed;                  /* something was, on this connection */
    int64_t heard;                   /* CLOCK_MONOTONIC ms of the last confirm, pulses aside */
    int64_t held_up;                 /* likewise: until then at least by an alarm */
    char inspect[BUS_QUEUE_MAX + 1]; /* a queue to inspect in this iteration; "": none ... */
    uint64_t inspection_serial;      /* ... of struct inspection */
    struct list actors;              /* whose task queues were seen to on this connection */
    struct direct direct;
};

/* Acks: handles of deliveries, a growing array. */
struct acks {
    uint64_t *handles;
    size_t used;
    size_t size;
};

struct consumer {
    struct link link;
    bool stop;        /* under bus->lock, like the next three */
    bool pulse_again; /* ask for the queue of pulses again, if there is none */
    bool acks_lost;   /* out of memory: have everything delivered again */
    struct acks handed;
    struct acks acks;            /* taken, for the next consumer_send() */
    struct acks handed_requeues; /* under bus->lock, too */
    struct acks requeues;
    bool stopping;    /* `stop` as last seen */
    bool asks_again;  /* `pulse_again` likewise */
    bool stopped;     /* cancelled on this connection */
    uint64_t epoch;   /* of this connection, from 1 */
    uint64_t low;     /* all tags up to here are acknowledged */
    uint64_t high;    /* the last tag delivered */
    uint8_t *tags;    /* ring, state of the tags above low */
    size_t tags_size; /* a power of two */
};

struct bus {
    struct bus_config config;
    struct bus_callbacks callbacks;
    void *ctx;
    struct publisher publisher;
    struct consumer consumer; /* its thread runs only where queues are consumed */

    pthread_mutex_t lock;
    struct list settled;          /* under lock: struct outgoing, from the threads to the loop */
    struct list deliveries;       /* under lock: struct incoming, likewise */
    struct inspection inspection; /* under lock */
    uint64_t last_inspection;     /* serial */
    bool lends;                   /* under lock: links may be lent to the loop */

    /* The loop thread's own from here on. */
    uv_async_t async;       /* a thread has something for us */
    uv_prepare_t flush;     /* runs while something waits to be handed to the threads */
    uv_timer_t watchdog;    /* frees threads that are stuck */
    uv_timer_t close_timer; /* bounds bus_close() */
    uv_timer_t pulse_timer; /* what was refused to pulses is tried again */
    uv_timer_t ack_timer;   /* acks that wait leave */
    int n_handles;          /* of these six, still open */
    struct list pending;    /* struct outgoing, to be handed over at the end of the iteration */
    struct list open;       /* struct outgoing, by their `open` */
    struct acks acks;       /* to be handed over, soon */
    struct acks requeues;   /* to be handed over at the end of the iteration */
    size_t unacked;         /* deliveries that were handed to the role, of which no ack has left */
    bool acks_lost;
    bool acks_due; /* they have waited long enough */
    uint64_t serial;
    char pulse_key[BUS_PULSE_KEY_LEN + 1]; /* read by the consumer's thread, too */
    unsigned pulse_refusals;               /* by the exchange, since one came back */
    struct {
        uint64_t publisher_connects;
        uint64_t consumer_connects;
        uint64_t publisher_refusals;
        uint64_t consumer_refusals;
    } seen; /* at the last check of the links */
    struct bus_stats stats;
    enum {
        BUS_RUNNING,
        BUS_FLUSHING, /* the publisher ends once nothing waits for its confirm */
        BUS_LEAVING,  /* then the consumer, once the last acks are out */
        BUS_JOINED,   /* the threads are gone */
        BUS_CLOSED,
    } state;
    void (*on_closed)(void *ctx);
};

/* Moves all nodes of @from to the end of @to. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* Puts one handle in. Return: 0 or -ENOMEM. */
int acks_push(struct acks *acks, uint64_t handle);

/* Moves all handles of @from behind those of @to. Return: 0, or -ENOMEM and nothing moved. */
int acks_move_all(struct acks *to, struct acks *from);

/* Entries of a field table; texts and tables are referred to, not copied. */
static inline amqp_table_entry_t table_text(const char *key, const char *value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)},
    };
}

static inline amqp_table_entry_t table_number(const char *key, int64_t value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = value},
    };
}

static inline amqp_table_entry_t table_yes(const char *key)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
    };
}

static inline amqp_table_entry_t table_table(const char *key, amqp_table_t value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = value},
    };
}

/* --- bus_link.c --- */

/* Prepares the link; link_start() then runs it. Both return 0 or -errno. */
int link_init(struct link *link, struct bus *bus, const struct link_role *role);
int link_start(struct link *link);
void link_deinit(struct link *link);

/* From any thread: have the link's thread check again. */
void link_wake(struct link *link);

/* Under bus->lock: fails whatever call on the socket the link's thread is in. */
void link_shutdown(struct link *link);

/* Records why (printf format). Return: @error. */
int link_fail(struct link *link, enum link_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The verdict on the library call that was just made; @status is its amqp_status_enum. */
int link_check(struct link *link, const char *what, int status);

/* The same for a synchronous method: its answer, or the answer to the last one. */
int link_check_reply(struct link *link, const char *what, amqp_rpc_reply_t reply);
int link_check_rpc(struct link *link, const char *what);

/* Reads and handles every frame that is there, without waiting; in the loop, all of what one call
 * reads. */
int link_drain(struct link *link);

/* Tells the loop that the broker refused something, the link going on. */
void link_report_refused(struct link *link);

/* Tells the loop whether an alarm at the broker keeps the link from publishing. */
void link_set_blocked(struct link *link, bool blocked);

/* Marks the start of calls that may block; the link's next wait marks the end. */
void link_busy(struct link *link);

/* Makes calls that the broker may refuse without harm to the rest, on a channel of their own.
 * Return: 0, also where it refused, which *refused then tells; or link_error. */
int link_aside(struct link *link, int (*call)(struct link *link, const void *what),
               const void *what, bool *refused);

/* Looks at what the loop wants. */
void link_take_orders(struct link *link);

/* True where the thread has nothing left to do, or must not do it any more. */
bool link_should_end(struct link *link);

/* Waits for @events on @fd (-1: none), a nudge from the loop, or @timeout_ms. Return: the events.
 */
short link_wait(struct link *link, int fd, short events, int64_t timeout_ms);

/* How long it may be left alone, in ms: heartbeats are sent and missed ones noticed within
 * link_drain() only, and missing confirms in publisher_send() only. */
int64_t link_idle_ms(const struct link *link);

/* Hands over what came in since the last time. Return: whether there was anything. */
bool link_hand_over(struct link *link);

/* --- bus_lend.c: the thread's side ... --- */

/* Offers the link to the loop. Return: whether it is lent now. */
bool link_lend(struct link *link);

/* Waits until the loop has done with it. Return: 0 or the link_error it came to. */
int link_await_return(struct link *link);

/* --- ... and the loop's --- */

/* Whether this process' first thread, which is taken for the loop's, can drive links. */
bool link_stack_suffices(void);

/* Takes it, if it is lent. */
void link_take(struct link *link);

/* Has the thread check what it is to do, which has the link again then; @r: link_error, or 0. */
void link_recall(struct link *link, int r);

/* What came in and, the other, what is to go out; a link that the loop has. Both give it back where
 * it cannot go on without waiting. */
void link_drive(struct link *link);
void link_send(struct link *link);

/* Back in bus.c: reports what came, and hands over what that led to. */
void bus_catch_up(struct bus *bus);

/* --- bus_connect.c --- */

/* Connects and logs in; link_close() is due in either case. */
int link_connect(struct link *link);

/* --- bus_frame.c --- */

/* Takes one content frame. Return: 0 or link_error; LINK_E_LOST also if none is expected. */
int frame_header(struct link *link, const amqp_frame_t *frame);
int frame_body(struct link *link, const amqp_frame_t *frame);

/* Forgets half a message. */
void frame_reset(struct link *link);

/* --- bus_send.c --- */

/* Puts a method, or a message, to what is to be sent; nothing of a call need live on.
 * Return: 0 or link_error. */
int send_method(struct link *link, amqp_method_number_t method, void *arguments);
int send_content(struct link *link, amqp_basic_publish_t *publish,
                 amqp_basic_properties_t *properties, struct bytes body);

/* Writes all of it; in the loop, what the socket takes. Return: 0 or link_error. */
int send_flush(struct link *link);

/* Forgets what was to be written: the connection is gone. */
void send_forget(struct link *link);

/* --- bus_topology.c --- */

/* Declares every exchange, queue and binding, or checks that the exchanges and queues are there. */
int topology_ensure(struct link *link);

/* Declares the task queue of an actor on a channel. */
int topology_declare_task(struct link *link, amqp_channel_t channel, const char *actor);

/* Declares a queue of this connection for pulses, on the side channel, and proves that it may be
 * read. */
int topology_declare_pulse(struct link *link, const char *queue);

/* --- bus_direct.c --- */

bool direct_is(const struct outgoing *m);

/* Whether it is not to be sent, as it, or its sender, has cost the connection. @now:
 * CLOCK_MONOTONIC ms. */
bool direct_shuns(struct direct *d, const struct outgoing *m, int64_t now);

/* The broker has taken it; or closes the connection over it, again and again. */
void direct_taken(struct direct *d, const struct outgoing *m);
void direct_closed(struct direct *d, const struct outgoing *m, int64_t now);

void direct_init(struct direct *d);
void direct_deinit(struct direct *d);

/* --- bus_publisher.c, bus_consumer.c --- */

void publisher_init(struct publisher *p);
void publisher_deinit(struct publisher *p);
extern const struct link_role publisher_role;

void consumer_deinit(struct consumer *c);
extern const struct link_role consumer_role;
