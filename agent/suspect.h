// SPDX-License-Identifier: Apache-2.0
/*
 * Suspects: redelivered messages, any of which may have killed the agent that had it first
 */
#pragma once

#include <stdbool.h>

#include "agent/delivery.h"
#include "agent/timer.h"
#include "base/list.h"
#include "base/recent.h"

struct suspect;

/* Reads a message, as on_requests.c reads one that is no suspect. Takes over the first
 * reference to @delivery. */
typedef void suspect_read_fn(struct agent *a, struct delivery *delivery,
                             const struct bus_delivery *d);

struct suspects {
    struct recent bodies;    /* messages that this process has read and survived */
    struct list waiting;     /* that wait to be read */
    struct suspect *present; /* which is being read, or about to be; NULL: there is none */
    struct timer alone;      /* the present one may be read, or has proved harmless */
};

/* Return: whether the broker delivers @d again and this process has not read it. */
bool suspect_is(const struct agent *a, const struct bus_delivery *d);
/* This process reads the message now; delivered again it is no suspect. */
void suspect_note_read(struct agent *a, const struct bus_delivery *d);
/* Keeps the message until it may be read. Takes over the first reference to @delivery. */
void suspect_new(struct agent *a, struct delivery *delivery, const struct bus_delivery *d,
                 suspect_read_fn *read);
/* Runs at the end of each agent_step(): makes the next suspect the present one, if a slot is free
 * and the present one has ended. */
void suspect_admit(struct agent *a);
/* Gives all suspects back to the broker, but for the present one. */
void suspect_requeue_all(struct agent *a);
/* The agent is about to be freed. */
void suspect_free_all(struct agent *a);
