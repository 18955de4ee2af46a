// SPDX-License-Identifier: Apache-2.0
/*
 * Explorer: every order of events, and every fault within a budget, in one tiny world
 *
 * Where a seeded world draws from chance, an explored one takes every way: at each choice the
 * process forks, a child goes each way but the last, and the operating system keeps the state to
 * come back to. All events of the present moment may happen in any order, but those of one lane (a
 * connection, which keeps order); time passes when nothing is left to happen, or earlier where the
 * budget allows it, and then what is left is late. What roams, a message's copy or a call that the
 * store gets late, comes at any moment until it is due, before or after whatever else happens until
 * then; time passes it by, and no world is at rest while it is on its way.
 *
 * A state that was seen before is not entered again. States are told apart by 64 bits of hash over
 * the store's keys, the broker's queues, all that is on its way, in which order on each lane, which
 * life each process has and what it has heard in it, the clients, the deeds of handlers, the time
 * and the budgets left. Random numbers of machines come from what the machine has heard in its
 * life, so that equal pasts give equal states, and two equal messages different numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct decider;
struct explorer;

/* What may strike, each so many times on a way. As a rate of struct plan_faults such a number says
 * which budget pays; any other rate but 0 is a choice that costs nothing. */
enum explore_budget {
    EXPLORE_CRASH = 1,  /* a process dies before an effect */
    EXPLORE_LOST,       /* a message is lost */
    EXPLORE_DOUBLED,    /* a message comes twice */
    EXPLORE_REFUSED,    /* the broker refuses a message, and may have it all the same */
    EXPLORE_CUT,        /* a process loses its connection to the broker */
    EXPLORE_STORE_LOST, /* a call has no answer, and may have been carried out, or may yet be */
    EXPLORE_FAILURE,    /* a handler fails */
    EXPLORE_PERMANENT,  /* ... for good */
    EXPLORE_TIME,       /* time passes while something is left to happen */
    EXPLORE_BUDGETS_,
};

/* NULL where there is none of this number. */
const char *explore_budget_name(uint32_t budget);

#define EXPLORE_PATH_MAX 8192

struct explore_config {
    uint32_t budgets[EXPLORE_BUDGETS_];
    int64_t late_ms;     /* that pass where the budget of time pays for it */
    unsigned jobs;       /* processes that explore at the same time */
    unsigned table_bits; /* room for 2^bits states, 8 bytes each */
    unsigned longest_s;  /* after which it leaves off; 0: never */
    const char *replay;  /* a path, as in explore_result; NULL: all ways */
};

struct explore_result {
    uint64_t states; /* that had more than one way out */
    uint64_t events;
    uint64_t ends; /* ways that came to rest */
    bool full;     /* the table was: what was seen is forgotten */
    bool left_off; /* not all ways were gone */
    char violation[512];
    /* To the violation, or the crash: a letter a choice; '*': each time the last one from there. */
    char path[EXPLORE_PATH_MAX];
};

/* Calls @run in a process of its own: it makes a world whose timeline has this explorer, opens it,
 * and lets it run to its end. With a replay @run is called here. Return: 0; 1 where something was
 * violated; 2 where a process crashed. */
int explore(const struct explore_config *config, void (*run)(void *ctx, struct explorer *x),
            void *ctx, struct explore_result *out);

/* What the explorer has to know of a world. */
struct explorer_view {
    uint64_t (*digest)(void *ctx);
    /* Nothing is left to happen now, and nothing roams. Return: true where something was made to
     * happen, or all is at its end; else time passes. */
    bool (*quiet)(void *ctx);
    void *ctx;
};

/* Of the world that is explored. */
struct decider *explorer_decider(struct explorer *x);

/* The world is made; from @when on, in its time, there are choices. */
void explorer_open(struct explorer *x, const struct explorer_view *view, int64_t when);

/* One way has ended. @violation: NULL for none. */
void explorer_end(struct explorer *x, const char *violation);

/* For rng.h, in place of its own numbers. Return: false where those are to be used. */
bool explorer_random(uint64_t *out);
