// SPDX-License-Identifier: Apache-2.0
/*
 * Link: one connection to the broker, from the first attempt to the last
 *
 * A link is a state machine that the loop drives. It connects, logs in, has its role set the
 * channel up, and serves; when anything fails it drops the connection and begins anew after a
 * pause. Nothing blocks: a method that waits for an answer is a call, and other messages travel
 * while it is under way.
 *
 *     WAITING -> CONNECTING -> GREETING -> LOGIN -> SETUP -> UP -> CLOSING -> ENDING -> ENDED
 *        ^__________|____________|___________|________|______|______|
 *
 * Functions return 0 or an enum link_error; the text for people is then in link->why. Only the link
 * itself drops its connection, when such an error has come back to it: nothing that a role calls
 * does. Used by the bus alone.
 */
#pragma once

#include <uv.h>

#include "base/rng.h"
#include "io/bus/bus.h"
#include "io/bus/frame.h"
#include "io/bus/headers.h"
#include "io/bus/message.h"
#include "io/hosts.h"
#include "io/stream.h"

#define LINK_CHANNEL 1      /* everything goes over this one ... */
#define LINK_SIDE_CHANNEL 2 /* ... but what the broker may refuse without harm to the rest */
#define LINK_WHY_LEN 1024

enum link_error {
    LINK_E_LOST = 1, /* the connection is gone or useless: connect again */
    LINK_E_REFUSED,  /* the broker said no: the same, but a person should know */
    LINK_E_DONE,     /* nothing went wrong: the link has ended */
    LINK_E_SILENT,   /* as LINK_E_LOST, and the host says nothing, or reads nothing, any more */
};

struct link;

/* What distinguishes the two links. */
struct link_role {
    const char *name;                /* behind that of the connection */
    int (*setup)(struct link *link); /* logged in: make the calls that set the channel up */
    int (*send)(struct link *link);  /* up: send what can be sent */
    bool (*idle)(struct link *link); /* nothing is left to do; asked after send() */
    int (*method)(struct link *link, amqp_method_number_t method, const void *arguments);
    int (*deliver)(struct link *link, const amqp_basic_deliver_t *deliver);
    void (*returned)(struct link *link, int64_t serial);
    void (*lost)(struct link *link); /* the connection is gone, with all its tags */
    /* The broker has refused what setup() asked for, and link->why says how. Return: whether the
     * next setup() asks for something else, so that it is tried at once and not reported. */
    bool (*adapt)(struct link *link);
};

/* The queues that are declared. */
struct link_queues {
    bool quorum; /* their type */
    bool kept;   /* as there are some of this type */
};

enum link_state {
    LINK_NEW,
    LINK_WAITING,    /* before the next attempt */
    LINK_CONNECTING, /* name, socket */
    LINK_GREETING,   /* the broker is to say connection.start */
    LINK_LOGIN,      /* ... and connection.tune, and connection.open-ok */
    LINK_SETUP,      /* the calls of role->setup() are to be answered */
    LINK_UP,
    LINK_CLOSING, /* the broker is to say connection.close-ok */
    LINK_ENDING,  /* there is no connection any more; libuv still has something of it */
    LINK_ENDED,
};

struct link {
    const struct bus_config *config;
    struct link_queues *queues; /* both links have the same */
    const struct link_role *role;
    void (*changed)(void *owner); /* something came, or the state is another */
    void *owner;
    uv_loop_t *loop;
    uv_timer_t timer; /* the pause, or how long an answer may take */
    uv_timer_t tick;  /* heartbeats and confirms are looked after */
    uv_timer_cb on_timer;
    uv_timer_cb on_tick;

    const struct hosts *hosts; /* in each round all are tried, and then comes a pause */
    size_t first_host;         /* of a round, as hosts_place() counts */
    size_t hosts_tried;        /* in this round */
    unsigned rounds_failed;    /* since it was last connected */
    unsigned attempts;         /* to connect to a host, in all */
    unsigned pauses;           /* since a connection lasted */
    const struct host *silent; /* lost the last connection by silence: is left out of a round */
    bool refused;              /* by a host of this round, which is reported if all fail */
    uint32_t known[HOSTS_MAX]; /* a hash of why each could not be connected to, as logged last */
    const struct host *host;   /* the present one */
    char user[256];            /* as which it logs in there */
    bool overdue;              /* the timer has run out once */
    enum link_state state;
    bool closing; /* to end once nothing is left to do */
    struct stream *stream;
    unsigned streams; /* of which libuv still has something */
    struct buf in;    /* half a frame */
    struct buf out;   /* whole frames, to be written together */
    size_t frame_max; /* as agreed with the broker */
    amqp_pool_t pool; /* arguments of the method that is being read */
    struct assembly assembly;
    struct list calls; /* over LINK_CHANNEL, struct call, oldest first */
    struct {
        bool open;                                    /* the channel, or about to be */
        int (*done)(struct link *link, bool refused); /* NULL: no calls are under way */
        struct list calls;
    } side;
    int64_t heartbeat_ms; /* as agreed with the broker */
    int64_t wrote_at;     /* ms of the loop: the last byte to the broker */
    unsigned quiet_ticks; /* since the last byte from the broker */
    unsigned full_ticks;  /* since the broker has read anything of what waits */
    size_t unsent;        /* bytes that waited for it at the last tick */

    bool blocked;           /* by an alarm at the broker */
    uint16_t close_method;  /* of class basic: over which the broker closed the channel; or 0 */
    bool closed_over;       /* the broker closed the connection, perhaps over a message */
    bool closed_over_queue; /* ... over a method of the class queue */
    bool not_found;         /* the last refusal was that a queue or exchange does not exist */
    char why[LINK_WHY_LEN]; /* of the last error */
    char reported[LINK_WHY_LEN]; /* of the last loss or refusal; "" for none */
    char refusal[LINK_WHY_LEN];  /* of the last refusal */
    uint64_t connects;
    uint64_t refusals;      /* that are reported: of whole rounds */
    uint64_t n_refused;     /* all refusals, each host of a round counted */
    int64_t peer_expiry;    /* of the certificates of the last broker; 0 for none */
    int64_t up_since;       /* ms of the loop; 0: this connection was never up */
    struct rng rng;         /* for the jitter of pauses */
    struct list deliveries; /* struct incoming, complete: the owner takes them, and ... */
    struct list settled;    /* ... messages whose outcome is known */
};

/* Prepares a link. @config is kept. Return: 0 or -errno. */
int link_init(struct link *link, uv_loop_t *loop, const struct bus_config *config,
              const struct link_role *role, void (*changed)(void *owner), void *owner);

/* Begins to connect to one of @hosts, which are kept; where one cannot be reached the next one is
 * tried, and after all of them comes the pause. */
void link_start(struct link *link, const struct hosts *hosts);

/* Sends what can be sent, and ends the link if that is wanted and nothing is left to do. */
void link_pass(struct link *link);

/* Ends the link once nothing is left to do; link_abandon() at once. `changed` runs when it has
 * LINK_ENDED. */
void link_end(struct link *link);
void link_abandon(struct link *link);

/* Frees what an ended link holds; its two timers are the owner's to close. */
void link_deinit(struct link *link);

/* --- for roles --- */

/* Records why (printf format). Return: @error. */
int link_fail(struct link *link, enum link_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a method that the broker should not send now. */
int link_fail_out_of_place(struct link *link, amqp_method_number_t method);

/* A call was answered. @arguments: of the method that answers. Return: 0 or link_error. */
typedef int (*link_answered)(struct link *link, const void *arguments);

/**
 * link_call() - send a method that the broker answers
 * @answer:   the method that answers it
 * @answered: may be NULL
 * @what:     printf format, for the text of an error
 *
 * Calls over a channel are answered in order; they need not wait for each other. If the broker
 * closes LINK_CHANNEL instead, the link loses its connection.
 */
int link_call(struct link *link, uint16_t channel, amqp_method_number_t method, void *arguments,
              amqp_method_number_t answer, link_answered answered, const char *what, ...)
    __attribute__((format(printf, 7, 8)));

/* Whether calls over LINK_SIDE_CHANNEL can begin now. */
bool link_side_is_free(const struct link *link);

/* Begins calls over LINK_SIDE_CHANNEL, which the broker may refuse without harm to the rest. The
 * caller makes at least one; @done runs after the last answer, or with the refusal, of which
 * link->why tells. */
int link_side_begin(struct link *link, int (*done)(struct link *link, bool refused));

/* Reports a refusal to the owner; the link goes on. */
void link_report_refused(struct link *link);

/* Appends a method, or a message, to the frames that the next link_flush() writes. */
int link_put_method(struct link *link, amqp_method_number_t method, void *arguments);
int link_put_message(struct link *link, amqp_basic_publish_t *publish,
                     amqp_basic_properties_t *properties, struct bytes body);

/* Writes all that was put, as one. */
int link_flush(struct link *link);

/* Whether the socket has no room for more: frames that are written now wait in the stream. */
bool link_is_full(const struct link *link);

/* Has the role's send() called after @ms at most, although nothing comes by then. */
void link_tick_within(struct link *link, int64_t ms);

/* --- among the files of the link, each of which calls only those above it in this list --- */

/* link_calls.c: (re)starts the timer, if an answer is to come; else stops it. */
void link_await(struct link *link);

/* What the oldest call was to do; NULL: there is none. */
const char *link_awaited(const struct link *link);

/* Whether a method answers the oldest call over LINK_CHANNEL; then, that it has. */
bool link_is_answer(const struct link *link, amqp_method_number_t method);
int link_take_answer(struct link *link, const void *arguments);

/* Takes a method over LINK_SIDE_CHANNEL. */
int link_side_method(struct link *link, amqp_method_number_t method, const void *arguments);

void link_drop_calls(struct link *link);

/* The broker has closed LINK_CHANNEL; or the connection, or a channel, over @what. */
int link_fail_channel_closed(struct link *link, const amqp_channel_close_t *close);
int link_fail_closed(struct link *link, const char *what, int code, amqp_bytes_t words);

/* The verdict on what the functions of frame.h and login.h return. */
int link_check_put(struct link *link, int r);

/* link_input.c: how long a link may be left alone, in ms: heartbeats, and what its role looks
 * after, are due by then. */
int64_t link_tick_ms(const struct link *link);

/* Takes bytes from the broker. */
int link_input(struct link *link, struct bytes data);
