// SPDX-License-Identifier: Apache-2.0
/*
 * Renewal: when another connection may get a message through, part of the publisher
 *
 * RabbitMQ 3.10 finds the leader of a quorum queue when a channel first sends something there. If
 * the leader's node has just died, the broker refuses all that the channel ever sends there, until
 * that node is back. The channels that begin right after the death of a node are those of the
 * processes that were connected to it. So where nothing was confirmed yet to the same place over a
 * connection, a refusal counts as the connection's fault. The next connection meets the same if the
 * queue has no new leader yet, so several are made. A queue that is full refuses, too: the pauses
 * between them grow. A message waits for a short pause to end; in a longer one it is refused.
 *
 * Called by publisher.c.
 */
#include "io/bus/renewal.h"

#include "io/hosts.h"

#define PAUSE_MIN_MS 250
#define PAUSE_MAX_MS 60000
#define PAUSE_SHORT_MS 1000

/* A hash of exchange and key, which together lead to the same queues. */
static uint32_t place_of(const struct outgoing *m)
{
    return hosts_hash(m->message.exchange) * 31 + hosts_hash(m->message.key);
}

static bool was_taken(const struct renewal *r, uint32_t place)
{
    const size_t n = r->n_taken < RENEWAL_PLACES ? r->n_taken : RENEWAL_PLACES;

    for (size_t i = 0; i < n; i++)
        if (r->taken[i] == place)
            return true;
    return false;
}

void renewal_taken(struct renewal *r, const struct outgoing *m)
{
    const uint32_t place = place_of(m);

    if (!was_taken(r, place))
        r->taken[r->n_taken++ % RENEWAL_PLACES] = place;
}

bool renewal_refused(struct renewal *r, const struct outgoing *m, int64_t now)
{
    if (was_taken(r, place_of(m)) || (!r->due && now < r->next && r->pause > PAUSE_SHORT_MS))
        return false;
    if (!r->due)
        r->due = now < r->next ? r->next : now;
    return true;
}

void renewal_begin(struct renewal *r, int64_t now)
{
    r->n_taken = 0;
    if (!r->due)
        return;
    r->pause = !r->pause || now >= r->next + PAUSE_MAX_MS ? PAUSE_MIN_MS : 2 * r->pause;
    if (r->pause > PAUSE_MAX_MS)
        r->pause = PAUSE_MAX_MS;
    r->next = now + r->pause;
    r->due = 0;
}
