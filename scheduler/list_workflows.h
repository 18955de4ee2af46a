// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListWorkflows: answers with the registered workflows, or one definition
 */
#pragma once

#include "scheduler/item.h"

/* Answers the ListWorkflows in item->message. The operation takes a reference to @item; the caller
 * keeps its own. */
void list_workflows(struct scheduler *s, struct item *item);
