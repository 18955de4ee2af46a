// SPDX-License-Identifier: Apache-2.0
/*
 * State: what a supervisor keeps in memory
 *
 * The files of the machine, each of which calls only those below it:
 *
 *     supervisor.c  events, store calls and their answers
 *     loss.c        requests and replies that the broker has lost
 *     command.c     Recover and Notify, and the lines of a single round
 *
 * Only these files include it.
 */
#pragma once

#include "model/store_ops.h"
#include "supervisor/supervisor.h"

/* The store calls that a partition needs. Each has a schedule of its own, and at most one call of
 * each is under way in a partition. */
enum chore {
    CHORE_LEAD,
    CHORE_EXPIRE,
    CHORE_SWEEP,
    CHORE_FORGET,
    CHORE_LOST, /* only while a loss is to be recorded */
};
#define CHORES (CHORE_LOST + 1)

/* Whether the broker still has the messages of the dispatches, as far as its marker shows. */
enum broker_memory {
    MEMORY_UNKNOWN, /* the marker was not inspected on this connection */
    MEMORY_KEPT,
    MEMORY_LOST, /* the store records that, then the marker is published */
};

struct partition {
    bool leads;
    int64_t leads_until;          /* monotonic ms */
    int64_t due[CHORES];          /* when the next call is to be made, monotonic ms */
    uint64_t call[CHORES];        /* the id of the call under way, else 0 */
    int64_t called[CHORES];       /* when the last call was made, monotonic ms */
    char sweep[OPS_SWEEP_CURSOR]; /* cursor of the sweep; "": between two rounds */
    bool sweeps_back; /* the clock was set back: this sweep lets expire compute all times again */
    struct ops_loss loss; /* the last one, of CHORE_LOST */
    bool loss_recorded;
    bool done[CHORES];         /* once: the chore is finished */
    uint32_t dry_run_position; /* how many due jobs expire has shown */
    struct ops_forgotten seen; /* how many of its jobs need attention */
};

struct supervisor {
    struct supervisor_config config;
    char *name;
    struct rng rng;
    char run[64]; /* of the store */
    bool up;
    bool stopping;
    bool inspected; /* drover.replies was inspected */
    bool done;      /* once: SUPERVISOR_DONE was sent */
    struct partition *partitions;
    uint32_t n; /* of partitions; 0: not known yet */
    uint64_t last_id;
    uint64_t unconfirmed; /* publishes without an outcome */
    enum broker_memory memory;
    bool forgotten;     /* the store may not know of a loss, although the marker is there */
    uint64_t marker;    /* id of the publish of the marker, else 0 */
    int64_t mark_due;   /* no marker is published before, monotonic ms */
    int64_t lost_at;    /* when the broker was found to have lost messages, at the latest ... */
    bool found_loss;    /* ... by this supervisor, and not by one before it */
    bool unreported;    /* that is not in the log yet */
    int64_t mark_pause; /* until the next try, ms; 0 after one that was taken */
    /* By the last inspection of drover.replies: FACTOR_*; 0: dispatches expire at LockedUntil. */
    uint32_t lease_factor;
    /* Upper bound of (store clock - monotonic clock), ms; INT64_MAX: not known. */
    int64_t offset_most;
    int64_t offset_at; /* when the call was made that showed it, monotonic ms */
    int64_t known_at;  /* since when offset_most is known, monotonic ms */
    struct ops_clock clock;
    int64_t now;         /* of the present event, monotonic ms */
    struct effects *out; /* of the present event */
    struct supervisor_stats stats;
};
