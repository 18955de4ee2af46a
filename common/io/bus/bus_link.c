// SPDX-License-Identifier: Apache-2.0
/*
 * Link: one connection to the broker and the thread that drives it
 *
 * The thread connects, has its role set the channel up, and then goes round: read every frame that
 * is there, take what the loop handed over, send, hand over what came, lend the link to the loop,
 * or wait. When anything fails it drops the connection and begins anew after a pause.
 *
 * bus.c starts, wakes and closes it; the other files of the bus report errors to it.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/bus/bus_internal.h"

/*
 * A stranger's header may hold an array in an array in ..., as deep as a frame has room for at 5
 * bytes a level. The library decodes each by calling itself, which took 80 to 160 bytes on x86-64;
 * what the process' limit gives a thread may be less than that in all. Only what is touched costs.
 */
#define THREAD_STACK ((size_t)16 << 20)
static_assert(THREAD_STACK > (size_t)BUS_FRAME_MAX / 5 * 600, "the deepest header can be decoded");

/* --- errors ----------------------------------------------------------------------------------- */

int link_fail(struct link *link, enum link_error error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(link->why, sizeof(link->why), format, arguments);
    va_end(arguments);
    return (int)error;
}

int link_check(struct link *link, const char *what, int status)
{
    if (status >= 0)
        return 0;
    return link_fail(link, LINK_E_LOST, "%s: %s", what, amqp_error_string2(status));
}

/* The broker's words; what it says while it goes down is no refusal. */
static int fail_closed(struct link *link, const char *what, int code, amqp_bytes_t words)
{
    bool down = code == AMQP_CONNECTION_FORCED || code == AMQP_INTERNAL_ERROR;

    return link_fail(link, down ? LINK_E_LOST : LINK_E_REFUSED, "%s: %d %.*s", what, code,
                     (int)words.len, (const char *)words.bytes);
}

static int fail_reply(struct link *link, const char *what, amqp_rpc_reply_t reply)
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        return link_check(link, what, reply.library_error);
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = reply.reply.decoded;

        link->closed_over = close->reply_code != AMQP_CONNECTION_FORCED;
        return fail_closed(link, what, close->reply_code, close->reply_text);
    }
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = reply.reply.decoded;

        return fail_closed(link, what, close->reply_code, close->reply_text);
    }
    return link_fail(link, LINK_E_LOST, "%s: no answer", what);
}

int link_check_reply(struct link *link, const char *what, amqp_rpc_reply_t reply)
{
    int r = reply.reply_type == AMQP_RESPONSE_NORMAL ? 0 : fail_reply(link, what, reply);

    amqp_maybe_release_buffers(link->amqp);
    return r;
}

int link_check_rpc(struct link *link, const char *what)
{
    return link_check_reply(link, what, amqp_get_rpc_reply(link->amqp));
}

int link_aside(struct link *link, int (*call)(struct link *link, const void *what),
               const void *what, bool *refused)
{
    amqp_channel_close_ok_t ok = {0};
    int r;

    amqp_channel_open(link->amqp, BUS_SIDE_CHANNEL);
    r = link_check_rpc(link, "channel");
    if (r)
        return r;
    r = call(link, what);
    *refused = r == LINK_E_REFUSED;
    if (*refused)
        return link_check(
            link, "channel",
            amqp_send_method(link->amqp, BUS_SIDE_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok));
    if (r)
        return r;
    return link_check_reply(link, "channel",
                            amqp_channel_close(link->amqp, BUS_SIDE_CHANNEL, AMQP_REPLY_SUCCESS));
}

/* --- towards the loop ------------------------------------------------------------------------- */

static void report_up(struct link *link)
{
    struct bus *bus = link->bus;

    pthread_mutex_lock(&bus->lock);
    link->shared.up = true;
    link->shared.connects++;
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
}

static void report_down(struct link *link, bool refused)
{
    struct bus *bus = link->bus;

    pthread_mutex_lock(&bus->lock);
    link->shared.up = false;
    link->shared.blocked = false;
    link->shared.pulse = false;
    link->shared.refusals += refused;
    memcpy(link->shared.why, link->why, sizeof(link->why));
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
}

void link_report_refused(struct link *link)
{
    struct bus *bus = link->bus;

    pthread_mutex_lock(&bus->lock);
    link->shared.refusals++;
    memcpy(link->shared.why, link->why, sizeof(link->why));
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
}

void link_set_blocked(struct link *link, bool blocked)
{
    struct bus *bus = link->bus;

    link->blocked = blocked;
    pthread_mutex_lock(&bus->lock);
    link->shared.blocked = blocked;
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
}

bool link_hand_over(struct link *link)
{
    struct bus *bus = link->bus;

    if (list_empty(&link->deliveries) && list_empty(&link->settled))
        return false;
    pthread_mutex_lock(&bus->lock);
    list_move_all(&bus->deliveries, &link->deliveries);
    list_move_all(&bus->settled, &link->settled);
    pthread_mutex_unlock(&bus->lock);
    return true;
}

static void hand_over(struct link *link)
{
    if (link_hand_over(link))
        uv_async_send(&link->bus->async);
}

void link_take_orders(struct link *link)
{
    pthread_mutex_lock(&link->bus->lock);
    link->closing = link->shared.closing;
    link->abandon = link->shared.abandon;
    link->shared.wanted = false;
    link->role->fetch(link);
    pthread_mutex_unlock(&link->bus->lock);
}

bool link_should_end(struct link *link)
{
    return link->abandon || (link->closing && link->role->idle(link));
}

/* --- waiting ---------------------------------------------------------------------------------- */

void link_busy(struct link *link)
{
    if (!link->in_loop)
        atomic_store(&link->busy_since, clock_monotonic_ms());
}

short link_wait(struct link *link, int fd, short events, int64_t timeout_ms)
{
    struct pollfd fds[] = {
        {.fd = link->wake, .events = POLLIN},
        {.fd = fd, .events = events},
    };
    uint64_t nudges;

    atomic_store(&link->busy_since, 0);
    if (poll(fds, array_size(fds), timeout_ms < INT32_MAX ? (int)timeout_ms : INT32_MAX) <= 0)
        return 0;
    if (fds[0].revents && read(link->wake, &nudges, sizeof(nudges)) < 0)
        assert(errno == EAGAIN);
    return fds[1].revents;
}

/* The pause before the next attempt; less where the link is to end. */
static void back_off(struct link *link, unsigned attempt)
{
    const struct bus_config *config = &link->bus->config;
    int64_t most = config->reconnect_max_ms;
    int64_t pause = attempt < 20 ? (int64_t)config->reconnect_min_ms << attempt : most;
    int64_t until;

    if (pause > most)
        pause = most;
    /* From half of it to all, so that a fleet does not come back in step. */
    pause -= (int64_t)rng_below(&link->rng, (uint64_t)pause / 2 + 1);
    until = clock_monotonic_ms() + pause;
    for (;;) {
        int64_t left = until - clock_monotonic_ms();

        link_take_orders(link);
        if (left <= 0 || link_should_end(link))
            return;
        link_wait(link, -1, 0, left);
    }
}

/* --- one connection ------------------------------------------------------------------------- */

static int link_open(struct link *link)
{
    int r = link_connect(link);

    if (r)
        return r;
    amqp_channel_open(link->amqp, BUS_CHANNEL);
    r = link_check_rpc(link, "channel");
    if (r)
        return r;
    r = topology_ensure(link);
    if (r)
        return r;
    return link->role->ready(link);
}

/* Drops the connection; politely where the broker still listens. */
static void link_close(struct link *link, bool politely)
{
    struct bus *bus = link->bus;

    if (link->amqp && politely && !link->blocked)
        amqp_connection_close(link->amqp, AMQP_REPLY_SUCCESS);
    if (link->amqp)
        amqp_destroy_connection(take(link->amqp));
    pthread_mutex_lock(&bus->lock);
    if (link->shared.fd >= 0)
        close(link->shared.fd);
    link->shared.fd = -1;
    pthread_mutex_unlock(&bus->lock);
    frame_reset(link);
    send_forget(link);
    link->blocked = false;
    link->role->lost(link);
    hand_over(link);
}

/* --- frames ----------------------------------------------------------------------------------- */

static int on_connection_method(struct link *link, const amqp_method_t *method)
{
    const amqp_connection_close_t *close = method->decoded;

    switch (method->id) {
    case AMQP_CONNECTION_BLOCKED_METHOD:
        link_set_blocked(link, true);
        return 0;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        link_set_blocked(link, false);
        return 0;
    case AMQP_CONNECTION_CLOSE_METHOD: {
        amqp_connection_close_ok_t ok = {0};
        int r = fail_closed(link, "connection closed by the broker", close->reply_code,
                            close->reply_text);

        link->closed_over = close->reply_code != AMQP_CONNECTION_FORCED;
        amqp_send_method(link->amqp, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
        return r;
    }
    default:
        return link_fail(link, LINK_E_LOST, "broker sent %s out of place",
                         amqp_method_name(method->id));
    }
}

static int on_channel_close(struct link *link, const amqp_channel_close_t *close)
{
    amqp_channel_close_ok_t ok = {0};
    int r = fail_closed(link, "channel closed by the broker", close->reply_code, close->reply_text);

    if (close->class_id == AMQP_BASIC_CLASS)
        link->close_method = close->method_id;
    amqp_send_method(link->amqp, BUS_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    return r;
}

static int on_method(struct link *link, const amqp_frame_t *frame)
{
    const amqp_method_t *method = &frame->payload.method;
    struct assembly *assembly = &link->assembly;

    if (frame->channel == 0)
        return on_connection_method(link, method);
    if (method->id == AMQP_CHANNEL_CLOSE_METHOD)
        return on_channel_close(link, method->decoded);
    if (assembly->kind != ASSEMBLY_NONE)
        return link_fail(link, LINK_E_LOST, "broker sent %s within a message",
                         amqp_method_name(method->id));
    switch (method->id) {
    case AMQP_BASIC_DELIVER_METHOD:
        assembly->kind = ASSEMBLY_DELIVERY;
        return link->role->deliver(link, method->decoded);
    case AMQP_BASIC_RETURN_METHOD:
        assembly->kind = ASSEMBLY_RETURN;
        return 0;
    default:
        return link->role->method(link, method);
    }
}

static int on_frame(struct link *link, const amqp_frame_t *frame)
{
    switch (frame->frame_type) {
    case AMQP_FRAME_METHOD:
        return on_method(link, frame);
    case AMQP_FRAME_HEADER:
        return frame_header(link, frame);
    case AMQP_FRAME_BODY:
        return frame_body(link, frame);
    default: /* heartbeats, which the library has seen to */
        return 0;
    }
}

/* The socket may be silent while the library holds what was read along with an answer. */
static bool holds_frames(const struct link *link)
{
    return amqp_frames_enqueued(link->amqp) || amqp_data_in_buffer(link->amqp);
}

int link_drain(struct link *link)
{
    const struct timeval now = {0};

    for (;;) {
        amqp_frame_t frame;
        int r = amqp_simple_wait_frame_noblock(link->amqp, &frame, &now);

        if (r == AMQP_STATUS_TIMEOUT)
            return 0;
        r = link_check(link, "connection lost", r);
        if (!r)
            r = on_frame(link, &frame);
        if (r)
            return r;
        amqp_maybe_release_buffers(link->amqp); /* or the library's memory only grows */
        if (link->in_loop && !holds_frames(link))
            return 0; /* what is still in the socket shows itself: there are others to serve */
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

int64_t link_idle_ms(const struct link *link)
{
    const struct bus_config *config = &link->bus->config;
    const int64_t beat_ms = (int64_t)config->heartbeat_s * 1000 / 2;

    return beat_ms < config->confirm_ms ? beat_ms : config->confirm_ms;
}

static int link_serve(struct link *link)
{
    const int64_t idle_ms = link_idle_ms(link);

    for (;;) {
        int r;

        link_busy(link);
        r = send_flush(link); /* what the socket had no room for while the loop had it */
        if (!r)
            r = link_drain(link);
        if (r)
            return r;
        link_take_orders(link);
        r = link->role->send(link);
        hand_over(link);
        if (r)
            return r;
        if (link_should_end(link))
            return LINK_E_DONE;
        if (link_lend(link))
            r = link_await_return(link);
        else if (!holds_frames(link))
            link_wait(link, link->shared.fd, POLLIN, idle_ms);
        if (r)
            return r;
    }
}

/* One connection from its beginning to its end. Return: link_error. */
static int link_live(struct link *link, int64_t *up_since)
{
    int r;

    link->close_method = 0;
    link->closed_over = false;
    *up_since = 0;
    r = link_open(link);
    if (!r) {
        report_up(link);
        *up_since = clock_monotonic_ms();
        log_info("bus_connected", LOG_S("link", link->role->name));
        r = link_serve(link);
    }
    link_take_orders(link);
    /* An attempt that fails as the one before is no news. */
    if (!link_should_end(link) && (*up_since || strcmp(link->why, link->shared.why) != 0))
        log_warn("bus_disconnected", LOG_S("link", link->role->name), LOG_S("why", link->why));
    link_close(link, r == LINK_E_DONE && !link->abandon);
    report_down(link, r == LINK_E_REFUSED);
    return r;
}

static void *link_main(void *context)
{
    struct link *link = context;
    struct bus *bus = link->bus;
    unsigned attempt = 0;

    link_take_orders(link);
    while (!link_should_end(link)) {
        int64_t up_since;

        if (link_live(link, &up_since) == LINK_E_DONE)
            break;
        /* A connection that lasted was a good one: the next pause is short again. */
        if (up_since && clock_monotonic_ms() - up_since > bus->config.reconnect_max_ms)
            attempt = 0;
        back_off(link, attempt++);
    }
    pthread_mutex_lock(&bus->lock);
    link->shared.ended = true;
    pthread_mutex_unlock(&bus->lock);
    uv_async_send(&bus->async);
    return NULL;
}

int link_init(struct link *link, struct bus *bus, const struct link_role *role)
{
    link->bus = bus;
    link->role = role;
    link->shared.fd = -1;
    list_init(&link->deliveries);
    list_init(&link->settled);
    link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->wake < 0)
        return -errno;
    return rng_seed_system(&link->rng);
}

int link_start(struct link *link)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    int r;

    r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    /* Signals are the loop thread's; a new thread inherits the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_attr_setstacksize(&attributes, THREAD_STACK);
    if (!r)
        r = pthread_create(&link->thread, &attributes, link_main, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (r)
        return -r;
    pthread_setname_np(link->thread, link->role->name);
    return 0;
}

void link_deinit(struct link *link)
{
    assert(!link->amqp && list_empty(&link->deliveries) && list_empty(&link->settled));
    buf_deinit(&link->out);
    if (link->wake >= 0)
        close(link->wake);
}

void link_wake(struct link *link)
{
    const uint64_t one = 1;

    if (write(link->wake, &one, sizeof(one)) < 0)
        assert(errno == EAGAIN); /* full of nudges */
}

void link_shutdown(struct link *link)
{
    if (link->shared.fd >= 0)
        shutdown(link->shared.fd, SHUT_RDWR);
}
