// SPDX-License-Identifier: Apache-2.0
/*
 * ON Submits: reads each Submit in the message as if it had come alone
 *
 * Each Submit is an item of its own, with the properties of the message: it is checked, limited and
 * answered by itself, and becomes a dead letter by itself. The message is acknowledged when all are
 * done. If it kills schedulers each Submit in it becomes a suspect by itself (poison.c), so the one
 * that does is found among the others. If one is given back to the broker the message is, and each
 * of the others gets ALREADY the next time.
 *
 * Called by on_delivery.c.
 */
#include "scheduler/submits.h"

#include "model/wire_split.h"
#include "scheduler/intake.h"
#include "scheduler/poison.h"
#include "scheduler/state.h"

const char *submits_read(struct scheduler *s, struct item *item, const struct bus_delivery *d,
                         struct problem *problem)
{
    struct bytes bodies[WIRE_SUBMITS_MAX];
    size_t n;
    int r = wire_split(item->body, bodies, &n, problem);

    for (size_t i = 0; !r && i < n; i++) {
        struct bus_delivery one = *d;
        struct item *submit;

        one.handle = 0;
        one.batch = false;
        one.message_id = "";
        one.body = bodies[i];
        submit = item_new(s, &one, item->kind);
        submit->batch = item;
        item->refs++;
        if (!poison_takes_part(s, submit, &one))
            intake_read(s, submit, &one);
        item_unref(s, submit);
    }
    poison_parted(s, item);
    return wire_reason(r);
}

void submits_done(struct scheduler *s, const struct item *item)
{
    if (item->batch)
        item_unref(s, item->batch);
}
