// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive doubly linked list
 *
 * The head is a node of its own; an unlinked node points to itself. Embed a struct list in the
 * element and get back with container_of().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct list {
    struct list *next;
    struct list *prev;
};

#define LIST_INIT(l) ((struct list){.next = &(l), .prev = &(l)})

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

/* Links @node before @at: with a head as @at, at the end. */
static inline void list_append(struct list *at, struct list *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

/* Unlinks @node; harmless on an unlinked one. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Takes the first node off, NULL where there is none. */
static inline struct list *list_pop(struct list *head)
{
    struct list *node = head->next;

    if (node == head)
        return NULL;
    list_remove(node);
    return node;
}

#define list_entry(node, type, member) container_of(node, type, member)

#define list_foreach(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)

/* The current node may be unlinked, no other. */
#define list_foreach_safe(it, head)                                                                \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                      \
         it = it##_next, it##_next = it->next)
