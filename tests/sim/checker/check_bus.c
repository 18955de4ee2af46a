// SPDX-License-Identifier: Apache-2.0
/*
 * Checks messages: what processes publish, what the broker drops, and what clients receive
 *
 * It also checks when a message counts as poison. Called by check.c and the parts of the world; see
 * check_model.h.
 */
#include "checker/check_model.h"

#include <inttypes.h>
#include <string.h>

#include "model/store_schema.h"
#include "scheduler/scheduler.h"

/* ---- poison messages ---- */

struct bad_message *check_bad_message(struct checker *c, struct bytes body)
{
    char digest[ID_DIGEST_LEN + 1];
    struct bad_message *bad;

    id_digest(body, digest);
    HASH_FIND_STR(c->bad_messages, digest, bad);
    return bad;
}

static const char *survivor_of(struct checker *c, struct bytes digest, struct bytes incarnation)
{
    return effects_printf(&c->scratch, "%.*s%.*s", (int)digest.len, (const char *)digest.data,
                          (int)incarnation.len, (const char *)incarnation.data);
}

void checker_survived(struct checker *c, struct bytes digest, struct bytes incarnation)
{
    const char *of = survivor_of(c, digest, incarnation);
    struct survivor *survivor;

    HASH_FIND_STR(c->survivors, of, survivor);
    if (survivor)
        return;
    survivor = timeline_alloc(c->t, sizeof(*survivor));
    snprintf(survivor->of, sizeof(survivor->of), "%s", of);
    HASH_ADD_STR(c->survivors, of, survivor);
}

/* The incarnations noted in "<time> <incarnation> ..." besides @self. The report of one that was
 * not lost may come too late, and it may begin another copy after that. */
static uint32_t lost_incarnations(struct checker *c, struct bytes digest, struct bytes noted,
                                  struct bytes self)
{
    char *text = effects_text(&c->scratch, noted), *rest = NULL;
    uint32_t lost = 0;

    (void)strtok_r(text, " ", &rest);
    for (char *incarnation; (incarnation = strtok_r(NULL, " ", &rest));) {
        const char *of;
        struct survivor *survivor;

        incarnation[strcspn(incarnation, "!")] = '\0';
        of = survivor_of(c, digest, bytes_str(incarnation));
        HASH_FIND_STR(c->survivors, of, survivor);
        lost += !survivor && !bytes_is(self, incarnation);
    }
    return lost;
}

/* A message is given up when an incarnation begins it alone and is not the first one: as many
 * schedulers must have been killed as seem to have died of it, each after it had begun the message.
 */
void check_suspect(struct checker *c, uint32_t partition, const struct bytes *args,
                   const struct store_answer *answer)
{
    struct bytes digest = args[AT_SUSPECT_DIGEST];
    struct bad_message *bad;

    if (!bytes_is(args[AT_SUSPECT_WHAT], "alone") || check_number(answer->items[0]) < 2 ||
        !simstore_hash(c->store, partition, "suspects"))
        return;
    require(c,
            lost_incarnations(c, digest,
                              simstore_field(c->store, effects_text(&c->scratch, digest)),
                              args[AT_SUSPECT_INCARNATION]) <= c->killed,
            "given up, and no scheduler has died of it");
    HASH_FIND(hh, c->bad_messages, digest.data, digest.len, bad);
    if (bad)
        return;
    bad = timeline_alloc(c->t, sizeof(*bad));
    snprintf(bad->digest, sizeof(bad->digest), "%.*s", (int)digest.len, (const char *)digest.data);
    HASH_ADD_STR(c->bad_messages, digest, bad);
}

/* ---- the bus ---- */

/* The properties, which are for routing and for people, must agree with the body; and no property
 * may let the broker lose the message. */
static void check_properties(struct checker *c, const struct bus_message *m,
                             const struct token *token, bool alone)
{
    const struct workflow_step *step = &token->w->steps[token->step];
    const char *actor = token->back ? step->revert.actor : step->forward.actor;

    require(c, m->mandatory && m->expires && m->transient == c->forgets,
            "I1 %s: a request that may be lost", token->job->id);
    require(c, strcmp(m->key, actor) == 0, "I10 %s: a request for step %u goes out to %s",
            token->job->id, token->step, m->key);
    require(c, alone || token->attempt == 1, "M2 %s: another try of step %u is in a batch",
            token->job->id, token->step);
    require(c,
            alone ? strcmp(m->job, token->job->id) == 0 && strcmp(m->step, step->name) == 0 &&
                        m->attempt == token->attempt
                  : !m->job && !m->step && m->attempt == 0,
            "I10 %s: a request for step %u goes out as %s/%s, attempt %" PRId64, token->job->id,
            token->step, m->job, m->step, (int64_t)m->attempt);
}

static void published_requests(struct checker *c, const struct bus_message *m,
                               enum bus_outcome outcome, bool lost)
{
    CLEANUP(wire_free) struct wire_message body = {0};

    if (wire_decode(WIRE_REQUESTS, m->body, NULL, &body, NULL)) {
        checker_fail(c, "I10 requests that cannot be decoded");
        return;
    }
    for (size_t i = 0; i < body.requests->n_requests; i++) {
        struct token *token = check_token_ever(c, bytes_str(body.requests->requests[i]->token));

        if (!token) {
            checker_fail(c, "I10 a request with a token that was never minted");
            return;
        }
        check_properties(c, m, token, body.requests->n_requests == 1);
        token->published = token->resent = true;
        token->copied |= m->resent;
        token->routed |= outcome == BUS_CONFIRMED;
        token->delivered |= lost;
    }
}

static const char *outcome_name(Drover__V1__Outcome outcome)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&drover__v1__outcome__descriptor, (int)outcome);

    return value ? value->name + strlen("OUTCOME_") : "";
}

/* The one in @list that a notification is about; NULL: none. */
static struct ending *ending_of(struct ending *list, const Drover__V1__JobEvent *m)
{
    while (list && (list->seq != m->seq || strcmp(outcome_name(m->outcome), list->outcome) != 0))
        list = list->older;
    return list;
}

static void note_end(struct checker *c, const Drover__V1__JobEvent *event, bool published,
                     bool lost)
{
    struct job *job = check_job_find(c, bytes_str(event->job_id));
    struct ending *of[2];

    if (!job)
        return;
    of[0] = ending_of(job->last, event);
    of[1] = ending_of(job->undone, event);
    for (size_t i = 0; i < array_size(of); i++) {
        if (of[i]) {
            of[i]->published |= published;
            of[i]->excused |= lost;
        }
    }
}

/* About a copy of a notification. */
static void note_copy(struct checker *c, const struct bus_message *m, bool published, bool lost)
{
    CLEANUP(wire_free) struct wire_message event = {0};

    if (!*m->exchange && wire_decode(WIRE_EVENT, m->body, NULL, &event, NULL) == 0)
        note_end(c, event.event, published, lost);
}

static void note_copies(struct checker *c, const struct bus_message *m, bool published, bool lost)
{
    Drover__V1__JobEvents *all = drover__v1__job_events__unpack(NULL, m->body.len, m->body.data);

    require(c, all && !*m->exchange, "M2 a batch of events that cannot be read");
    for (size_t i = 0; all && i < all->n_events; i++)
        note_end(c, all->events[i], published, lost);
    drover__v1__job_events__free_unpacked(all, NULL);
}

static bool is_about_a_job(const char *reason)
{
    static const char *const reasons[] = {"PARKED", "DEADLINE", "FAILED", "COMPENSATED",
                                          "COMPENSATION_FAILED"};

    for (size_t i = 0; i < array_size(reasons); i++)
        if (strcmp(reason, reasons[i]) == 0)
            return true;
    return false;
}

static void note_alert(struct checker *c, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message event = {0};
    struct job *job;
    struct ending *e;
    uint32_t i;

    if (wire_decode(WIRE_EVENT, m->body, NULL, &event, NULL) ||
        event.event->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT ||
        !is_about_a_job(event.event->reason))
        return;
    job = check_job_find(c, bytes_str(event.event->job_id));
    if (!job) {
        checker_fail(c, "I10 an alert of %s", event.event->job_id);
        return;
    }
    i = workflow_find(job->w, bytes_str(event.event->step));
    e = check_ending_find(job->alerts, event.event->seq);
    if ((!e || e->step != i) && check_was_ending(job, event.event->seq))
        return; /* the store has gone back since */
    require(c, e && e->step == i, "L3 %s: an alert of step '%s', seq %" PRIu64, job->id,
            event.event->step, event.event->seq);
    if (e)
        e->published = true;
}

/* A Submit for which the store had no room may be acknowledged once the client was told. */
static void note_receipt(struct checker *c, const Drover__V1__Receipt *receipt)
{
    struct job *job = check_job_find(c, bytes_str(receipt->job_id));

    if (!job)
        return;
    job->receipted = true;
    job->refused |= receipt->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER;
}

static void published_receipt(struct checker *c, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message receipt = {0};

    if (wire_decode(WIRE_RECEIPT, m->body, NULL, &receipt, NULL) == 0)
        note_receipt(c, receipt.receipt);
}

static void published_receipts(struct checker *c, const struct bus_message *m)
{
    Drover__V1__Receipts *all = drover__v1__receipts__unpack(NULL, m->body.len, m->body.data);

    require(c, all && !*m->exchange, "M2 a batch of Receipts that cannot be read");
    for (size_t i = 0; all && i < all->n_receipts; i++)
        note_receipt(c, all->receipts[i]);
    drover__v1__receipts__free_unpacked(all, NULL);
}

/* The sender of a command is told its result, or that it cannot be carried out. */
static void published_answer(struct checker *c, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    struct order *order;
    struct job *job;

    if (wire_decode(WIRE_ANSWER, m->body, NULL, &answer, NULL))
        return;
    job = check_job_find(c, bytes_str(answer.answer->job_id));
    if (!job)
        return;
    order = check_order_of(c, job, bytes_str(answer.answer->command_id));
    order->answered = true;
    order->refused |= answer.answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID ||
                      answer.answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB ||
                      answer.answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW;
}

/* Return: false if a part of it cannot be decoded. */
static bool is_good(const struct wire_message *m)
{
    for (size_t i = 0; i < m->replies->n_replies; i++)
        if (wire_check_reply(m->replies, i, NULL))
            return false;
    for (size_t i = 0; i < m->replies->n_progress; i++)
        if (wire_check_progress(m->replies, i, NULL))
            return false;
    return m->replies->n_replies + m->replies->n_progress > 0 || m->replies->requests_lost;
}

bool check_is_broken(struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    return wire_decode(WIRE_REPLIES, body, NULL, &m, NULL) || !is_good(&m);
}

#define OF_ANOTHER "INVALID replies came from an agent of nobody" /* see liar.c */

static void published_broken(struct checker *c, const struct bus_message *m,
                             enum bus_outcome outcome)
{
    struct bad_message *broken = check_bad_message(c, m->body);

    timeline_note(c->t, FEATURE_LIE_BROKEN);
    require(c, check_is_broken(m->body) || strncmp(m->reason, OF_ANOTHER, strlen(OF_ANOTHER)) == 0,
            "dead letter: %s", m->reason);
    if (!broken) {
        broken = timeline_alloc(c->t, sizeof(*broken));
        id_digest(m->body, broken->digest);
        HASH_ADD_STR(c->bad_messages, digest, broken);
    }
    broken->put_aside |= outcome == BUS_CONFIRMED;
}

void checker_conflicts(struct checker *c, const char *id)
{
    struct job *job = check_job_find(c, bytes_str(id));

    if (job)
        job->taken = true;
}

void checker_unreadable(struct checker *c, struct bytes body)
{
    struct bad_message *bad = check_bad_message(c, body);

    if (!bad) {
        bad = timeline_alloc(c->t, sizeof(*bad));
        id_digest(body, bad->digest);
        HASH_ADD_STR(c->bad_messages, digest, bad);
    }
    bad->unreadable = true;
}

static void published_unreadable(struct checker *c, const struct bus_message *m,
                                 struct bad_message *bad, enum bus_outcome outcome)
{
    require(c, m->reason && strncmp(m->reason, "MALFORMED", strlen("MALFORMED")) == 0,
            "dead letter: %s", m->reason ? m->reason : "");
    bad->put_aside |= outcome == BUS_CONFIRMED;
    timeline_note(c->t, FEATURE_UNREADABLE);
}

/* A message that is given up costs a reply its lease; the sender of a Submit or Control gets no
 * answer and repeats it. */
static void published_dead(struct checker *c, const struct bus_message *m, enum bus_outcome outcome)
{
    struct bad_message *bad = check_bad_message(c, m->body);

    if (bad && bad->unreadable && m->reason && strcmp(m->reason, "POISON") != 0) {
        published_unreadable(c, m, bad, outcome);
        return;
    }
    if (c->liars && m->reason && strcmp(m->reason, "POISON") != 0) {
        published_broken(c, m, outcome);
        return;
    }
    require(c, m->reason && strcmp(m->reason, "POISON") == 0, "dead letter: %s",
            m->reason ? m->reason : "");
    require(c, bad, "given up, and no scheduler has died of it");
    timeline_note(c->t, FEATURE_POISON_GIVEN_UP);
    if (bad && outcome == BUS_CONFIRMED)
        bad->dead = true;
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
        published_requests(c, m, outcome, lost);
    else if (strcmp(m->type, "drover.v1.JobEvent") == 0 && *m->exchange && outcome == BUS_CONFIRMED)
        note_alert(c, m);
    else if (strcmp(m->type, "drover.v1.JobEvent") == 0)
        note_copy(c, m, outcome == BUS_CONFIRMED, lost);
    else if (strcmp(m->type, "drover.v1.JobEvents") == 0)
        note_copies(c, m, outcome == BUS_CONFIRMED, lost);
    else if (strcmp(m->type, "drover.v1.Receipt") == 0)
        published_receipt(c, m);
    else if (strcmp(m->type, "drover.v1.Receipts") == 0)
        published_receipts(c, m);
    else if (strcmp(m->type, "drover.v1.Answer") == 0)
        published_answer(c, m);
}

void checker_delivered(struct checker *c, const struct bus_message *m)
{
    CLEANUP(wire_free) struct wire_message body = {0};

    if (!m->type || strcmp(m->type, "drover.v1.Requests") != 0 ||
        wire_decode(WIRE_REQUESTS, m->body, NULL, &body, NULL))
        return;
    for (size_t i = 0; i < body.requests->n_requests; i++) {
        struct token *token = check_token_ever(c, bytes_str(body.requests->requests[i]->token));

        if (token)
            token->delivered = true;
    }
}

void checker_dropped(struct checker *c, const struct bus_message *m, bool delivered)
{
    CLEANUP(wire_free) struct wire_message caused = {0};
    static const struct {
        const char *type;
        enum wire_type wire;
    } types[] = {
        {"drover.v1.Submit", WIRE_SUBMIT},
        {"drover.v1.Replies", WIRE_REPLIES},
        {"drover.v1.Requests", WIRE_REQUESTS},
        {"drover.v1.Control", WIRE_CONTROL},
    };

    if (m->type && strcmp(m->type, "drover.v1.JobEvent") == 0)
        note_copy(c, m, false, true);
    if (m->type && strcmp(m->type, "drover.v1.JobEvents") == 0)
        note_copies(c, m, false, true);
    checker_delivered(c, m);
    if (m->type && delivered && strcmp(m->type, "drover.v1.Submits") == 0)
        check_each_submit(c, m->body, check_leave_to_lease);
    for (size_t i = 0; m->type && delivered && i < array_size(types); i++)
        if (strcmp(m->type, types[i].type) == 0 &&
            wire_decode(types[i].wire, m->body, NULL, &caused, NULL) == 0)
            check_leave_to_lease(c, &caused);
}

bool checker_given_up(struct checker *c, struct bytes body)
{
    const struct bad_message *bad = check_bad_message(c, body);

    return bad && (bad->dead || bad->put_aside);
}

/* ---- what clients receive ---- */

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
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CONFLICT:
        require(c, job->taken && job->created, "I10 %s: another job is said to have its id",
                job->id);
        timeline_note(c->t, FEATURE_CONFLICT);
        break;
    case DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED:
        /* a scheduler may not have registered it yet */
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

    if (!job) {
        checker_fail(c, "I10 an event of %s", m->job_id);
        return;
    }
    if (m->kind == DROVER__V1__EVENT_KIND__EVENT_KIND_STEP) {
        timeline_note(c->t, FEATURE_STEP_EVENT);
        require(c, m->seq <= job->seq || job->went_back, "I11 %s: a notification of seq %" PRIu64,
                job->id, m->seq);
        require(c, m->step_event && *m->step, "I11 %s: a step event without a step", job->id);
    }
    if (m->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED)
        return;
    /* a notification names only as many results as one call reads */
    named = job->w->n_sinks < c->budget ? job->w->n_sinks : c->budget;
    if ((undone = ending_of(job->undone, m)))
        undone->received = true;
    e = check_ending_find(job->last, m->seq);
    if (check_was_ending(job, m->seq) && (!e || strcmp(outcome_name(m->outcome), e->outcome) != 0))
        return; /* the store has gone back since */
    if (!e) {
        checker_fail(c, "I11 %s: a notification of seq %" PRIu64, job->id, m->seq);
        return;
    }
    require(c, strcmp(outcome_name(m->outcome), e->outcome) == 0,
            "I11 %s: a notification of %s, is %s", job->id, outcome_name(m->outcome), e->outcome);
    require(c,
            m->outcome != DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED || e != job->last ||
                !job->settled || /* it has turned since, and what was done may be undone */
                m->n_results + m->n_results_left_out >= named,
            "I11 %s: a notification with %zu of %u results", job->id, m->n_results,
            job->w->n_sinks);
    require(c, (strcmp(e->outcome, "COMPENSATION_FAILED") == 0) <= (m->n_failed_steps > 0),
            "I11 %s: a notification without the step whose undo failed", job->id);
    e->received = true;
}

void checker_status(struct checker *c, const Drover__V1__JobStatus *m)
{
    struct job *job = check_job_find(c, bytes_str(m->job_id));

    if (job && job->went_back)
        return; /* the answer may be of before that */
    require(c, job && job->created, "I10 status of %s", m->job_id);
    if (job && job->created)
        require(c,
                (m->steps_total == job->w->n_steps || m->seq < job->migrated) && m->seq <= job->seq,
                "status of %s", job->id);
}
