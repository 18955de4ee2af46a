// SPDX-License-Identifier: Apache-2.0
/*
 * Timeline: virtual time, what happens when, and the one source of chance
 *
 * Events of one moment happen in the order in which they were added, so a seed decides everything.
 * Whatever is worth telling is mixed into a hash; two runs of a seed must end with the same one.
 * Lines for people are made only where somebody reads them.
 *
 * Memory comes from an arena that lives as long as the timeline: nothing in a small world is freed
 * one by one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "choices.h"
#include "digest.h"
#include "feature.h"
#include "model/effect.h"

struct explorer;
struct timeline;

/* In place of chance, one failure: of all chances of rate TIMELINE_NTH the n-th comes true, and no
 * other does. What else chance would decide goes one way all along. */
struct timeline_nth {
    uint32_t n;   /* from 1 */
    uint32_t met; /* so many chances there were */
    uint32_t way; /* 0: all as soon as can be, no to all; else as late, yes, and this of a choice */
};

#define TIMELINE_NTH 1 /* millionth */

struct event {
    struct heap_node node;
    void (*fire)(struct event *e);
    const int64_t *held_until; /* a stopped process hears nothing before; NULL: never held */
    uint64_t lane;             /* an explorer keeps the order of what has the same; 0: of nothing */
    bool eager;      /* it does not matter when it happens: an explorer lets it happen at once */
    uint64_t digest; /* of what it will do, for an explorer; 0: it is known by its address */
};

struct timeline {
    int64_t now; /* ms */
    struct heap heap;
    struct rng rng;
    struct effects arena;
    uint64_t hash;
    uint64_t events;
    bool seen[FEATURES_];
    FILE *trace;               /* NULL: nobody reads */
    struct explorer *explorer; /* decides instead of chance; NULL: nobody does */
    struct timeline_nth *nth;  /* likewise */
    struct choices *choices;   /* of chance: recorded, or followed; NULL: neither */
};

void timeline_init(struct timeline *t, uint64_t seed, FILE *trace);
void timeline_deinit(struct timeline *t);

/* Zeroed, until timeline_deinit(). */
void *timeline_alloc(struct timeline *t, size_t len);
const char *timeline_str(struct timeline *t, const char *s);

/* @delay: ms from now; an event that is there already is moved. */
void timeline_add(struct timeline *t, struct event *e, int64_t delay);
void timeline_cancel(struct timeline *t, struct event *e);

/* Lets the next event happen. Return: false where there is none. */
bool timeline_step(struct timeline *t);

/* Each draw is known by the function that draws, and the text of what it is for; see choices.h. */

/* Uniform from @least to @most, both included; @least where an explorer decides. */
#define timeline_between(t, least, most) timeline_between_(t, least, most, __func__, #most)

/* Uniform from 0 to @n - 1; an explorer takes every way. */
#define timeline_choose(t, n) timeline_choose_(t, n, __func__, #n)

/* True in @millionths of a million cases. */
#define timeline_chance(t, millionths) timeline_chance_(t, millionths, __func__, #millionths)

/* Of something that need not be: false where it was taken back. */
#define timeline_keeps(t) timeline_keeps_(t, __func__)

/* For the random numbers of a machine. */
#define timeline_seed(t) timeline_seed_(t, __func__)

/* Whom or what the next draws are about, until this event is over; printf(). */
#define timeline_about(t, ...)                                                                     \
    do {                                                                                           \
        if ((t)->choices)                                                                          \
            choices_about((t)->choices, __VA_ARGS__);                                              \
    } while (0)

int64_t timeline_between_(struct timeline *t, int64_t least, int64_t most, const char *function,
                          const char *what);
uint32_t timeline_choose_(struct timeline *t, uint32_t n, const char *function, const char *what);
bool timeline_chance_(struct timeline *t, uint32_t millionths, const char *function,
                      const char *what);
bool timeline_keeps_(struct timeline *t, const char *function);
uint64_t timeline_seed_(struct timeline *t, const char *function);

/* Something that worlds are to show has happened in this one. */
static inline void timeline_note(struct timeline *t, enum feature feature)
{
    t->seen[feature] = true;
}

void timeline_mix(struct timeline *t, struct bytes b);
void timeline_mix_number(struct timeline *t, uint64_t number);

void timeline_tell(struct timeline *t, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define tell(t, who, ...)                                                                          \
    do {                                                                                           \
        if ((t)->trace)                                                                            \
            timeline_tell(t, who, __VA_ARGS__);                                                    \
    } while (0)
