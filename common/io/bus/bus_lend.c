// SPDX-License-Identifier: Apache-2.0
/*
 * Lend: a link that is up and has nothing to wait for is driven by the loop itself
 *
 * Each message that travels between two threads wakes one of them. So the thread connects, declares
 * and asks, all of which wait for the broker, and then lends the link: the loop polls the socket,
 * reads what is there, and writes what the socket takes. What would make it wait, it leaves to the
 * thread: a socket that is full, a queue to be declared or inspected, consumers that stop or start,
 * an error, the end. The thread sees to that, and lends the link again.
 *
 * The library itself sends a heartbeat now and then while it reads, and the answer to a close. It
 * would wait for room; so a link is lent, and kept, only as long as its socket has some.
 *
 * Called by bus_link.c on the thread, and by bus.c on the loop.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "io/bus/bus_internal.h"

/* For the deepest header, as in bus_link.c, with less to spare: what a first thread has by default.
 */
#define LOOP_STACK ((rlim_t)8 << 20)
static_assert(LOOP_STACK > (rlim_t)BUS_FRAME_MAX / 5 * 300, "the deepest header can be decoded");

#define ROOM_MS 1000 /* between two checks whether the socket has room */

bool link_stack_suffices(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= LOOP_STACK;
}

static bool has_room(const struct link *link)
{
    struct pollfd pollfd = {.fd = amqp_get_sockfd(link->amqp), .events = POLLOUT};

    return poll(&pollfd, 1, 0) == 1;
}

/* --- the thread's side ------------------------------------------------------------------------ */

bool link_lend(struct link *link)
{
    struct bus *bus = link->bus;
    bool may = !link->closing && !link->role->waits(link) && has_room(link);
    bool lent;

    pthread_mutex_lock(&bus->lock);
    lent = may && bus->lends && !link->shared.wanted;
    link->shared.lent = lent;
    link->shared.came_to = 0;
    pthread_mutex_unlock(&bus->lock);
    if (lent)
        uv_async_send(&bus->async);
    return lent;
}

int link_await_return(struct link *link)
{
    for (;;) {
        bool lent;
        int r;

        link_wait(link, -1, 0, INT32_MAX);
        pthread_mutex_lock(&link->bus->lock);
        lent = link->shared.lent;
        r = link->shared.came_to;
        pthread_mutex_unlock(&link->bus->lock);
        if (!lent)
            return r;
    }
}

/* --- the loop's side -------------------------------------------------------------------------- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void give_back(struct link *link)
{
    if (link->poll)
        uv_close((uv_handle_t *)take(link->poll), free_handle);
    link->in_loop = false;
}

void link_recall(struct link *link, int r)
{
    struct bus *bus = link->bus;

    if (link->in_loop)
        give_back(link);
    pthread_mutex_lock(&bus->lock);
    link->shared.lent = false;
    link->shared.wanted = true;
    if (r)
        link->shared.came_to = r; /* it stays that, whatever the loop wants besides */
    pthread_mutex_unlock(&bus->lock);
    link_wake(link);
}

static void on_socket(uv_poll_t *handle, int status, int events)
{
    struct link *link = handle->data;

    link_drive(link);
    if (status < 0 && link->in_loop)
        link_recall(link, 0); /* it is polled no more; the thread reads up to the error */
    bus_catch_up(link->bus);
}

/* Return: 0 or -errno. */
static int watch_socket(struct link *link)
{
    uv_poll_t *poll = malloc(sizeof(*poll));
    int r;

    if (!poll)
        return -ENOMEM;
    r = uv_poll_init(link->bus->async.loop, poll, amqp_get_sockfd(link->amqp));
    if (r) {
        free(poll);
        return r;
    }
    poll->data = link;
    link->poll = poll;
    return uv_poll_start(poll, UV_READABLE, on_socket);
}

static bool is_offered(struct link *link)
{
    bool lent;

    if (link->in_loop)
        return false;
    pthread_mutex_lock(&link->bus->lock);
    lent = link->shared.lent;
    pthread_mutex_unlock(&link->bus->lock);
    return lent;
}

void link_take(struct link *link)
{
    if (!is_offered(link))
        return;
    link->in_loop = true;
    link->room_until = 0;
    if (watch_socket(link) < 0) {
        pthread_mutex_lock(&link->bus->lock);
        link->bus->lends = false; /* threads can do without the loop */
        pthread_mutex_unlock(&link->bus->lock);
        link_recall(link, 0);
        return;
    }
    link_drive(link);
    if (link->in_loop)
        link_send(link); /* sends what the loop has handed over meanwhile */
}

void link_drive(struct link *link)
{
    const uint64_t now = uv_now(link->bus->async.loop);
    int r;

    if (!link->in_loop)
        return;
    if (now >= link->room_until) {
        link->room_until = now + ROOM_MS;
        if (!has_room(link)) {
            link_recall(link, 0);
            return;
        }
    }
    r = link_drain(link);
    link_hand_over(link);
    if (r)
        link_recall(link, r);
}

void link_send(struct link *link)
{
    int r;

    link_take_orders(link);
    r = link->role->send(link);
    if (link_hand_over(link))
        uv_async_send(&link->bus->async);
    if (r || link->full || link->role->waits(link))
        link_recall(link, r);
}
