// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive binary heap of times: the timers of a machine
 *
 * A node has its place in the heap, so that it can be moved and removed in O(log n) without a
 * search. Nodes of equal time leave in the order in which they were added, so that simulations can
 * be repeated; a node that was moved counts as added again. Called by machines and the simulator.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t when;   /* in a unit of the caller, the same for all nodes of a heap */
    uint64_t order; /* set by the heap */
    size_t place;   /* set by the heap: index + 1; 0 if it is in no heap */
};

struct heap {
    struct heap_node **nodes;
    size_t used;
    size_t size;
    uint64_t order;
};

/* A heap that is all zero is empty. heap_deinit() asserts that it is empty again. */
void heap_deinit(struct heap *h);

/**
 * heap_set() - add a node, or move one that is in the heap
 *
 * Return: 0; or -ENOMEM, then nothing has changed. Moving never fails.
 */
int heap_set(struct heap *h, struct heap_node *n, int64_t when);

/* Removes a node; does nothing if it is in no heap. */
void heap_remove(struct heap *h, struct heap_node *n);

/* Return: the earliest node; NULL if the heap is empty. */
struct heap_node *heap_first(const struct heap *h);

static inline bool heap_holds(const struct heap_node *n)
{
    return n->place != 0;
}
