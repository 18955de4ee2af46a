// SPDX-License-Identifier: Apache-2.0
/*
 * Parse: durations, moments and broker addresses as people write them. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/status.h"

/* "250ms", "30s", "5m", "1h", "2d". Unlike in a configuration file, the unit must be there: few
 * would expect milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/**
 * parse_moment() - a point in time
 * @text: RFC 3339 such as "2026-01-31T12:00:00Z", or "+" and a duration from @now
 * @now:  unix ms
 */
bool parse_moment(const char *text, int64_t now, int64_t *out_unix_ms);

struct address {
    char *host;
    int port;
    char *vhost;
    char *user;
    char *password;
};

/* All zero is an empty address. */
void address_deinit(struct address *a);
static inline void address_deinit_p(struct address *a)
{
    address_deinit(a);
}

enum {
    PARSE_E_INVALID = 1,
};

/**
 * parse_url() - "amqp://user:password@host:port/vhost"
 *
 * Every part but the host may be left out, and is then guest, guest, 5672, "/". Parts are percent
 * decoded; an IPv6 address stands in brackets. @problem never quotes the password.
 *
 * Return: 0, -ENOMEM, or PARSE_E_INVALID with @problem set.
 */
int parse_url(const char *url, struct address *out, struct problem *problem);
