// SPDX-License-Identifier: Apache-2.0
/*
 * Policies: checks Policy messages and merges those of undo, step and workflow with the defaults
 *
 * See model/policy.h.
 */
#include "model/policy.h"

#include <inttypes.h>

/* A duration in ms, or 0: not given. */
static bool duration_check(int64_t ms, const struct path *where, struct problem *problem)
{
    return (ms >= 0 && ms <= POLICY_DURATION_MAX_MS) ||
           check_fail(problem, where, "must be 1 to %" PRId64 " ms, or 0 for the default",
                      POLICY_DURATION_MAX_MS);
}

static bool count_check(uint32_t count, const struct path *where, struct problem *problem)
{
    return count <= POLICY_COUNT_MAX ||
           check_fail(problem, where, "must be 1 to %d, or 0 for the default", POLICY_COUNT_MAX);
}

static bool intervals_check(const Drover__V1__Policy *m, const struct path *where,
                            struct problem *problem)
{
    if (!duration_check(m->initial_interval_ms, PATH(where, "initial_interval_ms"), problem) ||
        !duration_check(m->maximum_interval_ms, PATH(where, "maximum_interval_ms"), problem))
        return false;
    if (m->maximum_interval_ms > 0 && m->maximum_interval_ms < m->initial_interval_ms)
        return check_fail(problem, PATH(where, "maximum_interval_ms"),
                          "must not be less than initial_interval_ms");
    return (m->park_interval_ms < 0 ||
            duration_check(m->park_interval_ms, PATH(where, "park_interval_ms"), problem)) &&
           (m->silence_interval_ms < 0 ||
            duration_check(m->silence_interval_ms, PATH(where, "silence_interval_ms"), problem));
}

/* Numbers that are not finite fail the comparisons. */
static bool factors_check(const Drover__V1__Policy *m, const struct path *where,
                          struct problem *problem)
{
    double coefficient = m->backoff_coefficient;

    if (coefficient != 0 && !(coefficient >= 1 && coefficient <= POLICY_COEFFICIENT_MAX))
        return check_fail(problem, PATH(where, "backoff_coefficient"),
                          "must be 1 to %g, or 0 for the default", POLICY_COEFFICIENT_MAX);
    return m->jitter <= 1 ||
           check_fail(problem, PATH(where, "jitter"), "must be at most 1; negative for none");
}

static bool classes_check(const Drover__V1__Policy *m, const struct path *where,
                          struct problem *problem)
{
    if (m->n_non_retryable > POLICY_NON_RETRYABLE_MAX)
        return check_fail(problem, PATH(where, "non_retryable"), "must be at most %d classes",
                          POLICY_NON_RETRYABLE_MAX);
    for (size_t i = 0; i < m->n_non_retryable; i++)
        if (!check_name(m->non_retryable[i], PATH_AT(where, "non_retryable", i), problem))
            return false;
    return true;
}

bool policy_check(const Drover__V1__Policy *message, const struct path *where,
                  struct problem *problem)
{
    const Drover__V1__Policy *m = message;
    const ProtobufCEnumDescriptor *recourse = &drover__v1__recourse__descriptor;

    return !m ||
           (intervals_check(m, where, problem) && factors_check(m, where, problem) &&
            count_check(m->maximum_attempts, PATH(where, "maximum_attempts"), problem) &&
            count_check(m->maximum_expiries, PATH(where, "maximum_expiries"), problem) &&
            classes_check(m, where, problem) &&
            check_enum(recourse, (int)m->on_permanent, PATH(where, "on_permanent"), problem) &&
            check_enum(recourse, (int)m->on_exhausted, PATH(where, "on_exhausted"), problem));
}

/* Replaces in @out each value that @m gives. */
static void policy_overlay(struct policy *out, const Drover__V1__Policy *m)
{
    if (!m)
        return;
    if (m->initial_interval_ms > 0)
        out->initial_interval_ms = m->initial_interval_ms;
    if (m->backoff_coefficient > 0)
        out->backoff_coefficient = m->backoff_coefficient;
    if (m->maximum_interval_ms > 0)
        out->maximum_interval_ms = m->maximum_interval_ms;
    if (m->maximum_attempts > 0)
        out->maximum_attempts = m->maximum_attempts;
    if (m->maximum_expiries > 0)
        out->maximum_expiries = m->maximum_expiries;
    if (m->jitter != 0)
        out->jitter = m->jitter > 0 ? m->jitter : 0;
    if (m->park_interval_ms != 0)
        out->park_interval_ms = m->park_interval_ms > 0 ? m->park_interval_ms : POLICY_PARK_NEVER;
    if (m->silence_interval_ms != 0)
        out->silence_interval_ms =
            m->silence_interval_ms > 0 ? m->silence_interval_ms : POLICY_PARK_NEVER;
    if (m->on_permanent != DROVER__V1__RECOURSE__RECOURSE_UNSPECIFIED)
        out->on_permanent = m->on_permanent;
    if (m->on_exhausted != DROVER__V1__RECOURSE__RECOURSE_UNSPECIFIED)
        out->on_exhausted = m->on_exhausted;
    if (m->n_non_retryable > 0) {
        out->non_retryable = m->non_retryable;
        out->n_non_retryable = m->n_non_retryable;
    }
}

void policy_resolve(struct policy *out, const Drover__V1__Policy *workflow,
                    const Drover__V1__Policy *step, const Drover__V1__Policy *revert)
{
    *out = (struct policy){
        .initial_interval_ms = POLICY_INITIAL_INTERVAL_MS,
        .backoff_coefficient = POLICY_BACKOFF_COEFFICIENT,
        .maximum_interval_ms = POLICY_MAXIMUM_INTERVAL_MS,
        .maximum_attempts = POLICY_MAXIMUM_ATTEMPTS,
        .maximum_expiries = POLICY_MAXIMUM_EXPIRIES,
        .jitter = POLICY_JITTER,
        .park_interval_ms = POLICY_PARK_INTERVAL_MS,
        .silence_interval_ms = POLICY_SILENCE_INTERVAL_MS,
        .on_permanent = DROVER__V1__RECOURSE__RECOURSE_COMPENSATE,
        .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_PARK,
    };
    policy_overlay(out, workflow);
    policy_overlay(out, step);
    policy_overlay(out, revert);
    if (out->maximum_interval_ms < out->initial_interval_ms)
        out->maximum_interval_ms = out->initial_interval_ms;
}
