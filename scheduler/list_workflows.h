// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListWorkflows: answers with the registered workflows, or one definition
 */
#pragma once

#include "scheduler/item.h"

void list_workflows(struct scheduler *s, struct item *item);
