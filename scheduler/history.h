// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with History: answers with what the store has recorded of a job
 */
#pragma once

#include "scheduler/item.h"

void history(struct scheduler *s, struct item *item);
