// SPDX-License-Identifier: Apache-2.0
/*
 * Alarm: the broker is out of memory or disk
 *
 * The broker reads no publishes. A message that was sent waits in front of the broker, also if its
 * sender dies, and is taken when the alarm is over; until then nothing is confirmed. Processes that
 * publish are told (connection.blocked), and send nothing more on that connection. Deliveries,
 * acknowledgements and dead-lettering go on.
 */
#include "bus/bus_internal.h"

/* Published, and not yet read by the broker. */
struct held {
    struct list link;
    struct wire *wire;
    struct bus_message content; /* as it was sent: it may be sent again meanwhile */
    int64_t since;
};

static void on_blocked(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);

    if (w->link->epoch != w->epoch || w->link->blocked || !simbus_alarmed(w->link->bus))
        return;
    timeline_note(w->link->bus->t, FEATURE_ALARM_BLOCKS);
    tell(w->link->bus->t, w->link->name, "hears that it is blocked");
    w->link->blocked = true;
}

static void on_unblocked(struct event *e)
{
    struct wire *w = container_of(e, struct wire, event);

    if (w->link->epoch != w->epoch)
        return;
    w->link->blocked = false;
    w->link->held_up = w->link->bus->t->now;
    list_foreach_safe(l, &w->link->publishes) {
        struct publish *p = list_entry(l, struct publish, link);

        if (p->waits)
            simlink_send(p);
    }
}

static void tell_link(struct simlink *link, void (*hears)(struct event *))
{
    struct wire *w = simbus_wire(link->bus, link, hears);

    w->event.lane = simbus_lane(link, true);
    w->event.held_until = link->held_until;
    timeline_add(link->bus->t, &w->event, simbus_delay(link->bus));
}

static void release(struct simbus *bus, struct held *held)
{
    const struct wire *w = held->wire;

    if (held->content.expires) /* counts from when the broker has it */
        held->content.not_after += bus->t->now - held->since;
    if (w->link->epoch != w->epoch)
        timeline_note(bus->t, FEATURE_SURFACES);
    simbus_arrive(w, &held->content);
}

static void on_end(struct event *e)
{
    struct simbus *bus = container_of(e, struct simbus, alarm_end);

    tell(bus->t, "broker", "the alarm is over");
    for (struct list *l; (l = list_pop(&bus->held));)
        release(bus, list_entry(l, struct held, link));
    for (uint32_t i = 0; i < bus->n_links; i++)
        if (bus->links[i]->up)
            tell_link(bus->links[i], on_unblocked);
}

void simbus_alarm(struct simbus *bus, int64_t lasts)
{
    timeline_note(bus->t, FEATURE_ALARM);
    tell(bus->t, "broker", "alarm: reads no publishes any more");
    bus->alarm_end.fire = on_end;
    timeline_add(bus->t, &bus->alarm_end, lasts);
}

bool simbus_alarmed(const struct simbus *bus)
{
    return heap_holds(&bus->alarm_end.node);
}

void simbus_hold(struct simbus *bus, struct wire *w)
{
    struct held *held = timeline_alloc(bus->t, sizeof(*held));

    held->wire = w;
    held->content = w->publish->content;
    held->since = bus->t->now;
    list_append(&bus->held, &held->link);
    if (w->link->epoch == w->epoch && w->link->up)
        tell_link(w->link, on_blocked);
}
