// SPDX-License-Identifier: Apache-2.0
/*
 * Loss: see supervisor/loss.h
 *
 * Called by supervisor.c.
 */
#include "supervisor/loss.h"

#include "base/log.h"
#include "supervisor/command.h"

/* How long after a loss a store that restarts may have forgotten it: where this supervisor has
 * found the loss, and where it has only seen the marker that another one has published since. */
#define FORGOTTEN_OWN_MS 60000
#define FORGOTTEN_MS 5000
#define MARK_AGAIN_MAX_MS 300000 /* between two tries, where the marker is not taken */
#define MARK_AGAIN_MS 500        /* the first of these pauses, which double */
#define REPEAT_MS 500            /* after an answer that is broken */

/* Has each partition record it, from the beginning. */
static void record_loss(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct partition *p = &s->partitions[i];

        p->loss.cursor[0] = '\0';
        p->loss_recorded = false;
        p->call[CHORE_LOST] = 0; /* the answer of a call under way is ignored */
        p->due[CHORE_LOST] = s->now;
    }
}

void loss_on_store_up(struct supervisor *s, bool same_run)
{
    int64_t since = s->now - s->lost_at;
    bool recent = s->lost_at > 0 && since < (s->found_loss ? FORGOTTEN_OWN_MS : FORGOTTEN_MS);

    if (!s->config.marker || same_run || !(recent || s->memory == MEMORY_LOST))
        return;
    s->forgotten = true;
    if (s->memory == MEMORY_UNKNOWN)
        return; /* until the marker is inspected */
    s->memory = MEMORY_LOST;
    record_loss(s);
}

/* The broker has the marker: the supervisor calls expire at once, which names the steps whose
 * requests are to be sent again. */
static void on_kept(struct supervisor *s)
{
    s->stats.losses += s->unreported;
    if (s->unreported)
        log_warn("broker_has_lost_messages",
                 LOG_S("what", "it was restarted, or is new: requests are sent again"));
    s->unreported = false;
    s->memory = MEMORY_KEPT;
    s->mark_pause = s->mark_due = 0;
    s->forgotten = false;
    for (uint32_t i = 0; i < s->n; i++)
        s->partitions[i].due[CHORE_EXPIRE] = s->now;
}

/* A loss that was noticed now. */
static void set_loss(struct supervisor *s, bool found)
{
    s->lost_at = s->now;
    s->found_loss = s->unreported = found;
    for (uint32_t i = 0; i < s->n; i++)
        s->partitions[i].loss = (struct ops_loss){0};
}

static bool loss_recorded(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->partitions[i].loss_recorded)
            return false;
    return s->n > 0;
}

void loss_publish_marker(struct supervisor *s)
{
    struct effect *e;

    if (s->memory != MEMORY_LOST || s->marker || s->now < s->mark_due || !loss_recorded(s))
        return;
    s->marker = ++s->last_id;
    e = effects_add(s->out, EFFECT_PUBLISH, s->marker);
    e->publish.exchange = SUPERVISOR_MARKER_NAME;
    e->publish.key = "";
    e->publish.type = "drover.marker";
    e->publish.transient = true;
    e->publish.mandatory = true;
    e->publish.bound = true;
    s->unconfirmed++;
}

/* A marker that is not taken is tried again more and more rarely, because each new connection has
 * the loss recorded again. */
void loss_on_outcome(struct supervisor *s, enum bus_outcome outcome)
{
    s->marker = 0;
    if (s->memory != MEMORY_LOST)
        return;
    if (outcome == BUS_CONFIRMED && !loss_recorded(s))
        return; /* the store was restarted meanwhile: it is published again */
    if (outcome == BUS_CONFIRMED) {
        on_kept(s);
        return;
    }
    s->mark_pause = s->mark_pause ? 2 * s->mark_pause : MARK_AGAIN_MS;
    if (s->mark_pause > MARK_AGAIN_MAX_MS)
        s->mark_pause = MARK_AGAIN_MAX_MS;
    s->mark_due = s->now + s->mark_pause;
    log_error("marker_not_taken", LOG_S("queue", SUPERVISOR_MARKER_NAME),
              LOG_S("why", outcome == BUS_RETURNED ? "the queue is not there"
                                                   : "the broker has refused it"));
}

void loss_on_marker(struct supervisor *s, bool there)
{
    if (there && !s->forgotten) {
        if (s->memory != MEMORY_KEPT) {
            if (!s->found_loss || s->now >= s->lost_at + FORGOTTEN_OWN_MS)
                set_loss(s, false);
            on_kept(s);
        }
        return;
    }
    if (s->memory == MEMORY_LOST || s->now < s->mark_due)
        return;
    if (s->config.once)
        command_line(s, "held",
                     "leases:", "the broker has lost what it had, drover.marker is empty", "");
    if (!there) {
        s->forgotten = false;
        set_loss(s, true);
    }
    s->memory = MEMORY_LOST;
    record_loss(s);
}

void loss_on_bus_down(struct supervisor *s)
{
    if (s->config.marker)
        s->memory = MEMORY_UNKNOWN;
}

void loss_on_answer(struct supervisor *s, struct partition *p, struct ops_reader *r)
{
    struct ops_loss loss;

    if (ops_read_loss(r, &loss)) {
        log_error("store_answer_broken", LOG_I("partition", p - s->partitions));
        p->due[CHORE_LOST] = s->now + REPEAT_MS;
        return;
    }
    p->loss = loss;
    p->loss_recorded = !*loss.cursor;
}
