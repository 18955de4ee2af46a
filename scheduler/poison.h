// SPDX-License-Identifier: Apache-2.0
/*
 * Poison messages: counts which incarnations of schedulers have died of a message
 */
#pragma once

#include "scheduler/op.h"

#define POISON_SUSPECT_MS 100 /* ms after reading a suspect: from then on it was survived */

/* Redelivered messages, which are read one at a time. */
struct suspects {
    struct list waiting;  /* operations of suspects that wait until ... */
    struct item *present; /* ... this one is read or done; NULL: there is none */
    bool alone;           /* all other messages wait for it, too ... */
    struct list held;     /* ... here: operations of those that are no suspects */
    int64_t until;        /* time from which on it is no suspect any more */
};

/* Takes a suspect, which is given to the intake when no other one is in progress, and any message
 * that has to wait for one. Return: false if the message may be read at once. */
bool poison_takes(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* The same for each Submit of a message, when that is read; poison_parted(): they are all begun. */
bool poison_takes_part(struct scheduler *s, struct item *part, const struct bus_delivery *d);
void poison_parted(struct scheduler *s, struct item *item);
/* The item was read. A suspect counts as survived POISON_SUSPECT_MS later. */
void poison_read(struct scheduler *s, const struct item *item);
/* The item is done: if it is still the present suspect the store deletes the record of it. */
void poison_done(struct scheduler *s, struct item *item);
/* A connection to the broker is lost: gives back all suspects and others that are not read. */
void poison_lost(struct scheduler *s);
/* Goes on to the next suspect if the present one has been survived; poison_next() is the time of
 * that. */
void poison_tick(struct scheduler *s);
int64_t poison_next(const struct scheduler *s);
