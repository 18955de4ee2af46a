// SPDX-License-Identifier: Apache-2.0
/*
 * Grid: the cells of docs/FAULTS.md that a world shows
 *
 * A cell is a fault at a boundary. The simulator notes at which boundaries a fault strikes.
 * feature.c lists the cells that worlds must show; the page is generated from that list.
 */
#pragma once

#include <stdint.h>

#include "model/effect.h"
#include "world/timeline.h"

/* Numbered as in the grid. */
enum fault {
    FAULT_CRASH_BEFORE = 1,
    FAULT_CRASH_AFTER = 2,
    FAULT_LOST = 3,
    FAULT_DOUBLED = 4,
    FAULT_OVERTAKEN = 5,
    FAULT_LATE = 6, /* after its deadline */
    FAULT_CUT = 8,
    FAULT_CLOCK = 11,
    FAULT_STOOD_STILL = 12,
    FAULT_TWO_SUPERVISORS = 13,
    FAULT_UNROUTABLE = 16,
    FAULT_STORE_FULL = 18,
    FAULT_DRAIN = 19,
    FAULT_KILL = 20,
};

/* A boundary as a set; tests/fault/cells.py describes each. */
#define AT(boundary) (UINT32_C(1) << (boundary))

void grid_met(struct timeline *t, enum fault fault, uint32_t at);

/* grid_of_call(): the boundary of a call. grid_of_executed(): the same after the store has executed
 * it: only its answer says whether a record has advanced its job. */
uint32_t grid_of_call(const char *function, const struct bytes *args, int n);
uint32_t grid_of_executed(uint32_t at, const struct store_answer *answer);

/* grid_of_message(): until the message is in its queue; grid_of_delivery(): from then on. */
uint32_t grid_of_message(const struct bus_message *m);
uint32_t grid_of_delivery(const struct bus_message *m);

struct process;
struct world;

/* The process is about to perform its effects, p->out. */
void grid_performs(const struct process *p);

/* The process dies, or loses its connection, at the effect p->next. */
void grid_dies(const struct process *p);
void grid_cut(const struct process *p);

/* It receives the answer to a call, after @took ms. */
void grid_answered(const struct process *p, uint32_t at, int64_t took,
                   const struct store_answer *answer);

/* It publishes; only the messages of supervisors matter. */
void grid_publishes(const struct process *p, const struct bus_message *m);

/* A handler begins. */
void grid_runs(const struct world *w, const char *job, const char *step);
