// SPDX-License-Identifier: Apache-2.0
/*
 * Explorer: every order of events, and every fault within a budget, in one tiny world
 *
 * A seeded world draws from chance; an explored world takes every way. At each choice the process
 * forks: a child goes each way but the last, and the operating system keeps the state to come back
 * to. All events of the present moment may happen in any order, except those of one lane (a
 * connection, which keeps the order). Time passes when no event is left, or earlier if the budget
 * allows it, and then the events that are left are late. A roaming event, such as a copy of a
 * message or a call that reaches the store late, happens at any moment until it is due, before or
 * after all others until then; time passes it by, and no world is at rest while it is on its way.
 *
 * A state that was seen before is not entered again. States are distinguished by a hash of 64 bits
 * over the store's keys, the broker's queues, everything on its way, in which order on each lane,
 * the incarnation of each process and what it has received in it, the clients, the effects of
 * handlers, the time and the budgets that are left. The random numbers of machines are made from
 * what the machine has received in its incarnation, so that equal pasts give equal states, and two
 * equal messages different numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct explorer;

/* The faults that may strike, each so many times on a way. As a rate of struct plan_faults this
 * number says which budget pays; any other rate except 0 is a choice that costs nothing. */
enum explore_budget {
    EXPLORE_CRASH = 1,  /* a process dies before an effect */
    EXPLORE_LOST,       /* a message is lost */
    EXPLORE_DOUBLED,    /* a message arrives twice */
    EXPLORE_REFUSED,    /* the broker refuses a message, and may have it all the same */
    EXPLORE_CUT,        /* a process loses its connection to the broker */
    EXPLORE_STORE_LOST, /* a call has no answer, and may have been executed, or may be later */
    EXPLORE_FAILURE,    /* a handler fails */
    EXPLORE_PERMANENT,  /* a handler fails for good */
    EXPLORE_RESTART,    /* the broker loses its transient messages */
    EXPLORE_TIME,       /* time passes while events are left */
    EXPLORE_BUDGETS_,
};

/* NULL: no budget has this number. */
const char *explore_budget_name(uint32_t budget);

#define EXPLORE_PATH_MAX 8192

struct explore_config {
    uint32_t budgets[EXPLORE_BUDGETS_];
    int64_t late_ms;     /* that pass if the budget of time pays for it */
    unsigned jobs;       /* processes that explore at the same time */
    unsigned table_bits; /* room for 2^bits states, 8 bytes each */
    unsigned longest_s;  /* after which it stops; 0: no limit */
    const char *replay;  /* a path, as in explore_result; NULL: all ways */
};

struct explore_result {
    uint64_t states; /* that had more than one way out */
    uint64_t events;
    uint64_t ends; /* ways that came to rest */
    bool full;     /* the table is full: some states were forgotten */
    bool left_off; /* not all ways were gone */
    char violation[512];
    /* to the violation or crash: one letter for each choice; '*': the last way at each further
     * choice */
    char path[EXPLORE_PATH_MAX];
};

/* Calls @run in a process of its own: @run makes a world whose timeline has this explorer, opens
 * it, and lets it run to its end. With a replay @run is called in this process. Return: 0; 1: an
 * invariant was violated; 2: a process crashed. */
int explore(const struct explore_config *config, void (*run)(void *ctx, struct explorer *x),
            void *ctx, struct explore_result *out);

/* The explorer's view of a world. */
struct explorer_view {
    uint64_t (*digest)(void *ctx);
    /* No event is left now, and none roams. Return: true if this has made an event, or the world is
     * at its end; otherwise time passes. */
    bool (*quiet)(void *ctx);
    void *ctx;
};

/* For the world that is explored. */
struct decider *explorer_decider(struct explorer *x);

/* The world is set up; from its time @when on there are choices. */
void explorer_open(struct explorer *x, const struct explorer_view *view, int64_t when);

/* One way has ended. @violation: NULL: none. */
void explorer_end(struct explorer *x, const char *violation);

/* Replaces the numbers of rng.h. Return: false if those are to be used. */
bool explorer_random(uint64_t *out);
