// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: frames that a broker may send over an open connection
 *
 * The first byte says which link reads them, and whether it is still to log in; the second after
 * how many bytes the link reads each time. Then frames: type, channel, two bytes of length and so
 * much payload; or, if the first byte says so, bytes as they are. The link's own code runs, without
 * a stream: what it sends is lost.
 *
 * The checks: deliveries do not depend on where the bytes were cut, and are within their limits;
 * each message that was to be published has one outcome, or is still there to be sent again. A
 * publisher may leave its connection by itself, to make another one for messages that were refused,
 * and does so between two reads: then fewer deliveries have been read.
 */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/bus/consumer.h"
#include "io/bus/publisher.h"

#define MESSAGES 4
#define BODY_MAX 64 /* longer bodies are delivered cut */
#define FRAME_END 0xce

enum {
    PUBLISHES = 1,
    RAW = 2,
    OPENS = 4, /* the broker is to begin with the login */
    DECLARES = 8,
    PULSES = 16,
};

static const struct bus_queue queues[] = {
    {.name = "drover.submit", .source = 1},
    {.name = "drover.task.x", .actor = "x", .source = 2},
};

static const struct hosts hosts = {.list = {{"127.0.0.1", 1}}, .n = 1};

struct world {
    struct bus_config config;
    struct link_queues queues;
    struct publisher publisher;
    struct consumer consumer;
    struct link *link;   /* of one of them */
    struct buf seen;     /* the deliveries, as text that can be compared */
    unsigned n_messages; /* to be published */
    unsigned n_settled;
    bool left; /* the link has ended the connection when it was to send */
};

static uv_loop_t *loop(void)
{
    static uv_loop_t the_loop;
    static bool there;

    if (!there)
        assert(uv_loop_init(&the_loop) == 0);
    there = true;
    return &the_loop;
}

/* ---- a link without a stream ---- */

static void ignore_change(void *owner)
{
    /* The target looks after each input. */
}

static void add_message(struct world *w, bool mandatory)
{
    struct outgoing *m = or_abort(calloc(1, sizeof(*m)));

    m->serial = ++w->n_messages;
    m->message = (struct bus_message){
        .exchange = "drover.tasks",
        .key = "x",
        .body = bytes_str("body"),
        .actor = mandatory ? "x" : NULL,
        .mandatory = mandatory,
    };
    list_init(&m->open);
    list_append(&w->publisher.waiting, &m->node);
}

static void world_open(struct world *w, unsigned flags)
{
    bool publishes = flags & PUBLISHES;

    *w = (struct world){.config = {
                            .name = "fuzz",
                            .user = "user",
                            .password = "password",
                            .vhost = "/",
                            .heartbeat_s = 10,
                            .connect_timeout_ms = 1000,
                            .max_message_bytes = BODY_MAX,
                            .max_unconfirmed = 3,
                            .confirm_ms = INT_MAX,
                            .queues = queues,
                            .n_queues = array_size(queues),
                            .declare = flags & DECLARES,
                            .pulse = flags & PULSES,
                            .direct_reply = flags & PULSES,
                        }};
    publisher_init(&w->publisher);
    list_init(&w->consumer.actors);
    w->link = publishes ? &w->publisher.link : &w->consumer.link;
    w->link->queues = &w->queues;
    assert(link_init(w->link, loop(), &w->config, publishes ? &publisher_role : &consumer_role,
                     ignore_change, NULL) == 0);
    w->link->hosts = &hosts;
    strcpy(w->consumer.pulse_key, BUS_PULSE_EXCHANGE ".t");
    w->link->frame_max = FRAME_MAX;
    w->link->heartbeat_ms = flags & OPENS ? 0 : 10000;
    w->link->state = flags & OPENS ? LINK_GREETING : LINK_UP;
    for (unsigned i = 0; publishes && i < MESSAGES; i++)
        add_message(w, i % 2 == 0);
}

/* ---- checks ---- */

static void see_delivery(struct world *w, struct bus_delivery *d)
{
    struct consumer *c = &w->consumer;

    assert(d->body.len <= BODY_MAX);
    buf_printf(&w->seen, "%llu %d %d %d %d %s %s %s %s %s %s ", (unsigned long long)d->handle,
               d->source, d->redelivered, d->resent, d->oversize, d->content_type, d->message_id,
               d->correlation_id, d->reply_to, d->user_id, d->traceparent);
    buf_append(&w->seen, d->body.data, d->body.len);
    if (!container_of(d, struct incoming, delivery)->pulse && w->link->role == &consumer_role)
        assert(acks_push(d->handle % 2 ? &c->acks : &c->requeues, d->handle) == 0);
    bus_delivery_free(d);
}

/* As the bus does, and a role that has recorded the loss at once. */
static void allow(struct world *w)
{
    bool publishes = w->link->role == &publisher_role;
    struct list *actors = publishes ? &w->publisher.task_queues.actors : &w->consumer.actors;
    const char *actor;

    while ((actor = actors_in(actors, ACTOR_LOST))) {
        assert(actors_set(actors, actor, ACTOR_MISSING) == 0);
        if (publishes)
            publisher_allow(&w->publisher, actor);
        else
            consumer_allow(&w->consumer, actor);
    }
}

static void see(struct world *w)
{
    struct list *node;

    while ((node = list_pop(&w->link->deliveries)))
        see_delivery(w, &list_entry(node, struct incoming, node)->delivery);
    while ((node = list_pop(&w->link->settled))) {
        free(list_entry(node, struct outgoing, node));
        w->n_settled++;
    }
    allow(w);
}

static unsigned drop(struct list *list)
{
    struct list *node;
    unsigned n = 0;

    for (; (node = list_pop(list)); n++)
        free(list_entry(node, struct outgoing, node));
    return n;
}

static void world_close(struct world *w)
{
    struct publisher *p = &w->publisher;

    link_abandon(w->link);
    see(w);
    assert(w->link->state == LINK_ENDED);
    assert(p->n_wire == 0 && list_empty(&p->wire));
    assert(drop(&p->waiting) + drop(&p->task_queues.held) + w->n_settled == w->n_messages);
    uv_close((uv_handle_t *)&w->link->timer, NULL);
    uv_close((uv_handle_t *)&w->link->tick, NULL);
    uv_run(loop(), UV_RUN_DEFAULT);
    if (w->link->role == &publisher_role)
        publisher_deinit(p);
    else
        consumer_deinit(&w->consumer);
}

/* ---- the broker's data ---- */

static void put_frame(struct buf *out, struct bytes *input)
{
    static const uint8_t types[] = {AMQP_FRAME_METHOD, AMQP_FRAME_HEADER, AMQP_FRAME_BODY,
                                    AMQP_FRAME_HEARTBEAT};
    uint8_t type = types[(fuzz_byte(input) - 1) & 3], channel = fuzz_byte(input);
    size_t wanted = (size_t)fuzz_byte(input) << 8;
    size_t len;

    wanted |= fuzz_byte(input);
    len = wanted < input->len ? wanted : input->len;
    for (const uint8_t *c = (uint8_t[]){type, 0, channel, 0, 0, (uint8_t)(len >> 8), (uint8_t)len},
                       *end = c + 7;
         c < end; c++)
        buf_putc(out, (char)*c);
    buf_append(out, input->data, len);
    buf_putc(out, (char)FRAME_END);
    *input = bytes_of(input->data + len, input->len - len);
}

static void put_frames(struct buf *out, struct bytes input, unsigned flags)
{
    if (flags & RAW) {
        buf_append(out, input.data, input.len);
        return;
    }
    while (input.len > 0)
        put_frame(out, &input);
}

static int send_what_is_due(struct world *w)
{
    int r = w->link->state == LINK_UP ? w->link->role->send(w->link) : 0;

    w->left = r != 0;
    return r ? r : link_flush(w->link);
}

/* Has the link read everything, @cut bytes at a time. */
static void play(struct world *w, struct bytes sent, size_t cut)
{
    int r = send_what_is_due(w);

    while (!r && sent.len > 0) {
        size_t len = sent.len < cut ? sent.len : cut;

        r = link_input(w->link, bytes_of(sent.data, len));
        see(w);
        if (!r)
            r = send_what_is_due(w);
        sent = bytes_of(sent.data + len, sent.len - len);
    }
    assert(r == 0 || (w->link->why[0] && (r == LINK_E_LOST || r == LINK_E_REFUSED)));
}

/* Return: whether the link has ended the connection by itself. */
static bool run(struct bytes sent, size_t cut, unsigned flags, struct buf *seen)
{
    struct world w;

    world_open(&w, flags);
    play(&w, sent, cut);
    world_close(&w);
    *seen = w.seen;
    return w.left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    unsigned flags = fuzz_byte(&input);
    size_t cut = fuzz_byte(&input);
    CLEANUP(buf_deinit) struct buf sent = {0}, whole = {0}, pieces = {0};

    fuzz_begin();
    put_frames(&sent, input, flags);
    run(buf_bytes(&sent), SIZE_MAX, flags, &whole);
    if (cut == 0)
        return 0;
    if (run(buf_bytes(&sent), cut, flags, &pieces))
        whole.len = whole.len < pieces.len ? whole.len : pieces.len;
    assert(bytes_equal(buf_bytes(&whole), buf_bytes(&pieces)));
    return 0;
}
