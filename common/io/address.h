// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses: HOST:PORT or [IPV6]:PORT, as written in the setting health.listen
 *
 * Called by io/config, io/daemon/daemon and io/daemon/health.
 */
#pragma once

#include <stdint.h>

#define ADDRESS_HOST_MAX 255 /* characters: the longest host name (RFC 1035) */

/* A parsed address. */
struct address {
    char host[ADDRESS_HOST_MAX + 1]; /* a name or a number; without brackets */
    char port[sizeof("65535")];      /* decimal; 0 to listen on any free port */
};

/* Return: NULL; or what is wrong with @text, for a person: then *out must not be used. */
const char *address_parse(const char *text, struct address *out);
