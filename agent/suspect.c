// SPDX-License-Identifier: Apache-2.0
/*
 * Suspects: redelivered messages, any of which may have killed the agent that had it first
 *
 * An agent cannot count how many agents a message has killed: it has no store, and the broker also
 * raises its delivery count of messages that were only prefetched beside the one that killed. So a
 * suspect is acknowledged before it is read. If it kills this agent, the broker does not have it
 * any more, and its lease ends without a reply. The store counts that expiry, and parks the step
 * after maximum_expiries of them: it has evidence, because the agent publishes Progress of the
 * request that the properties name before it acknowledges. The agent reads one suspect at a time, a
 * moment after the ack, so that no other suspect is lost with it.
 *
 * A redelivered message that this process has read and survived is no suspect: only its connection
 * was lost.
 *
 * Called by on_requests.c, which has them read, by crowding.c and by agent.c.
 */
#include "agent/suspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/heartbeat.h"
#include "agent/outgoing.h"
#include "agent/running.h"
#include "agent/state.h"
#include "base/log.h"

/* How long a suspect waits after its ack, which the bus may gather with others. If the ack has not
 * left by then and the suspect kills this agent, the broker delivers it to one more. */
#define ACK_MS 20
#define ALONE_MS 100 /* after this time a suspect that was begun counts as harmless */

/* A suspect that waits to be read, or the present one. */
struct suspect {
    struct list link; /* in agent.suspects.waiting */
    struct delivery *delivery;
    struct bus_delivery seen; /* its body, owned, and whether that was cut; nothing else */
    suspect_read_fn *read;
    char *job; /* that its properties name, as the next two; owned, NULL: none */
    char *step;
    char *token;
    bool begun; /* it was read */
};

bool suspect_is(const struct agent *a, const struct bus_delivery *d)
{
    return d->redelivered && !recent_has(&a->suspects.bodies, d->body);
}

void suspect_note_read(struct agent *a, const struct bus_delivery *d)
{
    recent_add(&a->suspects.bodies, d->body);
}

static bool is_name(const char *text)
{
    return id_name_valid(text, strlen(text));
}

/* Return: whether the properties name a request, as those of a message with one request do. */
static bool names_a_request(const struct bus_delivery *d)
{
    return is_name(d->job) && is_name(d->step) && is_name(d->message_id) &&
           strlen(d->message_id) <= WIRE_TOKEN_MAX;
}

void suspect_new(struct agent *a, struct delivery *delivery, const struct bus_delivery *d,
                 suspect_read_fn *read)
{
    struct suspect *s = or_abort(calloc(1, sizeof(*s)));
    uint8_t *body = or_abort(malloc(d->body.len + 1));

    if (d->body.len > 0)
        memcpy(body, d->body.data, d->body.len);
    s->delivery = delivery;
    s->seen = (struct bus_delivery){.body = bytes_of(body, d->body.len), .oversize = d->oversize};
    s->read = read;
    if (names_a_request(d)) {
        s->job = or_abort(strdup(d->job));
        s->step = or_abort(strdup(d->step));
        s->token = or_abort(strdup(d->message_id));
    }
    list_append(&a->suspects.waiting, &s->link);
    a->stats.suspects++;
}

static void suspect_free(struct suspect *s)
{
    list_remove(&s->link);
    delivery_drop(s->delivery);
    free((void *)s->seen.body.data);
    free(s->job);
    free(s->step);
    free(s->token);
    free(s);
}

/* ---- the present one ---- */

static void on_harmless(struct agent *a, struct timer *t)
{
    suspect_free(take(a->suspects.present));
}

static void begin(struct agent *a)
{
    struct suspect *s = a->suspects.present;

    s->begun = true;
    s->delivery->refs++; /* suspect_admit() sees by it when all its runs have ended */
    timer_set(a, &a->suspects.alone, a->now + ALONE_MS, on_harmless);
    s->read(a, s->delivery, &s->seen);
}

static void on_acknowledged(struct agent *a, struct timer *t)
{
    begin(a);
    if (a->draining)
        running_drain(a);
}

static void let_go(struct agent *a, struct suspect *s)
{
    delivery_acknowledge(a, s->delivery);
    timer_set(a, &a->suspects.alone, a->now + ACK_MS, on_acknowledged);
}

/* The broker has the Progress of the present suspect, or will never have it. */
static void on_progress_outcome(struct agent *a, struct outgoing *o)
{
    struct suspect *s = a->suspects.present;

    outgoing_free(a, o);
    if (s && !s->delivery->acked)
        let_go(a, s);
}

static const struct outgoing_kind kind = {
    .confirmed = on_progress_outcome,
    .refused = on_progress_outcome,
    .resend = on_progress_outcome,
};

/* Publishes Progress of the request that the properties name: its body has not been read. */
static void publish_progress(struct agent *a, const struct suspect *s)
{
    struct outgoing *o = outgoing_new(a, sizeof(*o), &kind);
    Drover__V1__Progress progress = DROVER__V1__PROGRESS__INIT;

    progress.job_id = s->job;
    progress.step = s->step;
    progress.token = s->token;
    progress.fraction = -1;
    progress.elapsed_ms = a->now - s->delivery->received;
    outgoing_progress(a, o, s->delivery, &progress, a->now + HEARTBEAT_EVIDENCE_MS);
}

/* Makes the suspect the present one. The broker gets the Progress before the ack. If it refuses the
 * Progress, the suspect is begun all the same; then its expiry may not be counted. */
static void admit(struct agent *a, struct suspect *s)
{
    const char *digest = effects_printf(a->out, "%016" PRIx64, recent_digest(s->seen.body));

    log_warn("suspect", LOG_S("digest", digest), LOG_I("bytes", s->seen.body.len));
    a->suspects.present = s;
    if (s->token)
        publish_progress(a, s);
    else
        let_go(a, s);
}

void suspect_admit(struct agent *a)
{
    if (a->suspects.present && a->suspects.present->begun &&
        a->suspects.present->delivery->refs == 1) {
        timer_stop(a, &a->suspects.alone);
        suspect_free(take(a->suspects.present));
    }
    if (!a->suspects.present && !list_empty(&a->suspects.waiting) && slots_any_free(a))
        admit(a, list_entry(list_pop(&a->suspects.waiting), struct suspect, link));
}

static void requeue(struct agent *a, struct suspect *s)
{
    delivery_requeue(a, s->delivery);
    suspect_free(s);
}

/* The present suspect is not given back: Progress of it was published, so the store would have
 * evidence of a run that did not begin. A draining agent acknowledges, reads and answers it all the
 * same. */
void suspect_requeue_all(struct agent *a)
{
    for (struct list *l; (l = list_pop(&a->suspects.waiting));)
        requeue(a, list_entry(l, struct suspect, link));
}

void suspect_free_all(struct agent *a)
{
    for (struct list *l; (l = list_pop(&a->suspects.waiting));)
        suspect_free(list_entry(l, struct suspect, link));
    if (a->suspects.present)
        suspect_free(a->suspects.present);
    timer_stop(a, &a->suspects.alone);
}
