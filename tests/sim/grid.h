// SPDX-License-Identifier: Apache-2.0
/*
 * Grid: which cells of docs/FAULTS.md a world shows
 *
 * A cell is a fault at a boundary. Where a fault strikes it is noted at which boundaries that is;
 * feature.c lists the cells that worlds are to show, of which the page is made.
 */
#pragma once

#include <stdint.h>

#include "model/effect.h"
#include "timeline.h"

/* As the grid counts them. */
enum fault {
    FAULT_CRASH_BEFORE = 1,
    FAULT_CRASH_AFTER = 2,
    FAULT_LOST = 3,
    FAULT_DOUBLED = 4,
    FAULT_OVERTAKEN = 5,
    FAULT_LATE = 6, /* after the time that it had */
    FAULT_CUT = 8,
    FAULT_CLOCK = 11,
    FAULT_STOOD_STILL = 12,
    FAULT_TWO_SUPERVISORS = 13,
    FAULT_UNROUTABLE = 16,
    FAULT_STORE_FULL = 18,
    FAULT_DRAIN = 19,
    FAULT_KILL = 20,
};

/* Likewise, as a set: tests/fault/cells.py says what each is. */
#define AT(boundary) (UINT32_C(1) << (boundary))

void grid_met(struct timeline *t, enum fault fault, uint32_t at);

/* Where a call stands, and where it has stood by the store's answer: only that says whether a
 * record has brought its job on. */
uint32_t grid_of_call(const char *function, const struct bytes *args, int n);
uint32_t grid_of_executed(uint32_t at, const struct store_answer *answer);

/* Where a message stands until it is in its queue, and from then on. */
uint32_t grid_of_message(const struct bus_message *m);
uint32_t grid_of_delivery(const struct bus_message *m);

struct process;
struct world;

/* It is about to perform its effects, p->out. */
void grid_performs(const struct process *p);

/* It dies, or loses its connection, at the effect p->next. */
void grid_dies(const struct process *p);
void grid_cut(const struct process *p);

/* It hears the answer to a call, after @took ms. */
void grid_answered(const struct process *p, uint32_t at, int64_t took,
                   const struct store_answer *answer);

/* It publishes; of interest is what supervisors ask for. */
void grid_publishes(const struct process *p, const struct bus_message *m);

/* A handler begins. */
void grid_runs(const struct world *w, const char *job, const char *step);
