// SPDX-License-Identifier: Apache-2.0
/*
 * Running: runs with a slot; their tries, and their end
 *
 * Called by agent.c, which starts waiting runs, passes on what handlers report, and drains; by
 * on_answers.c; and by suspect.c if a suspect is begun while the agent drains.
 */
#include "agent/running.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/heartbeat.h"
#include "agent/replies.h"
#include "agent/settings.h"
#include "agent/state.h"
#include "agent/waiting.h"
#include "base/log.h"
#include "base/utf8.h"

#define RETRY_DOUBLINGS_MAX 6
#define PAUSE_MAX_MS WAITING_PATIENCE_MS /* for which a run may keep its slot between two tries */

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
    a->stats.repeated += run->seen.repeated;
    tell_driver(a, run, AGENT_START);
}

static void leave_slot(struct agent *a, struct run *run)
{
    slots_leave(a, run);
    timer_stop(a, &run->deadline);
    heartbeat_stop(a, run);
    timer_stop(a, &run->again_timer);
}

/* Gathers the reply that run_set_reply() has made, and frees the slot. */
static void answer(struct agent *a, struct run *run)
{
    const Drover__V1__StepRequest *request = run->seen.request;

    leave_slot(a, run);
    if (run->reply.message.error) {
        a->stats.failed++;
        log_info("step_failed", LOG_S("job", request->job_id), LOG_S("step", request->step),
                 LOG_I("attempt", request->attempt), LOG_S("class", run->reply.error.class_));
    } else {
        a->stats.succeeded++;
        log_debug("step_succeeded", LOG_S("job", request->job_id), LOG_S("step", request->step),
                  LOG_I("attempt", request->attempt));
    }
    run->state = RUN_REPLYING;
    replies_gather(a, run);
}

/* ---- stopping a run ---- */

static void stop(struct agent *a, struct run *run)
{
    run->state = RUN_STOPPING;
    timer_stop(a, &run->deadline);
    heartbeat_stop(a, run);
    tell_driver(a, run, AGENT_STOP);
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
        if (a->now < run_stop_time(a, run))
            cut_off(a, run);
        else
            a->stats.stopped++;
        stop(a, run);
        break;
    case RUN_BACKOFF: /* for three heartbeats no Progress was confirmed: replies with the last
                         failure, which replies_flush() sends if there is time */
        answer(a, run);
        break;
    case RUN_WAITING: /* unreachable: the timer of a run that waits calls on_no_slot() */
    case RUN_STOPPING:
    case RUN_REPLYING:
        abort();
    }
}

/* The run gets a reply all the same: the store then knows that it has ended. */
void running_unwanted(struct agent *a, struct run *run)
{
    static const struct agent_result result = {
        .class = "UNWANTED",
        .message = "stopped: the job does not want it any more",
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .effect = DROVER__V1__EFFECT__EFFECT_UNKNOWN,
    };

    if (!run_is_under_way(run))
        return;
    a->stats.unwanted++;
    log_info("step_unwanted", LOG_S("job", run->seen.request->job_id),
             LOG_S("step", run->seen.request->step));
    run->cut = &result;
    if (run->state == RUN_RUNNING) {
        stop(a, run);
        return;
    }
    run_set_reply(a, run, &result);
    answer(a, run);
}

/* ---- begin ---- */

static void start(struct agent *a, struct run *run)
{
    if (a->now >= run_stop_time(a, run)) { /* the process stood still for so long */
        waiting_too_late(a, run);
        return;
    }
    slots_take(a, run);
    run->started = a->now;
    run_watch_lease(a, run, on_deadline);
    try(a, run);
    heartbeat_start(a, run);
}

void running_start(struct agent *a)
{
    struct run *run;

    while (slots_any_free(a) && (run = waiting_take(a)))
        start(a, run);
}

/* ---- further tries ---- */

static void on_again(struct agent *a, struct timer *t)
{
    struct run *run = container_of(t, struct run, again_timer);

    if (a->now >= run_stop_time(a, run)) {
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

/* Return: whether to try again within the lease. Not if the try, lasting as long as the last one,
 * would be stopped before its end: the known failure says more. Not if the pause is long, because
 * the run would keep its slot: the agent reports the failure, and the store lets the step back off.
 */
static bool should_try_again(const struct agent *a, const struct run *run,
                             const struct agent_result *result)
{
    bool transient = !result->ok && (result->verdict == DROVER__V1__VERDICT__VERDICT_UNSPECIFIED ||
                                     result->verdict == DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    int64_t wait = pause(a, run, result), took = a->now - run->tried;

    return transient && run->state == RUN_RUNNING && !a->draining &&
           run->seen.tries < settings_actor(&a->config, run->seen.request->actor)->lease_retries &&
           wait <= PAUSE_MAX_MS && wait + took < run_stop_time(a, run) - a->now;
}

/* Return: whether this try was deferred, such as by a breaker, after an earlier try has failed.
 * Then that failure is reported: otherwise a step that fails each time would never be counted. */
static bool put_off_after_a_failure(const struct run *run, const struct agent_result *result)
{
    return run->seen.tries > 0 && !result->ok &&
           result->verdict == DROVER__V1__VERDICT__VERDICT_DEFER;
}

void running_done(struct agent *a, uint64_t id, const struct agent_result *result)
{
    struct run *run = run_find(a, id);

    assert(run && (run->state == RUN_RUNNING || run->state == RUN_STOPPING));
    if (a->now >= run->seen.deadline) {
        leave_slot(a, run);
        run_silent(a, run);
        return;
    }
    if (run->cut && !result->ok)
        run_set_reply(a, run, run->cut);
    else if (put_off_after_a_failure(run, result))
        run->reply.error.retry_after_ms = result->retry_after_ms > 0 ? result->retry_after_ms : 0;
    else
        run_set_reply(a, run, result);
    if (should_try_again(a, run, result)) {
        run->state = RUN_BACKOFF;
        timer_set(a, &run->again_timer, a->now + pause(a, run, result), on_again);
        return;
    }
    answer(a, run);
}

static bool has_slot(const struct run *run)
{
    return run->state == RUN_RUNNING || run->state == RUN_BACKOFF || run->state == RUN_STOPPING;
}

void running_progress(struct agent *a, uint64_t id, double fraction, const char *note)
{
    struct run *run = run_find(a, id);

    assert(run && has_slot(run));
    run->fraction = fraction <= 1 ? fraction : 1;
    utf8_copy(run->note, bytes_str(note), WIRE_NOTE_MAX, false);
}

void running_drain(struct agent *a)
{
    struct run *run, *next;

    HASH_ITER(by_id, a->runs.by_id, run, next) {
        if (run->state == RUN_WAITING && (run->delivery->acked || delivery_is_batch(run->delivery)))
            waiting_defer(a, run); /* an ack cannot be undone; a batch would come back as a whole */
        else if (run->state == RUN_WAITING)
            waiting_give_back(a, run);
        else if (run->state == RUN_BACKOFF)
            answer(a, run);
    }
}
