// SPDX-License-Identifier: Apache-2.0
/*
 * Dead letters: messages of which a part cannot be run
 *
 * Called by on_requests.c.
 */
#include "agent/dead_letter.h"

#include <stdlib.h>
#include <string.h>

#include "agent/outgoing.h"
#include "agent/state.h"
#include "base/log.h"

#define EXCHANGE "drover.dead"

struct dead_letter {
    struct outgoing outgoing;
    struct delivery *delivery;
    char *reason; /* owned */
};

static struct dead_letter *letter_of(struct outgoing *o)
{
    return container_of(o, struct dead_letter, outgoing);
}

static void send(struct agent *a, struct outgoing *o)
{
    const struct dead_letter *l = letter_of(o);
    struct bytes body = effects_copy(a->out, l->delivery->body);
    const char *reason = effects_str(a->out, l->reason);
    struct bus_message *m = &effects_add(a->out, EFFECT_PUBLISH, o->id)->publish;

    m->exchange = EXCHANGE;
    m->key = "";
    m->body = body;
    m->content_type = wire_content_type(body.len > 0 && body.data[0] == '{');
    m->reason = reason;
}

static void on_confirmed(struct agent *a, struct outgoing *o)
{
    delivery_settle(a, letter_of(o)->delivery);
    outgoing_free(a, o);
}

static void on_refused(struct agent *a, struct outgoing *o)
{
    outgoing_pause(a, o, EXCHANGE, 0, INT64_MAX);
}

static void letter_free(struct outgoing *o)
{
    struct dead_letter *l = letter_of(o);

    delivery_drop(l->delivery);
    free(l->reason);
}

static const struct outgoing_kind kind = {
    .confirmed = on_confirmed,
    .refused = on_refused,
    .resend = send,
    .free = letter_free,
};

void dead_letter_publish(struct agent *a, struct delivery *d, const struct bus_delivery *from,
                         const char *reason)
{
    struct dead_letter *l = outgoing_new(a, sizeof(*l), &kind);
    uint8_t *body = or_abort(malloc(from->body.len + 1));

    if (from->body.len > 0)
        memcpy(body, from->body.data, from->body.len);
    d->body = bytes_of(body, from->body.len);
    l->delivery = d;
    l->reason = or_abort(strdup(reason));
    delivery_ref(d);
    a->stats.dead_letters++;
    log_often(LOG_WARN, "dead_letter", LOG_S("reason", reason), LOG_I("bytes", from->body.len));
    send(a, &l->outgoing);
}
