// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control: finds out what it asks for, and answers a Query or drives a job
 */
#pragma once

#include "scheduler/item.h"

/* Begins what item->message asks for. Its operations take references to @item; the caller keeps its
 * own. */
void on_control(struct scheduler *s, struct item *item);
