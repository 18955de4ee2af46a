// SPDX-License-Identifier: Apache-2.0
/*
 * ON expired: the broker returns a request that no agent took within its wait
 *
 * The store withdraws the token and dispatches the step again with twice the wait, so an outage of
 * any length costs a logarithm of requests, and nothing is counted as a failure. This message is
 * only a hint: if it is lost, LockedUntil recovers the step. A copy (header drover-resent) that
 * comes back proves nothing, because an agent may have the other one: it is not recorded. If an
 * agent has rejected the request, or a limit of its queue has thrown it out, its wait was not over:
 * it is sent again after a backoff.
 *
 * Called by on_delivery.c.
 */
#include "scheduler/on_expired.h"

#include <string.h>

#include "scheduler/dead_letter.h"
#include "scheduler/record.h"
#include "scheduler/state.h"

/* The broker says why it returns a request. If another program has forwarded it the reason may
 * be missing. */
static enum report_kind kind_of(const struct bus_delivery *d)
{
    return !*d->died_of || strcmp(d->died_of, "expired") == 0 ? REPORT_UNSTARTED : REPORT_REJECTED;
}

void on_expired(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    const Drover__V1__Requests *m = item->message.requests;
    struct problem problem = {0};
    bool bad = m->n_requests == 0;

    for (size_t i = 0; i < m->n_requests; i++) {
        if (wire_check_request(m, i, &problem)) {
            bad = true;
            continue;
        }
        s->stats.unstarted++;
        if (d->resent)
            continue;
        record_without_reply(s, item, kind_of(d), m->requests[i]->job_id, m->requests[i]->token,
                             NULL, NULL);
    }
    if (bad)
        dead_letter_send(s, item,
                         effects_printf(s->out, "INVALID %s %s", problem.field, problem.reason));
}
