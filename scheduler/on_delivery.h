// SPDX-License-Identifier: Apache-2.0
/*
 * ON a delivery: decodes the message, and gives it to the file that handles its kind, or rejects it
 */
#pragma once

#include "scheduler/item.h"

/* Makes the intake call this file for each message that may be read. */
void on_delivery_init(struct scheduler *s);
/* Makes an item of a delivery, or gives it back to the broker. @d: the caller's, read during the
 * call only; a message that waits keeps a copy. */
void on_delivery(struct scheduler *s, const struct bus_delivery *d);
