// SPDX-License-Identifier: Apache-2.0
/*
 * Features: their names, and the cells of docs/FAULTS.md that worlds must show
 *
 * See feature.h. Called by main.c.
 */
#include "world/feature.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[FEATURE_CELLS_] = {
    [FEATURE_BEGINS_LATER] = "a job begins later",
    [FEATURE_TAKEN_BACK] = "a job is taken back",
    [FEATURE_TAKEN_BACK_IN_FLIGHT] = "... with steps in flight",
    [FEATURE_TAKEN_BACK_AFTER_ITS_END] = "... after its end",
    [FEATURE_BROUGHT_FORWARD_AGAIN] = "a job is brought forward again",
    [FEATURE_BROUGHT_FORWARD_IN_FLIGHT] = "... with undos in flight",
    [FEATURE_FIVE_TURNS] = "a job turns five times",
    [FEATURE_CANCELLED] = "a job is cancelled",
    [FEATURE_FAILURE_TURNS] = "a failure turns a job",
    [FEATURE_TRIED_AGAIN] = "a job is tried again",
    [FEATURE_DEADLINE_HOLDS] = "a deadline holds a job",
    [FEATURE_DEADLINE_TURNS] = "a deadline turns a job",
    [FEATURE_DEADLINE_ENDS] = "a deadline ends a job",
    [FEATURE_PAUSED] = "a job is paused",
    [FEATURE_RESUMED] = "a job is resumed",
    [FEATURE_KILLED] = "a job is killed",
    [FEATURE_RETRIED] = "a step is retried",
    [FEATURE_RETRIED_ALL] = "all steps are retried",
    [FEATURE_EDITED] = "a step becomes other work",
    [FEATURE_CHANGED] = "a step gets other terms",
    [FEATURE_CHANGING] = "a step is undone for a change",
    [FEATURE_ANEW] = "a step begins anew though it may be done",
    [FEATURE_STEP_EVENT] = "a client gets a step event",
    [FEATURE_UNCHANGED] = "a change that waits is not carried out",
    [FEATURE_RESOLVED_DONE] = "a step is resolved as done",
    [FEATURE_RESOLVED_UNDONE] = "a step is resolved as undone",
    [FEATURE_MIGRATED] = "a job migrates to another version",
    [FEATURE_COMMAND_TWICE] = "a command comes twice",
    [FEATURE_COMMAND_SUPERSEDED] = "a command is overtaken",
    [FEATURE_SUBMIT_EXPIRED] = "a Submit comes too late",
    [FEATURE_COMMAND_REFUSED] = "a command is refused",
    [FEATURE_FORGOTTEN] = "a job is forgotten",
    [FEATURE_SUCCEEDED] = "a turn ends SUCCEEDED",
    [FEATURE_COMPENSATED] = "a turn ends COMPENSATED",
    [FEATURE_ENDS_CANCELLED] = "a turn ends CANCELLED",
    [FEATURE_FAILED] = "a turn ends FAILED",
    [FEATURE_COMPENSATION_FAILED] = "a turn ends COMPENSATION_FAILED",
    [FEATURE_ENDS_KILLED] = "a turn ends KILLED",
    [FEATURE_STEP_FAILED] = "a step fails",
    [FEATURE_STEP_DEFERRED] = "a step is deferred",
    [FEATURE_STEP_EXPIRED] = "a lease expires",
    [FEATURE_STEP_SILENT] = "a lease ends without evidence that an agent had the request",
    [FEATURE_STEP_UNSENT] = "a request has waited in its scheduler and is not wanted any more",
    [FEATURE_STEP_UNSTARTED] = "a request is not taken in time",
    [FEATURE_STEP_UNROUTABLE] = "a request has no queue",
    [FEATURE_STEP_UNDONE] = "a step is undone",
    [FEATURE_STEP_SKIPPED] = "a step is passed over",
    [FEATURE_STEP_GIVEN_UP] = "a step is given up",
    [FEATURE_UNDO_ON_THE_WAY_FORWARD] = "a step is undone on the way forward",
    [FEATURE_PARKED_PERMANENT] = "a step is parked, PERMANENT",
    [FEATURE_PARKED_EXHAUSTED] = "a step is parked, EXHAUSTED",
    [FEATURE_PARKED_DEATHS] = "a step is parked, DEATHS",
    [FEATURE_CURSOR] = "a call leaves work for the next one",
    [FEATURE_MANY_STEPS] = "a job of more than 500 steps",
    [FEATURE_MANY_DUE] = "more than a hundred jobs are due",
    [FEATURE_MANY_FORGOTTEN] = "more than twenty jobs are to be forgotten",
    [FEATURE_CONFLICT] = "a Submit takes an id that is taken",
    [FEATURE_UNREADABLE] = "a Submit cannot be read",
    [FEATURE_SUBMIT_INVALID] = "a Submit has no workflow",
    [FEATURE_COMMAND_INVALID] = "a Control has no desired state",
    [FEATURE_SKEWED] = "a command is issued by a wrong clock",
    [FEATURE_RESULT_TOO_LARGE] = "a result is too large",
    [FEATURE_DATA_FULL] = "a job has no room for a result",
    [FEATURE_HISTORY_READ] = "a history is read to its end",
    [FEATURE_LIST_GOES_ON] = "a list of jobs goes on",
    [FEATURE_WORKFLOWS_LISTED] = "the workflows are listed",
    [FEATURE_REPLY_ALREADY] = "a reply is recorded already",
    [FEATURE_REPLY_STALE] = "a reply comes too late",
    [FEATURE_LEASE_RENEWED] = "a lease is renewed",
    [FEATURE_REQUEST_TAKEN] = "a request has left its queue",
    [FEATURE_LONG_RUN] = "a run of more than three heartbeats",
    [FEATURE_RUN_STOPPED] = "a run is stopped",
    [FEATURE_TWO_RUNS] = "two runs of a step at once",
    [FEATURE_RUN_REFUSED] = "a run must not take effect any more",
    [FEATURE_EFFECT_UNREPORTED] = "a run takes effect, and its agent dies",
    [FEATURE_BATCH] = "requests are sent in a batch",
    [FEATURE_BATCH_DEFERRED] = "... and one without a slot is deferred",
    [FEATURE_LIE] = "an agent lies",
    [FEATURE_LIE_BELIEVED] = "... with the token in flight",
    [FEATURE_LIE_BROKEN] = "... and its reply cannot be decoded",
    [FEATURE_CRASH] = "a process is killed",
    [FEATURE_CONNECTION_CUT] = "a connection is cut",
    [FEATURE_STALL] = "a process stands still",
    [FEATURE_DRAIN] = "a process begins to drain",
    [FEATURE_MESSAGE_LOST] = "a message is lost",
    [FEATURE_MESSAGE_DOUBLED] = "a message is doubled",
    [FEATURE_MESSAGE_REFUSED_AND_KEPT] = "a message is refused, and kept",
    [FEATURE_POISON_AGENT] = "a request kills the agent that begins it",
    [FEATURE_POISON_SCHEDULER] = "a message kills the scheduler that reads it",
    [FEATURE_POISON_GIVEN_UP] = "... and is given up",
    [FEATURE_CONNECTION_CLOSED] = "the broker closes a connection over a publish",
    [FEATURE_CONFIRM_LATE] = "a confirm comes late",
    [FEATURE_CONFIRM_MISSED] = "... or never, and its connection is given up",
    [FEATURE_ALARM] = "the broker raises an alarm",
    [FEATURE_ALARM_BLOCKS] = "... and a process is told",
    [FEATURE_SURFACES] = "... and after it a message of a lost connection is taken",
    [FEATURE_WIPED] = "the broker loses all its data",
    [FEATURE_BROKER_RESTARTED] = "the broker loses its transient messages",
    [FEATURE_RESENT] = "a dispatch that the broker has lost is sent again",
    [FEATURE_QUEUE_GONE] = "a queue is deleted",
    [FEATURE_QUEUE_BACK] = "a queue is declared once its loss is recorded",
    [FEATURE_STORE_LATE] = "a call is executed much later",
    [FEATURE_STORE_GONE] = "the store cannot be reached",
    [FEATURE_STORE_CUT] = "a connection to the store breaks",
    [FEATURE_STORE_CUT_DONE] = "... and a call on it is executed all the same",
    [FEATURE_STORE_FULL] = "the store is full",
    [FEATURE_STORE_BACK] = "the store goes back in time",
    [FEATURE_JOB_LOST] = "... and a job is gone",
    [FEATURE_CLOCK_AHEAD] = "the store's clock jumps forward",
    [FEATURE_CLOCK_BACK] = "the store's clock steps back",
};

/* By fault: its description, and the boundaries at which worlds must show it. docs/FAULTS.md is
 * generated from this, too. */
static const struct {
    const char *what;
    const char *boundaries;
} cells[FEATURE_FAULTS + 1] = {
    [1] = {"a process crashes right before", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"},
    [2] = {"a process crashes right after", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"},
    [3] = {"a message is lost", "1 2 4 5 7 8 10 13 14"},
    [4] = {"a message is doubled, a call or run repeated", "1 2 3 4 5 6 7 8 9 10 12 13 14"},
    [5] = {"a message, call or run is overtaken", "1 2 3 4 5 6 7 8 9 10 12 13 14"},
    [6] = {"a message, call or run comes too late", "2 3 4 5 6 7 8 10 11 12 13 14"},
    [8] = {"the connection to the broker breaks", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"},
    [11] = {"the first call since the store's clock has jumped", "1 3 8 9 11 12 13 14"},
    [12] = {"a process that stood still goes on", "3 5 6 7 8 9 11 12 13 14"},
    [13] = {"two supervisors ask for the same", "6 10 11 12"},
    [16] = {"the queue is gone", "2 4 10 13"},
    [18] = {"the store is full", "1 3 8 9 11 12 13 14"},
    [19] = {"a process has been told to end", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"},
    [20] = {"a process crashes right before or after", "1 2 3 4 5 6 7 8 9 10 11 12 13 14"},
};

static bool has(const char *list, long n)
{
    for (char *end; list && *list; list = end)
        if (strtol(list, &end, 10) == n)
            return true;
    return false;
}

const char *feature_name(enum feature feature)
{
    static char name[80];
    int cell = (int)feature - FEATURE_CELLS_;
    int boundary = cell / FEATURE_FAULTS + 1, fault = cell % FEATURE_FAULTS + 1;

    if (feature < FEATURE_CELLS_)
        return names[feature];
    if (!has(cells[fault].boundaries, boundary))
        return NULL;
    snprintf(name, sizeof(name), "B%d.F%d %s", boundary, fault, cells[fault].what);
    return name;
}
