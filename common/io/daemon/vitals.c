// SPDX-License-Identifier: Apache-2.0
/*
 * Vitals: counts pulses, judges whether a process is ready, and has the table of the driver's
 * figures
 *
 * See io/daemon/vitals.h.
 */
#include "io/daemon/vitals.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/cleanup.h"

/* ---- pulses ---- */

void pulse_restart(struct pulse *p)
{
    p->back = true;
    p->missed = 0;
}

bool pulse_tick(struct pulse *p, bool expected)
{
    if (!expected || p->back)
        p->missed = 0;
    else
        p->missed++;
    p->back = false;
    return p->stall_ms > 0 && p->missed * p->period_ms >= p->stall_ms;
}

/* ---- readiness ---- */

/* Appends only the first reason about the broker, because it explains the others. */
static void put_broker(const struct vitals *v, struct buf *out)
{
    if (!v->broker_up)
        buf_puts(out, "broker: not connected\n");
    else if (v->broker_blocked)
        buf_puts(out, "broker: takes no messages, a memory or disk alarm\n");
    else if (v->pulse_refused)
        buf_puts(out, "pulse: refused by the broker, see bus_refused in the log\n");
    else if (!v->pulse_came)
        buf_puts(out, "pulse: none has come back yet\n");
    else if (v->pulse_missed >= PULSES_MISSED_MAX)
        buf_printf(out, "pulse: none has come back for %" PRIu64 " s\n", v->pulse_age_ms / 1000);
}

bool vitals_reasons(const struct vitals *v, struct buf *out)
{
    size_t before = out->len;

    if (v->draining)
        buf_puts(out, "draining: told to end\n");
    if (v->has_store && !v->store_up)
        buf_puts(out, "store: not connected\n");
    put_broker(v, out);
    return out->len == before;
}

/* ---- figures ---- */

#define AT(member) offsetof(struct vitals, member)

static const struct metric metrics[] = {
    {"ready", METRIC_GAUGE, AT(ready), "1 where /readyz says so"},
    {"broker_up", METRIC_GAUGE, AT(broker_up), "1 while connected to RabbitMQ"},
    {"broker_blocked", METRIC_GAUGE, AT(broker_blocked),
     "1 while an alarm at the broker keeps us from publishing"},
    {"broker_connects", METRIC_COUNTER, AT(broker_connects),
     "connections made to RabbitMQ; a process has one or two"},
    {"broker_refused", METRIC_COUNTER, AT(broker_refused),
     "connections, queues and rights that RabbitMQ has refused, and certificates of RabbitMQ that "
     "we refused"},
    {"broker_published", METRIC_COUNTER, AT(broker_published),
     "messages given to be published, pulses too"},
    {"broker_confirmed", METRIC_COUNTER, AT(broker_confirmed),
     "messages that the broker has confirmed"},
    {"broker_returned", METRIC_COUNTER, AT(broker_returned),
     "messages that the broker returned, for want of a queue"},
    {"broker_delivered", METRIC_COUNTER, AT(broker_delivered), "messages delivered by the broker"},
    {"broker_acked", METRIC_COUNTER, AT(broker_acked), "messages acknowledged to the broker"},
    {"broker_unconfirmed", METRIC_GAUGE, AT(broker_unconfirmed),
     "messages published whose outcome is not known yet"},
    {"broker_oldest_unconfirmed_ms", METRIC_GAUGE, AT(broker_oldest_unconfirmed_ms),
     "age of the oldest message whose outcome is not known, 0 for none"},
    {"pulse_age_ms", METRIC_GAUGE, AT(pulse_age_ms),
     "time since a pulse came back last, or since the start"},
    {"pulse_round_trip_us", METRIC_GAUGE, AT(pulse_round_trip_us), "round trip of the last pulse"},
    {"loop_cpu_max_us", METRIC_GAUGE, AT(loop_cpu_max_us),
     "CPU time of the longest iteration of the loop so far"},
    {"reloads_refused", METRIC_COUNTER, AT(reloads_refused),
     "times that SIGHUP has met a wrong configuration or certificate, and changed nothing"},
    {"broker_tls_expiry_ms", METRIC_GAUGE, AT(broker_tls_expiry_ms),
     "when the first certificate of the connections to RabbitMQ expires, in seconds since 1970; 0 "
     "without TLS"},
    {"store_up", METRIC_GAUGE, AT(store_up), "1 while connected to Redis"},
    {"store_connects", METRIC_COUNTER, AT(store_connects), "connections made to Redis"},
    {"store_refused", METRIC_COUNTER, AT(store_refused),
     "connections that Redis has refused, or we because of its certificate or settings"},
    {"store_tls_expiry_ms", METRIC_GAUGE, AT(store_tls_expiry_ms),
     "when the first certificate of the connections to Redis and its Sentinels expires, in seconds "
     "since 1970; 0 without TLS"},
    {"store_moves", METRIC_COUNTER, AT(store_moves),
     "primaries of Redis that were left because the Sentinels named another one"},
    {"store_sentinels", METRIC_GAUGE, AT(sentinels), "Redis Sentinels in the configuration"},
    {"store_sentinels_heard", METRIC_GAUGE, AT(sentinels_heard),
     "Redis Sentinels that name a primary now"},
    {"store_sentinels_differ", METRIC_GAUGE, AT(sentinels_differ),
     "Redis Sentinels that name another primary than the one in use"},
};

#define OF_THE_STORE 8 /* the last metrics, so many, are about the store */

struct metric_set vitals_metrics(bool has_store)
{
    return (struct metric_set){"driver", metrics,
                               array_size(metrics) - (has_store ? 0 : OF_THE_STORE)};
}
