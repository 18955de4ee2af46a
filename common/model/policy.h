// SPDX-License-Identifier: Apache-2.0
/*
 * Policy: when and how often a failed step is tried again
 *
 * A Policy message holds only the values that differ from what is inherited: an undo inherits from
 * its step, a step from its workflow, a workflow from the defaults below (docs/PROTOCOL.md lists
 * them). Called by model/workflow and model/wire_check; the agent and the command line read the
 * limits.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "drover/v1/types.pb-c.h"
#include "model/check.h"

#define POLICY_SECOND_MS INT64_C(1000)
#define POLICY_DAY_MS (POLICY_SECOND_MS * 60 * 60 * 24)

#define POLICY_INITIAL_INTERVAL_MS POLICY_SECOND_MS
#define POLICY_BACKOFF_COEFFICIENT 2.0
#define POLICY_MAXIMUM_INTERVAL_MS (100 * POLICY_SECOND_MS)
#define POLICY_MAXIMUM_ATTEMPTS 10
#define POLICY_MAXIMUM_EXPIRIES 5
#define POLICY_JITTER 0.1
#define POLICY_PARK_INTERVAL_MS (600 * POLICY_SECOND_MS)
#define POLICY_SILENCE_INTERVAL_MS (3600 * POLICY_SECOND_MS)
#define POLICY_LOCK_MS (60 * POLICY_SECOND_MS)

/* A lease that is shorter than the round trips to broker and store would always expire. */
#define POLICY_LOCK_MIN_MS INT64_C(100)

/* The longest lease, wait, backoff or park interval. */
#define POLICY_DURATION_MAX_MS (30 * POLICY_DAY_MS)

#define POLICY_COUNT_MAX 1000000 /* attempts, expiries: far below the maximum of their fields */
#define POLICY_COEFFICIENT_MAX 100.0
#define POLICY_NON_RETRYABLE_MAX 64

#define POLICY_PARK_NEVER INT64_C(-1)

static_assert(POLICY_INITIAL_INTERVAL_MS <= POLICY_MAXIMUM_INTERVAL_MS, "first wait fits");
static_assert(POLICY_MAXIMUM_INTERVAL_MS <= POLICY_DURATION_MAX_MS, "longest wait fits");
static_assert(POLICY_LOCK_MIN_MS <= POLICY_LOCK_MS, "default lease in range");
static_assert(POLICY_LOCK_MS <= POLICY_DURATION_MAX_MS, "default lease in range");
static_assert(POLICY_MAXIMUM_ATTEMPTS <= POLICY_COUNT_MAX, "default attempts in range");

/* A policy in which every value is set. */
struct policy {
    int64_t initial_interval_ms;
    double backoff_coefficient;  /* 1 to POLICY_COEFFICIENT_MAX */
    int64_t maximum_interval_ms; /* at least initial_interval_ms */
    uint32_t maximum_attempts;
    uint32_t maximum_expiries;
    double jitter;               /* 0 to 1 */
    int64_t park_interval_ms;    /* or POLICY_PARK_NEVER */
    int64_t silence_interval_ms; /* or POLICY_PARK_NEVER */
    Drover__V1__Recourse on_permanent;
    Drover__V1__Recourse on_exhausted;
    char *const *non_retryable; /* error classes; owned by the message that gave them */
    size_t n_non_retryable;
};

/* Checks a Policy of a definition. NULL is valid: it gives nothing. If it returns false @problem
 * names the field. */
bool policy_check(const Drover__V1__Policy *message, const struct path *where,
                  struct problem *problem);

/**
 * policy_resolve() - merge policies over the defaults: @revert over @step over @workflow
 * @out: points into the messages for its error classes, so it is valid as long as they are
 * @workflow, @step, @revert: policy_check() has accepted them; NULL if not given
 *
 * If the initial interval is longer than an inherited maximum, the maximum becomes as long.
 */
void policy_resolve(struct policy *out, const Drover__V1__Policy *workflow,
                    const Drover__V1__Policy *step, const Drover__V1__Policy *revert);
