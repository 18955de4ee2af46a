// SPDX-License-Identifier: Apache-2.0
/*
 * Targets: what a handler calls, each with a breaker that spares it while it fails
 *
 *     http   a scheme, host and port; whatever the action
 *     exec   the program of an action
 *
 * Each actor has its own. A handler asks before each call whether it may be made, and says how it
 * has ended: answered, failed, or given up; what counts as which is the handler's to say. From the
 * loop thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/breaker.h"

struct target;

/* Those of one handler, with what is known of them; all zero: none. Freed by targets_free(). */
struct targets {
    struct target *by_name;
};

/* A call that was admitted; goes back with its end. */
struct target_call {
    struct target *target; /* NULL: nobody counts it */
    struct breaker_call call;
};

/**
 * target_find() - the target of this name, new where it was not called before
 * @config: of its breaker, read where it is new
 *
 * Return: valid until targets_free(); NULL where no breaker is configured.
 */
struct target *target_find(struct targets *targets, const char *actor, const char *name,
                           const struct breaker_config *config);

/**
 * target_admit() - may it be called?
 * @target:   NULL: always
 * @now:      ms, monotonic
 * @deferred: where not: the result of the run; its texts are the target's
 */
bool target_admit(struct target *target, int64_t now, struct target_call *call,
                  struct agent_result *deferred);

/* It answered, whatever it said. */
void target_answered(const struct target_call *call);

/* It did not, and @result tells why; its retry_after_ms is heeded within open_max_ms. */
void target_failed(const struct target_call *call, const struct agent_result *result, int64_t now);

/* Nobody waited for its answer any more: that tells nothing. */
void target_abandoned(const struct target_call *call, int64_t now);

/* No call is under way. */
void targets_free(struct targets *targets);
