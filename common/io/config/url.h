// SPDX-License-Identifier: Apache-2.0
/*
 * URLs of servers: scheme://user:password@host:port/path, and schemes:// for TLS; of scheme+kind
 * that is schemes+kind://
 *
 * Parts are percent-decoded; an IPv6 address is in brackets; several hosts have a comma between
 * them (io/hosts.h). Called by io/config and the command
 * line.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/status.h"

/* Parts that are not given are NULL, or 0; a URL that ends with / has the path "". */
struct url {
    bool tls;
    char *host; /* never NULL; a list, with its ports, if there are several */
    int port;   /* of a single host */
    char *user;
    char *password;
    char *path;
};

/* Accepts a url that is all zero. Overwrites the password. */
void url_deinit(struct url *url);
static inline void url_deinit_p(struct url *url)
{
    url_deinit(url);
}

enum {
    URL_E_INVALID = 1,
    URL_E_SCHEME,
};

/**
 * url_parse() - split a URL into its parts
 * @scheme:  that it must have, such as "amqp": amqp:// or amqps://
 * @out:     the caller releases it with url_deinit(); empty unless 0 is returned
 * @problem: never quotes the password
 *
 * Return: 0, -ENOMEM, URL_E_SCHEME if the text begins with another scheme, or URL_E_INVALID; with
 * @problem set.
 */
int url_parse(const char *text, const char *scheme, struct url *out, struct problem *problem);
