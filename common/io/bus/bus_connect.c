// SPDX-License-Identifier: Apache-2.0
/*
 * Connect: from nothing to a session with the broker
 *
 * The library could open the socket too, but that call could not be interrupted; here a bus that
 * closes gets out at once. The one exception is a name server that does not answer.
 *
 * Called by bus_link.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/bus/bus_internal.h"

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}
static void close_fd_p(const int *fd)
{
    close_fd(*fd);
}

/* As take(), which is for pointers. */
static int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

static void free_addresses(struct addrinfo *addresses)
{
    if (addresses)
        freeaddrinfo(addresses);
}
CLEANUP_DEFINE(struct addrinfo *, free_addresses)

/* Waits until a connection under way is made. Return: 0 or errno. */
static int await_connect(struct link *link, int fd, int64_t deadline)
{
    int error = 0;
    socklen_t len = sizeof(error);

    for (;;) {
        int64_t left = deadline - clock_monotonic_ms();

        if (left <= 0)
            return ETIMEDOUT;
        if (link_wait(link, fd, POLLOUT, left))
            break;
        link_take_orders(link);
        if (link_should_end(link))
            return ECANCELED;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return errno;
    return (int)error;
}

/* Return: a non-blocking connected socket in *out, or errno. */
static int connect_address(struct link *link, const struct addrinfo *address, int64_t deadline,
                           int *out)
{
    int type = address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    CLEANUP(close_fd) int fd = socket(address->ai_family, type, address->ai_protocol);
    int yes = 1;
    int r;

    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) < 0)
        return errno;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
        r = errno == EINPROGRESS ? await_connect(link, fd, deadline) : errno;
        if (r)
            return r;
    }
    *out = take_fd(&fd);
    return 0;
}

/* Return: a connected socket in *out, or link_error. */
static int connect_host(struct link *link, int *out)
{
    const struct bus_config *config = &link->bus->config;
    int64_t deadline = clock_monotonic_ms() + config->connect_timeout_ms;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    CLEANUP(free_addresses) struct addrinfo *addresses = NULL;
    char port[16];
    int r;

    snprintf(port, sizeof(port), "%d", config->port);
    r = getaddrinfo(config->host, port, &hints, &addresses);
    if (r)
        return link_fail(link, LINK_E_LOST, "host %s: %s", config->host, gai_strerror(r));
    for (const struct addrinfo *a = addresses; a; a = a->ai_next) {
        r = connect_address(link, a, deadline, out);
        if (!r)
            return 0;
    }
    return link_fail(link, LINK_E_LOST, "connecting to %s port %d: %s", config->host, config->port,
                     strerrordesc_np(r));
}

/* Makes the socket known to the loop, which may have to shut it down. Return: link_error. */
static int share_socket(struct link *link, int fd)
{
    struct bus *bus = link->bus;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return link_fail(link, LINK_E_LOST, "dup: %s", strerrordesc_np(errno));
    pthread_mutex_lock(&bus->lock);
    link->shared.fd = copy;
    if (link->shared.abandon)
        link_shutdown(link);
    pthread_mutex_unlock(&bus->lock);
    return 0;
}

static int open_socket(struct link *link)
{
    struct timeval timeout = {
        .tv_sec = link->bus->config.connect_timeout_ms / 1000,
        .tv_usec = link->bus->config.connect_timeout_ms % 1000 * 1000L,
    };
    CLEANUP(close_fd) int fd = -1;
    amqp_socket_t *socket;
    int r;

    r = connect_host(link, &fd);
    if (!r)
        r = share_socket(link, fd);
    if (r)
        return r;
    link->amqp = amqp_new_connection();
    socket = link->amqp ? amqp_tcp_socket_new(link->amqp) : NULL;
    if (!socket)
        return link_fail(link, LINK_E_LOST, "out of memory for a connection");
    amqp_tcp_socket_set_sockfd(socket, fd); /* its from here on */
    fd = -1;
    amqp_set_handshake_timeout(link->amqp, &timeout);
    amqp_set_rpc_timeout(link->amqp, &timeout);
    return 0;
}

static const char *connection_name(const struct link *link, char *out, size_t size)
{
    snprintf(out, size, "%s %s", link->bus->config.name, link->role->name);
    return out;
}

static int log_in(struct link *link)
{
    const struct bus_config *config = &link->bus->config;
    char name[BUS_WHY_LEN];
    amqp_table_entry_t capabilities[] = {
        table_yes("connection.blocked"),
        table_yes("consumer_cancel_notify"),
        table_yes("basic.nack"),
        table_yes("publisher_confirms"),
    };
    amqp_table_t capability_table = {array_size(capabilities), capabilities};
    amqp_table_entry_t entries[] = {
        table_text("product", "drover"),
        table_text("version", DROVER_VERSION),
        table_text("connection_name", connection_name(link, name, sizeof(name))),
        table_table("capabilities", capability_table),
    };
    amqp_table_t properties = {array_size(entries), entries};

    return link_check_reply(link, "login",
                            amqp_login_with_properties(link->amqp, config->vhost, 0, BUS_FRAME_MAX,
                                                       config->heartbeat_s, &properties,
                                                       AMQP_SASL_METHOD_PLAIN, config->user,
                                                       config->password));
}

int link_connect(struct link *link)
{
    int r = open_socket(link);

    return r ? r : log_in(link);
}
