// SPDX-License-Identifier: Apache-2.0
/*
 * Binary heap of times
 *
 * See base/heap.h.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"

/* Nodes of the first allocation; a heap with few timers never grows. */
#define HEAP_SIZE_FIRST 16

static bool before(const struct heap_node *a, const struct heap_node *b)
{
    return a->when < b->when || (a->when == b->when && a->order < b->order);
}

static void put(struct heap *h, size_t at, struct heap_node *n)
{
    h->nodes[at] = n;
    n->place = at + 1;
}

/* Moves the free place @at towards the root until @n fits there. */
static void rise(struct heap *h, size_t at, struct heap_node *n)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (!before(n, h->nodes[parent]))
            break;
        put(h, at, h->nodes[parent]);
        at = parent;
    }
    put(h, at, n);
}

/* Moves the free place @at towards the leaves until @n fits there. */
static void sink(struct heap *h, size_t at, struct heap_node *n)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < h->used && before(h->nodes[child + 1], h->nodes[child]))
            child++;
        if (child >= h->used || !before(h->nodes[child], n))
            break;
        put(h, at, h->nodes[child]);
        at = child;
    }
    put(h, at, n);
}

static void settle(struct heap *h, size_t at, struct heap_node *n)
{
    if (at > 0 && before(n, h->nodes[(at - 1) / 2]))
        rise(h, at, n);
    else
        sink(h, at, n);
}

static int grow(struct heap *h)
{
    size_t size = h->size ? 2 * h->size : HEAP_SIZE_FIRST;
    struct heap_node **nodes = reallocarray(h->nodes, size, sizeof(*nodes));

    if (!nodes)
        return -ENOMEM;
    h->nodes = nodes;
    h->size = size;
    return 0;
}

void heap_deinit(struct heap *h)
{
    assert(h->used == 0);
    free(h->nodes);
    *h = (struct heap){0};
}

int heap_set(struct heap *h, struct heap_node *n, int64_t when)
{
    if (!heap_holds(n)) {
        int r = h->used == h->size ? grow(h) : 0;

        if (r < 0)
            return r;
        n->place = ++h->used;
    }
    assert(n->place <= h->used);
    n->when = when;
    n->order = h->order++;
    settle(h, n->place - 1, n);
    return 0;
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    struct heap_node *last;

    if (!heap_holds(n))
        return;
    assert(n->place <= h->used && h->nodes[n->place - 1] == n);
    last = h->nodes[--h->used];
    if (last != n)
        settle(h, n->place - 1, last);
    n->place = 0;
}

struct heap_node *heap_first(const struct heap *h)
{
    return h->used ? h->nodes[0] : NULL;
}
