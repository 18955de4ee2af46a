// SPDX-License-Identifier: Apache-2.0
/*
 * Acknowledgements, and whether by then all effects of the acknowledged message have happened
 *
 * The store call must have been made, and the requests in its answer must have reached the broker;
 * or something else must be left that will send them: another copy of the message, or a lease where
 * the design allows that.
 */
#include "checker/check_model.h"

#include <string.h>

#include "model/store_schema.h"
#include "model/wire_split.h"
#include "scheduler/scheduler.h"

/* ---- causes ---- */

struct order *check_order_of(struct checker *c, const struct job *job, struct bytes id)
{
    const char *of = effects_printf(&c->scratch, "%s %.*s", job->id, (int)id.len, id.data);
    struct order *order;

    HASH_FIND_STR(c->orders, of, order);
    if (order)
        return order;
    order = timeline_alloc(c->t, sizeof(*order));
    order->of = timeline_str(c->t, of);
    HASH_ADD_KEYPTR(hh, c->orders, order->of, strlen(order->of), order);
    return order;
}

struct drive *check_drive(struct checker *c, struct job *job, const struct bytes *args, int n)
{
    struct drive *drive = timeline_alloc(c->t, sizeof(*drive));

    drive->older = job->drives;
    drive->at = c->t->now;
    drive->heard = c->heard;
    drive->by = effects_text(&c->t->arena, args[AT_DRIVE_BY]);
    drive->n_steps = (uint32_t)(n - AT_DRIVE_VALUES);
    drive->steps = timeline_alloc(c->t, drive->n_steps * sizeof(*drive->steps));
    for (uint32_t k = 0; k < drive->n_steps; k++)
        drive->steps[k] = (uint32_t)check_number(args[AT_DRIVE_STEP + k]);
    job->drives = drive;
    return drive;
}

void check_leave_to_lease(struct checker *c, const struct wire_message *m)
{
    struct token *token;
    struct job *job;

    for (size_t i = 0; m->type == WIRE_REPLIES && i < m->replies->n_replies; i++)
        if ((token = check_token_ever(c, bytes_str(m->replies->replies[i]->token))))
            token->given_up = true;
    for (size_t i = 0; m->type == WIRE_REQUESTS && i < m->requests->n_requests; i++)
        if ((token = check_token_ever(c, bytes_str(m->requests->requests[i]->token))))
            token->given_up = true;
    if (m->type == WIRE_SUBMIT && (job = check_job_find(c, bytes_str(m->submit->job_id))))
        job->given_up = true;
    if (m->type == WIRE_CONTROL && *m->control->command_id &&
        (job = check_job_find(c, bytes_str(m->control->job_id))))
        check_order_of(c, job, bytes_str(m->control->command_id))->given_up = true;
}

/* ---- requests that must have been sent ---- */

struct acked {
    const struct simlink *link;
    const struct bus_delivery *delivery;
    const struct job *job;
    const struct token *of; /* the dispatch that the message ends; NULL: none */
    bool came_back;         /* the request was not taken: a second copy of that message is late */
    const char *copy;       /* text that every copy of the message contains */
    const uint32_t *first;  /* steps that a repeated call has sent again in the first turn, */
    uint32_t n_first;       /* so many */
};

/* Whether the token was minted after this delivery arrived, and so perhaps because of it, not of an
 * earlier copy. */
static bool is_since(const struct checker *c, const struct acked *a, const struct token *token)
{
    int64_t since = c->t->now - simlink_held(a->link, a->delivery->handle);

    return !a->delivery->redelivered && token->at >= since;
}

/* Whether the token was minted for another copy: this one was not redelivered, and the process that
 * has it did not mint the token. The request is then to be sent by the process that has the other
 * copy, or by the next one that gets that copy. It is left to its lease if the call that minted it
 * came after that copy was acknowledged, following the answer to an identical call. */
static bool is_of_another_copy(const struct checker *c, const struct acked *a,
                               const struct token *token)
{
    return !a->delivery->redelivered &&
           (strcmp(token->by, a->link->name) != 0 || !is_since(c, a, token));
}

/* Whether the store went back while the delivery was there: what its call was told before is gone,
 * and what the store has now was minted for another copy. */
static bool is_from_before(const struct checker *c, const struct acked *a)
{
    return c->went_back && c->t->now - simlink_held(a->link, a->delivery->handle) < c->went_back_at;
}

/* Whether the call for a second delivery returns this token again. It goes through the steps of one
 * budget, and leaves more to their leases. It also does so if the step itself was sent again since:
 * the delivery then looks late. */
static bool is_answered_again(const struct checker *c, const struct acked *a,
                              const struct token *token)
{
    uint32_t n = a->n_first < c->budget ? a->n_first : c->budget;

    if (a->came_back || is_of_another_copy(c, a, token) || is_from_before(c, a))
        return false;
    if (a->of && (a->of->step >= a->job->w->n_steps || a->job->steps[a->of->step].last != a->of))
        return false;
    for (uint32_t k = 0; a->job->turn == 1 && k < n; k++)
        if (a->first[k] == token->step)
            return true;
    return (a->job->turn > 1 || !a->first) && a->job->w->n_steps <= c->budget;
}

/* Too late by the store's clock, as it is or was before it stepped back, or by that of the sender,
 * which was told how long the request may wait when the token was minted. */
static bool is_too_late(const struct checker *c, const struct token *token)
{
    return token->wait_until <= c->store_now || token->too_late || token->wait_ends <= c->t->now;
}

/* Whether the process that acknowledges this delivery has made the call that minted the token, has
 * its answer, and made it after the delivery arrived, not for another copy. */
static bool is_known_to_holder(const struct checker *c, const struct acked *a,
                               const struct token *token)
{
    return token->heard && *token->heard && strcmp(token->by, a->link->name) == 0 &&
           is_since(c, a, token);
}

/* Whether the request was sent once more and the job has turned since: no copy that waits in a
 * scheduler is sent, and the token is not withdrawn, as another copy may be in a queue. */
static bool is_left_to_its_lease(const struct checker *c, const struct job *job,
                                 const struct token *token)
{
    char copy[16];

    snprintf(copy, sizeof(copy), "c%u", (unsigned)token->step);
    return !token->back && (job->back || token->turn < job->since) &&
           simstore_hash(c->store, job->partition, job->keys.data) &&
           check_is_token(token, simstore_field(c->store, copy));
}

/* Whether the request of this token still has to be sent, and nothing is left that will send it. */
static bool must_be_sent(const struct checker *c, const struct acked *a, const struct token *token)
{
    const struct job *job = a->job;

    if (token->step >= job->w->n_steps || job->steps[token->step].flying != token)
        return false;
    if (job->ending || *job->hold) /* the job sends nothing */
        return false;
    if (token->resent_by) /* see must_be_resent() */
        return false;
    if (token->published || is_too_late(c, token) || is_left_to_its_lease(c, job, token))
        return false;
    return is_known_to_holder(c, a, token) || is_answered_again(c, a, token);
}

/* Whether the dispatch has ended before an agent took it: then its sender sends another one. */
static bool has_come_back(const struct token *token)
{
    return token->ended_by == REPORT_UNSENT || token->ended_by == REPORT_UNROUTABLE ||
           token->ended_by == REPORT_REFUSED;
}

/* A token whose request still has to be sent; NULL: none. */
static const struct token *missing(const struct checker *c, const struct acked *a,
                                   const struct cause *cause)
{
    const struct token *found = NULL;
    struct acked came_back = *a;

    came_back.came_back = true;
    for (const struct token *token = cause->minted; token && !found; token = token->older) {
        if (has_come_back(token) && is_since(c, a, token))
            found = missing(c, &came_back, &token->led_to);
        else if (must_be_sent(c, a, token) &&
                 !simlink_other_copy(a->link, a->delivery->handle, a->copy, token->by, token->at))
            found = token;
    }
    return found;
}

static void require_nothing(struct checker *c, const struct acked *a, const struct token *missing)
{
    require(c, !missing, "I1 %s: acknowledged, and the request for step %u was never sent",
            a->job->id, missing->step);
}

static void require_followed(struct checker *c, const struct acked *a, const struct cause *cause)
{
    require_nothing(c, a, missing(c, a, cause));
}

/* ---- by kind of message ---- */

static void acked_submit(struct checker *c, const struct acked *a, const Drover__V1__Submit *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));
    struct acked of = *a;

    if (!job)
        return;
    require(c, job->receipted, "I1 %s: acknowledged, and no Receipt was sent", job->id);
    require(c, job->created || job->refused || job->lost,
            "I1 %s: acknowledged before it was recorded", job->id);
    of.job = job;
    of.copy = job->id;
    of.first = job->w->roots;
    of.n_first = job->w->n_roots;
    if (!job->given_up)
        require_followed(c, &of, &job->submitted);
}

/* @text: the token as in the message. */
static void acked_record(struct checker *c, const struct acked *a, const struct token *token,
                         const char *text)
{
    const struct workflow_step *step = &token->w->steps[token->step];
    struct acked of = *a;

    of.job = token->job;
    of.of = token;
    of.came_back = token->ended_by == REPORT_UNSTARTED;
    of.copy = text;
    of.first = step->dependents;
    of.n_first = step->n_dependents;
    if (!token->given_up)
        require_followed(c, &of, &token->led_to);
}

static void acked_reply(struct checker *c, const struct acked *a, const Drover__V1__StepReply *m)
{
    const struct token *token = check_token_ever(c, bytes_str(m->token));

    if (!token)
        return;
    require(c, token->decided, "I1 %s: a reply was acknowledged before it was recorded",
            token->job->id);
    if (token->ended_by != REPORT_UNSTARTED && !has_come_back(token))
        acked_record(c, a, token, m->token);
}

static void acked_expired(struct checker *c, const struct acked *a,
                          const Drover__V1__StepRequest *m)
{
    const struct token *token = check_token_ever(c, bytes_str(m->token));

    if (!token)
        return;
    require(c, token->decided, "I1 %s: an expired request was acknowledged before it was recorded",
            m->job_id);
    if (token->ended_by == REPORT_UNSTARTED)
        acked_record(c, a, token, m->token);
}

static bool names_the_same(const struct drive *drive, const Drover__V1__Recover *m)
{
    uint32_t n = m->n_steps < OPS_BUDGET ? (uint32_t)m->n_steps : OPS_BUDGET;

    return drive->n_steps == n && memcmp(drive->steps, m->steps, n * sizeof(*m->steps)) == 0;
}

/* A call that this delivery led to, as far as the checker can tell, not that of another process or
 * an earlier one; searches from @drive on. */
static const struct drive *drive_of(const struct checker *c, const struct acked *a,
                                    const Drover__V1__Recover *m, const struct drive *drive)
{
    int64_t since = c->t->now - simlink_held(a->link, a->delivery->handle);

    while (drive && drive->at >= since &&
           !(drive->heard && *drive->heard && strcmp(drive->by, a->link->name) == 0 &&
             names_the_same(drive, m)))
        drive = drive->older;
    return drive && drive->at >= since ? drive : NULL;
}

/* Whether this call has the request of a step sent again, and that has not happened. */
static bool must_be_resent(const struct checker *c, const struct job *job,
                           const struct drive *drive, uint32_t step)
{
    const struct token *token = step < job->w->n_steps ? job->steps[step].flying : NULL;

    return token && token->resent_by == &drive->led_to && !token->resent && !is_too_late(c, token);
}

/* A token whose request this call has had to send, and that was not sent; NULL: none. */
static const struct token *unsent(const struct checker *c, const struct acked *a,
                                  const struct drive *drive)
{
    for (uint32_t k = 0; k < drive->n_steps; k++)
        if (must_be_resent(c, a->job, drive, drive->steps[k]))
            return a->job->steps[drive->steps[k]].flying;
    return missing(c, a, &drive->led_to);
}

/* Of several calls one was for this delivery; the others were for work left over, or for another
 * Recover of the same steps. */
static void acked_recover(struct checker *c, const struct acked *a, const Drover__V1__Recover *m)
{
    const struct drive *drive = drive_of(c, a, m, a->job->drives);
    const struct token *first = drive ? unsent(c, a, drive) : NULL, *found = first;

    require(c, drive, "I1 %s: a Recover was acknowledged before the job was driven", a->job->id);
    while (found && (drive = drive_of(c, a, m, drive->older)))
        found = unsent(c, a, drive);
    if (found)
        require_nothing(c, a, first);
}

static void require_answer(struct checker *c, const struct acked *a, const char *id)
{
    require(c, check_order_of(c, a->job, bytes_str(id))->answered,
            "I1 %s: %s was acknowledged, and no Answer was sent", a->job->id, id);
}

static void acked_command(struct checker *c, const struct acked *a, const char *id)
{
    const struct order *order = check_order_of(c, a->job, bytes_str(id));

    require_answer(c, a, id);
    require(c, order->decided || order->refused,
            "I1 %s: %s was acknowledged before it was carried out", a->job->id, id);
    if (!order->given_up)
        require_followed(c, a, &order->led_to);
}

/* A notification that a Notify asks for stays in the outbox until it is sent. Lists and histories
 * must not be answered. */
static void acked_control(struct checker *c, const struct acked *a, const Drover__V1__Control *m)
{
    struct acked of = *a;

    of.job = check_job_find(c, bytes_str(m->job_id));
    of.copy = m->command_id;
    if (!of.job)
        return;
    switch (m->command_case) {
    case DROVER__V1__CONTROL__COMMAND_RECOVER:
        of.copy = of.job->id;
        acked_recover(c, &of, m->recover);
        break;
    case DROVER__V1__CONTROL__COMMAND_QUERY:
        require_answer(c, &of, m->command_id);
        break;
    case DROVER__V1__CONTROL__COMMAND_NOTIFY:
    case DROVER__V1__CONTROL__COMMAND_LIST_JOBS:
    case DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS:
    case DROVER__V1__CONTROL__COMMAND_HISTORY:
        break;
    default:
        acked_command(c, &of, m->command_id);
        break;
    }
}

static void acked_message(struct checker *c, const struct acked *a, const struct wire_message *m)
{
    if (m->type == WIRE_SUBMIT)
        acked_submit(c, a, m->submit);
    if (m->type == WIRE_CONTROL)
        acked_control(c, a, m->control);
    for (size_t i = 0; m->type == WIRE_REPLIES && i < m->replies->n_replies; i++)
        if (!c->liars || wire_check_reply(m->replies, i, NULL) == 0)
            acked_reply(c, a, m->replies->replies[i]);
    for (size_t i = 0; m->type == WIRE_REQUESTS && i < m->requests->n_requests; i++)
        if (!a->delivery->resent)
            acked_expired(c, a, m->requests->requests[i]);
}

static bool is_dead(struct checker *c, struct bytes body)
{
    const struct bad_message *bad = check_bad_message(c, body);

    return bad && bad->dead;
}

void check_each_submit(struct checker *c, struct bytes body,
                       void (*visit)(struct checker *c, const struct wire_message *m))
{
    struct bytes items[WIRE_SUBMITS_MAX];
    size_t n;

    if (wire_split(body, items, &n, NULL))
        checker_fail(c, "a message of Submits cannot be split");
    for (size_t i = 0; i < n; i++) {
        CLEANUP(wire_free) struct wire_message m = {0};

        if (wire_decode(WIRE_SUBMIT, items[i], NULL, &m, NULL))
            continue;
        if (is_dead(c, items[i]))
            check_leave_to_lease(c, &m);
        else
            visit(c, &m);
    }
}

/* Each Submit of the message that is acknowledged. */
static void acked_part(struct checker *c, const struct wire_message *m)
{
    acked_message(c, c->acked, m);
}

void checker_acked(struct checker *c, int64_t store_now, const struct simlink *link,
                   const struct bus_delivery *d)
{
    static const enum wire_type types[] = {
        [SCHEDULER_SUBMIT] = WIRE_SUBMIT,
        [SCHEDULER_REPLIES] = WIRE_REPLIES,
        [SCHEDULER_CONTROL] = WIRE_CONTROL,
        [SCHEDULER_EXPIRED] = WIRE_REQUESTS,
    };
    const struct bad_message *bad = check_bad_message(c, d->body);
    const struct acked a = {.link = link, .delivery = d};
    CLEANUP(wire_free) struct wire_message m = {0};

    if (c->violated)
        return;
    if (c->liars && d->source == SCHEDULER_REPLIES && check_is_broken(d->body))
        require(c, bad && (bad->put_aside || bad->dead),
                "I1 a message that cannot be decoded is acknowledged, and is no dead letter");
    if (bad && bad->unreadable)
        require(c, bad->put_aside || bad->dead,
                "I1 a message that cannot be decoded is acknowledged, and is no dead letter");
    if (d->batch && d->source == SCHEDULER_SUBMIT) {
        c->store_now = store_now;
        c->acked = &a;
        check_each_submit(c, d->body, is_dead(c, d->body) ? check_leave_to_lease : acked_part);
        return;
    }
    if (wire_decode(types[d->source], d->body, NULL, &m, NULL))
        return;
    if (is_dead(c, d->body)) {
        check_leave_to_lease(c, &m);
        return;
    }
    c->store_now = store_now;
    acked_message(c, &a, &m);
}
