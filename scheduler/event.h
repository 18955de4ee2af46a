// SPDX-License-Identifier: Apache-2.0
/*
 * Events: publishes them on drover.events, for all who bind a queue there
 */
#pragma once

#include "model/workflow.h"
#include "scheduler/publish.h"

/* Publishes under the key "<workflow>.<word>"; @w: NULL for none. Return: the message, which the
 * caller may change. */
struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word);
