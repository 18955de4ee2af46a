// SPDX-License-Identifier: Apache-2.0
/*
 * ON expired: the broker returns a request that no agent took within its wait
 */
#pragma once

#include "scheduler/item.h"

/* Records each request in item->message as unstarted or rejected, unless it is a copy. The records
 * take references to
 * @item; the caller keeps its own. @d: the caller's, read during the call only. */
void on_expired(struct scheduler *s, struct item *item, const struct bus_delivery *d);
