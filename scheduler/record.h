// SPDX-License-Identifier: Apache-2.0
/*
 * Records: what happened to dispatches, recorded in the store, several in a call
 */
#pragma once

#include "base/pace.h"
#include "scheduler/transition.h"

#define RECORD_CALL_MAX 50 /* records in a call; they take the store about 3 ms */

/* Records one thing that happened to a dispatch. */
struct record_op {
    struct transition_op transition;
    struct ops_record_args record;
    bool alone;                         /* the record must not share a call with others */
    char token[WIRE_TOKEN_MAX + 1];     /* if no message holds it */
    struct buf result;                  /* encoded */
    struct buf error;                   /* encoded */
    const Drover__V1__StepReply *reply; /* NULL if no agent has sent a reply */
};

struct recording {
    struct list *queues; /* operations to record, for each partition ... */
    uint64_t n;          /* ... and their number in all */
    struct pace pace;
};

/* A new operation for a record, which the caller fills in; with one reference, which the
 * caller releases by op_unref(). */
struct record_op *record_new(struct scheduler *s, struct item *item, const char *job);
/* Makes the record a failure with this error. */
void record_fail(struct record_op *r, enum report_kind kind, const char *class,
                 const char *message);
/* Adds the record to those that leave together, at the pace of pace.h. */
void record_add(struct scheduler *s, struct record_op *r);

/* Records an end of a dispatch in place of the agent's reply: unstarted, rejected, unroutable,
 * refused, unsendable, or a result that is too large for the job. @class and @message: of the
 * error, or NULL. */
void record_without_reply(struct scheduler *s, struct item *item, enum report_kind kind,
                          const char *job, const char *token, const char *class,
                          const char *message);

/* The number of partitions is known. */
void record_init(struct scheduler *s);
/* Makes the calls, if it is time; record_next() is the time at which it is needed next. */
void record_flush(struct scheduler *s);
int64_t record_next(const struct scheduler *s);
void record_free_all(struct scheduler *s);
