// SPDX-License-Identifier: Apache-2.0
/*
 * Poison: messages that kill the process that reads them
 *
 * Until faults stop, each scheduler dies that reads such a message, and each agent that begins its
 * handler. The bounds are checked: a copy kills at most two agents, as the second one has
 * acknowledged it before reading it, and three schedulers, as the first one could not suspect it.
 */
#include <string.h>

#include "base/id.h"
#include "model/wire.h"
#include "world/parts.h"

#define MILLION 1000000
#define AGENTS 2 /* that a copy may kill */
#define SCHEDULERS 3

struct poison {
    struct poison *older;
    const char *what;
    uint32_t copies; /* that were published */
    uint32_t killed;
};

static bool is_poison(const struct world *w, struct bytes what)
{
    return w->faults.poison > 0 &&
           digest_bytes(digest_number(DIGEST_INIT, w->plan->seed), what) % MILLION <
               w->faults.poison;
}

static struct poison *poison_find(struct world *w, struct bytes what)
{
    struct poison *poison = w->poisons;

    while (poison && !bytes_is(what, poison->what))
        poison = poison->older;
    if (poison)
        return poison;
    poison = timeline_alloc(w->t, sizeof(*poison));
    poison->what = effects_text(&w->t->arena, what);
    poison->older = w->poisons;
    return w->poisons = poison;
}

/* A process that loses a connection may have had the message twice, and so may the others if the
 * record of what was begun is lost. */
static bool is_bounded(const struct plan_faults *f)
{
    return f->cut == 0 && f->bus.closed == 0 && f->wipe == 0 && f->restart == 0 &&
           f->rollback == 0 && f->clock_jump == 0;
}

static void kill(struct process *p, struct bytes what, uint32_t most)
{
    struct world *w = p->world;
    struct poison *poison = poison_find(w, what);
    uint32_t copies = poison->copies * (w->plan->faults.bus.doubled > 0 ? 2 : 1);

    tell(w->t, p->name, "dies of %s", poison->what);
    poison->killed++;
    if (is_bounded(&w->plan->faults) && poison->killed > most * copies)
        checker_fail(w->checker, "M2 %u have died of %u copies of %s", poison->killed, copies,
                     poison->what);
    process_kill(p, timeline_between(w->t, 0, w->faults.restart_ms));
}

static void count_copy(struct world *w, struct bytes what)
{
    if (is_poison(w, what))
        poison_find(w, what)->copies++;
}

static void count_tokens(struct world *w, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    if (wire_decode(WIRE_REQUESTS, body, NULL, &m, NULL))
        return;
    for (size_t i = 0; i < m.requests->n_requests; i++)
        count_copy(w, bytes_str(m.requests->requests[i]->token));
}

void poison_published(struct world *w, const struct bus_message *m)
{
    char digest[ID_DIGEST_LEN + 1];

    if (w->faults.poison == 0)
        return;
    id_digest(m->body, digest);
    count_copy(w, bytes_str(digest));
    if (strcmp(m->exchange, "drover.tasks") == 0)
        count_tokens(w, m->body);
}

bool poison_handler(struct process *p, const char *token)
{
    if (!is_poison(p->world, bytes_str(token)))
        return false;
    timeline_note(p->world->t, FEATURE_POISON_AGENT);
    kill(p, bytes_str(token), AGENTS);
    return true;
}

static bool kill_scheduler(struct process *p, struct bytes digest)
{
    if (!is_poison(p->world, digest))
        return false;
    timeline_note(p->world->t, FEATURE_POISON_SCHEDULER);
    kill(p, digest, SCHEDULERS);
    return true;
}

bool poison_delivery(struct process *p, const struct bus_delivery *d)
{
    char digest[ID_DIGEST_LEN + 1];

    if (p->role != ROLE_SCHEDULER || d->redelivered || p->world->faults.poison == 0)
        return false;
    id_digest(d->body, digest);
    return kill_scheduler(p, bytes_str(digest));
}

bool poison_begun(struct process *p, struct bytes digest, struct bytes incarnations)
{
    return bytes_is(incarnations, "1") && kill_scheduler(p, digest);
}

void poison_acked(struct world *w, struct bytes body)
{
    char digest[ID_DIGEST_LEN + 1];

    if (w->faults.poison == 0)
        return;
    id_digest(body, digest);
    if (is_poison(w, bytes_str(digest)) && !checker_given_up(w->checker, body))
        checker_fail(w->checker, "M2 %s kills, and was read once more", digest);
}
