// SPDX-License-Identifier: Apache-2.0
/*
 * Runs: slots, tries within the lease, deadlines, heartbeats
 *
 * A part of the agent's machine, which all its other parts call.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine.h"
#include "agent/settings.h"
#include "base/log.h"
#include "base/utf8.h"

#define RETRY_DOUBLINGS_MAX 6
/* A request may wait for a slot for this time, or for half its lease, whichever is shorter; the
 * second is for one of a batch, as another agent may have a free slot. */
#define PATIENCE_MS 10000
#define BATCHED_PATIENCE_MS 80
#define BATCHED_AGAIN_MS 1       /* after which such a request is to be sent again */
#define PAUSE_MAX_MS PATIENCE_MS /* for which a run may keep its slot between two tries */

/* ---- begin and end ---- */

static void note_duplicate(struct agent *a, const Drover__V1__StepRequest *request)
{
    a->stats.duplicates++;
    log_info("request_duplicate", LOG_S("job", request->job_id), LOG_S("step", request->step));
}

/* A delivery whose token has a run already is acknowledged together with that run. */
static void follow(struct run *run, struct delivery *d)
{
    if (run->settled)
        return;
    struct follower *f = or_abort(malloc(sizeof(*f)));

    f->delivery = d;
    delivery_hold(d);
    list_append(&run->followers, &f->link);
}

static void on_deadline(struct agent *a, struct timer *t);
static void on_no_slot(struct agent *a, struct timer *t);

static int64_t patience(const struct run *run)
{
    int64_t most = delivery_is_batch(run->delivery) ? BATCHED_PATIENCE_MS : PATIENCE_MS;
    int64_t half = run->seen.request->lock_ms / 2;

    return half < most ? half : most;
}

static int64_t stop_time(const struct agent *a, const struct run *run)
{
    int64_t half = run->seen.request->lock_ms / 2;
    int64_t margin = a->config.reply_margin_ms;

    return run->seen.deadline - (margin < half ? margin : half);
}

/* Sets the timer to the end of the lease: as the request gave it, or as the last confirmed Progress
 * renewed it, whichever is earlier. */
static void watch_lease(struct agent *a, struct run *run)
{
    int64_t stop = stop_time(a, run);

    timer_set(a, &run->deadline, run->held_until < stop ? run->held_until : stop, on_deadline);
}

void run_new(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request)
{
    struct run *run;

    HASH_FIND(by_token, a->runs_by_token, request->token, strlen(request->token), run);
    if (run) {
        note_duplicate(a, request);
        follow(run, d);
        return;
    }
    if (d->repeated && recent_has(&a->ended, bytes_str(request->token))) {
        note_duplicate(a, request); /* it has ended here, only the ack was lost */
        return;
    }
    run = or_abort(calloc(1, sizeof(*run)));
    run->seen.id = ++a->last_id;
    run->seen.request = request;
    run->seen.deadline = d->received + request->lock_ms;
    run->seen.repeated = d->repeated;
    run->fraction = -1;
    run->held_until = INT64_MAX; /* without Progress the store waits for the whole lease */
    run->delivery = d;
    delivery_hold(d);
    list_init(&run->followers);
    HASH_ADD(by_id, a->runs, seen.id, sizeof(run->seen.id), run);
    HASH_ADD_KEYPTR(by_token, a->runs_by_token, request->token, strlen(request->token), run);
    timer_set(a, &run->deadline, d->received + patience(run), on_no_slot);
    run->state = RUN_WAITING;
    list_append(&a->waiting, &run->link);
    a->stats.waiting++;
}

void run_free(struct agent *a, struct run *run)
{
    for (struct list *l; (l = list_pop(&run->followers));) {
        struct follower *f = list_entry(l, struct follower, link);

        delivery_drop(f->delivery);
        free(f);
    }
    list_remove(&run->link);
    timer_stop(a, &run->deadline);
    timer_stop(a, &run->beat);
    timer_stop(a, &run->again);
    HASH_DELETE(by_id, a->runs, run);
    HASH_DELETE(by_token, a->runs_by_token, run);
    delivery_drop(run->delivery);
    free(run->memory);
    free(run);
}

static void settle(struct agent *a, struct run *run)
{
    if (run->settled)
        return;
    run->settled = true;
    delivery_settle(a, run->delivery);
    list_foreach(l, &run->followers)
        delivery_settle(a, list_entry(l, struct follower, link)->delivery);
}

void run_end(struct agent *a, struct run *run)
{
    settle(a, run);
    run_free(a, run);
}

void run_silent(struct agent *a, struct run *run)
{
    a->stats.silent++;
    recent_add(&a->ended, bytes_str(run->seen.request->token));
    log_warn("lease_over", LOG_S("job", run->seen.request->job_id),
             LOG_S("step", run->seen.request->step), LOG_I("attempt", run->seen.request->attempt));
    run_end(a, run);
}

/* ---- running ---- */

static bool has_slot(const struct run *run)
{
    return run->state == RUN_RUNNING || run->state == RUN_BACKOFF || run->state == RUN_STOPPING;
}

static void tell_driver(struct agent *a, struct run *run, enum agent_effect what)
{
    struct effect *e = effects_add(a->out, EFFECT_ROLE, run->seen.id);

    e->role.what = (int)what;
    e->role.object = &run->seen;
}

static void try(struct agent *a, struct run *run)
{
    run->state = RUN_RUNNING;
    run->tried = a->now;
    a->stats.runs++;
    tell_driver(a, run, AGENT_START);
}

int64_t run_heartbeat(const struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    return request->heartbeat_ms < request->lock_ms ? request->heartbeat_ms : request->lock_ms;
}

static void on_beat(struct agent *a, struct timer *t)
{
    struct run *run = container_of(t, struct run, beat);

    progress_publish(a, run);
    if (run->seen.request->heartbeat_ms > 0)
        timer_set(a, &run->beat, a->now + run_heartbeat(run), on_beat);
}

/* Return: ms from the start after which Progress is due as evidence alone; 0 for a request that was
 * acknowledged, which the broker would not deliver again. */
static int64_t evidence_after(const struct run *run)
{
    int64_t share = run->seen.request->lock_ms / MACHINE_EVIDENCE_SHARE;

    if (run->delivery->acked)
        return 0;
    return share < MACHINE_EVIDENCE_MS ? share : MACHINE_EVIDENCE_MS;
}

/* Notes whether the broker counts this run, which has a slot: see requeue.c. */
static void slot_count(struct agent *a, struct run *run)
{
    run->unseen = run->delivery->acked || run->delivery->open == 0;
    run->hidden = !run->unseen && run->delivery->counted;
    run->delivery->counted |= !run->unseen;
    a->unseen += run->unseen;
    a->hidden += run->hidden;
}

static void slot_uncount(struct agent *a, struct run *run)
{
    a->unseen -= run->unseen;
    a->hidden -= run->hidden;
    run->delivery->counted &= run->unseen || run->hidden;
}

static void leave(struct agent *a, struct run *run);

static void start(struct agent *a, struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    a->stats.waiting--;
    if (a->now >= stop_time(a, run)) { /* the process stood still for so long */
        leave(a, run);
        return;
    }
    a->stats.running++;
    run->started = a->now;
    watch_lease(a, run);
    try(a, run);
    if (request->heartbeat_ms > 0 || evidence_after(run) == 0)
        on_beat(a, &run->beat); /* evidence from the start */
    else
        timer_set(a, &run->beat, a->now + evidence_after(run), on_beat);
    slot_count(a, run);
}

void runs_start(struct agent *a)
{
    while (a->stats.running < a->config.concurrency && !list_empty(&a->waiting))
        start(a, list_entry(list_pop(&a->waiting), struct run, link));
}

static void leave_slot(struct agent *a, struct run *run)
{
    a->stats.running--;
    slot_uncount(a, run);
    a->freed = true;
    timer_stop(a, &run->deadline);
    timer_stop(a, &run->beat);
    timer_stop(a, &run->again);
}

/* Gathers the reply that reply_set() has made, and frees the slot. */
static void answer(struct agent *a, struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    leave_slot(a, run);
    if (run->reply.error) {
        a->stats.failed++;
        log_info("step_failed", LOG_S("job", request->job_id), LOG_S("step", request->step),
                 LOG_I("attempt", request->attempt), LOG_S("class", run->error.class_));
    } else {
        a->stats.succeeded++;
        log_debug("step_succeeded", LOG_S("job", request->job_id), LOG_S("step", request->step),
                  LOG_I("attempt", request->attempt));
    }
    run->state = RUN_REPLYING;
    reply_gather(a, run);
}

static void on_again(struct agent *a, struct timer *t)
{
    struct run *run = container_of(t, struct run, again);

    if (a->now >= stop_time(a, run)) {
        answer(a, run); /* with the last failure; replies_flush() sends it, if there is time */
        return;
    }
    run->seen.tries++;
    a->stats.retries++;
    try(a, run);
}

/* Return: ms before the next try: longer each time, and at least what the handler asks for. */
static int64_t pause(const struct agent *a, const struct run *run,
                     const struct agent_result *result)
{
    unsigned doublings =
        run->seen.tries < RETRY_DOUBLINGS_MAX ? run->seen.tries : RETRY_DOUBLINGS_MAX;
    int64_t own = a->config.retry_ms << doublings;

    return result->retry_after_ms > own ? result->retry_after_ms : own;
}

/* Return: whether to try again within the lease. Not if the try would be stopped before its end:
 * the failure that is known says more than that. Not after a long pause: that takes a slot from
 * other requests, so the scheduler waits instead. */
static bool another_try(const struct agent *a, const struct run *run,
                        const struct agent_result *result)
{
    bool transient = !result->ok && (result->verdict == DROVER__V1__VERDICT__VERDICT_UNSPECIFIED ||
                                     result->verdict == DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    int64_t wait = pause(a, run, result), took = a->now - run->tried;

    return transient && run->state == RUN_RUNNING && !a->draining &&
           run->seen.tries < settings_actor(&a->config, run->seen.request->actor)->lease_retries &&
           wait <= PAUSE_MAX_MS && wait + took < stop_time(a, run) - a->now;
}

/* Return: whether this try was deferred, such as by a breaker, after an earlier try has failed.
 * Then that failure is reported: otherwise a step that fails each time would never be counted. */
static bool put_off_after_a_failure(const struct run *run, const struct agent_result *result)
{
    return run->seen.tries > 0 && !result->ok &&
           result->verdict == DROVER__V1__VERDICT__VERDICT_DEFER;
}

void run_done(struct agent *a, uint64_t id, const struct agent_result *result)
{
    struct run *run;

    HASH_FIND(by_id, a->runs, &id, sizeof(id), run);
    assert(run && (run->state == RUN_RUNNING || run->state == RUN_STOPPING));
    if (a->now >= run->seen.deadline) {
        leave_slot(a, run);
        run_silent(a, run);
        return;
    }
    if (run->cut && !result->ok)
        reply_set(a, run, run->cut);
    else if (put_off_after_a_failure(run, result))
        run->error.retry_after_ms = result->retry_after_ms > 0 ? result->retry_after_ms : 0;
    else
        reply_set(a, run, result);
    if (another_try(a, run, result)) {
        run->state = RUN_BACKOFF;
        timer_set(a, &run->again, a->now + pause(a, run, result), on_again);
        return;
    }
    answer(a, run);
}

/* ---- stopping a run, and giving back ---- */

static void stop(struct agent *a, struct run *run)
{
    run->state = RUN_STOPPING;
    timer_stop(a, &run->deadline);
    timer_stop(a, &run->beat);
    tell_driver(a, run, AGENT_STOP);
}

/* The broker sends too many requests where it does not count all runs. Another agent may have a
 * free slot, so the reply asks for another dispatch. Another agent may also get this very request
 * again, so the reply leaves the effect unknown. */
void run_defer(struct agent *a, struct run *run)
{
    struct agent_result busy = {
        .class = "NO_SLOT",
        .message = "all slots of the agent are taken",
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .retry_after_ms = delivery_is_batch(run->delivery) ? BATCHED_AGAIN_MS : 0,
    };

    a->stats.waiting--;
    timer_stop(a, &run->deadline);
    list_remove(&run->link);
    if (a->now >= run->seen.deadline) {
        leave(a, run);
        return;
    }
    a->stats.deferred++;
    run->started = a->now;
    reply_set(a, run, &busy);
    run->state = RUN_REPLYING;
    reply_gather(a, run);
}

static void on_no_slot(struct agent *a, struct timer *t)
{
    run_defer(a, container_of(t, struct run, deadline));
}

/* The broker has taken no Progress for three heartbeats: the store has withdrawn the token, or
 * will, and another agent may get the step. */
static void cut_off(struct agent *a, struct run *run)
{
    static const struct agent_result result = {
        .class = "CUT_OFF",
        .message = "stopped: for three heartbeats the broker took no Progress",
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .effect = DROVER__V1__EFFECT__EFFECT_UNKNOWN,
    };

    a->stats.cut_off++;
    log_warn("step_cut_off", LOG_S("job", run->seen.request->job_id),
             LOG_S("step", run->seen.request->step));
    run->cut = &result;
}

static void on_deadline(struct agent *a, struct timer *t)
{
    struct run *run = container_of(t, struct run, deadline);

    switch (run->state) {
    case RUN_RUNNING:
        if (a->now < stop_time(a, run))
            cut_off(a, run);
        else
            a->stats.stopped++;
        stop(a, run);
        break;
    case RUN_BACKOFF: /* the tick came late; replies_flush() sends the reply, if there is time */
        answer(a, run);
        break;
    case RUN_WAITING: /* unreachable: the timer is that of on_no_slot(), or was stopped */
    case RUN_STOPPING:
    case RUN_REPLYING:
        abort();
    }
}

static bool is_under_way(const struct run *run)
{
    return run->state == RUN_RUNNING || run->state == RUN_BACKOFF;
}

/* Acknowledges the request of a long lease, for whose end the broker would not wait. The broker has
 * confirmed a Progress by now, so the store has evidence: if this agent dies, the end of the lease
 * recovers the step. */
static void acknowledge_early(struct agent *a, struct run *run)
{
    int64_t early = settings_actor(&a->config, run->seen.request->actor)->early_ack_ms;

    if (run->settled || early == 0 || run->seen.request->lock_ms < early)
        return;
    slot_uncount(a, run);
    settle(a, run);
    slot_count(a, run);
}

void run_renewed(struct agent *a, uint64_t id, int64_t sent)
{
    struct run *run;

    HASH_FIND(by_id, a->runs, &id, sizeof(id), run);
    if (!run || !is_under_way(run))
        return;
    if (run->seen.request->heartbeat_ms > 0) {
        run->held_until = sent + MACHINE_HEARTBEATS * run_heartbeat(run);
        watch_lease(a, run);
    }
    acknowledge_early(a, run);
}

void run_not_renewed(struct agent *a, uint64_t id)
{
    struct run *run;

    HASH_FIND(by_id, a->runs, &id, sizeof(id), run);
    if (run && is_under_way(run) && !timer_is_set(&run->beat))
        timer_set(a, &run->beat, a->now + MACHINE_EVIDENCE_AGAIN_MS, on_beat);
}

/* The run gets a reply all the same: the store then knows that it has ended. */
void run_unwanted(struct agent *a, struct run *run)
{
    static const struct agent_result result = {
        .class = "UNWANTED",
        .message = "stopped: the job does not want it any more",
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .effect = DROVER__V1__EFFECT__EFFECT_UNKNOWN,
    };

    if (!is_under_way(run))
        return;
    a->stats.unwanted++;
    log_info("step_unwanted", LOG_S("job", run->seen.request->job_id),
             LOG_S("step", run->seen.request->step));
    run->cut = &result;
    if (run->state == RUN_RUNNING) {
        stop(a, run);
        return;
    }
    reply_set(a, run, &result);
    answer(a, run);
}

void run_progress(struct agent *a, uint64_t id, double fraction, const char *note)
{
    struct run *run;

    HASH_FIND(by_id, a->runs, &id, sizeof(id), run);
    assert(run && has_slot(run));
    run->fraction = fraction <= 1 ? fraction : 1;
    utf8_copy(run->note, bytes_str(note), WIRE_NOTE_MAX, false);
}

static void give_back(struct agent *a, struct run *run)
{
    delivery_leave(a, run->delivery);
    list_foreach(l, &run->followers)
        delivery_leave(a, list_entry(l, struct follower, link)->delivery);
    run_end(a, run);
}

/* The lease of a request, as this agent counts it, was over before the request was begun. It is
 * given back to the broker, which delivers it again or lets it expire. But only once: a process
 * that is always late would get it again and again. */
static void leave(struct agent *a, struct run *run)
{
    if (run->delivery->acked || run->delivery->repeated || delivery_is_batch(run->delivery))
        run_silent(a, run);
    else
        give_back(a, run);
}

void run_leave(struct agent *a, struct run *run)
{
    a->stats.waiting--;
    give_back(a, run);
}

void runs_end_waiting(struct agent *a)
{
    struct run *run, *next;

    HASH_ITER(by_id, a->runs, run, next) {
        if (run->state == RUN_WAITING && (run->delivery->acked || delivery_is_batch(run->delivery)))
            run_defer(a, run); /* given back, it would bring back its whole message */
        else if (run->state == RUN_WAITING)
            run_leave(a, run);
        else if (run->state == RUN_BACKOFF)
            answer(a, run);
    }
}

void runs_drain(struct agent *a)
{
    a->draining = true;
    suspects_requeue(a);
    runs_end_waiting(a);
}
