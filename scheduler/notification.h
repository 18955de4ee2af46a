// SPDX-License-Identifier: Apache-2.0
/*
 * ON settled, ON Notify: publishes a notification of the outbox
 */
#pragma once

#include "base/str.h"
#include "scheduler/item.h"

/* Then the notification is a dead letter; common/store/notifications.lua has the waits between. */
#define NOTIFICATION_TRIES 5

/* Publishes a notification of the outbox, the end of a turn or an alert, and deletes it from the
 * outbox when the broker has confirmed it. @digest: of the job's definition, "" if not known. */
void notification_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                      const char *digest);

/* A supervisor asks for it (Notify): publishes it, unless this scheduler does so at present. */
void notification_asked(struct scheduler *s, struct item *item, const char *job, uint64_t seq);

/* Whether an alert of this reason is about a job, and so in the outbox. */
bool notification_is_alert(struct bytes reason);
