// SPDX-License-Identifier: Apache-2.0
/*
 * Circuit breaker: keeps calls from a target that fails (Nygard, Release It!, 2007)
 *
 *     CLOSED      calls are made; `failures` failures in a row  → OPEN
 *     OPEN        no calls, until its time is over              → HALF_OPEN with the next call
 *     HALF_OPEN   one call, the probe; all others are refused   → CLOSED if it succeeds, else OPEN
 *                                                                 for twice as long
 *
 * Only target.c calls it. It is pure: the caller passes the time. The end of a call that began
 * before the breaker opened changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct breaker_config {
    unsigned failures;   /* in a row that open it, at least 1 */
    int64_t open_ms;     /* how long it is open the first time */
    int64_t open_max_ms; /* how long it is open at most */
};

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_OPEN,
    BREAKER_HALF_OPEN,
};

/* All zero but the configuration is a closed breaker. Nothing to release. */
struct breaker {
    struct breaker_config config;
    enum breaker_state state;
    unsigned failures; /* in a row */
    uint32_t calls;    /* generation of its calls: those of an earlier one are not counted */
    int64_t open_ms;   /* how long it was opened for last; 0: it is not open */
    int64_t until;     /* OPEN: from when on a probe is admitted, monotonic ms */
};

/* A call that was admitted. The caller keeps it and passes it on when the call ends. */
struct breaker_call {
    uint32_t calls;
    bool probe;
};

/**
 * breaker_admit() - whether a call may be made
 * @now:     monotonic ms
 * @call:    set in any case; to be passed to one of the three functions below if admitted
 * @wait_ms: set where false is returned: ms after which to ask again, at least 1
 */
bool breaker_admit(struct breaker *b, int64_t now, struct breaker_call *call, int64_t *wait_ms);

/* The call ended with an answer of the target. Return: whether that closed the breaker. */
bool breaker_succeeded(struct breaker *b, const struct breaker_call *call);

/* The call failed. @at_least_ms: for how long the target asks not to be called, 0 for no wish;
 * counts up to open_max_ms. Return: whether that opened the breaker. */
bool breaker_failed(struct breaker *b, const struct breaker_call *call, int64_t now,
                    int64_t at_least_ms);

/* The caller gave the call up, so its end says nothing of the target. If it was the probe, the next
 * call becomes the probe. */
void breaker_abandoned(struct breaker *b, const struct breaker_call *call, int64_t now);
