// SPDX-License-Identifier: Apache-2.0
/*
 * Loss: finds out whether the broker has lost requests and replies, and has that recorded
 *
 * The marker is one transient message in a durable queue that no process consumes. If it is missing
 * the broker was restarted, or is new: it may have lost requests and replies. Each partition
 * records that, and then the marker is published, over the connection on which it was missing. So
 * if the marker is there, all that the broker has lost is recorded. A supervisor that dies in
 * between, or loses that connection, begins anew.
 *
 * Used by supervisor.c.
 */
#pragma once

#include "supervisor/state.h"

/* The marker was inspected, over the present connection. */
void loss_on_marker(struct supervisor *s, bool there);

void loss_on_bus_down(struct supervisor *s);

/* A store is up again, in another run of the server unless @same_run. It may have forgotten a loss,
 * although the marker is there: a recent one is recorded again, with the time that it had. */
void loss_on_store_up(struct supervisor *s, bool same_run);

/* The answer of a CHORE_LOST. */
void loss_on_answer(struct supervisor *s, struct partition *p, struct ops_reader *r);

/* Publishes the marker, if that is the next thing to do. */
void loss_publish_marker(struct supervisor *s);

/* The outcome of that. */
void loss_on_outcome(struct supervisor *s, enum bus_outcome outcome);
