// SPDX-License-Identifier: Apache-2.0
/*
 * Runs: requests, from their delivery to their reply
 *
 * Called by all files of the agent's machine that begin, change or end a run.
 */
#include "agent/run.h"

#include <stdlib.h>
#include <string.h>

#include "agent/settings.h"
#include "agent/state.h"
#include "base/log.h"

/* A further delivery of a token that has a run; acknowledged together with it. */
struct follower {
    struct list link;
    struct delivery *delivery;
};

/* ---- begin ---- */

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
    delivery_ref(d);
    list_append(&run->followers, &f->link);
}

struct run *run_new(struct agent *a, struct delivery *d, const Drover__V1__StepRequest *request)
{
    struct run *run = run_find_token(a, request->token);

    if (run) {
        note_duplicate(a, request);
        follow(run, d);
        return NULL;
    }
    if (d->repeated && recent_has(&a->runs.ended, bytes_str(request->token))) {
        note_duplicate(a, request); /* it has ended here, only the ack was lost */
        return NULL;
    }
    run = or_abort(calloc(1, sizeof(*run)));
    run->seen.id = ++a->last_id;
    run->seen.request = request;
    run->seen.deadline = d->received + request->lock_ms;
    run->seen.repeated = d->repeated;
    run->fraction = -1;
    run->lease_until = INT64_MAX; /* without Progress the store waits for the whole lease */
    run->delivery = d;
    delivery_ref(d);
    list_init(&run->followers);
    list_init(&run->link);
    HASH_ADD(by_id, a->runs.by_id, seen.id, sizeof(run->seen.id), run);
    HASH_ADD_KEYPTR(by_token, a->runs.by_token, request->token, strlen(request->token), run);
    run->state = RUN_WAITING;
    return run;
}

struct run *run_find(const struct agent *a, uint64_t id)
{
    struct run *run;

    HASH_FIND(by_id, a->runs.by_id, &id, sizeof(id), run);
    return run;
}

struct run *run_find_token(const struct agent *a, const char *token)
{
    struct run *run;

    HASH_FIND(by_token, a->runs.by_token, token, strlen(token), run);
    return run;
}

/* ---- the lease, and the reply ---- */

int64_t run_stop_time(const struct agent *a, const struct run *run)
{
    int64_t half = run->seen.request->lock_ms / 2;
    int64_t margin = a->config.reply_margin_ms;

    return run->seen.deadline - (margin < half ? margin : half);
}

void run_watch_lease(struct agent *a, struct run *run, timer_fn *fire)
{
    int64_t stop = run_stop_time(a, run);

    timer_set(a, &run->deadline, run->lease_until < stop ? run->lease_until : stop, fire);
}

void run_renew(struct agent *a, struct run *run, int64_t lease_until)
{
    run->lease_until = lease_until;
    run_watch_lease(a, run, run->deadline.fire);
}

void run_set_reply(struct agent *a, struct run *run, const struct agent_result *result)
{
    const Drover__V1__StepRequest *request = run->seen.request;
    Drover__V1__StepReply *m = &run->reply.message;

    reply_set(&run->reply, request, result);
    m->agent = (char *)a->config.name;
    m->duration_ms = a->now - run->started;
    m->batch = settings_actor(&a->config, request->actor)->batch;
}

/* ---- end ---- */

static void run_free(struct agent *a, struct run *run)
{
    for (struct list *l; (l = list_pop(&run->followers));) {
        struct follower *f = list_entry(l, struct follower, link);

        delivery_drop(f->delivery);
        free(f);
    }
    list_remove(&run->link);
    timer_stop(a, &run->deadline);
    timer_stop(a, &run->beat);
    timer_stop(a, &run->again_timer);
    HASH_DELETE(by_id, a->runs.by_id, run);
    HASH_DELETE(by_token, a->runs.by_token, run);
    delivery_drop(run->delivery);
    reply_free(&run->reply);
    free(run);
}

void run_settle(struct agent *a, struct run *run)
{
    if (run->settled)
        return;
    run->settled = true;
    delivery_settle(a, run->delivery);
    list_foreach(l, &run->followers)
        delivery_settle(a, list_entry(l, struct follower, link)->delivery);
}

static void end(struct agent *a, struct run *run)
{
    run_settle(a, run);
    run_free(a, run);
}

void run_answered(struct agent *a, struct run *run)
{
    recent_add(&a->runs.ended, bytes_str(run->seen.request->token));
    end(a, run);
}

void run_silent(struct agent *a, struct run *run)
{
    a->stats.silent++;
    recent_add(&a->runs.ended, bytes_str(run->seen.request->token));
    log_warn("lease_over", LOG_S("job", run->seen.request->job_id),
             LOG_S("step", run->seen.request->step), LOG_I("attempt", run->seen.request->attempt));
    end(a, run);
}

void run_give_back(struct agent *a, struct run *run)
{
    delivery_leave(a, run->delivery);
    list_foreach(l, &run->followers)
        delivery_leave(a, list_entry(l, struct follower, link)->delivery);
    end(a, run);
}

void run_free_all(struct agent *a)
{
    struct run *run, *next;

    HASH_ITER(by_id, a->runs.by_id, run, next)
        run_free(a, run);
}
