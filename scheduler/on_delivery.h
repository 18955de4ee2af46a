// SPDX-License-Identifier: Apache-2.0
/*
 * ON a delivery: decodes the message, and gives it to the file that handles its kind, or rejects it
 */
#pragma once

#include "scheduler/item.h"

void on_delivery_init(struct scheduler *s);
void on_delivery(struct scheduler *s, const struct bus_delivery *d);
