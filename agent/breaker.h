// SPDX-License-Identifier: Apache-2.0
/*
 * Breaker: spares a target that is failing (Nygard, Release It!, 2007)
 *
 *     CLOSED      calls are made; `failures` failures in a row  → OPEN
 *     OPEN        no calls, until the time is over              → HALF_OPEN by the next caller
 *     HALF_OPEN   one call, the probe; all others wait          → CLOSED if it succeeds, else OPEN
 *                                                                 for twice as long
 *
 * Pure: the time comes with the call. Calls that began before it opened tell nothing any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct breaker_config {
    unsigned failures;   /* in a row, at least 1 */
    int64_t open_ms;     /* the first time */
    int64_t open_max_ms; /* at most */
};

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_OPEN,
    BREAKER_HALF_OPEN,
};

/* All zero but the configuration is a closed one. */
struct breaker {
    struct breaker_config config;
    enum breaker_state state;
    unsigned failures; /* in a row */
    uint32_t calls;    /* generation: calls of an earlier one are not counted */
    int64_t open_ms;   /* of the present outage */
    int64_t until;     /* OPEN: when a probe may go */
};

/* A call that was admitted; goes back with its end. */
struct breaker_call {
    uint32_t calls;
    bool probe;
};

/**
 * breaker_admit() - may a call be made?
 * @now:     ms, monotonic
 * @wait_ms: where not: when to ask again, at least 1
 */
bool breaker_admit(struct breaker *b, int64_t now, struct breaker_call *call, int64_t *wait_ms);

/* The target answered. Return: whether that closed the breaker. */
bool breaker_succeeded(struct breaker *b, const struct breaker_call *call);

/* It did not. @at_least_ms: it asked to be left alone for so long, 0 for nothing said; held to
 * open_max_ms. Return: whether that opened the breaker. */
bool breaker_failed(struct breaker *b, const struct breaker_call *call, int64_t now,
                    int64_t at_least_ms);

/* The call was given up and tells nothing: a probe makes room for another. */
void breaker_abandoned(struct breaker *b, const struct breaker_call *call, int64_t now);
