// SPDX-License-Identifier: Apache-2.0
/*
 * Asks another process for its /livez, for --healthcheck
 *
 * With plain sockets, because images of containers have no curl. Called by io/daemon; see
 * health_ask() in io/daemon/health.h.
 */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "io/address.h"
#include "io/daemon/health.h"
#include "io/daemon/health_local.h"

static char trouble[256];

struct asking {
    int fd;
    int64_t deadline;
    char answer[256]; /* the beginning, which has the status */
    size_t len;
};

static int await(const struct asking *a, short events)
{
    struct pollfd fd = {.fd = a->fd, .events = events};
    int r;

    do {
        int64_t left = a->deadline - clock_monotonic_ms();

        r = left > 0 ? poll(&fd, 1, (int)left) : 0;
    } while (r < 0 && errno == EINTR);
    return r > 0 ? 0 : r < 0 ? -errno : -ETIMEDOUT;
}

static int connect_to(struct asking *a, const struct addrinfo *to)
{
    int error = 0;
    socklen_t len = sizeof(error);
    int r;

    a->fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->ai_protocol);
    if (a->fd < 0)
        return -errno;
    if (connect(a->fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    r = await(a, POLLOUT);
    if (!r && getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return r ? r : -error;
}

/* One send() is enough: the request fits into the buffer of any socket. */
static int send_request(const struct asking *a)
{
    static const char request[] =
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

    return send(a->fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Reads until the first line is complete. */
static int read_status(struct asking *a)
{
    while (!strchr(a->answer, '\n') && a->len < sizeof(a->answer) - 1) {
        int r = await(a, POLLIN);
        ssize_t n;

        if (r)
            return r;
        n = recv(a->fd, a->answer + a->len, sizeof(a->answer) - 1 - a->len, 0);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        a->len += (size_t)n;
    }
    a->answer[strcspn(a->answer, "\r\n")] = '\0';
    for (char *c = a->answer; *c; c++)
        *c = isprint((unsigned char)*c) ? *c : '?';
    return 0;
}

static const char *judge(const struct asking *a)
{
    if (strncmp(a->answer, "HTTP/1.1 200", strlen("HTTP/1.1 200")) == 0)
        return NULL;
    snprintf(trouble, sizeof(trouble), "it says '%.200s'", a->answer);
    return trouble;
}

static const char *ask(const struct addrinfo *to, int timeout_ms)
{
    struct asking a = {.deadline = clock_monotonic_ms() + timeout_ms};
    int r = connect_to(&a, to);

    if (!r)
        r = send_request(&a);
    if (!r)
        r = read_status(&a);
    if (a.fd >= 0)
        close(a.fd);
    return r ? strerrordesc_np(-r) : judge(&a);
}

/* Whether the process has answered by its local socket. If it has not it may still be alive: of an
 * earlier build, or in another network namespace. */
static bool ask_apart(const struct address *at, int timeout_ms)
{
    struct sockaddr_un address;
    socklen_t len = health_local_address(at->host, at->port, &address);
    const struct addrinfo to = {.ai_family = AF_UNIX,
                                .ai_socktype = SOCK_STREAM,
                                .ai_addr = (struct sockaddr *)&address,
                                .ai_addrlen = len};
    struct asking a = {.deadline = clock_monotonic_ms() + timeout_ms / 2};
    int r = connect_to(&a, &to);

    if (!r && !health_local_trusts(a.fd))
        r = -EPERM;
    if (!r)
        r = read_status(&a);
    if (a.fd >= 0)
        close(a.fd);
    return !r && !judge(&a);
}

/* Return: the loopback address if @host means all addresses; otherwise @host. */
static const char *reachable(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

const char *health_ask(const char *listen, int timeout_ms)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    struct address address;
    const char *why = address_parse(listen, &address);
    int r;

    if (why)
        return why;
    if (ask_apart(&address, timeout_ms))
        return NULL;
    r = getaddrinfo(reachable(address.host), address.port, &hints, &addresses);
    if (r)
        return gai_strerror(r);
    why = ask(addresses, timeout_ms / 2);
    freeaddrinfo(addresses);
    return why;
}
