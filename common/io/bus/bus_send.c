// SPDX-License-Identifier: Apache-2.0
/*
 * Send: methods and messages become frames, which leave together
 *
 * The library encodes, but would make a system call of each frame, and wake the broker with each
 * message. What is put here gathers until send_flush(), or until there is enough of it. What the
 * library itself sends in between, on another channel or as a heartbeat, goes before; never into
 * the middle of a frame, because only whole ones are gathered, and all of it is written before
 * anything else can be done with the socket. The loop, which must not wait, leaves the link with
 * what the socket does not take to the thread.
 *
 * Called by bus_link.c, bus_publisher.c and bus_consumer.c.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "io/bus/bus_internal.h"

#define FRAME_HEAD 7         /* type, channel, length of what follows ... */
#define FRAME_FOOT 1         /* ... up to this */
#define METHOD_ID 4          /* class and method */
#define CONTENT_HEAD 12      /* class, weight, length of the body */
#define METHOD_MAX 1024      /* bytes of a method that is sent: two short texts, and a little */
#define TOGETHER (32 << 10)  /* bytes that leave without waiting for more */
#define OUT_KEPT (512 << 10) /* of memory, from one time to the next */

static uint8_t *put_number(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

/* Room for a frame of up to @room bytes; what it is to hold begins behind its head. */
static uint8_t *frame_begin(struct link *link, size_t room)
{
    return buf_reserve(&link->out, FRAME_HEAD + room + FRAME_FOOT);
}

/* Return: 0 or link_error. */
static int frame_end(struct link *link, uint8_t *frame, uint8_t type, size_t len)
{
    uint8_t *at = put_number(frame, type, 1);

    at = put_number(at, BUS_CHANNEL, 2);
    at = put_number(at, len, 4) + len;
    put_number(at, AMQP_FRAME_END, FRAME_FOOT);
    link->out.len += FRAME_HEAD + len + FRAME_FOOT;
    return link->out.len < TOGETHER || link->full ? 0 : send_flush(link);
}

static int no_memory(struct link *link)
{
    return link_fail(link, LINK_E_LOST, "out of memory for what is to be sent");
}

int send_method(struct link *link, amqp_method_number_t method, void *arguments)
{
    uint8_t *frame = frame_begin(link, METHOD_MAX);
    uint8_t *at;
    int len;

    if (!frame)
        return no_memory(link);
    at = put_number(frame + FRAME_HEAD, method, METHOD_ID);
    len = amqp_encode_method(method, arguments, (amqp_bytes_t){METHOD_MAX - METHOD_ID, at});
    if (len < 0)
        return link_check(link, amqp_method_name(method), len);
    return frame_end(link, frame, AMQP_FRAME_METHOD, METHOD_ID + (size_t)len);
}

static int send_header(struct link *link, amqp_basic_properties_t *properties, size_t body)
{
    size_t room = (size_t)amqp_get_frame_max(link->amqp) - FRAME_HEAD - FRAME_FOOT;
    uint8_t *frame = frame_begin(link, room);
    uint8_t *at;
    int len;

    if (!frame)
        return no_memory(link);
    at = put_number(frame + FRAME_HEAD, AMQP_BASIC_CLASS, 2);
    at = put_number(at, 0, 2);
    at = put_number(at, body, 8);
    len = amqp_encode_properties(AMQP_BASIC_CLASS, properties,
                                 (amqp_bytes_t){room - CONTENT_HEAD, at});
    if (len < 0)
        return link_check(link, "properties", len);
    return frame_end(link, frame, AMQP_FRAME_HEADER, CONTENT_HEAD + (size_t)len);
}

static int send_body(struct link *link, struct bytes body)
{
    size_t room = (size_t)amqp_get_frame_max(link->amqp) - FRAME_HEAD - FRAME_FOOT;
    int r = 0;

    for (size_t len; body.len > 0 && !r; body = bytes_of(body.data + len, body.len - len)) {
        uint8_t *frame;

        len = body.len < room ? body.len : room;
        frame = frame_begin(link, len);
        if (!frame)
            return no_memory(link);
        memcpy(frame + FRAME_HEAD, body.data, len);
        r = frame_end(link, frame, AMQP_FRAME_BODY, len);
    }
    return r;
}

int send_content(struct link *link, amqp_basic_publish_t *publish,
                 amqp_basic_properties_t *properties, struct bytes body)
{
    int r = send_method(link, AMQP_BASIC_PUBLISH_METHOD, publish);

    if (!r)
        r = send_header(link, properties, body.len);
    return r ? r : send_body(link, body);
}

/* Without a bound: the loop's watchdog shuts the socket down where the broker does not read. */
static int await_room(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLOUT};

    return poll(&pollfd, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

void send_forget(struct link *link)
{
    if (link->out.size > OUT_KEPT)
        buf_deinit(&link->out);
    buf_clear(&link->out);
    link->written = 0;
    link->full = false;
}

int send_flush(struct link *link)
{
    int fd = amqp_get_sockfd(link->amqp);

    while (link->written < link->out.len) {
        ssize_t n =
            send(fd, link->out.data + link->written, link->out.len - link->written, MSG_NOSIGNAL);

        if (n >= 0)
            link->written += (size_t)n;
        else if (errno == EAGAIN && link->in_loop) {
            link->full = true;
            return 0;
        } else if (errno != EINTR && (errno != EAGAIN || await_room(fd) < 0))
            return link_fail(link, LINK_E_LOST, "connection lost: %s", strerrordesc_np(errno));
    }
    send_forget(link);
    return 0;
}
