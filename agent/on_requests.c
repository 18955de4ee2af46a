// SPDX-License-Identifier: Apache-2.0
/*
 * ON Requests: makes runs of the requests of a message
 *
 * A suspect waits (suspect.c). Of any other Requests message each good request becomes a run; if
 * one is bad, the whole message also goes out as a dead letter. Called by agent.c.
 */
#include "agent/on_requests.h"

#include "agent/dead_letter.h"
#include "agent/state.h"
#include "agent/waiting.h"

/* Makes a run of each good request. Return: NULL, or INVALID; then @problem is that of the first
 * bad request. */
static const char *run_good(struct agent *a, struct delivery *delivery, struct problem *problem)
{
    const Drover__V1__Requests *m = delivery->message.requests;
    struct problem latest = {0};
    size_t bad = 0;

    for (size_t i = 0; i < m->n_requests; i++) {
        if (wire_check_request(m, i, &latest) == 0)
            waiting_add(a, delivery, m->requests[i]);
        else if (bad++ == 0)
            *problem = latest;
    }
    a->stats.requests += m->n_requests;
    return bad > 0 ? "INVALID" : NULL;
}

/* Reads the message @d. Takes over the first reference to @delivery. */
static void begin(struct agent *a, struct delivery *delivery, const struct bus_delivery *d)
{
    struct problem problem = {0};
    const char *bad;

    suspect_note_read(a, d);
    bad = delivery_decode(WIRE_REQUESTS, d, &delivery->message, &problem);
    if (!bad)
        bad = run_good(a, delivery, &problem);
    if (bad)
        dead_letter_publish(a, delivery, d,
                            effects_printf(a->out, "%s%s%s%s%s", bad, *problem.field ? " " : "",
                                           problem.field, *problem.reason ? " " : "",
                                           problem.reason));
    delivery_settle(a, delivery);
    delivery_drop(delivery);
}

void on_requests(struct agent *a, const struct bus_delivery *d)
{
    struct delivery *delivery = delivery_new(a, d);

    if (suspect_is(a, d))
        suspect_new(a, delivery, d, begin);
    else
        begin(a, delivery, d);
}
