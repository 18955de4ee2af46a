// SPDX-License-Identifier: Apache-2.0
/*
 * Outgoing: a message from bus_publish() to its outcome
 *
 * Used by the bus alone.
 */
#pragma once

#include "base/list.h"
#include "model/effect.h"

/* A message on its way out. It is in the bus' list `open` until its outcome was reported, and with
 * @node in one of the other lists of messages. */
struct outgoing {
    struct list node;
    struct list open;
    uint64_t id;     /* the caller's */
    uint64_t serial; /* ours, from 1, below 2^53 */
    uint64_t tag;    /* of the publish on the current channel */
    int64_t since;   /* CLOCK_MONOTONIC ms of bus_publish() */
    int64_t wired;   /* likewise of when it was sent on this connection */
    bool passed;     /* one that was sent after it, to the same place, is confirmed */
    bool sent;       /* or begun to be, on any connection */
    bool resent;     /* ... and this is not the first time */
    bool returned;
    int renewals;  /* connections that were made because it was refused */
    bool in_doubt; /* was on the wire when the broker closed over a publish ... */
    int closings;  /* ... the connection, so many times */
    enum bus_outcome outcome;
    char *isolated; /* why the broker closed over it, again and again; NULL: it did not; owned */
    struct bus_message message; /* points into text */
    char text[];
};

/* Copies a message and all that it points to, in one allocation. Return: with the other members
 * zero; NULL if memory is out. */
struct outgoing *bus_outgoing_new(const struct bus_message *from);

void bus_outgoing_free(struct outgoing *m);
