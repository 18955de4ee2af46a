// SPDX-License-Identifier: Apache-2.0
/*
 * ON Submit: records a job
 */
#pragma once

#include "scheduler/item.h"

/* Records the job of item->message. The operation takes a reference to @item; the caller keeps its
 * own. @d: the caller's, read during the call only. */
void on_submit(struct scheduler *s, struct item *item, const struct bus_delivery *d);
