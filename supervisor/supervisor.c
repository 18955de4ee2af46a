// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisor: the machine, which makes the store calls of each partition and publishes commands
 *
 * Implements supervisor.h; the driver (supervisor_io.c) and the simulator call it.
 */
#include "supervisor/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/command.h"
#include "supervisor/loss.h"

#define EXPIRE_MIN_MS 50     /* between two calls of expire in one partition */
#define UNCONFIRMED_MAX 1000 /* publishes in progress; with more expire is not called */
#define JOBS_PER_SCAN 100    /* in one call of expire */
#define SWEEP_PACE_MS 20     /* between two calls of sweep in one round */
#define FORGET_MS 10000      /* between two calls of forget */
#define FORGET_JOBS 20       /* in one call of forget */
#define REPEAT_MS 500        /* after a call that failed or was not answered */
/* How long after its LockedUntil a dispatch expires, as a multiple of its lease. */
#define FACTOR_BACKLOG 10               /* replies wait in the queue, and will be read */
#define FACTOR_UNREAD UINT32_C(1000000) /* no scheduler reads replies */
#define JUMP_MS 2000                    /* a jump of the store's clock by less is ignored */

/* ---- store calls ---- */

static bool leads(const struct supervisor *s, const struct partition *p)
{
    return !s->config.election || (p->leads && s->now < p->leads_until);
}

/* Sets what the next call of expire says of the store's clock: the most it can show by now, and
 * since when this supervisor has watched it. */
static void tell_clock(struct supervisor *s)
{
    if (s->offset_most == INT64_MAX || s->config.once)
        return;
    s->clock.latest = s->now + s->offset_most + JUMP_MS;
    s->clock.since = s->known_at + s->offset_most;
}

/* While it is not known whether the broker has lost replies no dispatch expires. */
static uint32_t lease_factor(const struct supervisor *s)
{
    return s->memory == MEMORY_KEPT ? s->lease_factor : FACTOR_UNREAD;
}

static void call(struct supervisor *s, uint32_t i, enum chore chore)
{
    struct partition *p = &s->partitions[i];

    p->call[chore] = ++s->last_id;
    p->called[chore] = s->now;
    switch (chore) {
    case CHORE_LEAD:
        ops_lead(s->out, p->call[chore], i, s->name, s->stopping ? 0 : s->config.lease_ms);
        break;
    case CHORE_EXPIRE:
        s->stats.expires++;
        s->stats.held += lease_factor(s) > 0;
        tell_clock(s);
        ops_expire(s->out, p->call[chore], i, p->dry_run_position,
                   s->config.dry_run ? 1 : JOBS_PER_SCAN, lease_factor(s), &s->clock);
        break;
    case CHORE_SWEEP:
        ops_sweep(s->out, p->call[chore], i, p->sweep);
        break;
    case CHORE_FORGET:
        ops_forget(s->out, p->call[chore], i, s->config.retention_ms, FORGET_JOBS);
        break;
    case CHORE_LOST:
        ops_lost(s->out, p->call[chore], i, WIRE_ALL_ACTORS, s->now - s->lost_at, &p->loss);
        break;
    }
    if (s->config.dry_run)
        ops_dry_run(s->out);
}

/* In a single round each chore runs once. Sweep is first, so that expire names in the same round
 * what the sweep has marked. */
static bool wanted_once(const struct supervisor *s, const struct partition *p, enum chore chore)
{
    return s->inspected && !p->done[chore] && (chore == CHORE_SWEEP || p->done[CHORE_SWEEP]);
}

static bool wanted(const struct supervisor *s, const struct partition *p, enum chore chore)
{
    if (chore == CHORE_LEAD)
        return s->config.election && (!s->stopping || p->leads);
    if (chore == CHORE_LOST) /* in all partitions: the marker speaks for all of them */
        return s->memory == MEMORY_LOST && !p->loss_recorded && !s->stopping && !s->config.once;
    if (chore == CHORE_EXPIRE && s->unconfirmed > UNCONFIRMED_MAX)
        return false;
    if (s->config.once && !wanted_once(s, p, chore))
        return false;
    return !s->stopping && leads(s, p);
}

/* Makes the calls that are due. Return: when the next call is due, monotonic ms. */
static int64_t call_due(struct supervisor *s)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; s->up && i < s->n; i++) {
        struct partition *p = &s->partitions[i];

        for (enum chore c = CHORE_LEAD; c < CHORES; c++) {
            if (p->call[c] || !wanted(s, p, c))
                continue;
            if (p->due[c] <= s->now)
                call(s, i, c);
            else if (p->due[c] < next)
                next = p->due[c];
        }
    }
    return next;
}

/* ---- the lines and the end of a single round ---- */

static const char *number(struct supervisor *s, uint64_t n)
{
    return effects_printf(s->out, "%" PRIu64, n);
}

static void report_due(struct supervisor *s, const struct ops_due *due)
{
    const char *job = effects_text(s->out, due->job);

    for (uint32_t i = 0; i < due->n; i++)
        command_line(s, i < due->expired ? "expired" : "due", job, "step",
                     number(s, due->steps[i]));
    if (due->n == 0) /* the job itself is due: its start, its deadline, or a cursor */
        command_line(s, "due", job, "", "");
}

static void tell_done(struct supervisor *s)
{
    if (!s->config.once || s->done || s->unconfirmed > 0 || s->n == 0)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        for (enum chore c = CHORE_EXPIRE; c < CHORE_LOST; c++)
            if (!s->partitions[i].done[c])
                return;
    s->done = true;
    effects_add(s->out, EFFECT_ROLE, 0)->role.what = SUPERVISOR_DONE;
}

/* ---- the store's clock ---- */

/*
 * The store read its clock at some moment between call and answer. So its offset to the clock of
 * this process lies between store_now - now and store_now - called. If the least offset now exceeds
 * the most offset before, the store's clock has jumped forward, and leases look older than they
 * are. The next call of expire tells each partition by how much, with JUMP_MS on top. So leases may
 * last a little longer than was granted.
 */
static void watch_clock(struct supervisor *s, int64_t store_now, int64_t called)
{
    int64_t least = store_now - s->now;
    int64_t most = store_now - called;

    if (s->offset_most == INT64_MAX) {
        s->known_at = s->now;
    } else if (least > s->offset_most + JUMP_MS) {
        s->clock.jump = most - s->offset_most + JUMP_MS;
        s->clock.after = least + s->offset_at;
        s->clock.at = store_now;
        s->stats.clock_jumps++;
        log_warn("store_clock_jumped", LOG_I("ms", least - s->offset_most));
    } else if (most < s->offset_most - JUMP_MS) {
        s->clock = (struct ops_clock){0}; /* a step back: what is known of jumps is void */
    }
    s->offset_most = most;
    s->offset_at = called;
}

/* ---- answers of the store ---- */

static void on_lead(struct supervisor *s, struct partition *p, struct ops_reader *r)
{
    struct ops_leading leading = {0};
    int64_t called = p->called[CHORE_LEAD];

    if (ops_read_leading(r, &leading))
        leading.leads = false;
    else
        watch_clock(s, leading.now, called);
    if (leading.leads != p->leads)
        log_info("leadership", LOG_I("partition", p - s->partitions),
                 LOG_S("now", leading.leads ? "leads" : "follows"));
    p->leads = leading.leads;
    p->leads_until = called + s->config.lease_ms;
    p->due[CHORE_LEAD] = s->stopping ? s->now : called + s->config.lease_ms / 3;
}

/* Begins a new round of the sweep, at once. */
static void sweep_anew(struct supervisor *s, struct partition *p)
{
    p->sweep[0] = '\0';
    p->call[CHORE_SWEEP] = 0; /* the answer of a call under way is ignored */
    p->due[CHORE_SWEEP] = s->now;
}

static void on_clock_back(struct supervisor *s, struct partition *p)
{
    log_warn("store_clock_stepped_back", LOG_I("partition", p - s->partitions));
    p->sweeps_back = true;
    sweep_anew(s, p);
}

static void on_expired(struct supervisor *s, struct partition *p, struct ops_reader *r)
{
    struct ops_expired expired;
    int64_t sleep = s->config.period_ms;

    if (ops_read_expired(r, s->out, &expired)) {
        log_error("store_answer_broken", LOG_I("partition", p - s->partitions));
        p->due[CHORE_EXPIRE] = s->now + s->config.period_ms;
        return;
    }
    watch_clock(s, expired.now, p->called[CHORE_EXPIRE]);
    if (expired.back && !p->sweeps_back)
        on_clock_back(s, p);
    for (uint32_t i = 0; i < expired.n_due; i++) {
        report_due(s, &expired.due[i]);
        if (!s->config.dry_run)
            command_recover(s, &expired.due[i], expired.now);
    }
    for (uint32_t i = 0; i < expired.n_notifications; i++) {
        command_line(s, "owed", effects_text(s->out, expired.notifications[i].job), "notice",
                     number(s, expired.notifications[i].seq));
        if (!s->config.dry_run)
            command_notify(s, &expired.notifications[i], expired.now);
    }
    if (expired.head && expired.head - expired.now < sleep)
        sleep = expired.head - expired.now;
    if (sleep < EXPIRE_MIN_MS)
        sleep = EXPIRE_MIN_MS;
    p->due[CHORE_EXPIRE] = expired.more ? s->now : s->now + sleep;
    p->done[CHORE_EXPIRE] = !expired.more;
    p->dry_run_position += s->config.dry_run;
}

static void on_swept(struct supervisor *s, struct partition *p, struct ops_reader *r)
{
    struct ops_swept swept;

    if (ops_read_swept(r, &swept)) {
        log_error("store_answer_broken", LOG_I("partition", p - s->partitions));
        swept = (struct ops_swept){0};
    }
    if (swept.n_mended > 1 && bytes_is(swept.mended[0], "torn")) {
        const char *job = effects_text(s->out, swept.job);

        s->stats.torn++;
        log_error("torn", LOG_I("partition", p - s->partitions), LOG_S("job", job),
                  LOG_S("why", effects_text(s->out, swept.mended[1])));
        command_line(s, "torn", job, "", "");
        if (!s->config.dry_run)
            command_notify_torn(s, job);
        swept.n_mended = 0;
    }
    if (swept.n_mended > 0) {
        s->stats.mended += swept.n_mended;
        log_warn("mended", LOG_I("partition", p - s->partitions),
                 LOG_S("job", effects_text(s->out, swept.job)),
                 LOG_S("place", effects_text(s->out, swept.mended[0])),
                 LOG_I("places", swept.n_mended));
    }
    for (uint32_t i = 0; i < swept.n_mended; i++) {
        const char *place = effects_text(s->out, swept.mended[i]);

        command_line(s, "mended", effects_text(s->out, swept.job), *place <= '9' ? "step" : "",
                     place);
    }
    memcpy(p->sweep, swept.cursor, sizeof(p->sweep));
    p->done[CHORE_SWEEP] = !*p->sweep;
    p->sweeps_back = p->sweeps_back && *p->sweep;
    p->due[CHORE_SWEEP] = s->now + (s->config.once ? 0
                                    : *p->sweep    ? SWEEP_PACE_MS
                                                   : s->config.sweep_ms);
}

static void on_forgotten(struct supervisor *s, struct partition *p, struct ops_reader *r)
{
    struct ops_forgotten forgotten = {0};

    if (ops_read_forgotten(r, &forgotten) == 0) {
        s->stats.forgotten += forgotten.jobs;
        p->seen = forgotten;
    }
    if (forgotten.jobs > 0)
        command_line(s, "forgotten", number(s, forgotten.jobs), "jobs of partition",
                     number(s, (uint64_t)(p - s->partitions)));
    p->done[CHORE_FORGET] = !forgotten.more || s->config.dry_run;
    p->due[CHORE_FORGET] = s->now + (forgotten.more ? SWEEP_PACE_MS : FORGET_MS);
}

static void on_answer(struct supervisor *s, uint64_t id, const struct store_answer *answer)
{
    static void (*const on[CHORES])(struct supervisor *, struct partition *,
                                    struct ops_reader *) = {
        [CHORE_LEAD] = on_lead,        [CHORE_EXPIRE] = on_expired,   [CHORE_SWEEP] = on_swept,
        [CHORE_FORGET] = on_forgotten, [CHORE_LOST] = loss_on_answer,
    };
    struct ops_reader r = ops_reader(answer);

    for (uint32_t i = 0; i < s->n; i++) {
        struct partition *p = &s->partitions[i];

        for (enum chore c = CHORE_LEAD; c < CHORES; c++) {
            if (p->call[c] != id)
                continue;
            p->call[c] = 0;
            if (answer->result == STORE_OK)
                on[c](s, p, &r);
            else
                p->due[c] = s->now + REPEAT_MS;
            return;
        }
    }
}

/* ---- events ---- */

/* A store that is up again may have gone back, so all its partitions are swept. */
static void sweep_all(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        sweep_anew(s, &s->partitions[i]);
}

static void on_store_up(struct supervisor *s, uint32_t n, const char *run)
{
    bool same_run = strcmp(s->run, run) == 0;

    snprintf(s->run, sizeof(s->run), "%s", run);
    s->up = true;
    if (s->n) {
        sweep_all(s);
        loss_on_store_up(s, same_run);
        return;
    }
    s->partitions = calloc(n, sizeof(*s->partitions));
    if (!s->partitions)
        abort();
    s->n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct partition *p = &s->partitions[i];

        if (s->config.once)
            continue;
        p->due[CHORE_EXPIRE] = s->now + (int64_t)rng_below(&s->rng, EXPIRE_MIN_MS);
        p->due[CHORE_SWEEP] = s->now + (int64_t)rng_below(&s->rng, (uint64_t)s->config.sweep_ms);
        p->due[CHORE_FORGET] = s->now + (int64_t)rng_below(&s->rng, FORGET_MS);
    }
}

static void on_queue(struct supervisor *s, uint32_t messages, uint32_t consumers)
{
    if (s->config.once && !s->inspected && consumers == 0)
        command_line(s, "held", "leases:", "drover.replies has no consumer", "");
    s->inspected = true;
    s->lease_factor = consumers == 0 ? FACTOR_UNREAD : messages > 0 ? FACTOR_BACKLOG : 0;
}

static void on_stop(struct supervisor *s)
{
    s->stopping = true;
    for (uint32_t i = 0; i < s->n; i++)
        s->partitions[i].due[CHORE_LEAD] = s->now;
}

int supervisor_new(struct supervisor **out, const struct supervisor_config *config,
                   const struct rng *seed)
{
    struct supervisor *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->name = strdup(config->name);
    if (!s->name) {
        free(s);
        return -ENOMEM;
    }
    s->config = *config;
    s->config.name = s->name;
    s->config.election = config->election && !config->once;
    s->clock.since = config->once; /* not 0: a single round trusts the store's clock at once */
    s->rng = *seed;
    s->offset_most = INT64_MAX;
    s->lease_factor = FACTOR_UNREAD; /* until drover.replies was inspected */
    s->memory = config->marker ? MEMORY_UNKNOWN : MEMORY_KEPT;
    *out = s;
    return 0;
}

struct supervisor *supervisor_free(struct supervisor *s)
{
    if (!s)
        return NULL;
    free(s->partitions);
    free(s->name);
    free(s);
    return NULL;
}

int64_t supervisor_step(struct supervisor *s, const struct supervisor_event *event,
                        struct effects *out)
{
    s->now = event->now;
    s->out = out;
    switch (event->type) {
    case SUPERVISOR_STORE_UP:
        on_store_up(s, event->store.partitions, event->store.run);
        break;
    case SUPERVISOR_STORE_DOWN:
        s->up = false;
        break;
    case SUPERVISOR_ANSWER:
        on_answer(s, event->id, event->answer);
        break;
    case SUPERVISOR_OUTCOME:
        s->unconfirmed--; /* of any kind: expire or sweep names the job of a lost command again */
        if (event->id == s->marker)
            loss_on_outcome(s, event->outcome);
        break;
    case SUPERVISOR_MARKER:
        loss_on_marker(s, event->marker);
        break;
    case SUPERVISOR_BUS_DOWN:
        loss_on_bus_down(s);
        break;
    case SUPERVISOR_QUEUE:
        on_queue(s, event->queue.messages, event->queue.consumers);
        break;
    case SUPERVISOR_STOP:
        on_stop(s);
        break;
    case SUPERVISOR_TICK:
        break;
    }
    loss_publish_marker(s);
    tell_done(s);
    return call_due(s);
}

bool supervisor_idle(const struct supervisor *s)
{
    for (uint32_t i = 0; s->up && s->config.election && i < s->n; i++)
        if (s->partitions[i].leads || s->partitions[i].call[CHORE_LEAD])
            return false;
    return s->unconfirmed == 0;
}

void supervisor_stats(const struct supervisor *s, struct supervisor_stats *out)
{
    *out = s->stats;
    out->leading = out->parked = out->deadline = out->ended = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct partition *p = &s->partitions[i];

        if (!leads(s, p))
            continue;
        out->leading++;
        out->parked += p->seen.parked;
        out->deadline += p->seen.deadline;
        out->ended += p->seen.ended;
    }
}
