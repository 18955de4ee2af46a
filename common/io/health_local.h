// SPDX-License-Identifier: Apache-2.0
/*
 * Liveness apart: a socket of this system alone, by which --healthcheck asks
 *
 * Whoever may connect to health.listen can have all the connections that it takes. This is an
 * abstract Unix socket, named after the host and port of that; the loop answers each connection of
 * the process' own user, or of root, with one line, and closes all others.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

struct health_local;

/* The address that belongs to a host, as it is written, and a port. Return: its length. */
socklen_t health_local_address(const char *host, const char *port, struct sockaddr_un *out);

/* Whether the other end of a socket is a process of our user, or of root. */
bool health_local_trusts(int fd);

/* Return: 0 or -errno. */
int health_local_new(struct health_local **out, uv_loop_t *loop, const char *host,
                     const char *port);

/* It is gone after a turn of the loop; on_closed(@ctx) runs then. */
void health_local_close(struct health_local *l, void (*on_closed)(void *ctx), void *ctx);
