// SPDX-License-Identifier: Apache-2.0
/*
 * Targets: what a handler calls, each with a circuit breaker
 *
 *     http   a scheme, host and port, for all actions together
 *     exec   the program of an action
 *
 * Each actor has its own targets. Before each call the handler asks whether the call may be made.
 * After it the handler says whether the target answered or failed, or the call was given up; the
 * handler decides what counts as which. handler_exec.c and handler_http.c call it, on the loop's
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/breaker.h"

struct target;

/* The targets of one handler. All zero is empty; released by targets_free(). */
struct targets {
    struct target *by_name;
};

/* A call that was admitted. The caller keeps it and passes it on when the call ends. */
struct target_call {
    struct target *target; /* NULL: no breaker counts the call */
    struct breaker_call call;
};

/**
 * target_find() - find the target of this name; make it, if there is none
 * @config: of its breaker; copied into a new target
 *
 * Out of memory aborts.
 *
 * Return: valid until targets_free(); NULL where no breaker is configured.
 */
struct target *target_find(struct targets *targets, const char *actor, const char *name,
                           const struct breaker_config *config);

/**
 * target_admit() - whether the target may be called
 * @target:   NULL: always
 * @now:      monotonic ms; likewise below
 * @call:     set in any case; to be passed to one of the three functions below
 * @deferred: set where false is returned: the result of the run, DEFER; its texts belong to @target
 */
bool target_admit(struct target *target, int64_t now, struct target_call *call,
                  struct agent_result *deferred);

/* The call ended with an answer, of any kind. */
void target_answered(const struct target_call *call);

/* The call failed, as @result says. Its retry_after_ms lengthens the pause, up to open_max_ms. */
void target_failed(const struct target_call *call, const struct agent_result *result, int64_t now);

/* The handler gave the call up, so its end says nothing of the target. */
void target_abandoned(const struct target_call *call, int64_t now);

/* Notes that the target has answered, well or badly: what is there speaks as it should. */
void target_heard(const struct target_call *call);

/* Return: whether the target has answered any call so far; false where no breaker counts it. */
bool target_was_heard(const struct target_call *call);

/* To be called when no call is under way. */
void targets_free(struct targets *targets);
