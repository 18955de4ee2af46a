// SPDX-License-Identifier: Apache-2.0
/*
 * URLs of servers: scheme://user:password@host:port/path
 *
 * Parts are percent-decoded; an IPv6 address stands in brackets.
 */
#pragma once

#include "base/cleanup.h"
#include "base/status.h"

/* What was left out is NULL, or 0; a URL that ends in / has the path "". */
struct url {
    char *host; /* always there */
    int port;
    char *user;
    char *password;
    char *path;
};

/* All zero is an empty one. */
void url_deinit(struct url *url);
static inline void url_deinit_p(struct url *url)
{
    url_deinit(url);
}

enum {
    URL_E_INVALID = 1,
};

/**
 * url_parse() - take a URL apart
 * @scheme:  with ://
 * @problem: never quotes the password
 *
 * Return: 0, -ENOMEM, or URL_E_INVALID with @problem set.
 */
int url_parse(const char *text, const char *scheme, struct url *out, struct problem *problem);
