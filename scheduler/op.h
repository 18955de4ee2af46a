// SPDX-License-Identifier: Apache-2.0
/*
 * Operations: the store calls and publishes that an item needs, one after another
 *
 * When the call of an operation is answered and all of its publishes have their outcome, the
 * operation goes on with `then`, or is done.
 *
 *     item ── op ── call (repeated until the store has answered) ── answered()
 *                └─ publishes ── all have their outcome ── then()
 *
 * Each kind of operation is a struct of its own, with struct op as its first member; the file that
 * implements the kind defines it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/nonce.h"
#include "model/store_ops.h"
#include "scheduler/item.h"

#define OP_REPEAT_MS 200  /* ms before a call that the store refused is repeated */
#define OP_REFUSALS_MAX 5 /* refusals of the store before the delivery is a dead letter */

struct op;
typedef void op_fn(struct scheduler *s, struct op *op);
typedef void op_answered_fn(struct scheduler *s, struct op *op, struct ops_reader *r);
typedef void op_free_fn(struct op *op);

/* The definition that an operation needs, or stores: see definition.h. */
struct op_definition {
    char digest[ID_DIGEST_LEN + 1]; /* of the job's definition; "" until it is known */
    struct store_answer *rest;      /* of an answer, until it can be carried out; owned */
    op_answered_fn *resume;         /* gets that answer when the definition is loaded */
    struct workflow *workflow;      /* the operation's own; owned; NULL: none */
    uint32_t piece;                 /* while it is stored: the number of its next piece */
    bool registered;                /* it is stored so that it is found by its name */
};

struct op {
    struct item *item;
    struct list link;       /* in the list in which it waits (stalled, queues, suspects ...) */
    struct heap_node timer; /* in scheduler.timers until the call is repeated */
    unsigned refs;          /* reference count: open calls, open publishes, and others */
    unsigned refusals;      /* of the store, for a cause that does not pass */
    bool refused;           /* the store refused a call, and that was logged */
    bool call_repeated;     /* the present call may have been made before */
    bool repeated;          /* at least one call of the operation was made more than once */
    bool returned;          /* a publish found no queue, or was refused */
    op_fn *send_call;       /* makes the present call; again, if op_repeat_at() asks for it */
    op_answered_fn *answered;
    op_fn *then; /* NULL: done */
    /* Called if the store is full and the item has a reply queue: publishes RETRY_LATER. NULL: the
     * call is repeated instead, unless the message is large: then it becomes a dead letter. */
    op_fn *on_full;
    op_free_fn *free; /* frees what the kind has added; NULL: nothing */
    char *job;        /* job id; owned */
    uint32_t partition;
    char nonce[NONCE_LEN + 1];
    struct op_definition definition;
};

/**
 * op_new() - a new operation, with a nonce of its own
 * @job:  copied; it decides the partition
 * @size: of the kind's struct, whose first member is a struct op; its other members become 0
 * @free: see struct op
 *
 * Return: the kind's struct, as its operation, with one reference that the caller releases by
 * op_unref().
 */
void *op_new(struct scheduler *s, struct item *item, const char *job, size_t size,
             op_free_fn *free);

/* The same for an operation that needs no more than struct op has. */
struct op *op_plain(struct scheduler *s, struct item *item, const char *job);

/* Releases one reference to the operation. If it is the last one and `then` is set, `then` is
 * called first, and may take new ones. When the count reaches 0 the operation is freed. */
void op_unref(struct scheduler *s, struct op *op);

/* Makes a store call now; it is repeated until the store has answered.
 * @call: appends the call to scheduler.out. @answered: gets the answer. */
void op_call(struct scheduler *s, struct op *op, op_fn *call, op_answered_fn *answered);

/* Makes the present call again at the time @when. Takes over one reference of the caller, which is
 * released when the repeated call is answered. */
void op_repeat_at(struct scheduler *s, struct op *op, int64_t when);

/* A new id for the EFFECT_STORE of an operation, or of @n operations that share a call. */
uint64_t op_call_id(struct scheduler *s, struct op *op);
uint64_t op_call_id_shared(struct scheduler *s, struct op *const *ops, int n);

/* The store has answered the call with this id. */
void op_answer(struct scheduler *s, uint64_t id, const struct store_answer *answer);

/* Makes the calls again whose time has come; op_next() is the time of the next one. */
void op_tick(struct scheduler *s);
int64_t op_next(const struct scheduler *s);

/* The scheduler is about to be freed: op_drop() releases one reference, op_free() frees the
 * operation; neither calls `then`. */
void op_drop(struct scheduler *s, struct op *op);
void op_free(struct scheduler *s, struct op *op);
/* Frees all operations in a list. */
void op_free_list(struct scheduler *s, struct list *ops);
/* Does the same for all operations that have a call in progress, or wait to repeat one. */
void op_free_calls(struct scheduler *s);
