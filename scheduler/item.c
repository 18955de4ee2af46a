// SPDX-License-Identifier: Apache-2.0
/*
 * Items: deliveries that a scheduler works on, from their arrival to their acknowledgement
 *
 * Called by all files of the scheduler that begin or end work.
 */
#include "scheduler/item.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/state.h"

static const struct item_kind internal = {0};

struct item *item_new(struct scheduler *s, const struct bus_delivery *d,
                      const struct item_kind *kind)
{
    struct item *item = or_abort(calloc(1, sizeof(*item)));

    item->kind = kind;
    item->refs = 1; /* until all that the delivery asks for has begun */
    item->reply_to = or_abort(strdup(d ? d->reply_to : ""));
    item->correlation = or_abort(strdup(d ? d->correlation_id : ""));
    item->actor = or_abort(strdup(d ? d->actor : ""));
    item->user = or_abort(strdup(d ? d->user_id : ""));
    if (d) {
        uint8_t *body = or_abort(malloc(d->body.len + 1));

        if (d->body.len > 0)
            memcpy(body, d->body.data, d->body.len);
        item->handle = d->handle;
        item->source = d->source;
        item->redelivered = d->redelivered;
        item->body = bytes_of(body, d->body.len);
    }
    list_append(&s->items, &item->link);
    s->stats.open++;
    return item;
}

struct item *item_internal(struct scheduler *s)
{
    return item_new(s, NULL, &internal);
}

bool item_is_large(const struct item *item)
{
    return (item->batch ? item->batch : item)->large != ITEM_NOT_LARGE;
}

void item_free(struct scheduler *s, struct item *item)
{
    list_remove(&item->link);
    wire_free(&item->message);
    free(item->reply_to);
    free(item->actor);
    free(item->user);
    free(item->correlation);
    if (item->suspect)
        list_remove(&item->suspect->link);
    free(item->suspect);
    free((void *)item->body.data);
    free(item);
    s->stats.open--;
}

void item_give_back(struct scheduler *s, struct item *item)
{
    if (item->batch)
        item = item->batch;
    if (item->handle)
        effects_add(s->out, EFFECT_REQUEUE, item->handle);
    item->handle = 0;
}

void item_unref(struct scheduler *s, struct item *item)
{
    assert(item->refs > 0);
    if (--item->refs > 0)
        return;
    if (item->handle)
        effects_add(s->out, EFFECT_ACK, item->handle);
    if (item->kind->done)
        item->kind->done(s, item);
    item_free(s, item);
}
