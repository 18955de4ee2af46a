// SPDX-License-Identifier: Apache-2.0
/*
 * Poison messages: counts which incarnations of schedulers have died of a message
 */
#pragma once

#include "base/id.h"
#include "base/recent.h"
#include "scheduler/op.h"

#define POISON_SUSPECT_MS 100 /* ms after reading a suspect: from then on it was survived */
#define POISON_PRESENT_MAX 8  /* suspects that a scheduler has begun, and not survived */

/* A redelivered message. */
struct suspect {
    struct list link; /* in suspects.present from its beginning on until it is done or survived */
    struct item *item;
    int64_t until; /* time from which on it is survived; INT64_MAX: it was not read */
    bool given_up; /* it becomes a dead letter */
    char digest[ID_DIGEST_LEN + 1];
};

struct suspects {
    struct list waiting;    /* operations of suspects that wait for a place among ... */
    struct list present;    /* ... these, which are begun */
    unsigned n_present;     /* at most POISON_PRESENT_MAX */
    size_t unread_bytes;    /* of those that are not read yet */
    bool alone;             /* the only one of these was begun alone, so all others wait ... */
    struct list held;       /* ... here: operations of messages that are no suspects */
    struct recent survived; /* bodies that this process had read when it lost the broker, but
                               for those of present suspects */
};

/* Takes a suspect, which is given to the intake when it may be begun, and any message that has to
 * wait for one. Return: false if the message may be read at once. */
bool poison_takes(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* The same for each Submit of a message, when that is read; poison_parted(): they are all begun. */
bool poison_takes_part(struct scheduler *s, struct item *part, const struct bus_delivery *d);
void poison_parted(struct scheduler *s, struct item *item);
/* Whether the item is a suspect that is begun. */
static inline bool poison_is_present(const struct item *item)
{
    return item->suspect && !list_empty(&item->suspect->link);
}

/* The item was read. A suspect counts as survived POISON_SUSPECT_MS later. */
void poison_read(struct scheduler *s, const struct item *item);
/* The item is done: if it was not survived before, nor given up, the store deletes the record of
 * it. */
void poison_done(struct scheduler *s, struct item *item);
/* A connection to the broker is lost: gives back all suspects and others that are not read, and
 * notes the bodies of those that were survived. */
void poison_lost(struct scheduler *s);
/* Goes on to the next suspects if others have been survived; poison_next() is the time of that. */
void poison_tick(struct scheduler *s);
int64_t poison_next(const struct scheduler *s);
