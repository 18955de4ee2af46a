// SPDX-License-Identifier: Apache-2.0
/*
 * Workflow: a definition of steps, proven sound and ready for use
 *
 * Immutable once made, and counted by reference (one thread). Steps are numbered in the order they
 * were written; every place in the store and in the machines uses these numbers.
 *
 * The canonical form is the Workflow message encoded again: what is not given stays not given, so
 * that a new default does not change old digests; `after` and `take` are in step order; fields this
 * build does not know are dropped. Its digest names the definition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/types.pb-c.h"
#include "model/policy.h"
#include "model/wire.h"

enum {
    WORKFLOW_E_INVALID = 1,
};

#define WORKFLOW_COMPLETE_MAX_MS (366 * POLICY_DAY_MS)
#define WORKFLOW_TRIES_MAX 1000
#define WORKFLOW_TRIES_INTERVAL_MS POLICY_SECOND_MS
#define WORKFLOW_TRIES_COEFFICIENT 2.0

#define WORKFLOW_NONE UINT32_MAX /* no such step */

/* What a request for a step carries in one direction, nothing left open. */
struct workflow_dispatch {
    const char *actor;
    const char *action;
    const Drover__V1__Payload *arguments; /* NULL where none */
    int64_t lock_ms;
    int64_t wait_ms;
    int64_t heartbeat_ms; /* 0: none asked for; else at most lock_ms */
    struct policy policy;
};

struct workflow_step {
    const char *name;
    struct workflow_dispatch forward;
    struct workflow_dispatch revert; /* as forward where !has_revert; never sent then */
    bool has_revert;
    bool waive_revert;
    uint32_t n_after;
    uint32_t n_dependents;
    uint32_t n_take;
    const uint32_t *after;      /* ascending */
    const uint32_t *dependents; /* ascending */
    const uint32_t *take;       /* ascending, part of after: whose results a request carries */
};

struct workflow {
    const Drover__V1__Workflow *message; /* the canonical one; all names point into it */
    const char *name;                    /* "" where unnamed; then version is 0 */
    uint32_t version;
    char full_name[WIRE_WORKFLOW_REF_MAX + 1]; /* "name@version", "" where unnamed */
    char digest[ID_DIGEST_LEN + 1];
    struct bytes canonical;
    size_t memory;              /* bytes that all of it takes, about: within a third of it */
    int64_t complete_within_ms; /* 0: no bound */
    Drover__V1__Recourse on_deadline;
    uint32_t tries;
    int64_t tries_interval_ms; /* 0: none */
    double tries_coefficient;  /* 1 to POLICY_COEFFICIENT_MAX */
    bool compensation_expected;
    uint32_t n_steps;
    uint32_t n_edges;
    uint32_t n_roots;
    uint32_t n_sinks;
    const struct workflow_step *steps;
    const uint32_t *roots; /* steps that wait for none, ascending */
    const uint32_t *sinks; /* steps that none waits for, ascending */
};

/**
 * workflow_new() - prove a definition sound
 * @definition: not kept
 * @field:      where it stands in its document, for @problem: "" or such as "definition"
 *
 * Refuses: no or more than WIRE_STEPS_MAX steps, more than WIRE_EDGES_MAX dependencies, names that
 * are missing, doubled or break id_name_valid(), a dependency that is unknown, doubled, the step
 * itself or on a cycle, a `take` that is not in `after`, values out of range, arguments over
 * WIRE_INPUT_MAX, a canonical form over WIRE_MESSAGE_MAX, a name without a version or the reverse.
 *
 * Return: 0 with one reference for the caller, -ENOMEM, or WORKFLOW_E_INVALID with @problem set.
 */
int workflow_new(struct workflow **out, const Drover__V1__Workflow *definition, const char *field,
                 struct problem *problem);

/**
 * workflow_new_from_bytes() - the same, from an encoded Workflow such as the store keeps
 *
 * Checked like any other; the bytes are not kept.
 */
int workflow_new_from_bytes(struct workflow **out, struct bytes encoded, const char *field,
                            struct problem *problem);

struct workflow *workflow_ref(struct workflow *w);

/* Returns NULL; accepts NULL. */
struct workflow *workflow_unref(struct workflow *w);
CLEANUP_DEFINE(struct workflow *, workflow_unref)

/* The number of a step, WORKFLOW_NONE where there is none of that name. */
uint32_t workflow_find(const struct workflow *w, struct bytes name);
