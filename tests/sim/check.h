// SPDX-License-Identifier: Apache-2.0
/*
 * Checker: what must be true of a world, whatever strikes it
 *
 * Keeps a model of its own of every job, fed by the store's history, by what handlers did and by
 * what clients saw, and holds the store's records against it after every call. A violation begins
 * with the number of the promise that it breaks, in docs/RELIABILITY.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "bus.h"
#include "drover/v1/control.pb-c.h"
#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"
#include "model/workflow.h"
#include "plan.h"
#include "store.h"
#include "timeline.h"

struct checker;

/* What every Submit carries: an input, a label with the id of its job, and where it belongs in a
 * trace. */
#define CHECKER_INPUT "input"
#define CHECKER_LABEL "job"
#define CHECKER_TRACE "00-%s-01"

struct checker *checker_new(struct timeline *t, struct simstore *store, const struct plan *plan);
struct checker *checker_free(struct checker *c);

/* What was violated, NULL while nothing is. */
const char *checker_violation(const struct checker *c);

/* Says that something is violated; only the first counts. */
void checker_fail(struct checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A job that a client is about to submit, not to begin before @start_at; takes a reference. */
void checker_job(struct checker *c, const char *id, struct workflow *w, bool registered,
                 int64_t start_at, bool has_deadline);

/* A store call has been executed, that of a process of this name; it is @heard as soon as that has
 * the answer. */
void checker_called(struct checker *c, int64_t store_now, uint32_t partition, const char *function,
                    const struct bytes *args, int n, const struct store_answer *answer,
                    const char *by, const bool *heard);

/* A client is about to submit another job by this id; or to send what cannot be read. */
void checker_conflicts(struct checker *c, const char *id);
void checker_unreadable(struct checker *c, struct bytes body);

/* A scheduler was killed. */
void checker_died(struct checker *c);
/* ... was not lost over a message that it had begun, and is about to say so. */
void checker_survived(struct checker *c, struct bytes digest, struct bytes life);

/* The broker has taken or refused a message. */
void checker_published(struct checker *c, const struct bus_message *m, enum bus_outcome outcome,
                       bool lost);

/* ... has sent it to a consumer. */
void checker_delivered(struct checker *c, const struct bus_message *m);

/* ... has lost one that it had taken, with the queue. What that has caused already, where it was
 * @delivered, is left to a lease. */
void checker_dropped(struct checker *c, const struct bus_message *m, bool delivered);

/* A scheduler acknowledges a delivery of this link. What the delivery caused must have been done,
 * or another copy of it must be left to cause it. */
void checker_acked(struct checker *c, int64_t store_now, const struct simlink *link,
                   const struct bus_delivery *d);

/* Whether a message was put into drover.dead. */
bool checker_given_up(struct checker *c, struct bytes body);

/* An agent begins a dispatch, or says so. */
void checker_begun(struct checker *c, const char *token);
/* An agent is about to say so of a request that it had on this connection, or on an earlier one. */
void checker_says_begun(struct checker *c, const char *token, uint64_t agent);
/* On this connection an agent acknowledges a copy of the request, or gives it back. */
void checker_handed_in(struct checker *c, const char *token, uint64_t agent, bool acknowledged);
/* ... what it had on an earlier connection: of what it has told then it may give back another copy.
 */
void checker_handed_in_nothing(struct checker *c, uint64_t agent);
/* A handler begins. */
void checker_run(struct checker *c, const Drover__V1__StepRequest *request, int64_t lease_left);
/* ... takes effect, under the key of its token. Return: false where it must not: what it is about
 * to do was taken back already, or somebody has said that it will never be. */
bool checker_act(struct checker *c, const char *token);
/* ... says that no run of this key took effect, and none of this attempt or an earlier one will.
 * Return: false where that is not true. */
bool checker_did_nothing(struct checker *c, const char *token);

/* An agent is about to say something with this token that nobody did. */
void checker_lied(struct checker *c, const char *token);

/* What a client hears. */
void checker_receipt(struct checker *c, const Drover__V1__Receipt *m);
void checker_event(struct checker *c, const Drover__V1__JobEvent *m);
void checker_status(struct checker *c, const Drover__V1__JobStatus *m);
/* ... from which entry on it has asked. */
void checker_history(struct checker *c, const char *id, uint64_t from, const Drover__V1__Answer *m);

/* A client begins to ask which jobs there are; then what it hears, page by page, each of @most. */
struct checker_list;
struct checker_list *checker_list(struct checker *c);
void checker_listed(struct checker *c, struct checker_list *list, uint32_t most,
                    const Drover__V1__Answer *m);

/* The store's clock showed @was, and has been set. Where it steps back bounds are no bounds until
 * somebody has seen to it, and sweeps may find that. */
void checker_clock_set(struct checker *c, int64_t was, int64_t by);

/* The store has gone back in time: its model begins anew, and the calls that were left are told
 * again in between. What is known from outside (effects, what was published and heard) stays. */
void checker_goes_back(struct checker *c);
void checker_went_back(struct checker *c);

/* Whether a job was recorded, and is gone since. */
bool checker_lost(struct checker *c, const char *id);

/* Whether a job is deleted, its retention being over. */
bool checker_forgot(struct checker *c, const char *id);

/* True when nothing will happen any more by itself: every job has settled or is parked for good,
 * and nothing is owed. */
bool checker_at_rest(struct checker *c);
/* Who looks after jobs knows by now of every step that stands parked. */
void checker_told(struct checker *c);
/* Jobs that are not deleted, as their retention is not over. */
uint32_t checker_kept(const struct checker *c);
/* Where there are none: nothing of them is left. */
void checker_left(struct checker *c);
/* Calls fn for each job that is parked for good. */
void checker_parked(struct checker *c, void (*fn)(void *ctx, const char *job), void *ctx);

/* Everything that can be checked at rest. */
void checker_end(struct checker *c);

/* One line on each job that has not settled. */
void checker_describe(struct checker *c, FILE *out);
