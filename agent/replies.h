// SPDX-License-Identifier: Apache-2.0
/*
 * Replies: gathered over an iteration of the loop, and published until the broker has them
 */
#pragma once

#include <stdint.h>

#include "agent/run.h"
#include "base/pace.h"

struct replies {
    struct list gathered[2]; /* for the next tick; [1]: to be sent as JSON */
    struct pace pace;
};

/* @few: see struct pace. */
void replies_init(struct replies *r, unsigned few);
/* Adds the reply of the run to those that leave with the next tick. */
void replies_gather(struct agent *a, struct run *run);
/* Publishes the gathered replies, if pace.h lets them leave now. */
void replies_flush(struct agent *a);
/* The time of the next flush that is needed; INT64_MAX for none. */
int64_t replies_next(const struct agent *a);
