// SPDX-License-Identifier: Apache-2.0
/*
 * The local socket for --healthcheck: tells whether a process is alive
 *
 * A client that can reach health.listen can use up all connections there. So --healthcheck asks by
 * an abstract Unix socket, which is named after host and port of health.listen. The loop answers
 * each connection of a process of the same user, or of root, with one line, and closes all others.
 * Called by io/daemon/health.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

struct health_local;

/* Makes the address for @host, as written in health.listen, and @port. Return: its length. */
socklen_t health_local_address(const char *host, const char *port, struct sockaddr_un *out);

/* Whether the other end of a socket is a process of the same user, or of root. */
bool health_local_trusts(int fd);

/* Starts to listen. Return: 0 or -errno. */
int health_local_new(struct health_local **out, uv_loop_t *loop, const char *host,
                     const char *port);

/* Closes and frees @l. on_closed(@ctx) runs in a later iteration of the loop, when it is closed. */
void health_local_close(struct health_local *l, void (*on_closed)(void *ctx), void *ctx);
