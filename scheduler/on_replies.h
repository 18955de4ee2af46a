// SPDX-License-Identifier: Apache-2.0
/*
 * ON Replies: records each reply, and renews a lease for each Progress
 */
#pragma once

#include "scheduler/item.h"

/* Whether a message of replies is to be ignored, because agents of its actor recently sent too many
 * replies that no step was waiting for; logs that. */
bool on_replies_ignored(struct scheduler *s, const struct item *item);
/* Records the replies in item->message, and renews leases by its Progress. The operations take
 * references to @item, and point into its message; the caller keeps its own reference. */
void on_replies(struct scheduler *s, struct item *item);
