// SPDX-License-Identifier: Apache-2.0
/*
 * ON expired: the broker gives back requests that no agent took within their wait. The token is
 * withdrawn and the step locked again with twice the wait, so that an outage of any length costs a
 * logarithm of requests and counts against nobody. A hint only: where it is lost, the lease
 * recovers. A request that was sent twice may have found an agent the first time: then the hint is
 * none. What an agent has rejected, or a limit of its queue has thrown out, was not waited for in
 * vain: it is sent again after a backoff.
 */
#include <string.h>

#include "scheduler/machine.h"

/* The broker says why; one of another make that forwards it may not. */
static enum op_kind kind_of(const struct bus_delivery *d)
{
    return !*d->died_of || strcmp(d->died_of, "expired") == 0 ? OP_UNSTARTED : OP_REJECTED;
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
        record_new(s, item, kind_of(d), m->requests[i]->job_id, m->requests[i]->token, NULL, NULL);
    }
    if (bad)
        item_dead(s, item, effects_printf(s->out, "INVALID %s %s", problem.field, problem.reason));
}
