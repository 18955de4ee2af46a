// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the records and indexes of a job with the checker's model
 *
 * Called by check.c; see check_model.h.
 */
#include "checker/check_model.h"

#include <inttypes.h>

#define NAMED_AGAIN_MS                                                                             \
    5000 /* a step that was not driven is named again after that time, see head.lua */
#define WAIT_CAP_MS (3600 * INT64_C(1000))

/* The job's own fields, while its steps are compared. */
struct facts {
    bool pending;
    bool cursor;
    bool back;  /* bounds may lie too far ahead, as the clock has stepped back */
    bool going; /* no work is left over: every step that nothing holds back was dispatched */
    int64_t due;
    uint64_t open;
    uint64_t busy; /* in the job's fields */
    uint64_t busy_steps;
    uint64_t in_outbox; /* notifications, in the job's fields */
};

/* Past its deadline, and not yet noticed, a job sends nothing; also if the deadline is to come once
 * more since the clock stepped back, until a sweep. The job is the hash being read. */
static bool is_past(struct checker *c, const struct job *job, const struct facts *f)
{
    return check_is_limited(job) &&
           (f->back ||
            (int64_t)check_number(simstore_field(c->store, "complete_by")) <= c->store_now);
}

static void compare_waiting(struct checker *c, const struct job *job, uint32_t i,
                            const struct ops_step_record *r, const struct facts *f)
{
    const struct workflow_step *step = &job->w->steps[i];
    uint32_t n = check_missing(job, i, job->back);
    uint32_t waiting = r->waiting;

    if (r->since != job->epoch) /* not touched since then */
        waiting = job->back ? step->n_dependents : step->n_after;
    require(c, waiting == n, "I13 %s: step %u waits for %u, not %u", job->id, i, n, waiting);
    require(c,
            n > 0 || r->state != STEP_AT_REST || is_past(c, job, f) ||
                (job->changing && (!job->steps[i].back || r->current == STATE_DISABLED)),
            "L1 %s: step %u is ready and was not sent", job->id, i);
}

static int64_t bounded(int64_t ms, int64_t left)
{
    return left > 0 && left < ms ? left : ms;
}

/* The duration that a dispatch gives: the wait doubles each time that no agent took the request. */
static int64_t given(const struct job *job, uint32_t i, const struct ops_step_record *r)
{
    const struct workflow_dispatch *d = check_terms_of(job, i);
    int64_t wait = d->wait_ms, left = job->steps[i].flying ? job->steps[i].flying->left : 0;

    for (uint32_t n = 0; n < r->unstarted && wait < WAIT_CAP_MS; n++)
        wait *= 2;
    if (wait > WAIT_CAP_MS)
        wait = d->wait_ms > WAIT_CAP_MS ? d->wait_ms : WAIT_CAP_MS;
    return bounded(wait, left) + bounded(d->lock_ms, left);
}

/* The latest time at which a lease is inspected. A lease of before a jump lasts longer by what the
 * last supervisor before knew; a lease that is over while nothing expires is inspected again after
 * a while. */
static int64_t lease_end(struct checker *c, const struct job *job, uint32_t i,
                         const struct ops_step_record *r)
{
    struct token *token = job->steps[i].flying;
    struct store_clock clock = {0};
    int64_t end;

    if (c->ahead > 0)
        clock = check_clock(c, job->partition);
    if (clock.by > token->longer && r->until - given(job, i, r) < clock.jumped)
        token->longer = clock.by;
    end = r->until + token->longer;
    return r->until <= c->store_now && end < c->store_now + NAMED_AGAIN_MS
               ? c->store_now + NAMED_AGAIN_MS
               : end;
}

static void compare_moment(struct checker *c, const struct job *job, uint32_t i,
                           const struct ops_step_record *r, const struct facts *f)
{
    int64_t latest = r->state == STEP_IN_FLIGHT ? lease_end(c, job, i, r) : r->until;

    if (latest < job->late_until)
        latest = job->late_until;
    if (r->state == STEP_IN_FLIGHT || r->state == STEP_BACKING_OFF ||
        r->state == STEP_RECOVERY_REQUESTED || (r->state == STEP_PARKED && r->until > 0))
        require(c, f->due <= latest,
                "I13 %s: due at %" PRId64 " though step %u has its moment at %" PRId64, job->id,
                f->due, i, r->until);
}

/* A lease lasts as its dispatch has set it; its wait doubles each time that no agent took the
 * request. Progress can only shorten it, and so can a clock that has stepped back: then it is
 * granted again, from that time on. */
static void compare_lease(struct checker *c, const struct job *job, uint32_t i,
                          const struct ops_step_record *r)
{
    const struct token *token = job->steps[i].flying;
    int64_t lasts = given(job, i, r), until = token->granted + lasts;
    bool again = token->back_at > 0 && r->until >= token->back_at + lasts;

    require(c, r->until == until || (r->until < until && (token->reported || again)),
            "I9 %s: the lease of step %u ends at %" PRId64 ", not %" PRId64, job->id, i, r->until,
            until);
}

static void compare_state(struct checker *c, const struct job *job, uint32_t i,
                          const struct ops_step_record *r)
{
    const struct step *step = &job->steps[i];

    require(c, (r->state == STEP_IN_FLIGHT) == (step->flying != NULL),
            "I13 %s: step %u is in state %c", job->id, i, r->state);
    require(c, !step->flying || check_is_token(step->flying, bytes_str(r->token)),
            "I13 %s: step %u has another token", job->id, i);
    require(c, r->current == step->current, "I9 %s: step %u is taken for %c, not %c", job->id, i,
            r->current, step->current);
    require(c, r->attempt == step->attempt, "I9 %s: step %u attempt", job->id, i);
    require(c, r->attempt == 0 || (r->turn == step->turn && r->forward == step->forward),
            "I2 %s: step %u has turns %u and %u, not %u and %u", job->id, i, r->turn, r->forward,
            step->turn, step->forward);
}

static bool counts_fit(const struct job *job, const struct step *step,
                       const struct ops_step_record *r)
{
    if (r->failures == step->failures && r->expiries == step->expiries)
        return true;
    if (step->renewed && r->failures + r->expiries == 0)
        return true;
    return step->forgiven.since != job->since &&
           r->failures == step->failures + step->forgiven.failures &&
           r->expiries == step->expiries + step->forgiven.expiries;
}

/* The walk of a Retry of all has passed the step: its counters are compared at once, as the walk
 * may last longer than the next dispatch. */
static void see_anew(struct step *step, const struct ops_step_record *r)
{
    if (!step->anew || r->failures > 0 || r->expiries > 0)
        return;
    step->failures = step->expiries = 0;
    step->anew = false;
}

static void compare_counts(struct checker *c, const struct job *job, uint32_t i,
                           const struct ops_step_record *r)
{
    struct step *step = &job->steps[i];

    step->anew = false;
    require(c, counts_fit(job, step, r),
            "I9 %s: step %u counts %u failures, %u expiries; there were %u and %u", job->id, i,
            r->failures, r->expiries, step->failures, step->expiries);
    /* the park interval may be over, and its recovery requested */
    require(c,
            job->ending || !step->parked || r->state == STEP_PARKED ||
                r->state == STEP_RECOVERY_REQUESTED,
            "I13 %s: step %u parked or not", job->id, i);
    require(c, r->state != STEP_PARKED || step->parked || r->since < job->since,
            "I13 %s: step %u parked or not", job->id, i);
    require(c, r->state != STEP_FAILED || step->failed || r->since < job->since,
            "I13 %s: step %u failed or not", job->id, i);
    require(c, r->state != STEP_BACKING_OFF || r->until >= step->not_before,
            "I9 %s: step %u is tried again too early", job->id, i);
    require(c, r->state != STEP_BACKING_OFF || step->not_after == 0 || r->until <= step->not_after,
            "I9 %s: step %u is tried again too late", job->id, i);
}

static void note_lease(struct checker *c, const struct job *job, uint32_t i, int64_t until)
{
    struct token *token = job->steps[i].flying;

    token->wait_until = until - check_terms_of(job, i)->lock_ms;
    if (!c->again && token->wait_ends == 0)
        token->wait_ends = c->t->now + token->wait_until - c->store_now;
    if (!c->again && token->until != until && check_terms_of(job, i)->heartbeat_ms == 0 &&
        job->w->n_steps < BIG)
        token->ends = c->t->now + until - c->store_now;
    else if (c->again && token->until > 0 && token->ends > 0)
        token->ends += until - token->until; /* what extended the lease may be lost */
    if (token->given_ends == 0)
        token->given_ends = token->ends;
    token->until = until;
}

static void note_rest(struct step *step, const struct ops_step_record *r)
{
    step->stored_at_rest = r->state == STEP_AT_REST && r->attempt > 0;
}

/* The same as under_way() in job.lua. */
static bool is_under_way(char state)
{
    return state == STEP_IN_FLIGHT || state == STEP_BACKING_OFF ||
           state == STEP_RECOVERY_REQUESTED || state == STEP_PARKED;
}

static void compare_step(struct checker *c, const struct job *job, uint32_t i, struct bytes text,
                         struct facts *f)
{
    const struct workflow_step *step = &job->w->steps[i];
    struct ops_step_record r = {.current = STATE_DISABLED,
                                .asked = STATE_ACTIVE,
                                .state = STEP_AT_REST,
                                .waiting = step->n_after,
                                .since = 1};

    if (text.len > 0 && ops_read_step_record(text, &r)) {
        checker_fail(c, "I13 %s: step %u has the record '%.*s'", job->id, i, (int)text.len,
                     (const char *)text.data);
        return;
    }
    compare_state(c, job, i, &r);
    see_anew(&job->steps[i], &r);
    note_rest(&job->steps[i], &r);
    if (!f->cursor)
        compare_counts(c, job, i, &r);
    if (r.state == STEP_IN_FLIGHT && !c->violated)
        compare_lease(c, job, i, &r);
    f->busy_steps += is_under_way(r.state);
    if (f->going && !check_is_there(job, i, job->back))
        compare_waiting(c, job, i, &r, f);
    if (!job->settled && !*job->hold && !job->changing && !job->ending && !f->back && !f->cursor &&
        (r.state == STEP_IN_FLIGHT || r.since >= job->since))
        compare_moment(c, job, i, &r, f);
    if (r.state == STEP_IN_FLIGHT)
        note_lease(c, job, i, r.until);
}

/* Forward work has a deadline, and the job is inspected when it passes. */
static void compare_deadline(struct checker *c, const struct job *job, const struct facts *f)
{
    int64_t by = (int64_t)check_number(simstore_field(c->store, "complete_by"));
    bool late = simstore_field(c->store, "late").len > 0;

    require(c, (by > 0) == job->has_deadline, "I12 %s: has a deadline, or none", job->id);
    if (by == 0 || late || job->back || f->pending || job->settled || job->ending || *job->hold ||
        f->back)
        return;
    require(
        c,
        f->due <= by || f->due <= c->store_now + NAMED_AGAIN_MS ||
            (f->due <= check_clock(c, job->partition).quiet && f->due <= c->store_now + QUIET_MS),
        "L1 %s: due at %" PRId64 " though its deadline is at %" PRId64, job->id, f->due, by);
}

static void compare_outbox(struct checker *c, const struct job *job, const struct ending *list)
{
    for (const struct ending *e = list; e; e = e->older)
        require(c, check_in_outbox(c, job, e->seq) == e->in_outbox, "I13 %s: the outbox differs",
                job->id);
}

/* What the job needs a person for, "" for nothing. */
static const char *need_of(const struct job *job)
{
    if (job->acknowledged)
        return "";
    if (job->settled)
        return job->troubled ? "ended" : "";
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (job->steps[i].alerted && !check_is_there(job, i, job->back))
            return "parked";
    if (*job->hold && job->late && !job->ending)
        return "deadline";
    return strcmp(job->hold, "deadline") == 0 ? "deadline" : "";
}

static bool is_any_restarted(const struct job *job)
{
    for (uint32_t i = 0; i < job->w->n_steps; i++)
        if (job->steps[i].restarted)
            return true;
    return false;
}

static void compare_needs(struct checker *c, const struct job *job)
{
    static const char *const kinds[] = {"parked", "deadline", "ended"};
    const char *need = need_of(job);
    int64_t at;

    if (job->retrying || job->w->n_steps >= BIG || is_any_restarted(job))
        return;
    require(c, simstore_zscore(c->store, job->partition, "needs", job->id, &at) == (*need != 0),
            "L3 %s: on the list of those that need attention or not, being '%s'", job->id, need);
    for (size_t i = 0; i < array_size(kinds); i++) {
        const char *key = effects_printf(&c->scratch, "needs:%s", kinds[i]);

        require(c,
                simstore_zscore(c->store, job->partition, key, job->id, &at) ==
                    (strcmp(kinds[i], need) == 0),
                "L3 %s: on the list of those that are %s or not, being '%s'", job->id, kinds[i],
                need);
    }
}

static void compare_indexes(struct checker *c, const struct job *job, int64_t due)
{
    int64_t score = 0, at = 0;
    uint32_t p = job->partition;
    bool is_due = simstore_zscore(c->store, p, "due", job->id, &score);
    require(c, is_due == !job->settled, "I13 %s: %s due", job->id, is_due ? "is" : "is not");
    require(c, !is_due || score == due,
            "I13 %s: due %" PRId64 " in the index, %" PRId64 " in the job", job->id, score, due);
    require(c, simstore_zscore(c->store, p, "open", job->id, &at) == !job->settled,
            "I13 %s: open or not", job->id);
    require(c, simstore_zscore(c->store, p, "settled", job->id, &at) == job->settled,
            "I13 %s: settled or not", job->id);
    compare_outbox(c, job, job->last);
    compare_outbox(c, job, job->alerts);
    compare_needs(c, job);
}

static void compare_counters(struct checker *c, const struct job *job, const struct facts *f)
{
    uint64_t open = 0, in_outbox = 0;

    for (uint32_t i = 0; i < job->w->n_steps; i++)
        open += !check_is_there(job, i, job->back);
    require(c, job->settled || f->pending || f->open == open || (f->cursor && job->turn > 1),
            "I13 %s: %" PRIu64 " steps open, not %" PRIu64, job->id, open, f->open);
    require(c, f->busy == f->busy_steps, "I13 %s: %" PRIu64 " steps busy, not %" PRIu64, job->id,
            f->busy_steps, f->busy);
    for (const struct ending *e = job->last; e; e = e->older)
        in_outbox += e->in_outbox;
    for (const struct ending *e = job->alerts; e; e = e->older)
        in_outbox += e->in_outbox;
    require(c, f->in_outbox == in_outbox,
            "I13 %s: %" PRIu64 " notifications in the outbox, not %" PRIu64, job->id, in_outbox,
            f->in_outbox);
}

/* A job is deleted as a whole when its retention is over, and not earlier. */
static void compare_forgotten(struct checker *c, struct job *job)
{
    int64_t at;

    if (!job->created)
        return;
    require(c, job->settled && c->store_now >= job->settled_at + c->retention, "I1 %s: lost",
            job->id);
    require(c,
            !simstore_hash(c->store, job->partition, job->keys.data) &&
                simstore_list(c->store, job->partition, job->keys.hist) == 0 &&
                !simstore_zscore(c->store, job->partition, "settled", job->id, &at),
            "I13 %s: deleted in part", job->id);
    job->forgotten = true;
    timeline_note(c->t, FEATURE_FORGOTTEN);
    for (const struct ending *e = job->last; e; e = e->older)
        require(c, !e->in_outbox, "I11 %s: forgotten, and its notification is still in the outbox",
                job->id);
    for (const struct ending *e = job->alerts; e; e = e->older)
        require(c, !e->in_outbox, "L3 %s: forgotten, and its alert is still in the outbox",
                job->id);
}

void check_compare(struct checker *c, struct job *job, bool whole)
{
    struct facts f = {0};
    bool finished;

    if (c->violated)
        return;
    if (!simstore_hash(c->store, job->partition, job->keys.job)) {
        compare_forgotten(c, job);
        return;
    }
    f.due = (int64_t)check_number(simstore_field(c->store, "due"));
    f.pending = bytes_is(simstore_field(c->store, "phase"), "PENDING");
    finished = bytes_is(simstore_field(c->store, "phase"), "PROCESSED") ||
               bytes_is(simstore_field(c->store, "phase"), "ERROR");
    f.back = check_stepped_back(c, job->partition);
    f.cursor = simstore_field(c->store, "cursor").len > 0;
    if (f.cursor)
        timeline_note(c->t, FEATURE_CURSOR);
    f.open = check_number(simstore_field(c->store, "open"));
    f.busy = check_number(simstore_field(c->store, "busy"));
    f.in_outbox = check_number(simstore_field(c->store, "owes"));
    f.going = !f.cursor && !f.pending && !job->settled && !job->ending && !*job->hold;
    require(c, finished == job->settled, "I13 %s: finished or not", job->id);
    require(c, check_number(simstore_field(c->store, "seq")) == job->seq, "I13 %s: seq", job->id);
    require(c,
            bytes_is(simstore_field(c->store, "outcome"), job->settled ? job->last->outcome : ""),
            "I6 %s: outcome", job->id);
    require(c,
            !f.cursor || job->settled || *job->hold || job->ending || f.back ||
                f.due <= c->store_now + CONTINUED_MS,
            "I13 %s: no call continues at the cursor", job->id);
    for (uint32_t i = 0; whole && i < job->w->n_steps && !c->violated; i++)
        compare_step(c, job, i, simstore_step(c->store, i), &f);
    if (whole)
        compare_counters(c, job, &f);
    compare_deadline(c, job, &f);
    compare_indexes(c, job, f.due);
}
