// SPDX-License-Identifier: Apache-2.0
/*
 * State: what a scheduler keeps in memory, by the file that works on it
 *
 * The headers of these files describe the parts. The files call each other in one direction: each
 * calls only files further down in this list, or to its right.
 *
 *     events              scheduler.c
 *     messages            on_delivery.c submits.c
 *                         on_submit.c on_replies.c on_expired.c on_control.c
 *     what Controls ask   steer.c change.c history.c list_jobs.c list_workflows.c
 *     ends of dispatches  record.c
 *     transitions         transition.c
 *     requests            request.c dispatch.c
 *     suspects, evidence  poison.c watch.c
 *     outbox, causes      notification.c alert_cause.c dead_letter.c rollback.c loss.c
 *     alerts, events      alert.c alert_group.c alert_event.c step_events.c event.c
 *     workflows, answers  registration.c definition.c answer.c client_batch.c
 *     work                intake.c publish.c op.c item.c
 *     limits              allowance.c access.c service_time.c
 *
 * What lies lower calls upwards by callbacks only: those of struct op (send_call, answered, then,
 * on_full, free), op_definition.resume, transition_op.apply, steer_op.stored, alert_op.published,
 * item_kind, publish_kind, dispatch_reports and intake.read.
 *
 * Only these files, and tests, include it.
 */
#pragma once

#include "base/rng.h"
#include "scheduler/alert.h"
#include "scheduler/allowance.h"
#include "scheduler/client_batch.h"
#include "scheduler/dead_letter.h"
#include "scheduler/definition.h"
#include "scheduler/dispatch.h"
#include "scheduler/intake.h"
#include "scheduler/loss.h"
#include "scheduler/poison.h"
#include "scheduler/publish.h"
#include "scheduler/record.h"
#include "scheduler/registration.h"
#include "scheduler/rollback.h"
#include "scheduler/scheduler.h"
#include "scheduler/service_time.h"
#include "scheduler/watch.h"

struct access;

struct scheduler {
    /* what it is */
    char *name;
    char incarnation[ID_TOKEN_LEN + 1]; /* random name of this process */
    const struct access *access;
    uint32_t partitions; /* 0 until the store is connected for the first time */
    int64_t horizon_ms;  /* within which a job must start; 0: none */
    unsigned full_at;    /* percent of the store's memory from which on no new job is taken */
    bool store_full;     /* that limit is reached */
    struct rng rng;
    struct nonces nonces;

    /* of the present scheduler_step() */
    int64_t now;
    struct effects *out;
    int64_t store_time; /* ms, as an answer has last shown it */

    /* work in progress */
    uint64_t last_id; /* of a call or a publish */
    struct list items;
    unsigned ops;        /* operations that exist */
    struct call *calls;  /* struct call, by id: op.c */
    struct heap timers;  /* operations that wait to repeat a call */
    struct list stalled; /* transitions whose requests wait for capacity */
    struct publishes publishes;
    struct recording recording;
    struct dispatcher dispatcher;
    struct client_batches client_batches;
    struct list notifications; /* that are published at present: notification.c */
    struct intake intake;
    struct suspects suspects;
    struct watches watches;
    struct dead_letters dead_letters;
    struct losses losses;
    struct alerts alerts;
    struct rollback rollback;
    struct registration registration;

    /* what it remembers */
    struct definitions definitions;
    struct service_times service_times;
    struct allowances allowances;
    int64_t transient_at; /* time of the last such line of the log; 0: there is none */
    struct scheduler_stats stats;
};
