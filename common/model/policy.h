// SPDX-License-Identifier: Apache-2.0
/*
 * Policy: when and how often a failed step is tried again
 *
 * A Policy message says only what somebody wanted otherwise. What is not given there is inherited:
 * a revert's from its step's, a step's from its workflow's, a workflow's from the defaults here.
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

/* A lease shorter than the broker's and the store's round trips would only ever expire. */
#define POLICY_LOCK_MIN_MS INT64_C(100)

/* The longest lease, wait, backoff or park interval. */
#define POLICY_DURATION_MAX_MS (30 * POLICY_DAY_MS)

#define POLICY_COUNT_MAX 1000000 /* attempts, expiries: finite, and far from the field's width */
#define POLICY_COEFFICIENT_MAX 100.0
#define POLICY_NON_RETRYABLE_MAX 64

#define POLICY_PARK_NEVER INT64_C(-1)

static_assert(POLICY_INITIAL_INTERVAL_MS <= POLICY_MAXIMUM_INTERVAL_MS, "first wait fits");
static_assert(POLICY_MAXIMUM_INTERVAL_MS <= POLICY_DURATION_MAX_MS, "longest wait fits");
static_assert(POLICY_LOCK_MIN_MS <= POLICY_LOCK_MS, "default lease in range");
static_assert(POLICY_LOCK_MS <= POLICY_DURATION_MAX_MS, "default lease in range");
static_assert(POLICY_MAXIMUM_ATTEMPTS <= POLICY_COUNT_MAX, "default attempts in range");

/* A policy with nothing left open. */
struct policy {
    int64_t initial_interval_ms;
    double backoff_coefficient;  /* 1 to POLICY_COEFFICIENT_MAX */
    int64_t maximum_interval_ms; /* at least initial_interval_ms */
    uint32_t maximum_attempts;
    uint32_t maximum_expiries;
    double jitter;               /* 0 to 1 */
    int64_t park_interval_ms;    /* or POLICY_PARK_NEVER */
    int64_t silence_interval_ms; /* likewise */
    Drover__V1__Recourse on_permanent;
    Drover__V1__Recourse on_exhausted;
    char *const *non_retryable; /* points into the message it came from; names by id_name_valid() */
    size_t n_non_retryable;
};

/* A Policy as somebody wrote it; NULL is good: nothing given. Else @problem names the field. */
bool policy_check(const Drover__V1__Policy *message, const struct path *where,
                  struct problem *problem);

/**
 * policy_resolve() - merge, the more particular over the more general, over the defaults
 * @workflow, @step, @revert: passed policy_check(); NULL where not given
 *
 * An initial interval longer than an inherited maximum raises the maximum to it.
 */
void policy_resolve(struct policy *out, const Drover__V1__Policy *workflow,
                    const Drover__V1__Policy *step, const Drover__V1__Policy *revert);
