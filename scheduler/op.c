// SPDX-License-Identifier: Apache-2.0
/*
 * Operations: the store calls and publishes that an item needs, one after another
 *
 * A store call is repeated until the store has answered it. Called by all files that make store
 * calls or publish.
 */
#include "scheduler/op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/log.h"
#include "scheduler/allowance.h"
#include "scheduler/state.h"

/* One store call in progress: for one operation or, if it records, for several. */
struct call {
    uint64_t id;
    UT_hash_handle hh;
    int n;
    struct op *ops[];
};

void *op_new(struct scheduler *s, struct item *item, const char *job, size_t size,
             op_free_fn *free_kind)
{
    struct op *op = or_abort(calloc(1, size));

    op->item = item;
    op->free = free_kind;
    op->job = or_abort(strdup(job));
    op->partition = id_partition(job, s->partitions);
    op->refs = 1; /* until its first call is in progress */
    nonces_next(&s->nonces, op->nonce);
    list_init(&op->link);
    item->refs++;
    s->ops++;
    return op;
}

struct op *op_plain(struct scheduler *s, struct item *item, const char *job)
{
    return op_new(s, item, job, sizeof(struct op), NULL);
}

void op_free(struct scheduler *s, struct op *op)
{
    if (op->free)
        op->free(op);
    list_remove(&op->link);
    heap_remove(&s->timers, &op->timer);
    workflow_unref(op->definition.workflow);
    free(op->definition.rest);
    free(op->job);
    free(op);
    s->ops--;
}

void op_unref(struct scheduler *s, struct op *op)
{
    struct item *item = op->item;

    assert(op->refs > 0);
    while (op->refs == 1 && op->then) {
        op_fn *then = op->then;

        op->then = NULL;
        then(s, op);
    }
    if (--op->refs > 0)
        return;
    op_free(s, op);
    item_unref(s, item);
}

/* ---- calls ---- */

uint64_t op_call_id_shared(struct scheduler *s, struct op *const *ops, int n)
{
    struct call *call = or_abort(malloc(sizeof(*call) + (size_t)n * sizeof(struct op *)));

    call->id = ++s->last_id;
    call->n = n;
    memcpy(call->ops, ops, (size_t)n * sizeof(struct op *));
    HASH_ADD(hh, s->calls, id, sizeof(call->id), call);
    return call->id;
}

uint64_t op_call_id(struct scheduler *s, struct op *op)
{
    return op_call_id_shared(s, &op, 1);
}

void op_call(struct scheduler *s, struct op *op, op_fn *call, op_answered_fn *answered)
{
    op->send_call = call;
    op->answered = answered;
    op->refs++;
    call(s, op);
}

void op_repeat_at(struct scheduler *s, struct op *op, int64_t when)
{
    if (heap_set(&s->timers, &op->timer, when))
        abort();
}

void op_tick(struct scheduler *s)
{
    struct heap_node *n;

    while ((n = heap_first(&s->timers)) && n->when <= s->now) {
        struct op *op = container_of(n, struct op, timer);

        heap_remove(&s->timers, n);
        op->send_call(s, op);
    }
}

int64_t op_next(const struct scheduler *s)
{
    const struct heap_node *n = heap_first(&s->timers);

    return n ? n->when : INT64_MAX;
}

/* ---- answers ---- */

static void call_again(struct scheduler *s, struct op *op)
{
    s->stats.store_repeats++;
    op_repeat_at(s, op, s->now + OP_REPEAT_MS);
}

/* "ERR …" says that the store function failed: repeated without end it would block its queue.
 * All other errors (out of memory, disk full, too few replicas, no right) pass or are repaired,
 * and are waited for. */
static bool is_our_fault(const struct store_answer *answer)
{
    return answer->result == STORE_ERROR && answer->n > 0 && answer->items[0].len > 4 &&
           memcmp(answer->items[0].data, "ERR ", 4) == 0;
}

static void end(struct scheduler *s, struct op *op)
{
    op->then = NULL;
    op_unref(s, op);
}

static void give_up(struct scheduler *s, struct op *op, const char *reason)
{
    op->item->kind->give_up(s, op->item, reason);
    end(s, op);
}

/* The store refused a call. The cause may pass, but a message must not block its queue for ever. */
static void on_refused(struct scheduler *s, struct op *op, const struct store_answer *answer)
{
    char *why = effects_text(s->out, answer->n ? answer->items[0] : BYTES_EMPTY);
    bool full = answer->result == STORE_OOM;

    if (!op->refused)
        log_error("store_refused", LOG_S("job", op->job), LOG_S("why", why));
    op->refused = true;
    if (full && op->on_full && *op->item->reply_to) {
        op->on_full(s, op);
        end(s, op);
    } else if (full && item_is_large(op->item)) {
        give_up(s, op, "STORE_FULL"); /* held, it would keep others from being read */
    } else if (!is_our_fault(answer) || ++op->refusals < OP_REFUSALS_MAX ||
               !op->item->kind->give_up) {
        call_again(s, op);
    } else {
        give_up(s, op, "STORE_REFUSED");
    }
}

/* The store may have carried the call out, and its requests are lost: as if the message were
 * redelivered. */
static void on_unknown(struct scheduler *s, struct op *op)
{
    op->on_full = NULL; /* the job may be recorded: it is too late to refuse it */
    call_again(s, op);
}

/* Units of a store call for a Control: what it has cost the store, and will cost the broker. */
static size_t units_of(const struct store_answer *answer)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < answer->n; i++)
        bytes += answer->items[i].len;
    return 1 + answer->n / ALLOWANCE_ITEMS + bytes / ALLOWANCE_BYTES;
}

void op_answer(struct scheduler *s, uint64_t id, const struct store_answer *answer)
{
    struct ops_reader r = ops_reader(answer);
    struct call *call;

    HASH_FIND(hh, s->calls, &id, sizeof(id), call);
    if (!call)
        return;
    HASH_DEL(s->calls, call);
    for (int i = 0; i < call->n; i++) {
        struct op *op = call->ops[i];

        if (answer->result != STORE_OK)
            op->call_repeated = op->repeated = true;
        if (answer->result == STORE_UNKNOWN) {
            on_unknown(s, op);
        } else if (answer->result != STORE_OK) {
            on_refused(s, op, answer);
        } else {
            if (op->item->source == SCHEDULER_CONTROL)
                allowance_spend(s, op->item->user, units_of(answer));
            op->answered(s, op, &r);
            op_unref(s, op);
        }
    }
    free(call);
}

/* ---- the end of the scheduler ---- */

void op_drop(struct scheduler *s, struct op *op)
{
    if (--op->refs == 0)
        op_free(s, op);
}

void op_free_list(struct scheduler *s, struct list *ops)
{
    for (struct list *l; (l = list_pop(ops));)
        op_free(s, list_entry(l, struct op, link));
}

void op_free_calls(struct scheduler *s)
{
    struct call *call, *next;

    HASH_ITER(hh, s->calls, call, next) {
        HASH_DEL(s->calls, call);
        for (int i = 0; i < call->n; i++)
            op_drop(s, call->ops[i]);
        free(call);
    }
    for (struct heap_node *n; (n = heap_first(&s->timers));)
        op_free(s, container_of(n, struct op, timer));
}
