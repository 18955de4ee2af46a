// SPDX-License-Identifier: Apache-2.0
#include "check_model.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/scheduler.h"

/* ---- what kills ---- */

static struct deadly *deadly_find(struct checker *c, struct bytes body)
{
    char digest[ID_DIGEST_LEN + 1];
    struct deadly *deadly;

    id_digest(body, digest);
    HASH_FIND_STR(c->deadly, digest, deadly);
    return deadly;
}

static const char *survivor_of(struct checker *c, struct bytes digest, struct bytes life)
{
    return effects_printf(&c->scratch, "%.*s%.*s", (int)digest.len, (const char *)digest.data,
                          (int)life.len, (const char *)life.data);
}

void checker_survived(struct checker *c, struct bytes digest, struct bytes life)
{
    const char *of = survivor_of(c, digest, life);
    struct survivor *survivor;

    HASH_FIND_STR(c->survivors, of, survivor);
    if (survivor)
        return;
    survivor = timeline_alloc(c->t, sizeof(*survivor));
    snprintf(survivor->of, sizeof(survivor->of), "%s", of);
    HASH_ADD_STR(c->survivors, of, survivor);
}

/* Of those in "<time> <life> …" that are noted besides @self. What a survivor says may come too
 * late, and what he has begun may be noted after that. */
static uint32_t lost_lives(struct checker *c, struct bytes digest, struct bytes noted,
                           struct bytes self)
{
    char *text = effects_text(&c->scratch, noted), *rest = NULL;
    uint32_t lost = 0;

    (void)strtok_r(text, " ", &rest);
    for (char *life; (life = strtok_r(NULL, " ", &rest));) {
        const char *of = survivor_of(c, digest, bytes_str(life));
        struct survivor *survivor;

        HASH_FIND_STR(c->survivors, of, survivor);
        lost += !survivor && !bytes_is(self, life);
    }
    return lost;
}

/* From the third one on it is given up: as many schedulers were killed as seem to have died of it,
 * or were, each with this one begun. */
void check_suspect(struct checker *c, uint32_t partition, const struct bytes *args,
                   const struct store_answer *answer)
{
    struct bytes digest = args[0];
    struct deadly *deadly;

    if (!bytes_is(args[2], "begin") || check_number(answer->items[0]) < 3 ||
        !simstore_hash(c->store, partition, "suspects"))
        return;
    require(c,
            lost_lives(c, digest, simstore_field(c->store, effects_text(&c->scratch, digest)),
                       args[1]) <= c->deaths,
            "given up, and nobody has died of it");
    HASH_FIND(hh, c->deadly, digest.data, digest.len, deadly);
    if (deadly)
        return;
    deadly = timeline_alloc(c->t, sizeof(*deadly));
    snprintf(deadly->digest, sizeof(deadly->digest), "%.*s", (int)digest.len,
             (const char *)digest.data);
    HASH_ADD_STR(c->deadly, digest, deadly);
}

/* ---- the bus ---- */

static void published_requests(struct checker *c, const struct bus_message *m,
                               enum bus_outcome outcome)
{
    struct token *token = check_token_ever(c, bytes_str(m->message_id));

    if (!token) {
        checker_fail(c, "I10 a request with a token that was never minted");
        return;
    }
    token->published = true;
    token->routed |= outcome == BUS_CONFIRMED;
}

static const char *outcome_name(Drover__V1__Outcome outcome)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&drover__v1__outcome__descriptor, (int)outcome);

    return value ? value->name + strlen("OUTCOME_") : "";
}

/* The one of @list that a notice is about; NULL where there is none. */
static struct ending *ending_of(struct ending *list, const Drover__V1__JobEvent *m)
{
    while (list && (list->seq != m->seq || strcmp(outcome_name(m->outcome), list->outcome) != 0))
        list = list->older;
    return list;
}

/* Of a copy of a notice. */
static void note_copy(struct checker *c, const struct bus_message *m, bool told, bool lost)
{
    struct job *job = check_job_find(c, bytes_str(m->job));
    CLEANUP(wire_free) struct wire_message event = {0};
    struct ending *of[2];

    if (!job || *m->exchange || wire_decode(WIRE_EVENT, m->body, NULL, &event, NULL))
        return;
    of[0] = ending_of(job->last, event.event);
    of[1] = ending_of(job->undone, event.event);
    for (size_t i = 0; i < array_size(of); i++) {
        if (of[i]) {
            of[i]->told |= told;
            of[i]->excused |= lost;
        }
    }
}

static void note_alert(struct checker *c, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message event = {0};
    struct job *job;
    uint32_t i;

    if (wire_decode(WIRE_EVENT, m->body, NULL, &event, NULL) ||
        event.event->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT ||
        strcmp(event.event->reason, "PARKED") != 0)
        return;
    job = check_job_find(c, bytes_str(event.event->job_id));
    i = job ? workflow_find(job->w, bytes_str(event.event->step)) : WORKFLOW_NONE;
    require(c, i != WORKFLOW_NONE, "L3 an alert of step %s of %s", event.event->step,
            event.event->job_id);
    if (i != WORKFLOW_NONE && event.event->seq >= job->steps[i].untold)
        job->steps[i].untold = 0;
}

/* A Submit that the store had no room for may be acknowledged once the client was told. */
static void published_receipt(struct checker *c, const struct bus_message *m)
{
    struct wire_message receipt = {0};

    if (wire_decode(WIRE_RECEIPT, m->body, NULL, &receipt, NULL) == 0 &&
        receipt.receipt->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER) {
        struct job *job = check_job_find(c, bytes_str(receipt.receipt->job_id));

        if (job)
            job->refused = true;
    }
    wire_free(&receipt);
}

/* Return: false where some of it cannot be read. */
static bool is_good(const struct wire_message *m)
{
    for (size_t i = 0; i < m->replies->n_replies; i++)
        if (wire_check_reply(m->replies, i, NULL))
            return false;
    for (size_t i = 0; i < m->replies->n_progress; i++)
        if (wire_check_progress(m->replies, i, NULL))
            return false;
    return m->replies->n_replies + m->replies->n_progress > 0;
}

/* Only liars send such, and only replies. */
static bool is_broken(struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    return wire_decode(WIRE_REPLIES, body, NULL, &m, NULL) || !is_good(&m);
}

static void published_broken(struct checker *c, const struct bus_message *m,
                             enum bus_outcome outcome)
{
    struct deadly *broken = deadly_find(c, m->body);

    timeline_note(c->t, FEATURE_LIE_BROKEN);
    require(c, is_broken(m->body), "dead letter: %s", m->reason);
    if (!broken) {
        broken = timeline_alloc(c->t, sizeof(*broken));
        id_digest(m->body, broken->digest);
        HASH_ADD_STR(c->deadly, digest, broken);
    }
    broken->put_aside |= outcome == BUS_CONFIRMED;
}

/* What is given up costs a reply its lease; who submits or commands and hears nothing does it
 * again. */
static void published_dead(struct checker *c, const struct bus_message *m, enum bus_outcome outcome)
{
    struct deadly *deadly = deadly_find(c, m->body);

    if (c->liars && m->reason && strcmp(m->reason, "POISON") != 0) {
        published_broken(c, m, outcome);
        return;
    }
    require(c, m->reason && strcmp(m->reason, "POISON") == 0, "dead letter: %s",
            m->reason ? m->reason : "");
    require(c, deadly, "given up, and nobody has died of it");
    timeline_note(c->t, FEATURE_POISON_GIVEN_UP);
    if (deadly && outcome == BUS_CONFIRMED)
        deadly->dead = true;
    c->cut_short = true;
}

void checker_published(struct checker *c, const struct bus_message *m, enum bus_outcome outcome,
                       bool lost)
{
    if (c->violated)
        return;
    if (strcmp(m->exchange, "drover.dead") == 0)
        published_dead(c, m, outcome);
    else if (!m->type)
        return;
    else if (strcmp(m->type, "drover.v1.Requests") == 0)
        published_requests(c, m, outcome);
    else if (strcmp(m->type, "drover.v1.JobEvent") == 0 && *m->exchange && outcome == BUS_CONFIRMED)
        note_alert(c, m);
    else if (strcmp(m->type, "drover.v1.JobEvent") == 0)
        note_copy(c, m, outcome == BUS_CONFIRMED, lost);
    else if (strcmp(m->type, "drover.v1.Receipt") == 0)
        published_receipt(c, m);
}

/* What has been recorded of it maybe is not sent again by anyone. */
static void leave_to_lease(struct checker *c, const struct wire_message *m)
{
    for (size_t i = 0; m->type == WIRE_REPLIES && i < m->replies->n_replies; i++) {
        struct token *token = check_token_ever(c, bytes_str(m->replies->replies[i]->token));

        if (token)
            token->given_up = true;
    }
    if (m->type == WIRE_SUBMIT) {
        struct job *job = check_job_find(c, bytes_str(m->submit->job_id));

        if (job)
            job->given_up = true;
    }
}

void checker_dropped(struct checker *c, const struct bus_message *m, bool delivered)
{
    CLEANUP(wire_free) struct wire_message caused = {0};
    bool submit = m->type && strcmp(m->type, "drover.v1.Submit") == 0;
    bool replies = m->type && strcmp(m->type, "drover.v1.Replies") == 0;

    c->cut_short |= delivered;
    if (m->type && strcmp(m->type, "drover.v1.JobEvent") == 0)
        note_copy(c, m, false, true);
    else if (delivered && (submit || replies) &&
             wire_decode(submit ? WIRE_SUBMIT : WIRE_REPLIES, m->body, NULL, &caused, NULL) == 0)
        leave_to_lease(c, &caused);
}

bool checker_given_up(struct checker *c, struct bytes body)
{
    const struct deadly *deadly = deadly_find(c, body);

    return deadly && (deadly->dead || deadly->put_aside);
}

/* ---- acks ---- */

struct acked {
    const struct simlink *link;
    const struct bus_delivery *delivery;
};

/* What a trigger caused has been published, or is past the time in which it would help. */
static void require_followed(struct checker *c, const struct acked *a, const struct job *job,
                             const uint32_t *steps, uint32_t n, const struct token *trigger)
{
    for (uint32_t k = 0; job->turn == 1 && !job->ending && !*job->hold && k < n && k < c->budget;
         k++) {
        const struct token *token = job->steps[steps[k]].flying;

        if (!token || (trigger ? token->trigger != trigger : !token->by_submit))
            continue;
        if (token->published || token->wait_until <= c->store_now || c->clock_set)
            continue;
        if (trigger ? trigger->given_up : job->given_up)
            continue;
        require(
            c, simlink_other_copy(a->link, a->delivery->handle, trigger ? trigger->text : job->id),
            "I1 %s: acknowledged, and the request for step %u was never sent", job->id, steps[k]);
    }
}

static void acked_submit(struct checker *c, const struct acked *a, const Drover__V1__Submit *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));

    if (!job)
        return;
    require(c, job->created || job->refused || job->lost,
            "I1 %s: acknowledged before it was recorded", job->id);
    require_followed(c, a, job, job->w->roots, job->w->n_roots, NULL);
}

static void acked_reply(struct checker *c, const struct acked *a, const Drover__V1__StepReply *m)
{
    const struct token *token = check_token_ever(c, bytes_str(m->token));
    const struct workflow_step *step;

    if (!token)
        return;
    step = &token->w->steps[token->step];
    require(c, token->decided, "I1 %s: a reply was acknowledged before it was recorded",
            token->job->id);
    require_followed(c, a, token->job, step->dependents, step->n_dependents, token);
}

static void acked_expired(struct checker *c, const Drover__V1__StepRequest *m)
{
    const struct token *token = check_token_ever(c, bytes_str(m->token));

    require(c, !token || token->decided,
            "I1 %s: an expired request was acknowledged before it was recorded", m->job_id);
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
    const struct acked a = {link, d};
    CLEANUP(wire_free) struct wire_message m = {0};

    const struct deadly *deadly = deadly_find(c, d->body);

    if (c->violated)
        return;
    if (c->liars && d->source == SCHEDULER_REPLIES && is_broken(d->body))
        require(c, deadly && (deadly->put_aside || deadly->dead),
                "I1 what cannot be read is acknowledged, and was not put aside");
    if (wire_decode(types[d->source], d->body, NULL, &m, NULL))
        return;
    if (deadly && deadly->dead) {
        leave_to_lease(c, &m);
        return;
    }
    c->store_now = store_now;
    if (m.type == WIRE_SUBMIT)
        acked_submit(c, &a, m.submit);
    for (size_t i = 0; m.type == WIRE_REPLIES && i < m.replies->n_replies; i++)
        if (!c->liars || wire_check_reply(m.replies, i, NULL) == 0)
            acked_reply(c, &a, m.replies->replies[i]);
    for (size_t i = 0; m.type == WIRE_REQUESTS && i < m.requests->n_requests; i++)
        if (!d->resent)
            acked_expired(c, m.requests->requests[i]);
}

/* ---- clients ---- */

void checker_receipt(struct checker *c, const Drover__V1__Receipt *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));

    if (!job) {
        checker_fail(c, "I10 a receipt for %s", m->job_id);
        return;
    }
    switch (m->code) {
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED:
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY:
        require(c, job->created || job->lost, "I1 %s: a receipt, and no record", job->id);
        job->accepted = true;
        break;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER:
        break;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED:
        /* a scheduler may still be about to register it */
        require(c,
                strcmp(m->field, "complete_by") == 0
                    ? job->expired
                    : job->version->registered && strcmp(m->field, "workflow") == 0,
                "%s: rejected, %s: %s", m->job_id, m->field, m->reason);
        break;
    default:
        checker_fail(c, "%s: refused, code %d %s: %s", m->job_id, (int)m->code, m->field,
                     m->reason);
    }
}

void checker_event(struct checker *c, const Drover__V1__JobEvent *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));
    struct ending *e, *undone;
    uint32_t named;

    if (m->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED)
        return;
    if (!job) {
        checker_fail(c, "I10 an event of %s", m->job_id);
        return;
    }
    /* more results than one call reads are not in a notice */
    named = job->w->n_sinks < c->budget ? job->w->n_sinks : c->budget;
    if ((undone = ending_of(job->undone, m)))
        undone->heard = true;
    e = check_ending_find(job, m->seq);
    if (check_was_ending(job, m->seq) && (!e || strcmp(outcome_name(m->outcome), e->outcome) != 0))
        return; /* the store has gone back since */
    if (!e) {
        checker_fail(c, "I11 %s: told of seq %" PRIu64, job->id, m->seq);
        return;
    }
    require(c, strcmp(outcome_name(m->outcome), e->outcome) == 0, "I11 %s: told %s, is %s", job->id,
            outcome_name(m->outcome), e->outcome);
    require(c,
            m->outcome != DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED || e != job->last ||
                !job->settled || /* it has turned since, and what was done may be undone */
                m->n_results + m->n_results_left_out >= named,
            "I11 %s: told of %zu results of %u", job->id, m->n_results, job->w->n_sinks);
    require(c, (strcmp(e->outcome, "COMPENSATION_FAILED") == 0) <= (m->n_failed_steps > 0),
            "I11 %s: told of no step that could not be undone", job->id);
    e->heard = true;
}

void checker_status(struct checker *c, const Drover__V1__JobStatus *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));

    if (job && job->went_back)
        return; /* it may be of before */
    require(c, job && job->created, "I10 status of %s", m->job_id);
    if (job && job->created)
        require(c,
                (m->steps_total == job->w->n_steps || m->seq < job->migrated) && m->seq <= job->seq,
                "status of %s", job->id);
}
