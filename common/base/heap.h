// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive binary heap of times: the timers of a machine
 *
 * A node knows its place, so that it can be moved and removed in O(log n) without a search. Nodes
 * of equal time leave in the order they came in, which keeps simulations repeatable; a node that
 * was moved counts as come in anew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t when;   /* the caller's unit, all of one heap alike */
    uint64_t order; /* set by the heap */
    size_t place;   /* set by the heap: index + 1; 0 = not in a heap */
};

struct heap {
    struct heap_node **nodes;
    size_t used;
    size_t size;
    uint64_t order;
};

/* All zero is an empty heap. heap_deinit() asserts that it is empty again. */
void heap_deinit(struct heap *h);

/**
 * heap_set() - put a node in, or move one that is in
 *
 * Return: 0, or -ENOMEM and nothing changed.
 */
int heap_set(struct heap *h, struct heap_node *n, int64_t when);

/* Takes a node out; harmless where it is not in. */
void heap_remove(struct heap *h, struct heap_node *n);

/* The earliest node, NULL when empty. */
struct heap_node *heap_first(const struct heap *h);

static inline bool heap_holds(const struct heap_node *n)
{
    return n->place != 0;
}
