// SPDX-License-Identifier: Apache-2.0
/*
 * Causes of alerts that many steps or jobs share: the store decides whether one is news
 */
#pragma once

#include "scheduler/alert.h"

/* ms between two calls that ask the store whether an alert about an actor is news. Requests that
 * were sent together come back together, a thousand of them within a second or two. The time is
 * not longer, because another scheduler may record meanwhile that the cause is over, and the
 * next alert must not be missed. */
#define ALERT_ASK_AGAIN_MS 3000
#define ALERT_ASKED_MAX 1000 /* causes remembered for that */

/* An alert of a transition about the actor of a step. @op: of the job. @at: the store's time. */
void alert_cause_raise(struct scheduler *s, const struct op *op, const struct ops_alert *of,
                       int64_t at, struct workflow *w);
/* A sweep cannot read this job: one alert for as long as that goes on. @at: ms, as the
 * supervisor says. */
void alert_cause_corrupt(struct scheduler *s, struct item *item, const char *job, int64_t at);
void alert_cause_free_all(struct scheduler *s);
