// SPDX-License-Identifier: Apache-2.0
/*
 * Checker: the invariants of a world, whatever faults strike it
 *
 * The checker keeps its own model of every job, made from the store's history, the effects of
 * handlers and what clients receive. After every call it compares the store's records with the
 * model. A violation begins with the number of the promise that it breaks, in docs/RELIABILITY.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "bus/bus.h"
#include "drover/v1/control.pb-c.h"
#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "drover/v1/task.pb-c.h"
#include "model/effect.h"
#include "model/workflow.h"
#include "store/store.h"
#include "world/plan.h"
#include "world/timeline.h"

struct checker;

/* What every Submit carries: an input, a label with the id of the job, and a trace context. */
#define CHECKER_INPUT "input"
#define CHECKER_LABEL "job"
#define CHECKER_TRACE "00-%s-01"

struct checker *checker_new(struct timeline *t, struct simstore *store, const struct plan *plan);
struct checker *checker_free(struct checker *c);

/* The violation; NULL: none. */
const char *checker_violation(const struct checker *c);

/* Reports a violation; only the first one counts. */
void checker_fail(struct checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A client is about to submit this job, which must not begin before @start_at; takes a reference.
 * */
void checker_job(struct checker *c, const char *id, struct workflow *w, bool registered,
                 int64_t start_at, bool has_deadline);

/* A process of the name @by has executed a store call; *@heard becomes true when it has the answer.
 * */
void checker_called(struct checker *c, int64_t store_now, uint32_t partition, const char *function,
                    const struct bytes *args, int n, const struct store_answer *answer,
                    const char *by, const bool *heard);

/* A client is about to submit another job under this id, or a body that cannot be decoded. */
void checker_conflicts(struct checker *c, const char *id);
void checker_unreadable(struct checker *c, struct bytes body);

/* A scheduler was killed. */
void checker_died(struct checker *c);
/* This incarnation of a scheduler is about to report that it was not lost over a message it had
 * begun. */
void checker_survived(struct checker *c, struct bytes digest, struct bytes incarnation);

/* The broker has taken or refused a message. */
void checker_published(struct checker *c, const struct bus_message *m, enum bus_outcome outcome,
                       bool lost);

/* The broker has delivered it to a consumer. */
void checker_delivered(struct checker *c, const struct bus_message *m);

/* The broker has lost a message with its queue. @delivered: it had been delivered; the effects that
 * it had by then are left to a lease. */
void checker_dropped(struct checker *c, const struct bus_message *m, bool delivered);

/* A scheduler acknowledges a delivery of this link. The effects of the delivery must have happened,
 * or another copy of it must be there to cause them. */
void checker_acked(struct checker *c, int64_t store_now, const struct simlink *link,
                   const struct bus_delivery *d);

/* Whether a message was put into drover.dead. */
bool checker_given_up(struct checker *c, struct bytes body);

/* An agent begins a dispatch, or reports so. */
void checker_begun(struct checker *c, const char *token);
/* An agent is about to report that it has begun a request of this connection, or of an earlier one.
 * */
void checker_says_begun(struct checker *c, const char *token, uint64_t agent);
/* On this connection an agent acknowledges a copy of the request, or gives it back. */
void checker_handed_in(struct checker *c, const char *token, uint64_t agent, bool acknowledged);
/* An agent acknowledges a delivery of an earlier connection: it may now give back another copy of a
 * request for which it has reported Progress. */
void checker_handed_in_nothing(struct checker *c, uint64_t agent);
/* A handler begins. */
void checker_run(struct checker *c, const Drover__V1__StepRequest *request, int64_t lease_left);
/* A handler takes effect, under the key of its token. Return: false if it must not: its work was
 * already taken back, or an agent has said that it will never take effect. */
bool checker_act(struct checker *c, const char *token);
/* A handler says that no run of this key took effect, and that none of this attempt or an earlier
 * one will. Return: false if that is not true. */
bool checker_did_nothing(struct checker *c, const char *token);

/* An agent is about to send a false reply with this token. */
void checker_lied(struct checker *c, const char *token);

/* What a client receives. */
void checker_receipt(struct checker *c, const Drover__V1__Receipt *m);
void checker_event(struct checker *c, const Drover__V1__JobEvent *m);
void checker_status(struct checker *c, const Drover__V1__JobStatus *m);
/* @from: the number from which on it has asked. */
void checker_history(struct checker *c, const char *id, uint64_t from, const Drover__V1__Answer *m);

/* checker_list() begins a ListJobs of a client; checker_listed() takes its answers, page by page,
 * each of @most jobs. */
struct checker_list;
struct checker_list *checker_list(struct checker *c);
void checker_listed(struct checker *c, struct checker_list *list, uint32_t most,
                    const Drover__V1__Answer *m);

/* The store's clock, which showed @was, has been set. After a step back the bounds in `due` may be
 * wrong until a supervisor has noticed it, and sweeps may find that. */
void checker_clock_set(struct checker *c, int64_t was, int64_t by);

/* checker_goes_back(): the store has gone back in time. The model begins anew, and the calls that
 * are left are reported again until checker_went_back(). What is known from outside the store
 * stays: the effects of handlers, and what was published and received. */
void checker_goes_back(struct checker *c);
void checker_went_back(struct checker *c);

/* Whether a job was recorded and is lost. */
bool checker_lost(struct checker *c, const char *id);

/* Whether a job was deleted after its retention. */
bool checker_forgot(struct checker *c, const char *id);

/* True if nothing will happen any more by itself: every job has settled or is parked for good, and
 * the outbox is empty. */
bool checker_at_rest(struct checker *c);
/* By now there must be an alert for every parked step. */
void checker_alerted(struct checker *c);
/* The number of jobs that are not deleted, as their retention is not over. */
uint32_t checker_kept(const struct checker *c);
/* If there are no jobs, no key of them may be left. */
void checker_left(struct checker *c);
/* Calls fn for each job that is parked for good. */
void checker_parked(struct checker *c, void (*fn)(void *ctx, const char *job), void *ctx);

/* Checks everything that can be checked at rest. */
void checker_end(struct checker *c);

/* One line for each job that has not settled. */
void checker_describe(struct checker *c, FILE *out);
