// SPDX-License-Identifier: Apache-2.0
/*
 * Deliveries: messages of requests, from their arrival to their end
 *
 * Called by all files of the agent's machine that begin, refer to or end a part of a delivery.
 */
#include "agent/delivery.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/settings.h"
#include "agent/state.h"

struct delivery *delivery_new(struct agent *a, const struct bus_delivery *d)
{
    struct delivery *delivery = or_abort(calloc(1, sizeof(*delivery)));

    delivery->handle = d->handle;
    delivery->repeated = d->redelivered || d->resent;
    delivery->received = a->now;
    delivery->actor = settings_actor(&a->config, d->actor)->name;
    list_append(&a->deliveries, &delivery->link);
    delivery_ref(delivery);
    return delivery;
}

const char *delivery_decode(enum wire_type type, const struct bus_delivery *d,
                            struct wire_message *out, struct problem *problem)
{
    int result;

    if (d->oversize)
        return "TOO_LARGE";
    result = wire_decode(type, d->body, NULL, out, problem);
    if (result == -ENOMEM)
        abort();
    return wire_reason(result);
}

void delivery_ref(struct delivery *d)
{
    d->refs++;
    d->unsettled++;
}

void delivery_settle(struct agent *a, struct delivery *d)
{
    assert(d->unsettled > 0);
    if (--d->unsettled == 0 && !d->left && !d->acked)
        effects_add(a->out, EFFECT_ACK, d->handle);
}

void delivery_drop(struct delivery *d)
{
    assert(d->refs > 0);
    if (--d->refs > 0)
        return;
    list_remove(&d->link);
    wire_free(&d->message);
    free((void *)d->body.data);
    free(d);
}

void delivery_acknowledge(struct agent *a, struct delivery *d)
{
    d->acked = true;
    effects_add(a->out, EFFECT_ACK, d->handle);
}

void delivery_requeue(struct agent *a, struct delivery *d)
{
    if (!d->left && !d->acked) {
        a->stats.requeued++;
        effects_add(a->out, EFFECT_REQUEUE, d->handle);
    }
    d->left = true;
}

void delivery_leave(struct agent *a, struct delivery *d)
{
    if (d->refs == 1)
        delivery_requeue(a, d);
    d->left = true;
}
