// SPDX-License-Identifier: Apache-2.0
/*
 * Suspects: what the broker delivers again may be what an agent has died of
 *
 * Nobody here can count its victims: agents have no store, and the broker's count is raised for all
 * that was merely prefetched beside it. So a suspect is acknowledged before it is read. If it kills
 * us it is gone, its lease ends without an answer, and the store counts that and parks the step in
 * the end: it has evidence, as Progress of what the properties name goes out before the ack. It is
 * read alone, a moment later: no other suspect goes with it.
 *
 * What this very process has read before, and lived, is no suspect: a connection was lost.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine.h"
#include "base/log.h"

/* In which an ack goes out, which may wait for others; should it not, there is one more life for
 * it. */
#define ACK_MS 20
#define ALONE_MS 100 /* after which what was begun is believed harmless */

/* ---- what was seen lately ---- */

/* FNV-1a. */
static uint64_t digest_of(struct bytes b)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < b.len; i++)
        digest = (digest ^ b.data[i]) * UINT64_C(0x100000001b3);
    return digest;
}

void recent_add(struct recent *r, struct bytes b)
{
    r->digests[r->next++ % MACHINE_RECENT] = digest_of(b);
}

bool recent_has(const struct recent *r, struct bytes b)
{
    uint64_t digest = digest_of(b);

    for (size_t i = 0; i < MACHINE_RECENT; i++)
        if (r->digests[i] == digest)
            return true;
    return false;
}

/* ---- suspects ---- */

bool suspect(const struct agent *a, const struct bus_delivery *d)
{
    return d->redelivered && !recent_has(&a->bodies, d->body);
}

static bool is_name(const char *text)
{
    return id_name_valid(text, strlen(text));
}

/* The properties of a message with one request tell which one it is. */
static bool names_a_request(const struct bus_delivery *d)
{
    return is_name(d->job) && is_name(d->step) && is_name(d->message_id) &&
           strlen(d->message_id) <= WIRE_TOKEN_MAX;
}

void suspect_new(struct agent *a, struct delivery *delivery, const struct bus_delivery *d)
{
    struct suspect *s = or_abort(calloc(1, sizeof(*s)));
    uint8_t *body = or_abort(malloc(d->body.len + 1));

    if (d->body.len > 0)
        memcpy(body, d->body.data, d->body.len);
    s->delivery = delivery;
    s->seen = (struct bus_delivery){.body = bytes_of(body, d->body.len), .oversize = d->oversize};
    if (names_a_request(d)) {
        s->job = or_abort(strdup(d->job));
        s->step = or_abort(strdup(d->step));
        s->token = or_abort(strdup(d->message_id));
    }
    list_append(&a->suspects, &s->link);
    a->stats.suspects++;
}

void suspect_free(struct suspect *s)
{
    list_remove(&s->link);
    delivery_drop(s->delivery);
    free((void *)s->seen.body.data);
    free(s->job);
    free(s->step);
    free(s->token);
    free(s);
}

static void on_harmless(struct agent *a, struct timer *t)
{
    suspect_free(take(a->suspect));
}

static void begin(struct agent *a)
{
    struct suspect *s = a->suspect;

    s->begun = true;
    s->delivery->refs++; /* to see when all of it has ended */
    timer_set(a, &a->alone, a->now + ALONE_MS, on_harmless);
    requests_begin(a, s->delivery, &s->seen);
}

static void on_acknowledged(struct agent *a, struct timer *t)
{
    begin(a);
    if (a->draining)
        runs_end_waiting(a);
}

static void let_go(struct agent *a, struct suspect *s)
{
    s->delivery->acked = true;
    effects_add(a->out, EFFECT_ACK, s->delivery->handle);
    timer_set(a, &a->alone, a->now + ACK_MS, on_acknowledged);
}

void suspects_told(struct agent *a)
{
    if (a->suspect && !a->suspect->delivery->acked)
        let_go(a, a->suspect);
}

/* The broker has the evidence before it loses the message; where it refuses that, the work is begun
 * all the same, and its death may not count. */
static void admit(struct agent *a, struct suspect *s)
{
    const char *digest = effects_printf(a->out, "%016" PRIx64, digest_of(s->seen.body));

    log_warn("suspect", LOG_S("digest", digest), LOG_I("bytes", s->seen.body.len));
    a->suspect = s;
    if (s->token)
        progress_of_suspect(a, s);
    else
        let_go(a, s);
}

void suspects_admit(struct agent *a)
{
    if (a->suspect && a->suspect->begun && a->suspect->delivery->refs == 1) {
        timer_stop(a, &a->alone);
        suspect_free(take(a->suspect));
    }
    if (!a->suspect && !list_empty(&a->suspects) && a->stats.running < a->config.concurrency)
        admit(a, list_entry(list_pop(&a->suspects), struct suspect, link));
}

static void requeue(struct agent *a, struct suspect *s)
{
    delivery_requeue(a, s->delivery);
    suspect_free(s);
}

/* Not the one that was told of: given back, it would have evidence of a beginning that did not take
 * place. An agent that is to end acknowledges, reads and answers it all the same. */
void suspects_requeue(struct agent *a)
{
    for (struct list *l; (l = list_pop(&a->suspects));)
        requeue(a, list_entry(l, struct suspect, link));
}
