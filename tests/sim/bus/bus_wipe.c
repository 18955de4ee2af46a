// SPDX-License-Identifier: Apache-2.0
/*
 * Wiped: the broker restarts, and has lost its data directory, or only what is transient
 *
 * If it has lost its data directory all queues are lost with their messages. A queue exists again
 * once a process that declares it connects. In either case messages that were sent and not read are
 * lost.
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

/* The links were cut before, so that no message is unacknowledged. */
void simbus_restart(struct simbus *bus)
{
    timeline_note(bus->t, FEATURE_BROKER_RESTARTED);
    tell(bus->t, "broker", "restarts without its transient messages");
    bus->restarts++;
    timeline_cancel(bus->t, &bus->alarm_end);
    list_init(&bus->held);
    for (struct simqueue *q = bus->queues; q; q = q->next)
        list_foreach_safe(l, &q->messages) {
            const struct message *m = list_entry(l, struct message, link);

            if (!m->content.transient)
                continue;
            list_remove(l);
            q->n--;
            simbus_drop(bus, m);
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
