// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive doubly linked list
 *
 * The head is a node of its own; an unlinked node points to itself. An element contains a struct
 * list; list_entry() leads from that to the element. Used everywhere.
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

/* Links @node before @at; if @at is the head, at the end of the list. */
static inline void list_append(struct list *at, struct list *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

/* Unlinks @node; does nothing if it is unlinked. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Unlinks the first node. Return: it; NULL if the list is empty. */
static inline struct list *list_pop(struct list *head)
{
    struct list *node = head->next;

    if (node == head)
        return NULL;
    list_remove(node);
    return node;
}

/* Moves all nodes of @from to the end of @to. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)

#define list_foreach(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)

/* The loop may unlink the current node, but no other. */
#define list_foreach_safe(it, head)                                                                \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                      \
         it = it##_next, it##_next = it->next)
