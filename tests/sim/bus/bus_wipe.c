// SPDX-License-Identifier: Apache-2.0
/*
 * Wiped: the broker has lost its data directory and restarts
 *
 * All queues are lost with their messages, and so are messages that were sent and not read. A queue
 * exists again once a process that declares it connects.
 */
#include <string.h>

#include "bus/bus_internal.h"

void simbus_wipe(struct simbus *bus)
{
    timeline_note(bus->t, FEATURE_WIPED);
    tell(bus->t, "broker", "has lost all that it had");
    bus->wipes++;
    timeline_cancel(bus->t, &bus->alarm_end);
    list_init(&bus->held);
    for (struct simqueue *q = bus->queues; q; q = q->next) {
        simqueue_delete(q);
        q->wiped = true;
    }
}

void simqueue_declare(struct simqueue *q)
{
    if (q->wiped)
        simqueue_restore(q);
}

static bool is_fixed(const struct simqueue *q)
{
    return !q->dead_letters && strncmp(q->name, "drover.", strlen("drover.")) == 0;
}

void simlink_declare(struct simlink *link)
{
    for (struct simqueue *q = link->bus->queues; link->daemon && q; q = q->next)
        if (is_fixed(q))
            simqueue_declare(q);
    for (uint32_t i = 0; i < link->n_consumers; i++)
        simqueue_declare(link->consumers[i].queue);
}
