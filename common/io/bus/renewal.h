// SPDX-License-Identifier: Apache-2.0
/*
 * Renewal: when another connection may get a message through, part of the publisher
 *
 * Pure. Used by publisher.c.
 */
#pragma once

#include "io/bus/outgoing.h"

#define RENEWAL_PLACES 64

struct renewal {
    uint32_t taken[RENEWAL_PLACES]; /* places from which a confirm has come; the last ones */
    size_t n_taken;
    int64_t due;   /* CLOCK_MONOTONIC ms of when another connection is to be made; 0: it is not */
    int64_t next;  /* not before, once more */
    int64_t pause; /* ms until then, when it was set last */
};

/* The broker has taken a message, over this connection. */
void renewal_taken(struct renewal *r, const struct outgoing *m);

/* It has refused one. Return: whether that may be the fault of the connection, and another one is
 * to be made, when it is due. @now: CLOCK_MONOTONIC ms. */
bool renewal_refused(struct renewal *r, const struct outgoing *m, int64_t now);

/* The connection has ended. */
void renewal_begin(struct renewal *r, int64_t now);
