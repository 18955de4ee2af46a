// SPDX-License-Identifier: Apache-2.0
/*
 * Workflow: a definition that was checked and numbered
 *
 * It is immutable and counts its references (for one thread). Steps are numbered in the order in
 * which they were written; the store and the machines use these numbers everywhere.
 *
 * The canonical form is the Workflow message encoded again: a field that was not given is not given
 * there either, so that a new default does not change old digests; `after` and `take` are in the
 * order of the steps; fields that this build does not know are dropped. The digest of the canonical
 * form names the definition.
 *
 * Called by the scheduler, the command line, io/config/workflow_file and the other files of model.
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
#include "model/wire_limits.h"

enum {
    WORKFLOW_E_INVALID = 1,
};

#define WORKFLOW_COMPLETE_MAX_MS (366 * POLICY_DAY_MS)
#define WORKFLOW_TRIES_MAX 1000
#define WORKFLOW_TRIES_INTERVAL_MS POLICY_SECOND_MS
#define WORKFLOW_TRIES_COEFFICIENT 2.0

#define WORKFLOW_NONE UINT32_MAX /* no such step */

/* The values of a request for a step in one direction, with inherited ones and defaults filled in.
 */
struct workflow_dispatch {
    const char *actor;
    const char *action;
    const Drover__V1__Payload *arguments; /* NULL for none */
    int64_t lock_ms;
    int64_t wait_ms;
    int64_t heartbeat_ms; /* at most lock_ms; 0 for none */
    struct policy policy;
};

struct workflow_step {
    const char *name;
    struct workflow_dispatch forward;
    struct workflow_dispatch revert; /* if !has_revert: a copy of forward that is never sent */
    bool has_revert;
    bool waive_revert;
    uint32_t n_after;
    uint32_t n_dependents;
    uint32_t n_take;
    const uint32_t *after;      /* ascending */
    const uint32_t *dependents; /* ascending */
    const uint32_t *take; /* ascending, part of after: steps whose results a request carries */
};

struct workflow {
    const Drover__V1__Workflow *message; /* in canonical form; all names point into it */
    const char *name;                    /* "" if it has no name; then version is 0 */
    uint32_t version;
    char full_name[WIRE_WORKFLOW_REF_MAX + 1]; /* "name@version", "" if it has no name */
    char digest[ID_DIGEST_LEN + 1];
    struct bytes canonical;
    size_t memory;              /* bytes that all of it takes, accurate to a third */
    int64_t complete_within_ms; /* 0 for no deadline */
    Drover__V1__Recourse on_deadline;
    uint32_t tries;
    int64_t tries_interval_ms; /* 0 for no pause */
    double tries_coefficient;  /* 1 to POLICY_COEFFICIENT_MAX */
    bool compensation_expected;
    uint32_t n_steps;
    uint32_t n_edges;
    uint32_t n_roots;
    uint32_t n_sinks;
    const struct workflow_step *steps;
    const uint32_t *roots; /* steps without dependencies, ascending */
    const uint32_t *sinks; /* steps without dependents, ascending */
};

/**
 * workflow_new() - check and number a definition
 * @definition: not kept
 * @field:      its path in the message that contains it, for @problem; "" if there is none
 *
 * Refused are: no steps or more than WIRE_STEPS_MAX, more than WIRE_EDGES_MAX dependencies, names
 * that are missing, not unique or against id_name_valid(), a dependency that is unknown, named
 * twice, the step itself or on a cycle, a `take` that is not in `after`, values out of range,
 * arguments over WIRE_INPUT_MAX, a canonical form over WIRE_MESSAGE_MAX, a name without a version
 * or the reverse.
 *
 * Return: 0 with one reference for the caller, -ENOMEM, or WORKFLOW_E_INVALID with @problem set.
 */
int workflow_new(struct workflow **out, const Drover__V1__Workflow *definition, const char *field,
                 struct problem *problem);

/**
 * workflow_new_from_bytes() - the same, from an encoded Workflow such as the store keeps
 * @encoded: checked like any other definition; not kept
 */
int workflow_new_from_bytes(struct workflow **out, struct bytes encoded, const char *field,
                            struct problem *problem);

/* Adds a reference. Return: @w. */
struct workflow *workflow_ref(struct workflow *w);

/* Releases one reference. Accepts NULL. Return: NULL. */
struct workflow *workflow_unref(struct workflow *w);
CLEANUP_DEFINE(struct workflow *, workflow_unref)

/* Return: the number of the step of that name; WORKFLOW_NONE if there is none. */
uint32_t workflow_find(const struct workflow *w, struct bytes name);
