// SPDX-License-Identifier: Apache-2.0
/*
 * ON expired: the broker returns a request that no agent took within its wait
 */
#pragma once

#include "scheduler/item.h"

void on_expired(struct scheduler *s, struct item *item, const struct bus_delivery *d);
