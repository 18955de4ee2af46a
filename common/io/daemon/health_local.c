// SPDX-License-Identifier: Apache-2.0
/*
 * The local socket for --healthcheck
 *
 * See io/daemon/health_local.h.
 */
#include "io/daemon/health_local.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BACKLOG 8

static const char ANSWER[] = "HTTP/1.1 200 OK\r\n\r\nok\n";

struct health_local {
    uv_pipe_t listener;
    void (*on_closed)(void *ctx);
    void *ctx;
};

socklen_t health_local_address(const char *host, const char *port, struct sockaddr_un *out)
{
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX}; /* first byte 0: abstract, not a file */
    n = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "drover-health/%s:%s", host, port);
    if (n >= (int)sizeof(out->sun_path) - 1)
        n = (int)sizeof(out->sun_path) - 2;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool health_local_trusts(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_pipe_t *peer = or_abort(malloc(sizeof(*peer)));
    uv_buf_t answer = uv_buf_init((char *)ANSWER, sizeof(ANSWER) - 1);
    uv_os_fd_t fd;

    uv_pipe_init(listener->loop, peer, 0);
    if (status == 0 && uv_accept(listener, (uv_stream_t *)peer) == 0 &&
        uv_fileno((uv_handle_t *)peer, &fd) == 0 && health_local_trusts(fd))
        (void)uv_try_write((uv_stream_t *)peer, &answer, 1);
    uv_close((uv_handle_t *)peer, free_handle);
}

/* Return: a socket, or -errno. */
static int open_socket(const char *host, const char *port)
{
    struct sockaddr_un address;
    socklen_t len = health_local_address(host, port, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, len) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

int health_local_new(struct health_local **out, uv_loop_t *loop, const char *host, const char *port)
{
    int fd = open_socket(host, port);
    struct health_local *l;
    int r;

    if (fd < 0)
        return fd;
    l = or_abort(calloc(1, sizeof(*l)));
    uv_pipe_init(loop, &l->listener, 0);
    r = uv_pipe_open(&l->listener, fd);
    if (!r)
        r = uv_listen((uv_stream_t *)&l->listener, BACKLOG, on_connection);
    l->listener.data = l;
    *out = l;
    return r;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct health_local *l = handle->data;

    l->on_closed(l->ctx);
    free(l);
}

void health_local_close(struct health_local *l, void (*on_closed)(void *ctx), void *ctx)
{
    l->on_closed = on_closed;
    l->ctx = ctx;
    uv_close((uv_handle_t *)&l->listener, on_listener_closed);
}
