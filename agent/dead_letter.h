// SPDX-License-Identifier: Apache-2.0
/*
 * Dead letters: messages of which a part cannot be run
 */
#pragma once

#include "agent/delivery.h"

/* Publishes @from as a dead letter; @reason is copied. Holds the ack of @d until the confirm. */
void dead_letter_publish(struct agent *a, struct delivery *d, const struct bus_delivery *from,
                         const char *reason);
