// SPDX-License-Identifier: Apache-2.0
/*
 * Link, receiving: cuts frames into methods and messages, and changes the state of the link
 *
 * See io/bus/link.h. Called by link.c and the fuzz target frames.
 */
#include <errno.h>

#include "base/log.h"
#include "io/bus/link.h"
#include "io/bus/login.h"

static void go_up(struct link *link)
{
    link->state = LINK_UP;
    link->connects++;
    link->refused = false; /* another host was good */
    link->peer_expiry = link->stream ? stream_peer_expiry(link->stream) : 0;
    link->up_since = (int64_t)uv_now(link->loop);
    link_await(link);
    log_info("bus_connected", LOG_S("link", link->role->name), LOG_S("host", link->host->name),
             LOG_I("port", link->host->port));
}

/* Up once all calls of the setup are answered. */
static void check_setup(struct link *link)
{
    if (link->state == LINK_SETUP && list_empty(&link->calls) && !link->side.done)
        go_up(link);
}

static void set_blocked(struct link *link, bool blocked)
{
    link->blocked = blocked;
    link_await(link); /* while it is blocked the broker reads nothing, and answers nothing */
}

/* The user as which the link logs in: that of its certificate, which SIGHUP may have changed since,
 * or that of the settings. */
static void note_user(struct link *link)
{
    const bool external = link->config->external && link->stream;

    snprintf(link->user, sizeof(link->user), "%s",
             external ? stream_own_name(link->stream) : link->config->user);
}

static int on_start(struct link *link, const struct frame *frame)
{
    struct frame_start start;
    int r;

    if (link->state != LINK_GREETING || frame_decode_start(frame, &start) < 0)
        return link_fail_out_of_place(link, AMQP_CONNECTION_START_METHOD);
    link->state = LINK_LOGIN;
    note_user(link);
    link_await(link);
    r = login_start_ok(&link->out, link->config, link->role->name, &start);
    if (r == -ENOTSUP)
        return link_fail(link, LINK_E_REFUSED, "login: the broker does not offer %s, but %.*s",
                         login_mechanism(link->config), (int)start.mechanisms.len,
                         (const char *)start.mechanisms.data);
    return link_check_put(link, r);
}

int64_t link_tick_ms(const struct link *link)
{
    int64_t beat_ms = link->heartbeat_ms / 2;

    return beat_ms < link->config->confirm_ms ? beat_ms : link->config->confirm_ms;
}

void link_tick_within(struct link *link, int64_t ms)
{
    const int64_t usual = link_tick_ms(link);

    if (ms < usual)
        uv_timer_start(&link->tick, link->on_tick, (uint64_t)ms, (uint64_t)usual);
}

static int on_tune(struct link *link, const amqp_connection_tune_t *tune)
{
    struct login_limits agreed;
    int r;

    if (tune->frame_max != 0 && tune->frame_max < FRAME_MIN)
        return link_fail(link, LINK_E_LOST, "login: broker wants frames of at most %u bytes",
                         tune->frame_max);
    r = login_open(&link->out, link->config, tune, &agreed);

    link->frame_max = agreed.frame_max;
    link->heartbeat_ms = (int64_t)agreed.heartbeat_s * 1000;
    uv_timer_start(&link->tick, link->on_tick, (uint64_t)link_tick_ms(link),
                   (uint64_t)link_tick_ms(link));
    link_await(link);
    return link_check_put(link, r);
}

static int on_opened(struct link *link)
{
    amqp_channel_open_t open = {0};
    int r;

    link->state = LINK_SETUP;
    r = link_call(link, LINK_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &open, AMQP_CHANNEL_OPEN_OK_METHOD,
                  NULL, "channel");
    link_await(link);
    return r ? r : link->role->setup(link);
}

/* Class 0 is no method, as when a process of the broker has crashed. */
static bool may_be_a_message(const amqp_connection_close_t *close)
{
    return close->reply_code != AMQP_CONNECTION_FORCED &&
           (close->class_id == 0 || close->class_id == AMQP_BASIC_CLASS);
}

static int on_connection_close(struct link *link, const amqp_connection_close_t *close)
{
    const char *what = link->state < LINK_SETUP ? "login" : "connection closed by the broker";
    amqp_connection_close_ok_t ok = {0};

    link->closed_over = may_be_a_message(close);
    link->closed_over_queue = close->class_id == AMQP_QUEUE_CLASS;
    frame_put_method(&link->out, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    link_flush(link); /* out of courtesy; the connection ends in any case */
    return link_fail_closed(link, what, close->reply_code, close->reply_text);
}

static int on_connection_method(struct link *link, amqp_method_number_t method,
                                const void *arguments)
{
    if (method == AMQP_CONNECTION_TUNE_METHOD && link->state == LINK_LOGIN)
        return on_tune(link, arguments);
    if (method == AMQP_CONNECTION_OPEN_OK_METHOD && link->state == LINK_LOGIN && link->heartbeat_ms)
        return on_opened(link);
    if (method == AMQP_CONNECTION_CLOSE_OK_METHOD && link->state == LINK_CLOSING)
        return LINK_E_DONE;
    switch (method) {
    case AMQP_CONNECTION_BLOCKED_METHOD:
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        set_blocked(link, method == AMQP_CONNECTION_BLOCKED_METHOD);
        return 0;
    case AMQP_CONNECTION_CLOSE_METHOD:
        return on_connection_close(link, arguments);
    default:
        return link_fail_out_of_place(link, method);
    }
}

static int on_channel_method(struct link *link, amqp_method_number_t method, const void *arguments)
{
    if (method == AMQP_CHANNEL_CLOSE_METHOD)
        return link_fail_channel_closed(link, arguments);
    if (link->assembly.kind != ASSEMBLY_NONE)
        return link_fail_out_of_place(link, method);
    if (link_is_answer(link, method))
        return link_take_answer(link, arguments);
    switch (method) {
    case AMQP_BASIC_DELIVER_METHOD:
        link->assembly.kind = ASSEMBLY_DELIVERY;
        return link->role->deliver(link, arguments);
    case AMQP_BASIC_RETURN_METHOD:
        link->assembly.kind = ASSEMBLY_RETURN;
        return 0;
    default:
        return link->role->method(link, method, arguments);
    }
}

/* Whether the bus reads such a method. The arguments of these have no tables, and so none that the
 * library would decode by calling itself. */
static bool is_known(amqp_method_number_t method)
{
    static const amqp_method_number_t known[] = {
        AMQP_BASIC_ACK_METHOD,
        AMQP_BASIC_CANCEL_METHOD,
        AMQP_BASIC_CONSUME_OK_METHOD,
        AMQP_BASIC_DELIVER_METHOD,
        AMQP_BASIC_GET_EMPTY_METHOD,
        AMQP_BASIC_NACK_METHOD,
        AMQP_BASIC_QOS_OK_METHOD,
        AMQP_BASIC_RETURN_METHOD,
        AMQP_CHANNEL_CLOSE_METHOD,
        AMQP_CHANNEL_OPEN_OK_METHOD,
        AMQP_CONFIRM_SELECT_OK_METHOD,
        AMQP_CONNECTION_BLOCKED_METHOD,
        AMQP_CONNECTION_CLOSE_METHOD,
        AMQP_CONNECTION_CLOSE_OK_METHOD,
        AMQP_CONNECTION_OPEN_OK_METHOD,
        AMQP_CONNECTION_TUNE_METHOD,
        AMQP_CONNECTION_UNBLOCKED_METHOD,
        AMQP_EXCHANGE_BIND_OK_METHOD,
        AMQP_EXCHANGE_DECLARE_OK_METHOD,
        AMQP_QUEUE_BIND_OK_METHOD,
        AMQP_QUEUE_DECLARE_OK_METHOD,
    };

    for (size_t i = 0; i < array_size(known); i++)
        if (known[i] == method)
            return true;
    return false;
}

static int on_method(struct link *link, const struct frame *frame)
{
    amqp_method_number_t method = frame_method(frame);
    void *arguments;

    if (method == AMQP_CONNECTION_START_METHOD && frame->channel == 0)
        return on_start(link, frame);
    if (!is_known(method) || frame_decode(frame, &link->pool, &arguments) < 0)
        return link_fail_out_of_place(link, method);
    if (frame->channel == 0)
        return on_connection_method(link, method, arguments);
    if (link->state < LINK_SETUP || frame->channel > LINK_SIDE_CHANNEL)
        return link_fail_out_of_place(link, method);
    return frame->channel == LINK_CHANNEL ? on_channel_method(link, method, arguments)
                                          : link_side_method(link, method, arguments);
}

/* @r: of message_header() or message_body(). */
static int check_content(struct link *link, int r)
{
    struct assembly *a = &link->assembly;

    if (r == -ENOMEM)
        return link_fail(link, LINK_E_LOST, "out of memory for a delivery");
    if (r < 0)
        return link_fail(link, LINK_E_LOST, "broker sent a part of a message out of place");
    if (r == 0)
        return 0;
    if (a->incoming)
        list_append(&link->deliveries, &take(a->incoming)->node);
    else
        link->role->returned(link, a->serial);
    message_reset(a);
    return 0;
}

static int on_frame(struct link *link, const struct frame *frame)
{
    struct assembly *a = &link->assembly;
    bool content = frame->type == AMQP_FRAME_HEADER || frame->type == AMQP_FRAME_BODY;

    if (content && frame->channel != LINK_CHANNEL)
        return link_fail(link, LINK_E_LOST, "broker sent a part of a message out of place");
    switch (frame->type) {
    case AMQP_FRAME_METHOD:
        return on_method(link, frame);
    case AMQP_FRAME_HEADER:
        return check_content(link,
                             message_header(a, frame->payload, link->config->max_message_bytes));
    case AMQP_FRAME_BODY:
        return check_content(link, message_body(a, frame->payload));
    case AMQP_FRAME_HEARTBEAT:
        return 0;
    default:
        return link_fail(link, LINK_E_LOST, "broker sent a frame of an unknown type");
    }
}

static int take_frames(struct link *link, struct bytes *in)
{
    struct frame frame;
    int r;

    while ((r = frame_cut(in, link->frame_max, &frame)) == 1) {
        r = on_frame(link, &frame);
        recycle_amqp_pool(&link->pool);
        if (r)
            return r;
    }
    return r < 0 ? link_fail(link, LINK_E_LOST, "broker sent what is no frame") : 0;
}

/* Keeps the half of a frame that is left; @in may point into link->in. */
static int keep_rest(struct link *link, struct bytes in, bool kept)
{
    if (kept) {
        memmove(link->in.data, in.data, in.len);
        link->in.len = in.len;
    } else {
        buf_append(&link->in, in.data, in.len);
    }
    return link->in.failed ? link_fail(link, LINK_E_LOST, "out of memory for a frame") : 0;
}

int link_input(struct link *link, struct bytes data)
{
    bool kept = link->in.len > 0;
    struct bytes in = data;
    const char *fault = link->state == LINK_GREETING && !kept ? login_fault(data) : NULL;
    int r;

    if (fault)
        return link_fail(link, LINK_E_REFUSED, "login: %s", fault);
    if (kept) {
        buf_append(&link->in, data.data, data.len);
        in = buf_bytes(&link->in);
    }
    r = take_frames(link, &in);
    if (r)
        return r;
    check_setup(link);
    return keep_rest(link, in, kept);
}
