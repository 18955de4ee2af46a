// SPDX-License-Identifier: Apache-2.0
/*
 * Choices: what chance decided in a world, kept so that each can be told, and taken back
 *
 * Every draw has a name: the function of the simulator that draws, what for, and whom or what it is
 * about, such as "strike_link cut, agent-1 idle after nothing"; and it is the n-th of that name.
 * Its outcome is a number, 0 for the plain way: no fault, the shortest time, the first of several,
 * and that what need not be is left out. Only other outcomes are kept.
 *
 * A world that follows choices draws nothing: what is not among them goes the plain way. So one
 * that is taken back changes what comes of it, and nothing else, as names do not depend on what
 * else has happened.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct choices;
struct decider;

struct choice {
    const char *name;
    uint32_t site; /* length of its first part, which says who draws what for */
    uint32_t nth;  /* of its name, from 1 on */
    uint64_t outcome;
    int64_t at; /* ms of the world's time */
    bool taken_back;
    bool met; /* by the last world that followed */
};

/* Empty, and recording. */
struct choices *choices_new(void);

/* Accepts NULL; returns NULL. */
struct choices *choices_free(struct choices *c);

/* Of the world that is recorded, or follows. */
struct decider *choices_decider(struct choices *c);

/* From now on a world follows them as they are now, from its beginning. It is over after
 * @most_events: choices that were taken back may leave it without an end. */
void choices_follow(struct choices *c, uint64_t most_events);

/* In the order in which they were made; valid until the next is recorded, or some are dropped. */
struct choice *choices_items(const struct choices *c, uint32_t *n);

/* Forgets those that were taken back, or that no world met. */
void choices_drop(struct choices *c);

/* One a line: ms, outcome, n-th, name. */
void choices_write(const struct choices *c, FILE *out);

/* Adds one from a line of choices_write(). Return: false where it is none. */
bool choices_parse(struct choices *c, const char *line);
