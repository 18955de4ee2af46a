// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control: finds out what it asks for, and answers a Query or drives a job
 */
#pragma once

#include "scheduler/item.h"

void on_control(struct scheduler *s, struct item *item);
