// SPDX-License-Identifier: Apache-2.0
/*
 * Choices: the outcomes of chance in a world, recorded so that each can be named and taken back
 *
 * Every draw has a name: the function of the simulator that draws, the purpose, and the subject,
 * such as "strike_link cut, agent-1 idle after nothing"; and it is the n-th draw of that name. Its
 * outcome is a number. 0 is the plain outcome: no fault, the shortest time, the first of several
 * ways, or that something optional is left out. Only other outcomes are recorded.
 *
 * A world that follows choices draws nothing: a draw without a recorded choice has the plain
 * outcome. So a choice that is taken back changes its own consequences and nothing else, because
 * names do not depend on anything else that happened.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct choices;
struct decider;

struct choice {
    const char *name;
    uint32_t site; /* length of the first part of the name: which function draws, and for what */
    uint32_t nth;  /* of its name, counted from 1 */
    uint64_t outcome;
    int64_t at; /* ms of the world's time */
    bool taken_back;
    bool met; /* the last world that followed has made this draw */
};

/* Without choices, and recording. */
struct choices *choices_new(void);

/* Accepts NULL; returns NULL. */
struct choices *choices_free(struct choices *c);

/* For the world that is recorded, or follows. */
struct decider *choices_decider(struct choices *c);

/* From now on a world follows the present choices, from its beginning. It ends after @most_events:
 * without the choices that were taken back it might never end. */
void choices_follow(struct choices *c, uint64_t most_events);

/* In the order in which they were made; valid until the next one is recorded, or some are dropped.
 * */
struct choice *choices_items(const struct choices *c, uint32_t *n);

/* Removes the choices that were taken back, and those that no world has met. */
void choices_drop(struct choices *c);

/* One per line: ms, outcome, n-th, name. */
void choices_write(const struct choices *c, FILE *out);

/* Adds a choice from a line of choices_write(). Return: false if the line is none. */
bool choices_parse(struct choices *c, const char *line);
