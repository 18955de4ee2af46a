// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with History: answers with what the store has recorded of a job
 */
#pragma once

#include "scheduler/item.h"

/* Answers the History in item->message. The operation takes a reference to @item; the caller keeps
 * its own. */
void history(struct scheduler *s, struct item *item);
