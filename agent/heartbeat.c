// SPDX-License-Identifier: Apache-2.0
/*
 * Heartbeats: Progress of runs. With heartbeats it sets LockedUntil to three heartbeats from now,
 * but not past the lease; without, it is evidence that the run has begun
 *
 * Called by running.c.
 */
#include "agent/heartbeat.h"

#include "agent/outgoing.h"
#include "agent/settings.h"
#include "agent/state.h"

#define HEARTBEATS 3           /* how many heartbeats the store waits for a Progress */
#define EVIDENCE_AGAIN_MS 1000 /* before a refused one is published again */

/* Progress of a run. */
struct beat {
    struct outgoing outgoing;
    uint64_t run;
    int64_t sent; /* monotonic ms */
};

static struct beat *beat_of(struct outgoing *o)
{
    return container_of(o, struct beat, outgoing);
}

/* Return: ms from one Progress to the next: at most the lease, even if the step asks for more. */
static int64_t interval(const struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    return request->heartbeat_ms < request->lock_ms ? request->heartbeat_ms : request->lock_ms;
}

static const struct outgoing_kind kind;

/* A heartbeat is never published again after a refusal, as the next one follows. It expires when
 * the next one is due: later it would renew the lease of an agent that may be gone. Progress that
 * is evidence alone is valid during the lease, as it says how long ago the request was received,
 * and it asks for no answer. */
static void publish(struct agent *a, const struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;
    Drover__V1__Progress progress = DROVER__V1__PROGRESS__INIT;
    bool beats = request->heartbeat_ms > 0;
    int64_t not_after = beats ? a->now + interval(run) : run->seen.deadline;
    struct beat *b = outgoing_new(a, sizeof(*b), &kind);
    struct bus_message *m;

    b->run = run->seen.id;
    b->sent = a->now;
    progress.job_id = request->job_id;
    progress.step = request->step;
    progress.token = request->token;
    progress.fraction = run->fraction;
    progress.note = (char *)run->note;
    progress.elapsed_ms = a->now - run->delivery->received;
    m = outgoing_progress(a, &b->outgoing, run->delivery, &progress, not_after);
    outgoing_headers(a, m, request);
    m->reply_to = beats ? "amq.rabbitmq.reply-to" : NULL;
}

static void on_beat(struct agent *a, struct timer *t)
{
    struct run *run = container_of(t, struct run, beat);

    publish(a, run);
    if (run->seen.request->heartbeat_ms > 0)
        timer_set(a, &run->beat, a->now + interval(run), on_beat);
}

/* ---- outcomes ---- */

/* Acknowledges the request of a long lease, for whose end the broker would not wait. The broker has
 * confirmed a Progress by now, so the store has evidence, or gets it as soon as a scheduler reads
 * the Progress: if this agent dies, the end of the lease recovers the step. */
static void acknowledge_early(struct agent *a, struct run *run)
{
    int64_t early = settings_actor(&a->config, run->seen.request->actor)->early_ack_ms;

    if (run->settled || early == 0 || run->seen.request->lock_ms < early)
        return;
    run_settle(a, run);
    slots_recount(a, run);
}

static void on_confirmed(struct agent *a, struct outgoing *o)
{
    struct run *run = run_find(a, beat_of(o)->run);
    int64_t sent = beat_of(o)->sent;

    outgoing_free(a, o);
    if (!run || !run_is_under_way(run))
        return;
    if (run->seen.request->heartbeat_ms > 0)
        run_renew(a, run, sent + HEARTBEATS * interval(run));
    acknowledge_early(a, run);
}

static void on_lost(struct agent *a, struct outgoing *o)
{
    struct run *run = run_find(a, beat_of(o)->run);

    outgoing_free(a, o);
    if (run && run_is_under_way(run) && !timer_is_set(&run->beat))
        timer_set(a, &run->beat, a->now + EVIDENCE_AGAIN_MS, on_beat);
}

static const struct outgoing_kind kind = {
    .confirmed = on_confirmed,
    .refused = on_lost,
    .resend = on_lost,
};

/* ---- begin and end ---- */

/* Return: ms from the start after which Progress is due as evidence alone; 0 for a request that was
 * acknowledged, which the broker would not deliver again. */
static int64_t evidence_after(const struct run *run)
{
    int64_t share = run->seen.request->lock_ms / HEARTBEAT_EVIDENCE_SHARE;

    if (run->delivery->acked)
        return 0;
    return share < HEARTBEAT_EVIDENCE_MS ? share : HEARTBEAT_EVIDENCE_MS;
}

void heartbeat_start(struct agent *a, struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    if (request->heartbeat_ms > 0 || evidence_after(run) == 0)
        on_beat(a, &run->beat); /* evidence from the start */
    else
        timer_set(a, &run->beat, a->now + evidence_after(run), on_beat);
}

void heartbeat_stop(struct agent *a, struct run *run)
{
    timer_stop(a, &run->beat);
}
