// SPDX-License-Identifier: Apache-2.0
/*
 * Direct: messages to addresses of direct reply-to, part of the publisher
 *
 * Pure. Used by publisher.c.
 */
#pragma once

#include "io/bus/outgoing.h"

struct direct {
    struct list known;   /* nodes that have taken a message */
    struct list shunned; /* nodes and senders, for which nothing is sent for a while */
};

void direct_init(struct direct *d);
void direct_deinit(struct direct *d);

/* Whether a message is to an address of direct reply-to. */
bool direct_is(const struct outgoing *m);

/* Whether it is not to be sent, as it, or its sender, has cost the connection. @now:
 * CLOCK_MONOTONIC ms. */
bool direct_shuns(struct direct *d, const struct outgoing *m, int64_t now);

/* The broker has taken it; or closes the connection over it, again and again. */
void direct_taken(struct direct *d, const struct outgoing *m);
void direct_closed(struct direct *d, const struct outgoing *m, int64_t now);
