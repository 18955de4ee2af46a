// SPDX-License-Identifier: Apache-2.0
/*
 * Losses: requests that the broker has lost with a queue are sent again
 *
 * A queue that is deleted takes its messages with it. Who notices that has the store record it
 * (store function `lost`), and supervisors then name the dispatches that are to be sent again. A
 * restart of the broker is noticed by supervisors: supervisor/loss.h.
 */
#pragma once

#include "base/list.h"
#include "scheduler/item.h"

#define LOSS_COLLECT_MS 500 /* in which reports of the agents of an actor are taken together */
#define LOSS_AGAIN_MS 10000 /* between two losses that the agents of an actor report */

struct losses {
    struct list waiting;         /* struct loss_op, which begin when the reports are collected */
    struct loss_report *reports; /* the last of each actor, by its name */
};

void loss_init(struct losses *l);
/* ON Resend: a person has found that messages may be lost. It is answered when all is recorded. */
void loss_resend(struct scheduler *s, struct item *item);
/* An agent reports that the task queue of its actor was not there, or was deleted. */
void loss_reported(struct scheduler *s, struct item *item);
/* The bus has found the same of the task queue of an actor, and waits for SCHEDULER_DECLARE; or of
 * the queue of the replies of WIRE_ALL_ACTORS. */
void loss_found(struct scheduler *s, const char *actor);
/* Begins to record the losses that are due; loss_next() is when the next one is. */
void loss_tick(struct scheduler *s);
int64_t loss_next(const struct scheduler *s);
void loss_free(struct scheduler *s);
