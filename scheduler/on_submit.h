// SPDX-License-Identifier: Apache-2.0
/*
 * ON Submit: records a job
 */
#pragma once

#include "scheduler/item.h"

void on_submit(struct scheduler *s, struct item *item, const struct bus_delivery *d);
