// SPDX-License-Identifier: Apache-2.0
/*
 * State: what a scheduler keeps in memory, by the file that works on it
 *
 * The headers of these files describe the parts. The files of scheduler/ call each other in one
 * direction:
 *
 *     scheduler.c       the step function: each event goes to the file that handles it
 *     on_delivery.c     decodes a message ... → on_submit.c on_replies.c on_expired.c on_control.c
 *                       (on_control.c → steer.c change.c history.c list_jobs.c list_workflows.c)
 *     record.c          records what happened to dispatches
 *     transition.c      carries out what the store says: requests, alerts, notifications
 *     request.c dispatch.c watch.c          requests
 *     notification.c alert_cause.c alert.c  events for people and clients
 *     poison.c dead_letter.c rollback.c registration.c definition.c answer.c
 *     publish.c op.c item.c                 what all of them use
 *
 * What lies lower reports upwards by callbacks only: op.answered, op.then, item_kind,
 * publish_kind, dispatch_reports, intake.read.
 *
 * Only the files of scheduler/, and tests, include it.
 */
#pragma once

#include "base/rng.h"
#include "scheduler/alert.h"
#include "scheduler/allowance.h"
#include "scheduler/dead_letter.h"
#include "scheduler/definition.h"
#include "scheduler/dispatch.h"
#include "scheduler/intake.h"
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
    unsigned full_at;    /* percent of the store's memory ... */
    bool store_full;     /* ... which is reached */
    struct rng rng;
    struct nonces nonces;

    /* of the present scheduler_step() */
    int64_t now;
    struct effects *out;
    int64_t store_time; /* ms, as an answer has last shown it */

    /* work in progress */
    uint64_t last_id; /* of a call or a publish */
    struct list items;
    struct call *calls;  /* struct call, by id: op.c */
    struct heap timers;  /* operations that wait to repeat a call */
    struct list stalled; /* transitions whose requests wait for capacity */
    struct publishes publishes;
    struct recording recording;
    struct dispatcher dispatcher;
    struct intake intake;
    struct suspects suspects;
    struct watches watches;
    struct dead_letters dead_letters;
    struct alerts alerts;
    struct rollback rollback;
    struct registration registration;

    /* what it remembers */
    struct definitions definitions;
    struct service_times service_times;
    struct allowances allowances;
    struct scheduler_stats stats;
};
