// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: the most that a message may have
 *
 * docs/PROTOCOL.md describes them; those of policies are in model/policy.h. Called by all
 * roles, mostly through model/wire.h.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/id.h"
#include "drover/v1/types.pb-c.h"

#define WIRE_ALL_ACTORS "*" /* in place of the name of one */

#define WIRE_KIB ((size_t)1024)
#define WIRE_MIB (1024 * WIRE_KIB)

#define WIRE_STEPS_MAX 10000
#define WIRE_EDGES_MAX 100000
#define WIRE_LABELS_MAX 32
#define WIRE_PAGE_MAX 1000       /* steps in one JobStatus; entries, or workflows, in one Answer */
#define WIRE_LIST_MAX 200        /* jobs in one Answer */
#define WIRE_LIST_DEFAULT 50     /* jobs in one Answer if the query has no limit */
#define WIRE_CURSOR_MAX 160      /* bytes of ListJobs.after */
#define WIRE_TAKE_DEFAULT_MAX 16 /* dependencies up to which `take` may be left out */
#define WIRE_PRIORITY_MAX 9

#define WIRE_MESSAGE_MAX (4 * WIRE_MIB)   /* bytes of one body */
#define WIRE_INPUT_MAX (1 * WIRE_MIB)     /* of the input of a job; of the arguments of a step */
#define WIRE_RESULT_MAX (256 * WIRE_KIB)  /* of the result of a step */
#define WIRE_JOB_DATA_MAX (64 * WIRE_MIB) /* of input and results of a job; the store checks it */

/* Bytes of texts. */
#define WIRE_LABEL_NAME_MAX 128
#define WIRE_LABEL_VALUE_MAX 256
#define WIRE_REPLY_TO_MAX 255 /* a short string of AMQP */
#define WIRE_TRACEPARENT_MAX 128
#define WIRE_CONTENT_TYPE_MAX 128
#define WIRE_TOKEN_MAX 64
#define WIRE_REPLIES_MAX 1000 /* replies, and as many Progress, that are read of one message */
#define WIRE_SUBMITS_MAX 100  /* Submits in one message */
#define WIRE_BATCH_MAX 8      /* requests that a scheduler puts into one message */
#define WIRE_REASON_MAX 1024
#define WIRE_BY_MAX 128
#define WIRE_NOTE_MAX 1024
#define WIRE_ERROR_CLASS_MAX 128
#define WIRE_ERROR_MESSAGE_MAX (1 * WIRE_KIB)    /* a longer one is cut, not refused */
#define WIRE_ERROR_DETAILS_MAX (16 * WIRE_KIB)   /* longer ones are cut, not refused */
#define WIRE_WORKFLOW_REF_MAX (ID_NAME_MAX + 11) /* "name@4294967295" */
#define WIRE_KEY_MAX (2 * ID_NAME_MAX + 12)      /* "job/step/4294967295" */

/*
 * Bytes that a decoded message may take: a factor for each byte of the body, and a base. protobuf-c
 * makes 150 bytes of an empty entry that is 2 bytes on the wire, so without a bound a small body
 * could take a lot. The factor allows the valid message that grows most: a workflow of 10 000 steps
 * with a short name and actor each, where a step is 11 bytes on the wire and 290 in memory.
 */
#define WIRE_MEMORY_FACTOR 23
#define WIRE_JSON_MEMORY_FACTOR 11 /* for JSON; parsing takes up to JSON_MEMORY_MAX besides */
#define WIRE_MEMORY_BASE (1 * WIRE_MIB)
#define WIRE_MEMORY_MAX (96 * WIRE_MIB)

static_assert(WIRE_INPUT_MAX < WIRE_MESSAGE_MAX, "an input fits a Submit");
static_assert(WIRE_TAKE_DEFAULT_MAX * WIRE_RESULT_MAX <= WIRE_MESSAGE_MAX, "default take fits");
static_assert(WIRE_MESSAGE_MAX <= WIRE_JOB_DATA_MAX, "a Submit fits its job");
static_assert(WIRE_MESSAGE_MAX * WIRE_MEMORY_FACTOR + WIRE_MEMORY_BASE <= WIRE_MEMORY_MAX,
              "memory is bounded");
static_assert(WIRE_PAGE_MAX <= WIRE_STEPS_MAX, "a page is a part");
static_assert(WIRE_ERROR_DETAILS_MAX < WIRE_RESULT_MAX, "an error is smaller than a result");

/* Return: the bytes of a payload that count against a limit; 0 for NULL. */
static inline size_t wire_payload_size(const Drover__V1__Payload *payload)
{
    return payload ? strlen(payload->content_type) + payload->data.len : 0;
}
