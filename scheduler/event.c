// SPDX-License-Identifier: Apache-2.0
/*
 * Events: publishes them on drover.events, for all who bind a queue there
 *
 * Called by notification.c for ends of turns, by alert.c and alert_group.c for alerts, and by
 * step_events.c.
 */
#include "scheduler/event.h"

#include "scheduler/state.h"

struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word)
{
    struct bus_message *message = publish_message(s, op, &m->base, false);

    message->exchange = "drover.events";
    message->key = effects_printf(s->out, "%s.%s", w && *w->name ? w->name : "unnamed", word);
    message->job = effects_str(s->out, op->job);
    return message;
}
