// SPDX-License-Identifier: Apache-2.0
/*
 * Dispatch: publishes requests, alone or in batches, and reports those that reach no queue
 */
#pragma once

#include "base/pace.h"
#include "scheduler/publish.h"

/* A batch holds at most WIRE_BATCH_MAX requests, at most SERVICE_TIME_BATCH_US of work for each
 * slot of an agent, and at most so many bytes. */
#define DISPATCH_BATCH_BYTES (32 * WIRE_KIB)
/* ms that a request waits in this process before the store is asked again whether it is wanted.
 * The second time the request waits longer, because every request may have to wait for a slow
 * broker. */
#define DISPATCH_RECHECK_MS 1000
#define DISPATCH_RECHECK_AGAIN_MS (10 * DISPATCH_RECHECK_MS)

enum dispatch_how {
    DISPATCH_ALONE,
    /* It may have been sent before. This copy is sent alone; its failure is not recorded, because
     * the earlier one may be in a queue. */
    DISPATCH_AGAIN,
    DISPATCH_FIRST,   /* a first attempt, which may be sent in a batch */
    DISPATCH_WATCHED, /* follows one without evidence, or an expiry: sent alone, and watched */
};

struct dispatch_terms {
    enum dispatch_how how;
    size_t size;       /* bytes of the request */
    int64_t not_after; /* when its wait is over */
    bool rechecked;    /* the store was asked whether it is still wanted */
};

/* Callbacks for requests that reach no queue. */
struct dispatch_reports {
    /* The dispatch with this token did not reach an agent: record_without_reply(). */
    void (*not_delivered)(struct scheduler *s, struct item *item, enum report_kind kind,
                          const char *job, const char *token, const char *class,
                          const char *message);
    /* The request has waited in this process: transition_recheck(). */
    void (*waited)(struct scheduler *s, struct item *item, const char *job, const char *token);
};

struct dispatcher {
    const struct dispatch_reports *reports;
    struct list batches; /* they leave with the next flush */
    struct pace pace;
    struct actor *actors; /* whose task queues are declared: of registered workflows, others ... */
    unsigned other_actors_left; /* ... of which this number may still be added */
    char *json_actors;          /* that get requests in JSON: names separated by a space; owned */
};

/* @reports: not copied. */
void dispatch_init(struct dispatcher *d, const struct dispatch_reports *reports);
/* Publishes one request, alone or in a batch. */
void dispatch_request(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m,
                      const struct dispatch_terms *terms);
/* Publishes the batches, if it is time. */
void dispatch_flush(struct scheduler *s);
/* The time of the next flush that is needed; INT64_MAX for none. */
int64_t dispatch_next(const struct scheduler *s);
void dispatch_free(struct scheduler *s);
