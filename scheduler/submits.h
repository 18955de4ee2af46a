// SPDX-License-Identifier: Apache-2.0
/*
 * ON Submits: reads each Submit in the message as if it had come alone
 */
#pragma once

#include "scheduler/item.h"

/**
 * submits_read() - begin what each Submit in a message asks for
 * @item: the message; acknowledged when each of them is done
 *
 * Return: NULL; or why the message is refused as a whole, for a dead letter, with @problem set.
 */
const char *submits_read(struct scheduler *s, struct item *item, const struct bus_delivery *d,
                         struct problem *problem);

/* One of them is done. */
void submits_done(struct scheduler *s, const struct item *item);
