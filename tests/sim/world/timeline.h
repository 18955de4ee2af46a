// SPDX-License-Identifier: Apache-2.0
/*
 * Timeline: virtual time, the events, and the one source of chance
 *
 * Events of one moment happen in the order in which they were added, so a seed decides everything.
 * The time and kind of each event, what processes receive, publish and die of, and the calls and
 * answers of the store are mixed into a hash; two runs of a seed must end with the same hash. Lines
 * for people are made only if they are read.
 *
 * Memory comes from an arena that is freed with the timeline: nothing in a small world is freed
 * alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "model/effect.h"
#include "world/digest.h"
#include "world/feature.h"

struct decider;
struct timeline;

enum draw_kind {
    DRAW_BETWEEN, /* a number, such as a time */
    DRAW_WAY,     /* one of several ways */
    DRAW_CHANCE,  /* whether something happens, at a rate */
    DRAW_KEEP,    /* whether to keep something optional: it is kept */
    DRAW_SEED,    /* of a machine's random numbers: any number */
};

/* Named by the function that draws, and the text of its purpose. */
struct draw {
    enum draw_kind kind;
    uint64_t n;    /* outcomes, from 0 to n - 1; 0 is the least, the first, false */
    uint32_t rate; /* of DRAW_CHANCE: millionths */
    const char *function, *what;
};

/* Decides instead of chance. Each function but the first may be NULL. */
struct decider {
    uint64_t (*draw)(struct decider *d, struct timeline *t, const struct draw *draw);
    /* The subject of the next draws. */
    void (*about)(struct decider *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
    /* Replaces timeline_next(). */
    bool (*step)(struct decider *d, struct timeline *t);
    /* What a machine is about to receive; for an explorer. */
    void (*hears)(struct decider *d, uint64_t digest);
};

struct event {
    struct heap_node node;
    void (*fire)(struct event *e);
    const int64_t *held_until; /* a stopped process gets no event before; NULL: never stopped */
    uint64_t lane;             /* an explorer keeps the order of events of one lane; 0: no lane */
    bool eager;      /* when it happens makes no difference: an explorer lets it happen at once */
    bool roams;      /* an explorer lets it happen at any time until it is due */
    uint64_t digest; /* of what it will do, for an explorer; 0: its address identifies it */
};

struct timeline {
    int64_t now; /* ms */
    struct heap heap;
    struct rng rng;
    struct effects arena;
    uint64_t hash;
    uint64_t events;
    bool seen[FEATURES_];
    FILE *trace;             /* NULL: not written */
    struct decider *decider; /* NULL: chance */
};

void timeline_init(struct timeline *t, uint64_t seed, FILE *trace);
void timeline_deinit(struct timeline *t);

/* Zeroed; valid until timeline_deinit(). */
void *timeline_alloc(struct timeline *t, size_t len);
const char *timeline_str(struct timeline *t, const char *s);

/* @delay: ms from now; an event that was added before is moved. */
void timeline_add(struct timeline *t, struct event *e, int64_t delay);
void timeline_cancel(struct timeline *t, struct event *e);

/* In @delay ms, which chance has drawn. When exploring: at any moment from now to @latest ms from
 * now, in any order with the other events until then. */
void timeline_add_roaming(struct timeline *t, struct event *e, int64_t delay, int64_t latest);

/* Lets the next event happen, in order of time, or as the decider says. Return: false: there is
 * none. */
bool timeline_next(struct timeline *t);
bool timeline_step(struct timeline *t);

/* By chance, whatever the decider. Return: 0 to @draw->n - 1. */
uint64_t timeline_by_chance(struct timeline *t, const struct draw *draw);

uint64_t timeline_draw_(struct timeline *t, enum draw_kind kind, uint64_t n, uint32_t rate,
                        const char *function, const char *what);

/* Uniform from @least, which must have no side effect, to @most, both included. */
#define timeline_between(t, least, most)                                                           \
    ((least) + (int64_t)timeline_draw_(t, DRAW_BETWEEN, (uint64_t)((most) - (least) + 1), 0,       \
                                       __func__, #most))

/* Uniform from 0 to @n - 1. */
#define timeline_choose(t, n) ((uint32_t)timeline_draw_(t, DRAW_WAY, n, 0, __func__, #n))

/* True in @millionths of a million cases. */
#define timeline_chance(t, millionths)                                                             \
    ((millionths) > 0 && timeline_draw_(t, DRAW_CHANCE, 2, millionths, __func__, #millionths))

/* For something optional: false if it was taken back. */
#define timeline_keeps(t) ((bool)timeline_draw_(t, DRAW_KEEP, 2, 0, __func__, ""))

/* For the random numbers of a machine. */
#define timeline_seed(t) timeline_draw_(t, DRAW_SEED, UINT64_MAX, 0, __func__, "")

/* Whether any order of events may follow, and states are distinguished by digests. */
static inline bool timeline_explored(const struct timeline *t)
{
    return t->decider && t->decider->hears;
}

/* The subject of the next draws, until this event is over; as printf(). */
#define timeline_about(t, ...)                                                                     \
    do {                                                                                           \
        if ((t)->decider && (t)->decider->about)                                                   \
            (t)->decider->about((t)->decider, __VA_ARGS__);                                        \
    } while (0)

/* A feature has happened in this world. */
static inline void timeline_note(struct timeline *t, enum feature feature)
{
    t->seen[feature] = true;
}

void timeline_mix(struct timeline *t, struct bytes b);
static inline void timeline_mix_number(struct timeline *t, uint64_t number)
{
    t->hash = (t->hash ^ number) * DIGEST_PRIME;
}

void timeline_tell(struct timeline *t, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define tell(t, who, ...)                                                                          \
    do {                                                                                           \
        if ((t)->trace)                                                                            \
            timeline_tell(t, who, __VA_ARGS__);                                                    \
    } while (0)
