// SPDX-License-Identifier: Apache-2.0
/*
 * Dead letters: messages that are given up, in the queue drover.dead, and the alerts about them
 */
#pragma once

#include "scheduler/op.h"

/* The queue drover.dead, which is inspected once a minute. */
struct dead_letters {
    int64_t inspect_at; /* time of the next inspection */
    uint64_t there;     /* messages that the last inspection found */
    uint64_t own;       /* messages that this process has put there and raised alerts about */
    uint64_t recorded;  /* ... of these, recorded in the store */
    uint64_t recording; /* ... of these, named in the last call to the store */
};

/* Gives a delivery up: publishes it to drover.dead with a reason, then acknowledges it, and
 * raises an alert. */
void dead_letter_send(struct scheduler *s, struct item *item, const char *reason);

/* The same without the alert, if another alert is about the cause. A later inspection of
 * drover.dead reports these messages. */
void dead_letter_send_quietly(struct scheduler *s, struct item *item, const char *reason);

/* Raises the alert about a dead letter. @job: "" if it is about none. */
void dead_letter_alert(struct scheduler *s, const char *job, const char *reason);

/* The time of the next inspection of drover.dead; INT64_MAX: there is no connection yet. */
int64_t dead_letter_inspect_at(const struct scheduler *s);
/* drover.dead was inspected: one scheduler raises an alert about messages there about which no
 * scheduler has raised one. */
void dead_letter_inspected(struct scheduler *s, uint64_t messages);
